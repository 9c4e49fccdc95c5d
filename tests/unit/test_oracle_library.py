"""The tree's further groups, the times at which states are asked for, moves, and what is refused before it runs."""

import asyncio
import doctest
import importlib
import pkgutil
import time
from pathlib import Path
from typing import Any, ClassVar

import pytest

import aftershock.oracle
import aftershock.oracle.checks
import aftershock.oracle.moves
from aftershock.base.errors import ClusterError, ProblemError
from aftershock.base.paths import source_root
from aftershock.oracle.base import Abnormal, Bench, Check, Finding, check
from aftershock.oracle.catalogue import table
from aftershock.oracle.checks.timed import Timed, hold_up
from aftershock.oracle.move import compile_moves
from aftershock.oracle.tree import Node, check_results, compile_nodes, judge_node, leaves, take_baselines
from aftershock.oracle.verdict import decide, deciding
from aftershock.problem.model import GroupSpec
from aftershock.problem.schema import read_nodes, read_steps
from aftershock.problem.source import Source


@check("told")
class Told(Check):
    """Answers as told; `order` keeps who was asked."""

    answers: list[str]
    absent: bool = False
    order: ClassVar[list[str]] = []

    async def judge(self, bench: Bench, before: Any) -> Finding:
        answer = self.answers[min(Told.order.count(str(self.answers)), len(self.answers) - 1)]
        Told.order.append(str(self.answers))
        return Finding(answer, f"it says {answer}", {"absent": True} if self.absent else {})  # type: ignore[arg-type]


@check("told_timed")
class ToldTimed(Timed):
    """Is as told so many seconds after it was first looked at: a list of (until, answer)."""

    course: list[tuple[float, str]]
    begun: ClassVar[dict[str, float]] = {}

    async def look(self, bench: Bench, before: Any) -> Finding:
        age = time.monotonic() - ToldTimed.begun.setdefault(str(self.course), time.monotonic())
        answer = next((answer for until, answer in self.course if age < until), self.course[-1][1])
        if answer == "error":
            raise ClusterError("nobody answers")
        return Finding(answer, f"it is {answer}", {"age": age})  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def fresh():
    Told.order.clear()
    ToldTimed.begun.clear()


def told(name: str, family: str, *answers: str, unsafe: bool = False, absent: bool = False) -> str:
    head = f"id: {name}, family: {family}, why: because it matters, unsafe: {str(unsafe).lower()}"
    return f"{{{head}, told: {{answers: [{', '.join(answers)}], absent: {str(absent).lower()}}}}}"


def holder(kind: str, *below: str, family: str = "cause", more: str = "", unsafe: bool = False) -> str:
    flag = "unsafe: true, " if unsafe else ""
    inside = f"{kind}: {{of: [{', '.join(below)}]{more}}}"
    return f"{{id: {kind}-of, family: {family}, why: because it matters, {flag}{inside}}}"


def timed(name: str, family: str, params: str) -> str:
    return f"{{id: {name}, family: {family}, why: because it matters, told_timed: {{{params}}}}}"


def compiled(*items: str, path: Path = Path("problem.yaml")) -> Node:
    source = Source(path, "oracle:\n" + "".join(f"- {item}\n" for item in items))
    return compile_nodes(GroupSpec("all", read_nodes(source, source.data["oracle"], ("oracle",))))


def nowhere(**more: Any) -> Bench:
    return Bench(scene=None, **more)  # type: ignore[arg-type]


async def judged(*items: str, **more: Any):
    outcome = await judge_node(compiled(*items), nowhere(**more), {})
    return outcome, {result.id: result.result for result in check_results(outcome)}


def refused(*items: str) -> ProblemError:
    with pytest.raises(ProblemError) as caught:
        compiled(*items)
    assert caught.value.where.startswith("problem.yaml:"), caught.value.where
    assert caught.value.todo
    return caught.value


