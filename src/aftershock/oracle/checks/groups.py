"""Checks that hold others: `none` of them may pass, or enough of them by weight must.

They are checks and no groups of the tree, since each needs a reason of its own: why a state must not
be reached, or why so much of it is enough. What is inside belongs to the same family and is asked at once.
"""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from pydantic import Field, PrivateAttr

from aftershock.fault.base import Primitive
from aftershock.oracle.base import Abnormal, Bench, Check, CheckResult, Finding, check
from aftershock.oracle.logic import combine, weigh
from aftershock.oracle.tree import (
    Node,
    check_results,
    compile_nodes,
    judge_node,
    leaves,
    take_baselines,
    together,
)
from aftershock.problem.model import CheckSpec
from aftershock.problem.schema import read_nodes


class Holder(Check):
    """Base of checks that hold others, named <own id>/<id>."""

    of: list[Any] = Field(min_length=1)
    _nodes: tuple[Node, ...] = PrivateAttr(())

    def prepare(self, spec: CheckSpec) -> "Holder":
        nodes = []
        for node in read_nodes(spec.source, self.of, (*spec.at, "of")):
            made = compile_nodes(node, prefix=f"{spec.id}/")
            for leaf in leaves(made):
                if leaf.unsafe:
                    what = f"the check `{leaf.id}` is `unsafe` inside `{self.kind}`, where it could be excused"
                    raise spec.source.error(what, spec.at, "safety stands apart: move it out of here")
                if leaf.check.disturbs() or leaf.family != spec.family:
                    what = f"the check `{leaf.id}` of the family `{leaf.family}` is inside one of `{spec.family}`"
                    raise spec.source.error(what, spec.at, "write the same family; challenges stand by themselves")
            nodes.append(made)
        self._nodes = tuple(nodes)
        return self

    def steps(self) -> tuple[Primitive, ...]:
        return tuple(step for node in self._nodes for leaf in leaves(node) for step in leaf.check.steps())

    def further(self) -> Sequence[tuple[Check, str]]:
        own = [(leaf.check, leaf.where) for node in self._nodes for leaf in leaves(node)]
        return [*own, *(inner for below, _ in own for inner in below.further())]

    async def _ask_all(self, bench: Bench, before: Any) -> tuple[list[Any], list[CheckResult]]:
        outcomes = await together(judge_node(node, bench, before or {}) for node in self._nodes)
        return [o.result for o in outcomes], [result for o in outcomes for result in check_results(o)]


def _shown(results: Sequence[CheckResult]) -> list[dict[str, Any]]:
    return [asdict(result) for result in results]


@check("none")
class NoneOf(Holder):
    """None of the checks under `of` may pass: a state that must not be there.

    A check that could not tell leaves it open, and so does one that failed since what it looks at is gone: a
    deleted namespace holds no wrong state, and is no repair.
    """

    async def baseline(self, bench: Bench) -> dict[str, Any]:
        """Each must fail while all is well: the state is not there, and the check sees that."""
        kept: dict[str, Any] = {}
        for node in self._nodes:
            kept |= await take_baselines(node, bench)
        results, said = await self._ask_all(replace(bench, hasty=True), kept)
        if "pass" in results:
            words = "; ".join(result.said for result in said if result.result == "pass")
            raise Abnormal(f"what must not be is so before anything is broken: {words}")
        return kept

    async def judge(self, bench: Bench, before: Any) -> Finding:
        results, said = await self._ask_all(replace(bench, hasty=True), before)
        blind = [result for result in said if result.result == "fail" and result.measured.get("absent")]
        if blind and "pass" not in results:
            words = "; ".join(f"{result.id}: {result.said}" for result in blind)
            return Finding("unknown", f"there is nothing to look at: {words}", {"of": _shown(said)})
        answer = combine("none", results)
        wanted = {"pass": "fail", "fail": "pass", "unknown": "unknown"}[answer]
        deciding = [result for result in said if result.result == wanted] or said
        words = "; ".join(f"{result.id}: {result.said}" for result in deciding)
        unfair = next((r.unfair for r in said if r.unfair), "") if answer == "unknown" else ""
        head = {"pass": "none of it is so", "fail": "it is so", "unknown": "it cannot be told"}[answer]
        return Finding(answer, f"{head}: {words}", {"of": _shown(said)}, unfair=unfair)


@check("weighted")
class Weighted(Holder):
    """Enough of the checks under `of` must pass: by their `weights`, in order, a share of at least `at_least`."""

    weights: list[float] = Field(min_length=1)
    at_least: float = Field(gt=0, le=1)

    def prepare(self, spec: CheckSpec) -> "Weighted":
        super().prepare(spec)
        if len(self.weights) != len(self.of) or min(self.weights) <= 0:
            what = f"{len(self.weights)} weights for {len(self.of)} checks"
            raise spec.source.error(what, (*spec.at, "weights"), "give each a weight above 0, in order")
        return self

    async def baseline(self, bench: Bench) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        for node in self._nodes:
            kept |= await take_baselines(node, bench)
        return kept

    async def judge(self, bench: Bench, before: Any) -> Finding:
        results, said = await self._ask_all(bench, before)
        answer, least, most = weigh(results, self.weights, self.at_least)
        share = f"{least:.0%}" if least == most else f"{least:.0%} to {most:.0%}"
        bad = [result for result in said if result.result != "pass"]
        words = "; ".join(f"{result.id}: {result.said}" for result in bad)
        unfair = next((r.unfair for r in bad if r.unfair), "") if answer == "unknown" else ""
        text = f"{share} by weight passed, {self.at_least:.0%} must" + (f"; {words}" if words else "")
        return Finding(answer, text, {"least": least, "most": most, "of": _shown(said)}, unfair=unfair)
