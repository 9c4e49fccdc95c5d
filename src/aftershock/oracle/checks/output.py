"""What containers print: in their logs, or when a program is run in them."""

import asyncio
import re
from typing import Any

from pydantic import Field, field_validator, model_validator

from aftershock.base.errors import AftershockError, ProblemError
from aftershock.cluster.api import Object
from aftershock.fault.fields import Expect
from aftershock.oracle.base import Abnormal, Bench, Finding, check
from aftershock.oracle.checks.objects import Count, how_many
from aftershock.oracle.checks.timed import Timed


def running(pods: list[Object]) -> list[str]:
    """Names of the pods that run, in order."""
    return sorted(
        str(pod["metadata"]["name"])
        for pod in pods
        if pod.get("status", {}).get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp")
    )


class OfPods(Timed):
    """Base of checks that ask every pod of a selector; `count` says of how many the answer must be right."""

    selector: str = Field(pattern="=")
    container: str = ""
    namespace: str | None = None
    count: Count = Count(all=True)

    @model_validator(mode="after")
    def _some(self) -> "OfPods":
        if not self.count.all and not self.count.at_least and not self.count.equals:
            raise ValueError("`count` would pass with no pod at all: add `at_least` or `all`")
        return self

    def space(self, bench: Bench) -> str:
        return self.namespace or bench.scene.namespace

    async def one(self, bench: Bench, pod: str) -> tuple[str, Any]:
        """Why a pod's answer is not right (empty when it is), and what it was."""
        raise NotImplementedError

    async def first(self, bench: Bench) -> int:
        """How many pods answer while all is well."""
        pods = running(await bench.scene.api.list("Pod", self.space(bench), labels=self.selector))
        if not pods:
            raise ProblemError(
                f"no running pod matches {self.selector} before anything is broken",
                todo="correct the selector or namespace: a check over nothing must not pass",
            )
        return len(pods)

    async def look(self, bench: Bench, before: Any) -> Finding:
        pods = running(await bench.scene.api.list("Pod", self.space(bench), labels=self.selector))
        answers = await asyncio.gather(*(self.one(bench, pod) for pod in pods), return_exceptions=True)
        bad, untold, shown = [], [], {}
        for pod, answer in zip(pods, answers, strict=True):
            if isinstance(answer, AftershockError) and not isinstance(answer, ProblemError):
                untold.append(f"{pod}: {answer.what}")
            elif isinstance(answer, BaseException):
                raise answer
            else:
                shown[pod] = answer[1]
                bad += [f"{pod}: {answer[0]}"] if answer[0] else []
        good = len(pods) - len(bad) - len(untold)
        measured = {"pods": len(pods), "baseline": before, "answers": shown, **({} if pods else {"absent": True})}
        why = how_many(good, len(pods), self.count)
        if not why:
            return Finding("pass", f"{good} of {len(pods)} pods of {self.selector} answer as they should", measured)
        if untold and not how_many(good + len(untold), len(pods), self.count):
            return Finding("unknown", f"{why}; {'; '.join(untold)}", measured)
        return Finding("fail", f"{self.selector}: {why}" + (f" ({'; '.join(bad[:3])})" if bad else ""), measured)


@check("log_lines")
class LogLines(OfPods):
    """So many lines of each pod's log match, of the last `fresh` seconds: at least, or at most (0: none).

    Every pod of the selector is read; of a pod whose log cannot be read nothing is known. Silence is an answer only
    of what is alive, so with `at_most` alone `alive` is a pattern that some line must match.
    """

    pattern: str = Field(min_length=1)
    at_least: int | None = Field(default=None, ge=1)
    at_most: int | None = Field(default=None, ge=0)
    alive: str = ""
    fresh: int = Field(default=30, gt=0)

    @field_validator("pattern", "alive")
    @classmethod
    def _compiles(cls, pattern: str) -> str:
        re.compile(pattern)
        return pattern

    @model_validator(mode="after")
    def _expected(self) -> "LogLines":
        if self.at_least is None and self.at_most is None:
            raise ValueError("say how many lines: `at_least` or `at_most`")
        if self.at_least is None and not self.alive:
            raise ValueError(
                "a log without such lines may be that of a dead program: `alive` is a line of a living one"
            )
        return self

    async def one(self, bench: Bench, pod: str) -> tuple[str, Any]:
        text = await bench.scene.api.logs(self.space(bench), pod, container=self.container, since=self.fresh)
        lines = text.splitlines()
        matching = [line for line in lines if re.search(self.pattern, line)]
        shown = {"lines": len(matching), "last": matching[-1][:200] if matching else None}
        said = f"{len(matching)} lines match `{self.pattern}` in {self.fresh} s"
        if self.alive and not any(re.search(self.alive, line) for line in lines):
            return f"no line matches `{self.alive}`: nothing says that it is alive", shown
        few = self.at_least is not None and len(matching) < self.at_least
        many = self.at_most is not None and len(matching) > self.at_most
        return (said if few or many else ""), shown


@check("command")
class Command(OfPods):
    """A program run in each pod prints what is expected: a store's own client, for what has no check of its own.

    It must end with 0. What it prints is compared by `equals`, `at_least`, `at_most` (as a number), or `matches`.
    What cannot be run (no such program, no answer in `seconds`) tells nothing.
    """

    run: list[str] = Field(min_length=1)
    equals: str | int | float | None = None
    at_least: float | None = None
    at_most: float | None = None
    matches: str = ""
    seconds: float = Field(default=8.0, gt=0, le=60)

    @model_validator(mode="after")
    def _said(self) -> "Command":
        re.compile(self.matches)
        values = self.equals is not None or self.at_least is not None or self.at_most is not None
        if values == bool(self.matches):
            raise ValueError("say what it must print: `equals`, `at_least`, `at_most`, or `matches`")
        if values:
            Expect(equals=self.equals, at_least=self.at_least, at_most=self.at_most)
        return self

    async def one(self, bench: Bench, pod: str) -> tuple[str, Any]:
        done = await bench.scene.api.exec(
            self.space(bench), pod, self.run, container=self.container, timeout=self.seconds
        )
        if not done.ok:
            raise AftershockError(f"`{self.run[0]}` ended with {done.code}: {done.tail(150)}")
        said = done.out.strip()
        if self.matches:
            return ("" if re.search(self.matches, said) else f"it prints {said[:100]!r}"), said[:300]
        expected = Expect(equals=self.equals, at_least=self.at_least, at_most=self.at_most)
        return expected.refuse(said or None), said[:300]

    async def baseline(self, bench: Bench) -> Any:
        before = await super().baseline(bench)
        found = await self.look(bench, before)
        if found.result == "unknown":
            raise Abnormal(f"it cannot be run before anything is broken: {found.said}")
        return before
