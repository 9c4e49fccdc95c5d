"""Steps made of steps: side by side, one after another, over and over, later.

A fault may lie latent until something sets it off: a time, so and so many requests of the users, or whatever
`wait` can wait for. `later` waits for that beside the trial, so that the page may come long before or after.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field, PrivateAttr, model_validator

from aftershock.base.errors import DeadlinePassed
from aftershock.base.wait import NotYet, until
from aftershock.fault.base import NotLanded, Primitive, compile_steps, perform, primitive
from aftershock.fault.scene import Scene
from aftershock.problem.model import StepSpec
from aftershock.problem.schema import read_steps


class Nest(Primitive):
    """Base of what holds steps."""

    steps: list[Any] = Field(min_length=1)
    _steps: tuple[Primitive, ...] = PrivateAttr(())

    def bind(self, spec: StepSpec) -> None:
        self._steps = compile_steps(read_steps(spec.source, self.steps, (*spec.at, "steps")))

    def nested(self) -> Sequence[Primitive]:
        return self._steps

    def keeps(self) -> Sequence[str]:
        return tuple(ref for step in self._steps for ref in step.keeps())

    async def landed(self, scene: Scene, done: Mapping[str, Any]) -> None:
        """Each step inside has landed, or `run` had not come to its end."""


@primitive("sequence")
class InOrder(Nest):
    """One step after another, each landed before the next: for use inside of `parallel` or `repeat`."""

    async def run(self, scene: Scene) -> dict[str, Any]:
        await perform(self._steps, scene, scene.tell)
        return {"steps": len(self._steps)}


@primitive("parallel")
class Parallel(Nest):
    """All steps at once; the first that does not land ends the others."""

    async def run(self, scene: Scene) -> dict[str, Any]:
        tasks = [asyncio.create_task(perform((step,), scene, scene.tell)) for step in self._steps]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return {"steps": len(self._steps)}


@primitive("delay")
class Delay(Primitive):
    """Let time pass: for what needs its time to come about, where there is nothing that could be waited for."""

    seconds: float = Field(gt=0, le=3600)

    async def run(self, scene: Scene) -> dict[str, Any]:
        await asyncio.sleep(self.seconds)
        return {"waited": self.seconds}

    async def landed(self, scene: Scene, done: Mapping[str, Any]) -> None:
        """Time has passed by then."""


@primitive("repeat")
class Repeat(Nest):
    """The steps over and over, `every` so many seconds: here until all `times` are done, or `beside` the trial."""

    times: int = Field(ge=1, le=100_000)
    every: float = Field(default=1.0, ge=0, le=3600)
    beside: bool = False

    async def run(self, scene: Scene) -> dict[str, Any]:
        if not self.beside:
            await self._rounds(scene)
            return {"times": self.times}
        return {"times": self.times, "running": scene.start(f"{self.kind} at {self.where}", self._rounds(scene))}

    async def _rounds(self, scene: Scene) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        for number in range(self.times):
            await perform(self._steps, scene, scene.tell if number == 0 else _unheard)
            due += self.every
            await asyncio.sleep(max(0.0, due - loop.time()))

    async def undo(self, scene: Scene, done: Mapping[str, Any]) -> None:
        if "running" in done:
            await scene.stop(done["running"])


def _unheard(kind: str, **data: Any) -> None:
    """The first round is told, the others are like it."""


@primitive("later")
class Later(Nest):
    """A latent fault's trigger: the steps, once `after` seconds have passed, the users have made so many
    `requests` since now, or what `wait` waits for has come. It runs beside the trial.

    `at_most`: seconds after which it is given up, which makes the problem invalid.
    """

    after: float | None = Field(default=None, gt=0, le=7200)
    requests: int | None = Field(default=None, ge=1)
    wait: dict[str, Any] | None = None
    at_most: float = Field(default=3600.0, gt=0, le=7200)
    _wait: tuple[Primitive, ...] = PrivateAttr(())

    @model_validator(mode="after")
    def _one(self) -> "Later":
        if sum(given is not None for given in (self.after, self.requests, self.wait)) != 1:
            raise ValueError("give one of `after`, `requests` and `wait`")
        return self

    def bind(self, spec: StepSpec) -> None:
        super().bind(spec)
        if self.wait is not None:
            self._wait = compile_steps([StepSpec("wait", self.wait, spec.source, (*spec.at, "wait"))])

    def nested(self) -> Sequence[Primitive]:
        return (*self._wait, *self._steps)

    async def run(self, scene: Scene) -> dict[str, Any]:
        return {"running": scene.start(f"{self.kind} at {self.where}", self._follow(scene))}

    async def _follow(self, scene: Scene) -> None:
        begin = scene.users.now() if self.requests else 0.0

        async def probe() -> None:
            if self.requests:
                have = len(scene.users.requests(begin, scene.users.now()))
                if have < self.requests:
                    raise NotYet(f"{have} requests of {self.requests}")
            for step in self._wait:
                await step.landed(scene, {})

        if self.after is not None:
            await asyncio.sleep(self.after)
        try:
            await until(probe, what="a latent fault is set off", seconds=self.at_most, every=0.5)
        except DeadlinePassed as late:
            raise NotLanded(late.what, where=self.where, todo="see what it waits for") from late
        scene.tell("set_off", where=self.where)
        await perform(self._steps, scene, scene.tell)

    async def undo(self, scene: Scene, done: Mapping[str, Any]) -> None:
        await scene.stop(done["running"])
