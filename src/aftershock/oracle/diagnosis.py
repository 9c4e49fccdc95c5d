"""Grading a diagnosis by rule: what is to blame, how it broke, what set it off, since when, by what evidence.

Pure. Each part scores 0 to 1 and they are added by weight; an answer is held against each accepted
account and the best fit counts. Naming everything does not help: components score by the harmonic mean
of how much of what is to blame was named and how much of what was named is to blame, where victims and
neighbours (`beside`) neither count nor cost. What an account does not ask for does not weigh.

Confidence is no part of the score. It is judged apart, by the Brier score against whether the answer
was right (Brier, 1950, Monthly Weather Review 78).
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from aftershock.problem.answers import Answer, Answers, Diagnosis, Example

__all__ = ["PARTIAL_FROM", "RIGHT_FROM", "WEIGHTS", "Grade", "grade", "misgraded"]

Level = Literal["right", "partial", "wrong"]

WEIGHTS: dict[str, float] = {"components": 0.35, "mechanism": 0.3, "trigger": 0.15, "since": 0.1, "evidence": 0.1}
RIGHT_FROM = 0.75
PARTIAL_FROM = 0.4


@dataclass(frozen=True)
class Grade:
    """The score (0 to 1) with its parts, the account that fitted best, and the word for it.

    An answer is `right` only when it also names something that is to blame and a mechanism with credit: the
    other parts alone are a description of symptoms.
    """

    score: float
    parts: Mapping[str, float]
    account: int
    level: Level
    brier: float | None


def grade(answer: Answer, answers: Answers, marks: Mapping[str, float] | None = None) -> Grade:
    """Grade an answer.

    Args:
        marks: moments of the trial (seconds since the epoch), such as `trigger`; with None an answer's
            `since` counts from the account's own mark.
    """
    graded = [_against(answer, account, marks) for account in answers.diagnoses]
    totals = [_total(parts) for parts in graded]
    best = max(range(len(totals)), key=lambda index: totals[index])
    parts, score = graded[best], round(totals[best], 3)
    level: Level = "right" if score >= RIGHT_FROM else "partial" if score >= PARTIAL_FROM else "wrong"
    if level == "right" and not (parts["components"] and parts["mechanism"]):
        level = "partial"
    brier = None if answer.confidence is None else round((answer.confidence - (level == "right")) ** 2, 4)
    return Grade(score, {name: round(value, 3) for name, value in parts.items()}, best, level, brier)


def misgraded(answers: Answers) -> list[tuple[Example, Grade]]:
    """The examples that do not get the grade they must get."""
    graded = [(example, grade(example.answer, answers)) for example in answers.examples]
    return [(example, got) for example, got in graded if got.level != example.expect]


def _total(parts: Mapping[str, float]) -> float:
    weight = sum(WEIGHTS[name] for name in parts)
    return sum(WEIGHTS[name] * value for name, value in parts.items()) / weight


def _against(answer: Answer, account: Diagnosis, marks: Mapping[str, float] | None) -> dict[str, float]:
    parts = {
        "components": _components(answer.components, account),
        "mechanism": account.mechanisms.get(_name(answer.mechanism), 0.0),
    }
    if account.trigger:
        parts["trigger"] = float(any(_found(pattern, [answer.trigger]) for pattern in account.trigger))
    begin = 0.0 if marks is None else marks.get(account.since)
    if begin is not None:
        parts["since"] = _since(answer.since, begin, account.within)
    if account.evidence:
        hits = sum(_found(pattern, answer.evidence) for pattern in account.evidence)
        parts["evidence"] = hits / len(account.evidence)
    return parts


def _components(named: Iterable[str], account: Diagnosis) -> float:
    """
    >>> account = Diagnosis(("report", "migration"), ("postgres",), {"lock-contention": 1})
    >>> _components(["Deployment/report", "postgres", "job/migration"], account)
    1.0
    >>> _components(["report"], account), _components(["report", "gateway", "cache", "queue"], account)
    (0.6666666666666666, 0.3333333333333333)
    """
    said = {_name(name) for name in named} - {_name(name) for name in account.beside}
    blamed = {_name(name) for name in account.components}
    hits = len(said & blamed)
    return 2 * hits / (len(said) + len(blamed)) if hits else 0.0


def _since(said: float | None, begin: float, within: float) -> float:
    """Whole credit up to `within` seconds off, falling to none at twice that."""
    if said is None:
        return 0.0
    off = abs(said - begin)
    return max(0.0, min(1.0, 2 - off / within))


def _found(pattern: str, texts: Iterable[str]) -> bool:
    return any(re.search(pattern, text, re.IGNORECASE) for text in texts)


def _name(text: str) -> str:
    """A component or mechanism without its kind, namespace and case.

    >>> _name("Deployment/shop/Sales-Report "), _name("lock_contention")
    ('sales-report', 'lock-contention')
    """
    return text.strip().lower().rsplit("/", 1)[-1].replace("_", "-").replace(" ", "-")
