"""Grading a diagnosis by rule. The right scores are worked out by hand from the weights."""

import pytest
from pydantic import ValidationError

from aftershock.oracle.diagnosis import WEIGHTS, grade, misgraded
from aftershock.problem.answers import (
    Answer,
    AnswerFile,
    Answers,
    AnswersFile,
    Diagnosis,
    DiagnosisFile,
    Example,
    answer_of,
    answers_of,
)
from aftershock.problem.load import load

ACCOUNT = Diagnosis(
    components=("report", "migration"),
    beside=("postgres",),
    mechanisms={"lock-contention": 1.0, "connection-exhaustion": 0.5},
    trigger=("migrat", "alter table"),
    since="trigger",
    within=60,
    evidence=("pg_locks", "idle in transaction"),
)
KEY = Answers((ACCOUNT,))
MARKS = {"trigger": 1000.0}
WHOLE = Answer(
    ("report", "migration"), "lock-contention", "the Migration", 1010.0, ("pg_locks shows it", "IDLE in transaction")
)


def test_the_weights_are_a_whole():
    assert sum(WEIGHTS.values()) == pytest.approx(1)


def test_a_whole_answer():
    got = grade(WHOLE, KEY, MARKS)
    assert (got.score, got.level) == (1.0, "right")
    assert set(got.parts.values()) == {1.0}


def test_nothing_said_is_nothing_right():
    got = grade(Answer(), KEY, MARKS)
    assert (got.score, got.level, got.brier) == (0.0, "wrong", None)


def test_half_the_components_and_half_the_mechanism():
    answer = Answer(("report",), "connection-exhaustion", "", None, ())
    # one of two: harmonic mean of 1/1 and 1/2 is 2/3; 0.35 * 2/3 + 0.3 * 0.5
    assert grade(answer, KEY, MARKS).score == pytest.approx(0.35 * 2 / 3 + 0.15, abs=0.001)


def test_naming_everything_does_not_help():
    everything = Answer(("report", "migration", *(f"service-{n}" for n in range(18))), "lock-contention")
    assert grade(everything, KEY, MARKS).parts["components"] == pytest.approx(2 * 2 / 22, abs=0.001)


def test_victims_neither_count_nor_cost():
    beside = Answer(("report", "migration", "StatefulSet/postgres"), "lock-contention")
    assert grade(beside, KEY, MARKS).parts["components"] == 1.0
    assert grade(Answer(("postgres",), "lock-contention"), KEY, MARKS).parts["components"] == 0.0


@pytest.mark.parametrize(("since", "credit"), [(1060, 1.0), (940, 1.0), (1090, 0.5), (1120, 0.0), (5000, 0.0)])
def test_since_when(since, credit):
    assert grade(Answer(since=since), KEY, MARKS).parts["since"] == credit


def test_symptoms_alone_are_never_right():
    lenient = Answers((Diagnosis(("report",), (), {"lock-contention": 1.0}),))
    blamed_only = grade(Answer(("report",), "overload"), lenient, MARKS)
    assert blamed_only.level == "partial"


def test_a_mark_that_a_trial_has_not_is_not_asked():
    got = grade(WHOLE, KEY, {})
    assert "since" not in got.parts
    assert got.score == 1.0


def test_the_account_that_fits_best_counts():
    other = Diagnosis(("gateway",), (), {"overload": 1.0})
    assert grade(Answer(("gateway",), "overload"), Answers((ACCOUNT, other)), MARKS).account == 1
    assert grade(WHOLE, Answers((other, ACCOUNT)), MARKS).account == 1


def test_confidence_is_judged_apart():
    sure = grade(answer_of(AnswerFile(confidence=0.9)), KEY, MARKS)
    assert sure.brier == pytest.approx(0.81)
    assert sure.score == grade(Answer(), KEY, MARKS).score


def test_an_answer_as_an_agent_writes_it():
    read = answer_of(AnswerFile.model_validate({"components": ["a"], "since": "1970-01-01T00:16:40Z"}))
    assert read.since == 1000.0
    with pytest.raises(ValidationError):
        AnswerFile.model_validate({"confidence": 2})


@pytest.mark.parametrize("mechanisms", [{"lock-contention": 0.5}, {"lock-contention": 1.5}, {"magic": 1.0}])
def test_accounts_that_cannot_be_met(mechanisms):
    with pytest.raises(ValidationError):
        DiagnosisFile.model_validate({"components": ["a"], "mechanisms": mechanisms})


def test_examples_are_an_audit_of_the_grading():
    examples = (Example("all of it", WHOLE, "right"), Example("nothing", Answer(), "partial"))
    ((example, got),) = misgraded(Answers((ACCOUNT,), examples))
    assert (example.name, got.level) == ("nothing", "wrong")


def test_in_an_example_the_time_counts_from_the_account_itself():
    assert grade(WHOLE, KEY).parts["since"] == 0.0
    soon = Answer(WHOLE.components, WHOLE.mechanism, WHOLE.trigger, 10.0, WHOLE.evidence)
    assert grade(soon, KEY).score == 1.0


def test_the_first_problem_grades_its_examples_as_stated():
    answers = load("amber-heron").answers
    assert answers is not None
    assert {example.expect for example in answers.examples} == {"right", "partial", "wrong"}
    assert misgraded(answers) == []


def test_what_is_read_is_what_is_graded():
    file = AnswersFile.model_validate(
        {"diagnoses": [{"components": ["report"], "mechanisms": {"lock-contention": 1}, "since": "fault"}]}
    )
    assert answers_of(file).diagnoses[0] == Diagnosis(("report",), (), {"lock-contention": 1.0}, since="fault")