def test_doctests_of_the_oracle():
    """Three-valued logic, weights, loosened alerts, quantities and the like are told by their examples."""
    count = 0
    for package in (aftershock.oracle, aftershock.oracle.checks, aftershock.oracle.moves):
        for module in pkgutil.iter_modules(package.__path__):
            if not module.ispkg:
                done = doctest.testmod(importlib.import_module(f"{package.__name__}.{module.name}"))
                assert not done.failed, module.name
                count += done.attempted
    assert count > 40, count


@pytest.mark.parametrize(
    ("answers", "result"),
    [(("fail", "fail"), "pass"), (("fail", "unknown"), "unknown"), (("pass", "unknown"), "fail")],
)
async def test_none_of_them(answers, result):
    below = [told(f"c{i}", "cause", answer) for i, answer in enumerate(answers)]
    outcome, results = await judged(told("users", "outcome", "pass"), holder("none", *below))
    assert results["none-of"] == result
    (row,) = [row for row in check_results(outcome) if row.id == "none-of"]
    assert [inner["id"] for inner in row.measured["of"]] == ["none-of/c0", "none-of/c1"]


async def test_none_of_them_is_not_told_by_what_is_gone():
    """A namespace that was deleted holds no wrong state, and is no repair."""
    outcome, results = await judged(holder("none", told("bad-pods", "cause", "fail", absent=True)))
    assert results["none-of"] == "unknown"
    assert "there is nothing to look at" in decide(outcome)[1]
    _, results = await judged(holder("none", told("a", "cause", "fail", absent=True), told("b", "cause", "pass")))
    assert results["none-of"] == "fail"


async def test_none_of_them_may_be_so_before():
    node = compiled(holder("none", told("bad", "cause", "pass")))
    with pytest.raises(Abnormal, match="is so before anything is broken"):
        await take_baselines(node, nowhere())


@pytest.mark.parametrize(
    ("answers", "at_least", "result"),
    [
        (("pass", "fail"), 0.7, "pass"),
        (("fail", "pass"), 0.7, "fail"),
        (("unknown", "pass"), 0.7, "unknown"),
        (("pass", "unknown"), 0.7, "pass"),
        (("fail", "unknown"), 0.7, "fail"),
    ],
)
async def test_enough_by_weight(answers, at_least, result):
    below = [told(f"c{i}", "cause", answer) for i, answer in enumerate(answers)]
    _, results = await judged(holder("weighted", *below, more=f", weights: [3, 1], at_least: {at_least}"))
    assert results["weighted-of"] == result


def test_what_holds_others_is_refused_where_it_cannot_be_right():
    what = refused(holder("weighted", told("a", "cause", "pass"), more=", weights: [1, 2], at_least: 1")).what
    assert "2 weights for 1 checks" in what
    what = refused(holder("none", told("a", "preservation", "fail"))).what
    assert "of the family `preservation` is inside one of `cause`" in what
    assert "could be excused" in refused(holder("none", told("a", "cause", "fail", unsafe=True))).what
    assert "did you mean `told`" in refused("{id: a, family: cause, why: because it matters, tolld: {}}").todo


async def test_safety_stands_apart_from_objectives():
    """It may not stand where another's success would excuse it, and it decides whatever else passed."""
    bad = told("safe", "preservation", "fail", unsafe=True)
    assert "below `any`" in refused(f"any: [{bad}, {told('b', 'preservation', 'pass')}]").what
    good = [told(f"c{i}", "cause", "pass") for i in range(5)]
    outcome, _ = await judged(told("users", "outcome", "pass"), *good, bad)
    assert decide(outcome)[0] == "unsafe"
    assert [row.id for row in deciding(outcome)] == ["safe"]


async def test_safety_is_asked_also_where_its_sequence_has_ended():
    items = [
        told("a", "cause", "fail"),
        told("b", "cause", "pass"),
        told("safe", "preservation", "fail", unsafe=True),
    ]
    outcome, results = await judged(f"sequence: [{', '.join(items)}]")
    assert results == {"a": "fail", "b": "skipped", "safe": "fail"}
    assert decide(outcome)[0] == "unsafe"
    items[2] = told("kept", "preservation", "pass", unsafe=True)
    outcome, results = await judged(f"sequence: [{', '.join(items)}]")
    assert results == {"a": "fail", "b": "skipped", "kept": "pass"}
    assert decide(outcome)[0] == "failed"


