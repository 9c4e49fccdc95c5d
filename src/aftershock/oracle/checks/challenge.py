"""It happens again: the trigger fires once more, a pod goes, and users must hardly notice.

Only this tells a lasting repair from "killed the blocker once". It damages the system, so it is
run last, once, and only where all else is well. What it leaves behind, such as a cordoned node, it
takes back when it has been judged.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from aftershock.base.errors import AftershockError, DeadlinePassed, ProblemError
from aftershock.base.wait import NotYet, until
from aftershock.fault.base import NotLanded, Primitive, perform
from aftershock.oracle.base import Bench, Check, Finding, check
from aftershock.oracle.checks.served import SURE
from aftershock.oracle.move import Move, compile_moves
from aftershock.oracle.tree import (
    Node,
    check_results,
    compile_nodes,
    judge_node,
    leaves,
    take_baselines,
)
from aftershock.oracle.windows import Stall, held_up, stall
from aftershock.problem.model import CheckSpec, GroupSpec
from aftershock.problem.schema import read_nodes, read_steps


class Watch(BaseModel):
    """What users may feel, from the first step on until `watch` seconds after the last has landed.

    No stretch of more than `stall` seconds without a served request, and at most `bad_seconds` seconds
    with a request that was not served within `patience` seconds.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    watch: float = Field(default=20.0, gt=0)
    stall: float = Field(default=5.0, gt=0)
    bad_seconds: int = Field(default=5, ge=0)
    patience: float = Field(default=5.0, gt=0)


