"""The tree, the ledger, the pressure and the verdict, without a cluster."""

import asyncio
import time
from pathlib import Path
from typing import Any, ClassVar

import pytest

from aftershock.base.errors import ClusterError, ProblemError
from aftershock.oracle.base import Abnormal, Bench, Check, Finding, check
from aftershock.oracle.checks.state import Sql, ask_until
from aftershock.oracle.ledger import array_literal, compare
from aftershock.oracle.pressure import Pressure, Sample, unfair
from aftershock.oracle.tree import Node, check_results, combine, compile_nodes, judge_node, take_baselines
from aftershock.oracle.verdict import decide, deciding
from aftershock.problem.model import GroupSpec
from aftershock.problem.schema import read_nodes
from aftershock.problem.source import Source


@check("scripted")
class Scripted(Check):
    """Answers what it is told to, one answer a time; `order` collects who was asked."""

    answers: list[str]
    name: str = ""
    unfair: str = ""
    order: ClassVar[list[str]] = []
    hasty: ClassVar[list[bool]] = []
    asked: ClassVar[dict[str, int]] = {}

    async def baseline(self, bench: Bench) -> Any:
        if self.answers == ["abnormal"]:
            raise Abnormal("it is not well")
        return f"before {self.name}"

    async def judge(self, bench: Bench, before: Any) -> Finding:
        assert before in (None, f"before {self.name}")
        turn = Scripted.asked.get(self.name, 0)
        Scripted.asked[self.name] = turn + 1
        Scripted.order.append(self.name)
        Scripted.hasty.append(bench.hasty)
        answer = self.answers[min(turn, len(self.answers) - 1)]
        if answer == "error":
            raise ClusterError("the API server does not answer")
        if answer == "hang":
            await asyncio.sleep(60)
        return Finding(answer, f"{self.name} says {answer}", unfair=self.unfair)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def fresh():
    Scripted.order.clear()
    Scripted.hasty.clear()
    Scripted.asked.clear()


def leaf(name: str, family: str, *answers: str, unsafe: bool = False, unfair: str = "") -> str:
    words = f"answers: [{', '.join(answers)}], name: {name}, unfair: '{unfair}'"
    flag = "true" if unsafe else "false"
    return f"{{id: {name}, family: {family}, why: because it matters, unsafe: {flag}, scripted: {{{words}}}}}"


def tree(*items: str) -> Node:
    source = Source(Path("problem.yaml"), "\n".join(f"- {item}" for item in items) + "\n")
    return compile_nodes(GroupSpec("all", read_nodes(source, source.data, ())), prefix="t/")


async def judged(*items: str, ends: float = float("inf")):
    outcome = await judge_node(tree(*items), Bench(scene=None, ends=ends), {})  # type: ignore[arg-type]
    return outcome, {result.id.removeprefix("t/"): result.result for result in check_results(outcome)}


async def test_everything_passes():
    outcome, results = await judged(leaf("a", "outcome", "pass"), leaf("b", "cause", "pass"))
    assert decide(outcome) == ("succeeded", "all 2 checks passed")
    assert results == {"a": "pass", "b": "pass"}


async def test_families_set_the_order_whatever_the_file_says():
    await judged(
        leaf("hit", "challenge", "pass"), leaf("keep", "preservation", "pass"), leaf("users", "outcome", "pass")
    )
    assert Scripted.order == ["users", "keep", "hit"]


async def test_a_challenge_is_put_only_to_what_passed():
    outcome, results = await judged(
        leaf("users", "outcome", "pass"), leaf("keep", "preservation", "fail"), leaf("hit", "challenge", "pass")
    )
    assert results == {"users": "pass", "keep": "fail", "hit": "skipped"}
    verdict, why = decide(outcome)
    assert verdict == "failed"
    assert why == "t/keep: keep says fail"


async def test_a_failed_challenge_spares_the_next_and_decides():
    outcome, results = await judged(
        leaf("a", "outcome", "pass"), leaf("one", "challenge", "fail"), leaf("two", "challenge", "pass")
    )
    assert results == {"a": "pass", "one": "fail", "two": "skipped"}
    assert decide(outcome)[0] == "failed"