async def held(course: list[tuple[float, str]], hold: float, within: float, **more: Any) -> tuple[Finding, float]:
    begin = time.monotonic()

    async def look() -> Finding:
        age = time.monotonic() - begin
        answer = next((answer for until, answer in course if age < until), course[-1][1])
        if answer == "error":
            raise ClusterError("nobody answers")
        return Finding(answer, f"it is {answer}")  # type: ignore[arg-type]

    found = await hold_up(look, nowhere(**more), hold=hold, within=within, every=0.02)
    return found, time.monotonic() - begin


async def test_held_is_more_than_a_moment():
    found, seconds = await held([(9, "pass")], hold=0.3, within=0.5)
    assert found.result == "pass"
    assert 0.3 <= seconds < 0.5  # it ends as soon as it has what it needs
    found, seconds = await held([(0.1, "pass"), (0.2, "fail"), (9, "pass")], hold=0.3, within=1)
    assert (found.result, found.measured["breaks"]) == ("pass", 1)
    assert seconds >= 0.5
    flapping = [(n / 10, "pass" if n % 2 else "fail") for n in range(1, 40)]
    found, seconds = await held(flapping, hold=0.3, within=0.6)
    assert found.result == "fail"
    assert seconds < 1.0
    found, _ = await held([(0.1, "pass"), (9, "error")], hold=0.3, within=0.5)
    assert found.result == "unknown"
    assert "nobody answers" in found.said
    found, _ = await held([(9, "pass")], hold=0.3, within=0.5, ends=time.monotonic() + 0.1)
    assert found.result == "unknown"


async def test_in_haste_one_good_look_does_not_tell():
    assert (await held([(9, "pass")], hold=5, within=5, hasty=True))[0].result == "unknown"
    assert (await held([(9, "fail")], hold=5, within=5, hasty=True))[0].result == "fail"


def test_times_that_do_not_go_together():
    assert "needs `hold`" in refused(timed("a", "cause", "course: [[9, pass]], time: held")).what
    assert "does not go with" in refused(timed("a", "cause", "course: [[9, pass]], time: before, hold: 3")).what
    assert "`grace` goes with" in refused(timed("a", "cause", "course: [[9, pass]], grace: 3")).what
    assert "one moment" in refused(timed("a", "outcome", "course: [[9, pass]]")).what
    inside = timed("a", "cause", "course: [[9, pass]], time: continuous")
    assert "stands inside a group" in refused(f"any: [{inside}, {told('b', 'cause', 'pass')}]").what
    node = compiled(timed("a", "outcome", "course: [[9, pass]], hold: 1"), inside.replace("id: a", "id: b"))
    assert [leaf.check.time_mode() for leaf in leaves(node)] == ["held", "continuous"]


@pytest.mark.parametrize(
    ("course", "grace", "result"),
    [
        ("[[9, pass]]", 0, "pass"),
        ("[[0.3, pass], [1.2, fail], [9, pass]]", 0.1, "fail"),
        ("[[0.3, pass], [1.2, fail], [9, pass]]", 5, "pass"),
        ("[[0.2, pass], [9, error]]", 0.1, "unknown"),
        ("[[0.2, pass], [9, fail]]", 5, "fail"),
    ],
)
async def test_continuous_watches_beside_everything_else(course, grace, result):
    """The other check takes 1.6 s; the state is broken in the middle of it, which nobody else sees."""
    begin = time.monotonic()
    beside = timed("other", "outcome", "course: [[9, pass]], hold: 1.6")
    watched = timed("watched", "preservation", f"course: {course}, time: continuous, grace: {grace}")
    outcome, results = await judged(beside, watched)
    assert results == {"other": "pass", "watched": result}
    assert time.monotonic() - begin < 4
    verdicts = {"pass": "succeeded", "fail": "failed", "unknown": "ambiguous"}
    assert decide(outcome)[0] == verdicts[result]
    (row,) = [row for row in check_results(outcome) if row.id == "watched"]
    assert row.mode == "continuous"