@check("challenge")
class Challenge(Check):
    """Steps, then the users watched, then further checks."""

    mode = "continuous"

    steps_: list[Any] = Field(alias="steps", min_length=1)
    users: Watch = Watch()
    then: list[Any] = Field(default_factory=list)
    _steps: tuple[Primitive, ...] = PrivateAttr(())
    _then: Node | None = PrivateAttr(None)

    def prepare(self, spec: CheckSpec) -> "Challenge":
        self._steps = compile_moves(read_steps(spec.source, self.steps_, (*spec.at, "steps")))
        if self.then:
            nodes = read_nodes(spec.source, self.then, (*spec.at, "then"))
            self._then = compile_nodes(GroupSpec("sequence", nodes), prefix=f"{spec.id}/")
        return self

    def steps(self) -> tuple[Primitive, ...]:
        return self._steps

    def disturbs(self) -> bool:
        return True

    def further(self) -> Sequence[tuple[Check, str]]:
        """The checks that follow the steps."""
        own = [(leaf.check, leaf.where) for leaf in leaves(self._then)] if self._then is not None else []
        return [*own, *(inner for below, _ in own for inner in below.further())]

    async def baseline(self, bench: Bench) -> dict[str, Any]:
        for step in self._steps:
            for ref in step.keeps():
                await bench.scene.keep(ref)
        return await take_baselines(self._then, bench) if self._then is not None else {}

    async def judge(self, bench: Bench, before: Any) -> Finding:
        try:
            return await self._judge(bench, before)
        finally:
            await take_back(self._steps, bench)

    async def _judge(self, bench: Bench, before: Any) -> Finding:
        begin = bench.scene.users.now()
        steps = asyncio.create_task(perform(self._steps, bench.scene, bench.tell))
        try:
            seen, whole = await self._watch(bench, begin, steps)
        finally:
            steps.cancel()
            (trouble,) = await asyncio.gather(steps, return_exceptions=True)
        measured = asdict(seen)
        if why := self._refuse(seen):
            # Users were hurt, whether or not all steps came to their end.
            pressed = "" if self._surely(seen) else self._pressed(bench, begin, seen)
            return Finding("unknown" if pressed else "fail", why, measured, unfair=pressed)
        if isinstance(trouble, NotLanded):
            pressed = self._pressed(bench, begin, seen)
            said = f"what was asked of it did not come about: {trouble.what}"
            return Finding("unknown" if pressed else "fail", said, measured, unfair=pressed)
        if isinstance(trouble, AftershockError) and not isinstance(trouble, ProblemError):
            return Finding("unknown", f"the challenge could not be put: {trouble.what}", measured)
        if isinstance(trouble, asyncio.CancelledError):
            return Finding("unknown", "the time for judging was over before the challenge was", measured)
        if trouble is not None:
            raise trouble
        if not whole:
            return Finding(
                "unknown", f"the time for judging was over while users were watched; {self._words(seen)}", measured
            )
        if self._then is not None:
            return await self._judge_then(bench, before or {}, measured)
        return Finding("pass", self._words(seen), measured)

    async def _judge_then(self, bench: Bench, before: dict[str, Any], measured: dict[str, Any]) -> Finding:
        assert self._then is not None
        outcome = await judge_node(self._then, bench, before)
        results = check_results(outcome)
        measured["then"] = [asdict(result) for result in results]
        bad = [result for result in results if result.result in ("fail", "unknown")]
        said = "; ".join(f"{result.id}: {result.said}" for result in bad or results)
        unsafe = any(result.unsafe and result.result == "fail" for result in results)
        unfair = next((r.unfair for r in bad if r.unfair), "")
        return Finding(outcome.result, said, measured, unfair=unfair, unsafe=unsafe)

    async def _watch(self, bench: Bench, begin: float, steps: asyncio.Task[None]) -> tuple[Stall, bool]:
        """Watch users until all is known of the time for it, or a limit is passed; False: neither came about.

        Under pressure a limit that is passed does not end it: there may yet be a gap that leaves no doubt.
        """
        users = bench.scene.users
        seen = Stall(0, 0, 0.0, 0, 0)
        done = 0.0  # when the last step had landed

        async def look() -> None:
            nonlocal seen, done
            users.check()
            now = users.now()
            done = done or (now if steps.done() else 0.0)
            end = (done or now) + self.users.watch
            seen = stall(users.requests(begin, min(now, end)), begin, end, patience=self.users.patience, now=now)
            if self._refuse(seen) and (self._surely(seen) or not self._pressed(bench, begin, seen)):
                return
            if steps.done() and steps.exception() is not None:
                return
            if not steps.done() or now < end or seen.open:
                raise NotYet("the watch goes on")

        seconds = sum(step.within for step in self._steps) + self.users.watch + self.users.patience + 5.0
        try:
            await until(look, what="users were watched", seconds=min(seconds, bench.remaining()), every=0.5)
        except DeadlinePassed:
            return seen, False
        return seen, True

    def _refuse(self, seen: Stall) -> str:
        if seen.gap > self.users.stall:
            return f"{self._words(seen)}; no more than {self.users.stall:g} s without a served request are allowed"
        if seen.bad_seconds > self.users.bad_seconds:
            return f"{self._words(seen)}; no more than {self.users.bad_seconds} such seconds are allowed"
        return ""

    def _surely(self, seen: Stall) -> bool:
        """Whether users were hurt more than a busy machine could hurt them."""
        return seen.gap > 2 * self.users.stall or seen.served_share < SURE

    @staticmethod
    def _pressed(bench: Bench, begin: float, seen: Stall) -> str:
        return bench.unfair(begin, bench.scene.users.now()) or held_up(seen)

    def _words(self, seen: Stall) -> str:
        return (
            f"longest stretch without a served request {seen.gap:.1f} s, "
            f"{seen.bad} of {seen.due} requests not served, in {seen.bad_seconds} seconds"
        )


async def take_back(steps: Sequence[Primitive], bench: Bench) -> None:
    """Undo what steps left behind, the last first, whatever came of them."""
    for step in reversed(steps):
        if isinstance(step, Move):
            try:
                await step.give_back(bench.scene)
            except AftershockError as error:
                bench.tell("give_back_failed", step=step.kind, where=step.where, error=error.what)