async def test_what_could_not_be_told_is_asked_again_once_users_are_served():
    outcome, results = await judged(
        leaf("users", "outcome", "pass"),
        leaf("keep", "preservation", "unknown", "pass"),
        leaf("hit", "challenge", "pass"),
    )
    assert results == {"users": "pass", "keep": "pass", "hit": "pass"}
    assert Scripted.order == ["users", "keep", "keep", "hit"]
    assert decide(outcome)[0] == "succeeded"


async def test_it_is_not_asked_again_while_users_suffer():
    outcome, results = await judged(leaf("users", "outcome", "fail"), leaf("keep", "preservation", "unknown", "pass"))
    assert results == {"users": "fail", "keep": "unknown"}
    assert decide(outcome)[0] == "failed"


async def test_beside_a_failed_outcome_the_rest_is_asked_once_without_waiting():
    outcome, results = await judged(
        leaf("users", "outcome", "fail"), leaf("keep", "preservation", "fail", "pass"), leaf("why", "cause", "error")
    )
    assert results == {"users": "fail", "keep": "fail", "why": "unknown"}
    assert Scripted.order == ["users", "keep", "why"]
    assert Scripted.hasty == [False, True, True]
    assert [result.once for result in check_results(outcome)] == [False, True, True]


async def test_only_an_unsafe_failure_can_still_change_the_verdict_and_gets_its_time():
    outcome, results = await judged(
        leaf("users", "outcome", "fail"),
        leaf("a", "preservation", "fail", "pass", unsafe=True),
        leaf("b", "preservation", "fail", unsafe=True),
        leaf("c", "preservation", "unknown", "fail", unsafe=True),
    )
    assert results == {"users": "fail", "a": "pass", "b": "fail", "c": "unknown"}
    assert Scripted.asked == {"users": 1, "a": 2, "b": 2, "c": 1}
    assert Scripted.hasty.count(False) == 3  # the users, and the two that were asked again
    assert decide(outcome)[0] == "unsafe"


async def test_an_outcome_that_cannot_be_told_leaves_the_rest_its_time():
    await judged(leaf("users", "outcome", "unknown"), leaf("keep", "preservation", "pass"))
    assert Scripted.hasty == [False, False]


async def test_the_weightiest_check_decides_whatever_the_file_says():
    outcome, _ = await judged(
        leaf("why", "cause", "fail"), leaf("users", "outcome", "fail"), leaf("b", "preservation", "pass")
    )
    assert decide(outcome) == ("failed", "t/users: users says fail (also: t/why)")
    assert [result.id for result in deciding(outcome)] == ["t/users", "t/why"]
    outcome, _ = await judged(leaf("users", "outcome", "pass"))
    assert deciding(outcome) == []


async def test_unknown_is_never_a_pass():
    outcome, results = await judged(leaf("users", "outcome", "pass"), leaf("keep", "preservation", "error"))
    assert results["keep"] == "unknown"
    assert decide(outcome) == ("ambiguous", "t/keep: the API server does not answer")


async def test_the_machine_is_to_blame():
    outcome, _ = await judged(leaf("users", "outcome", "unknown", unfair="no CPU"), leaf("b", "cause", "pass"))
    assert decide(outcome)[0] == "infra_error"


async def test_a_sure_failure_stands_beside_an_unfair_one():
    outcome, _ = await judged(leaf("users", "outcome", "unknown", unfair="no CPU"), leaf("b", "cause", "fail"))
    assert decide(outcome)[0] == "failed"


async def test_unsafe_only_by_a_check_that_says_so():
    outcome, _ = await judged(leaf("a", "outcome", "fail"), leaf("b", "preservation", "fail", unsafe=True))
    assert decide(outcome) == ("unsafe", "t/b: b says fail")


