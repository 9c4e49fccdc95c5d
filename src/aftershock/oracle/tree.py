"""The oracle as a tree: three-valued logic, an order, and what is asked once more.

`all` goes by family: the outcome first, for it holds a window and the rest is read when users are
served; cause and preservation together; challenges last, one after another, and only where all
before them passed, for they damage the system. `sequence` goes in the order written and ends at
the first that does not pass. `any` asks all of them at once. What watches continuously begins with
the first and goes on through the challenges. `none` and `weighted` are checks that hold others
(`oracle/checks/groups.py`).

Safety stands apart from all this: a check that is `unsafe` and failed makes the whole so, whatever
else passed. It is asked even where its sequence has ended, and it may not stand where another's
success would excuse it (`any`, `none`, `weighted`).

What was `unknown` beside a good outcome is asked once more: the incident may have locked out the
judge, and a system that serves its users again lets it in.

Beside a failed outcome the rest is asked in haste: once, without waiting. It tells more about the
failure but cannot make it a success. Only an `unsafe` check that fails is asked again with all the
time it may take, since it alone can still change the verdict.
"""

import asyncio
import time
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

from aftershock.base.errors import AftershockError, ProblemError
from aftershock.fault.base import Primitive
from aftershock.oracle.base import Bench, Check, CheckResult, Finding, Result, checks_registry
from aftershock.oracle.logic import combine
from aftershock.problem.model import Family, GroupSpec, NodeSpec

__all__ = [
    "Group",
    "Leaf",
    "Node",
    "Outcome",
    "check_results",
    "combine",
    "compile_nodes",
    "judge_node",
    "leaves",
    "take_baselines",
    "tree_steps",
]

# Seconds by which a check may outlast the time for judging: to end a window that is nearly decided.
GRACE = 15.0

T = TypeVar("T")

STAGE: dict[Family, int] = {"outcome": 0, "cause": 1, "preservation": 1, "challenge": 2}


@dataclass(frozen=True)
class Leaf:
    """A check with what the problem says of it."""

    id: str
    family: Family
    why: str
    unsafe: bool
    check: Check
    where: str

    def result(self, finding: Finding, seconds: float, *, once: bool = False) -> CheckResult:
        return CheckResult(
            id=self.id,
            family=self.family,
            kind=self.check.kind,
            why=self.why,
            mode=self.check.time_mode(),
            result=finding.result,
            said=finding.said,
            measured=finding.measured,
            seconds=round(seconds, 3),
            unsafe=self.unsafe or finding.unsafe,
            unfair=finding.unfair,
            once=once,
        )

    def skipped(self, said: str) -> CheckResult:
        return replace(self.result(Finding("unknown", said), 0.0), result="skipped")


@dataclass(frozen=True)
class Group:
    op: Literal["all", "any", "sequence"]
    nodes: tuple["Node", ...]


Node = Leaf | Group


@dataclass(frozen=True)
class Outcome:
    """The answer of a node: of a leaf its result, of a group what its nodes come to."""

    result: Result
    leaf: CheckResult | None = None
    below: tuple["Outcome", ...] = ()


def compile_nodes(spec: NodeSpec, prefix: str = "") -> Node:
    """Look the checks up and check their parameters.

    Args:
        prefix: of the ids of checks inside another one.

    Raises:
        ProblemError: with the line, and what would be right.
    """
    made = _compile(spec, prefix)
    _well_placed(made, top=True, nested=bool(prefix))
    return made


def _compile(spec: NodeSpec, prefix: str) -> Node:
    if isinstance(spec, GroupSpec):
        return Group(spec.op, tuple(_compile(node, prefix) for node in spec.nodes))
    cls = checks_registry.find(spec.kind, spec.source, spec.at)
    named = replace(spec, id=prefix + spec.id)
    built = spec.source.model(cls, dict(spec.params), spec.at).prepare(named)
    if built.disturbs() != (spec.family == "challenge") and not prefix:
        todo = "what damages the system is judged last: write `family: challenge`"
        if not built.disturbs():
            todo = "`family: challenge` goes with what fires, kills or drains, such as the kind `challenge`"
        what = f"the check `{spec.id}` of kind `{spec.kind}` is in the family `{spec.family}`"
        raise spec.source.error(what, (*spec.at[:-1], "family"), todo)
    return Leaf(named.id, spec.family, spec.why, spec.unsafe, built, spec.source.where(spec.at))