async def test_a_condition_for_judging():
    node = compiled(timed("a", "preservation", "course: [[9, pass]], time: before"))
    before = await take_baselines(node, nowhere())
    outcome = await judge_node(node, nowhere(), before)
    assert check_results(outcome)[0].said == "before anything was broken: it is pass"
    node = compiled(timed("a", "preservation", "course: [[9, fail]], time: before, within: 0.2"))
    with pytest.raises(Abnormal, match="does not hold"):
        await take_baselines(node, nowhere())


TRIGGER = """
trigger:
  - apply: {manifest: manifests/release.yaml}
  - create_job: {manifest: manifests/job.yaml, name: migrate-0042}
  - wait: {sql: "select 1 where 'migrate-0042' <> ''", equals: 1}
steps:
  - trigger_again: {replace: {"0042": "0043"}PARAMS}
  - roll_out_again: {object: Deployment/web}
  - delete_pod: {selector: app=web}
  - drain_node: {selector: app=web}
  - next_turn: {object: CronJob/reconciler}
"""


def moves(folder: Path, text: str = TRIGGER, params: str = "") -> Any:
    path = folder / "problem.yaml"
    source = Source(path, text.replace("PARAMS", params))
    return compile_moves(read_steps(source, source.data["steps"], ("steps",)))


def test_the_trigger_is_fired_again_under_another_name(tmp_path):
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests" / "release.yaml").write_text("version: 0042\n")
    (tmp_path / "manifests" / "job.yaml").write_text("kind: Job\n")
    made = moves(tmp_path)
    kinds = ["apply", "create_job", "wait", "roll_out_again", "delete_pod", "drain_node", "next_turn"]
    assert [step.kind for step in made] == kinds
    assert (made[0].manifest, made[0].replace) == ("manifests/release.yaml", {"0042": "0043"})
    assert (made[1].name, made[1].replace) == ("migrate-0043", {})  # its manifest does not say it
    assert "migrate-0043" in made[2].sql
    assert [step.kind for step in moves(tmp_path, params=", steps: [2]")][:2] == ["create_job", "roll_out_again"]


@pytest.mark.parametrize(
    ("old", "new", "what", "todo"),
    [
        ('"0042": "0043"', '"0049": "0050"', "`0049` occurs in no step", "does nothing"),
        ("PARAMS", ", steps: [4]", "no step 4", "1 to 3"),
        ("roll_out_again", "roll_out_agan", "no step `roll_out_agan`", "`roll_out_again`"),
        ("Deployment/web", "Service/web", "is one of Deployment", ""),
        ("CronJob/reconciler", "Deployment/reconciler", "is a CronJob", ""),
        ("drain_node: {selector: app=web}", "drain_node: {}", "either `selector`", ""),
    ],
)
def test_moves_that_are_refused(tmp_path, old, new, what, todo):
    with pytest.raises(ProblemError) as caught:
        moves(tmp_path, TRIGGER.replace(old, new))
    assert what in caught.value.what
    assert todo in caught.value.todo


def test_the_table_of_checks_is_in_step_with_the_code():
    text = (source_root() / "docs" / "checks.md").read_text()
    shown = text.split("<!-- table -->\n")[1]
    assert shown == table(), "write it anew: see aftershock/oracle/catalogue.py"


BROKEN = "{id: users, family: outcome, why: because it matters, served: {}}"


async def test_together_ends_what_runs_beside_when_a_check_is_broken():
    """A problem's own fault goes up, and nothing goes on watching."""
    node = compiled(timed("w", "preservation", "course: [[99, pass]], time: continuous"), BROKEN)
    before = set(asyncio.all_tasks())
    with pytest.raises(AttributeError):  # there are no users here
        await judge_node(node, nowhere(), {})
    assert set(asyncio.all_tasks()) <= before