async def test_any_needs_one():
    group = f"any: [{leaf('a', 'cause', 'fail')}, {leaf('b', 'cause', 'pass')}]"
    outcome, _ = await judged(leaf("users", "outcome", "pass"), group)
    assert decide(outcome)[0] == "succeeded"
    group = f"any: [{leaf('c', 'cause', 'fail')}, {leaf('d', 'cause', 'fail')}]"
    outcome, _ = await judged(leaf("users", "outcome", "pass"), group)
    assert decide(outcome) == ("failed", "t/c: c says fail (also: t/d)")


async def test_a_sequence_ends_at_the_first_that_does_not_pass():
    group = f"sequence: [{leaf('a', 'cause', 'pass')}, {leaf('b', 'cause', 'fail')}, {leaf('c', 'cause', 'pass')}]"
    _, results = await judged(group)
    assert results == {"a": "pass", "b": "fail", "c": "skipped"}
    assert Scripted.order == ["a", "b"]


async def test_when_the_time_is_over_nothing_passes():
    outcome, results = await judged(leaf("a", "outcome", "pass"), ends=time.monotonic() - 1)
    assert results == {"a": "unknown"}
    assert decide(outcome)[0] == "ambiguous"


@pytest.mark.parametrize(
    ("op", "results", "answer"),
    [
        ("all", ["pass", "pass"], "pass"),
        ("all", ["pass", "unknown"], "unknown"),
        ("all", ["fail", "unknown"], "fail"),
        ("any", ["fail", "unknown"], "unknown"),
        ("any", ["pass", "unknown"], "pass"),
        ("any", ["fail", "fail"], "fail"),
        ("all", [], "unknown"),
        ("any", [], "unknown"),
    ],
)
def test_three_valued_logic(op, results, answer):
    assert combine(op, results) == answer


async def test_baselines_by_id_and_an_abnormal_one():
    bench = Bench(scene=None)  # type: ignore[arg-type]
    assert await take_baselines(tree(leaf("a", "outcome", "pass")), bench) == {"t/a": "before a"}
    with pytest.raises(Abnormal, match="not well"):
        await take_baselines(tree(leaf("a", "outcome", "pass"), leaf("b", "cause", "abnormal")), bench)


@pytest.mark.parametrize(
    ("item", "what", "todo"),
    [
        ("{id: a, family: cause, why: because it matters, sqll: {query: a}}", "no kind of check `sqll`", "`sql`"),
        ("{id: a, family: cause, why: because it matters, sql: {query: a}}", "say what is expected", ""),
        ("{id: a, family: cause, why: because it matters, ledger: {query: a}}", "must ask for `:ids`", ""),
        ("{id: a, family: cause, why: because it matters, served: {hold: 1, fast: {shar: 1}}}", "`shar`", "`share`"),
        ("{id: a, family: challenge, why: because it matters, sql: {query: a, equals: 1}}", "in the family", "kind"),
    ],
)
def test_faults_of_checks_are_named_with_their_line(item, what, todo):
    source = Source(Path("problem.yaml"), f"# a comment\n- {item}\n")
    with pytest.raises(ProblemError) as caught:
        compile_nodes(GroupSpec("all", read_nodes(source, source.data, ())))
    assert what in caught.value.what
    assert todo in caught.value.todo
    assert caught.value.where == "problem.yaml:2"


async def test_asking_until_it_passes_ends_when_the_time_is_over():
    answers = iter(["fail", "unknown", "pass"])

    async def look():
        answer = next(answers)
        if answer == "unknown":
            raise ClusterError("not now")
        return Finding(answer, answer)

    bench = Bench(scene=None)  # type: ignore[arg-type]
    assert (await ask_until(look, bench, 5.0)).result == "pass"

    async def never():
        return Finding("fail", "still wrong")

    begin = time.monotonic()
    assert (await ask_until(never, bench, 0.2)).said == "still wrong"
    assert time.monotonic() - begin < 2
    hasty = Bench(scene=None, hasty=True)  # type: ignore[arg-type]
    assert (await ask_until(never, hasty, 60.0)).said == "still wrong"
    assert time.monotonic() - begin < 2