def _well_placed(node: Node, *, top: bool, nested: bool, excusing: str = "") -> None:
    """Refuse a safety check that another could excuse, and a continuous one that has nothing to run beside."""
    if isinstance(node, Group):
        for below in node.nodes:
            # the whole oracle is one `all`: only what stands in its own list runs beside all the rest
            beside = top and node.op == "all" and isinstance(below, Leaf)
            _well_placed(below, top=beside, nested=nested, excusing=excusing or ("any" if node.op == "any" else ""))
        return
    if node.unsafe and excusing:
        raise ProblemError(
            f"the check `{node.id}` is `unsafe` below `{excusing}`, where another's success would excuse it",
            where=node.where,
            todo="safety stands apart from objectives: move it out of the group, or drop `unsafe`",
        )
    if node.check.time_mode() == "continuous" and not node.check.disturbs() and (nested or not top):
        raise ProblemError(
            f"the check `{node.id}` watches continuously, and stands inside a group",
            where=node.where,
            todo="put it into the oracle's own list, where it runs beside everything else",
        )


def leaves(node: Node) -> Iterator[Leaf]:
    """All checks of a tree, in the order of the file."""
    if isinstance(node, Leaf):
        yield node
    else:
        for below in node.nodes:
            yield from leaves(below)


def tree_steps(node: Node) -> tuple[Primitive, ...]:
    """Every step that some check of the tree may carry out."""
    return tuple(step for leaf in leaves(node) for step in leaf.check.steps())


async def take_baselines(node: Node, bench: Bench) -> dict[str, Any]:
    """What each check finds while all is well, by its id.

    Raises:
        Abnormal: it is not well, whoever is to blame.
        ProblemError: a check looks at nothing.
    """

    async def one(leaf: Leaf) -> Any:
        try:
            return await leaf.check.baseline(bench)
        except ProblemError as error:
            raise ProblemError(error.what, where=error.where or leaf.where, todo=error.todo) from error

    found = list(leaves(node))
    return dict(zip((leaf.id for leaf in found), await together(one(leaf) for leaf in found), strict=True))