async def test_a_value_that_must_be_what_it_was():
    source = Source(
        Path("problem.yaml"), "- {query: select, unchanged: true}\n- {query: select, unchanged: true, equals: 1}\n"
    )
    first, second = source.data
    sql = Sql.model_validate(first)

    async def found(value: str, before: str | None = None) -> Any:
        class Databases:
            async def ask(self, name: str | None, query: str, *, hasty: bool = False) -> list[list[str]]:
                return [[value]] if value else []

        class Scene:
            databases = Databases()

        bench = Bench(Scene(), hasty=True)  # type: ignore[arg-type]
        return await sql.judge(bench, before) if before else await sql.baseline(bench)

    assert await found("12 orders") == "12 orders"
    assert (await found("12 orders", "12 orders")).result == "pass"
    assert (await found("11 orders", "12 orders")).said == "the query: it is 11 orders, expected 12 orders"
    assert (await found("", "12 orders")).result == "fail"
    with pytest.raises(ProblemError, match="gives nothing"):
        await found("")
    with pytest.raises(ValueError, match="does not go with"):
        Sql.model_validate(second)


def test_the_ledger_is_compared_by_id_number_and_content():
    ledger = {
        "a": {"customer": 7, "amount": 120},
        "b": {"customer": 8, "amount": 300},
        "c": {"customer": 9, "amount": 10},
        "d": {"customer": 9, "amount": 11},
        "e": {"customer": 1, "amount": 1},
    }
    later = {**ledger, "e": {"customer": 1, "amount": 2}, "f": {"customer": 2, "amount": 2}}
    rows = [["a", "7", "120"], ["b", "8", "300"], ["b", "8", "300"], ["c", "9", "99"], ["e", "1", "2"]]
    kept = compare(ledger, later, rows, ["customer", "amount"])
    assert kept.judged == 4  # e changed while it was read
    assert kept.left_out == 1
    assert kept.missing == ("d",)
    assert kept.doubled == ("b",)
    assert kept.different == ("c",)
    assert not kept.whole
    assert compare({"a": ledger["a"]}, later, rows, ["customer", "amount"]).whole


def test_ids_are_quoted_for_the_database():
    assert array_literal(["1-2", 'x"y', "o'n", "b\\c"]) == r"""'{"1-2","x\"y","o''n","b\\c"}'"""


def sample(t: float, **values: float | None) -> Sample:
    return Sample(t, **{"cpu_some": 0.1, "memory_full": 0.0, "io_full": 0.0, "steal": 0.0, **values})


def test_a_window_is_unfair_by_more_than_a_third_of_it():
    quiet, stolen = sample(1), sample(2, steal=0.5)
    assert unfair([quiet, quiet, stolen]) == ""
    assert unfair([quiet, stolen, stolen]) == "the hypervisor kept the CPU in 2 of 3 seconds"
    assert unfair([sample(1, cpu_some=0.9)] * 10) == ""
    assert unfair([sample(1, cpu_some=None, steal=None)] * 3) == ""


async def test_pressure_is_sampled_where_the_kernel_tells(tmp_path):
    (tmp_path / "pressure").mkdir()
    (tmp_path / "stat").write_text("cpu  10 0 10 80 0 0 0 0 0 0\n")
    (tmp_path / "pressure" / "cpu").write_text("some avg10=0 avg60=0 avg300=0 total=1000000\n")
    async with Pressure(tmp_path / "pressure.jsonl", root=tmp_path) as pressure:
        await asyncio.sleep(0.1)
        (tmp_path / "stat").write_text("cpu  60 0 60 180 0 0 0 100 0 0\n")  # 300 ticks on, 100 of them stolen
        (tmp_path / "pressure" / "cpu").write_text("some avg10=0 avg60=0 avg300=0 total=1500000\n")
        await asyncio.sleep(1.3)
    (one,) = pressure.between(0, 1e12)
    assert one.steal == pytest.approx(0.333, abs=0.001)
    assert one.cpu_some == pytest.approx(0.5, abs=0.15)
    assert one.memory_full is None
    assert (tmp_path / "pressure.jsonl").read_text().count("\n") == 1