async def together(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Results in order; the first error ends all of them and is raised as it is."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in work]
    except BaseExceptionGroup as several:
        raise several.exceptions[0] from None
    return [task.result() for task in tasks]


async def judge_node(node: Node, bench: Bench, before: Mapping[str, Any]) -> Outcome:
    """Judge a tree. The answer has an outcome for every check, also for those that were skipped."""
    if isinstance(node, Leaf):
        return await _judge_leaf(node, bench, before)
    if node.op == "sequence":
        return await _sequence(node, bench, before)
    if node.op == "any":
        below = await together(judge_node(child, bench, before) for child in node.nodes)
        return Outcome(combine("any", [o.result for o in below]), below=tuple(below))
    return await _all(node, bench, before)


async def _judge_leaf(leaf: Leaf, bench: Bench, before: Mapping[str, Any]) -> Outcome:
    begin, once = time.monotonic(), bench.hasty
    finding = await _ask(leaf, bench, before)
    if once and leaf.unsafe and finding.result == "fail":
        finding, once = await _ask(leaf, replace(bench, hasty=False), before), False
    result = leaf.result(finding, time.monotonic() - begin, once=once)
    bench.tell(
        "check", id=result.id, family=result.family, result=result.result, said=result.said, seconds=result.seconds
    )
    return Outcome(finding_result(result), result)


async def _ask(leaf: Leaf, bench: Bench, before: Mapping[str, Any]) -> Finding:
    """The check's answer; an error of the cluster, and the end of the time, are "cannot tell"."""
    over = Finding("unknown", "the time for judging was over")
    if bench.remaining() <= 0:
        return over
    try:
        async with asyncio.timeout(min(bench.remaining() + GRACE, 1e6)):
            return await leaf.check.judge(bench, before.get(leaf.id))
    except TimeoutError:
        return over
    except ProblemError:
        raise
    except AftershockError as error:
        return Finding("unknown", error.what)


def finding_result(result: CheckResult) -> Result:
    return "unknown" if result.result == "skipped" else result.result


async def _sequence(group: Group, bench: Bench, before: Mapping[str, Any]) -> Outcome:
    below: list[Outcome] = []
    for index, child in enumerate(group.nodes):
        below.append(await judge_node(child, bench, before))
        if below[-1].result != "pass":
            rest = [await _after_the_end(later, bench, before) for later in group.nodes[index + 1 :]]
            ran = [o.result for o in (*below, *rest) if not _wholly_skipped(o)]
            return Outcome(combine("all", ran), below=(*below, *rest))
    return Outcome("pass", below=tuple(below))


async def _after_the_end(node: Node, bench: Bench, before: Mapping[str, Any]) -> Outcome:
    """A sequence has ended before this: only what is about safety is still asked, in haste."""
    if isinstance(node, Leaf) and node.unsafe and not node.check.disturbs():
        return await _judge_leaf(node, replace(bench, hasty=True), before)
    if isinstance(node, Group):
        below = tuple([await _after_the_end(child, bench, before) for child in node.nodes])
        ran = [o.result for o in below if not _wholly_skipped(o)]
        return Outcome(combine("all", ran), below=below)
    return _skip(node, "what comes before it in its sequence did not pass")


async def _all(group: Group, bench: Bench, before: Mapping[str, Any]) -> Outcome:
    """All in their order, and beside them what watches continuously, until the last of them is judged."""
    watches = [i for i, child in enumerate(group.nodes) if _watches(child)]
    if not watches:
        return await _staged(group, bench, before)
    over = asyncio.Event()
    rest = Group("all", tuple(child for i, child in enumerate(group.nodes) if i not in watches))
    beside = {i: asyncio.create_task(judge_node(group.nodes[i], replace(bench, over=over), before)) for i in watches}
    try:
        judged = await _staged(rest, bench, before) if rest.nodes else Outcome("unknown")
        over.set()
        await asyncio.wait(beside.values())
    finally:
        over.set()
        for task in beside.values():
            task.cancel()
        await asyncio.gather(*beside.values(), return_exceptions=True)
    others = iter(judged.below)
    below = tuple(beside[i].result() if i in beside else next(others) for i in range(len(group.nodes)))
    return Outcome(combine("all", [o.result for o in below if not _wholly_skipped(o)]), below=below)


def _watches(node: Node) -> bool:
    return isinstance(node, Leaf) and node.check.time_mode() == "continuous" and not node.check.disturbs()


async def _staged(group: Group, bench: Bench, before: Mapping[str, Any]) -> Outcome:
    results: dict[int, Outcome] = {}
    for stage in range(3):
        members = [i for i, child in enumerate(group.nodes) if _stage(child) == stage]
        if stage == 2:
            await _challenges(group, members, results, bench, before)
            continue
        hasty = bench.hasty or any(o.result == "fail" for o in results.values())
        now = replace(bench, hasty=hasty)
        done = await together(judge_node(group.nodes[i], now, before) for i in members)
        results.update(zip(members, done, strict=True))
    outcomes_good = all(o.result == "pass" for i, o in results.items() if _stage(group.nodes[i]) == 0)
    if outcomes_good:
        again = [i for i, o in results.items() if o.result == "unknown" and _stage(group.nodes[i]) == 1]
        if again and bench.remaining() > 0:
            done = await together(judge_node(group.nodes[i], bench, before) for i in again)
            results.update(zip(again, done, strict=True))
            members = [i for i, child in enumerate(group.nodes) if _stage(child) == 2]
            await _challenges(group, members, results, bench, before)
    below = tuple(results[i] for i in range(len(group.nodes)))
    ran = [o.result for o in below if not _wholly_skipped(o)]
    return Outcome(combine("all", ran), below=below)


async def _challenges(
    group: Group, members: Sequence[int], results: dict[int, Outcome], bench: Bench, before: Mapping[str, Any]
) -> None:
    """Challenges in order, each only where everything before it passed."""
    for i in members:
        if all(o.result == "pass" for o in results.values() if not _wholly_skipped(o)):
            results[i] = await judge_node(group.nodes[i], bench, before)
        else:
            results[i] = _skip(group.nodes[i], "it is put to systems only that passed everything before it")


def _skip(node: Node, why: str) -> Outcome:
    if isinstance(node, Leaf):
        return Outcome("unknown", node.skipped(why))
    return Outcome("unknown", below=tuple(_skip(child, why) for child in node.nodes))


def _wholly_skipped(outcome: Outcome) -> bool:
    return all(result.result == "skipped" for result in check_results(outcome))


def _stage(node: Node) -> int:
    """When a node is due within `all`: with the latest of its checks."""
    return max(STAGE[leaf.family] for leaf in leaves(node))


def check_results(outcome: Outcome) -> list[CheckResult]:
    """The results of all checks below, in the order of the file."""
    if outcome.leaf is not None:
        return [outcome.leaf]
    return [result for below in outcome.below for result in check_results(below)]
