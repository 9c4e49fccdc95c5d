"""Base of checks on a state, with the four times at which a state can be asked for.

    after        once it is so, within `within` seconds (the default)
    held         it becomes so within `within` seconds, and then is so at every look for `hold` seconds
    continuous   it is so from the beginning of judging to the end of the last challenge, with no break
                 longer than `grace` seconds
    before       it was so while all was well; a condition under which the problem may be judged at all

A moment's look is what most wrong fixes pass: a pod is ready between two crashes, a queue is short before
the next burst. Whoever writes a check says for how long by `hold`, which makes it *held*.
"""

import asyncio
import time
from abc import abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any, Literal

from pydantic import Field, model_validator

from aftershock.base.errors import AftershockError, DeadlinePassed, ProblemError
from aftershock.base.wait import NotYet, until
from aftershock.oracle.base import Abnormal, Bench, Check, Finding, Mode
from aftershock.problem.model import CheckSpec

__all__ = ["Timed", "ask_until", "hold_up", "watch"]

EVERY = 0.5
# Seconds in which nobody could look that say nothing about what is watched: one request that was lost.
BLIND = 5.0

Look = Callable[[], Awaitable[Finding]]


async def _asked(look: Look) -> Finding:
    try:
        return await look()
    except ProblemError:
        raise
    except AftershockError as error:
        return Finding("unknown", error.what)


async def ask_until(look: Look, bench: Bench, within: float) -> Finding:
    """Ask until it passes; the last finding when `within` seconds (or the whole time) are over.

    The seconds count from the first answer: checks share a session and may have to wait for it. An
    error of the cluster is "cannot tell", and is asked again like a failure. In haste it is asked once.
    """
    last = await _asked(look)
    if bench.hasty:
        return last

    async def probe() -> Finding:
        nonlocal last
        if last.result != "pass":
            last = await _asked(look)
        if last.result != "pass":
            raise NotYet(last.said)
        return last

    try:
        return await until(probe, what="the check passes", seconds=min(within, bench.remaining()), every=0.5)
    except DeadlinePassed:
        return last


async def hold_up(look: Look, bench: Bench, *, hold: float, within: float, every: float = EVERY) -> Finding:
    """Look until it was so without a break for `hold` seconds; a break begins anew while `within` seconds remain.

    Looks that could not tell neither break nor count: after them the time that was seen begins anew, and what
    was never seen for `hold` seconds on end for that reason alone is unknown. In haste it is looked at once,
    and what would have to be held cannot be told by that.
    """
    begin = time.monotonic()
    found = await _asked(look)
    if bench.hasty:
        return found if found.result != "pass" else Finding("unknown", f"{found.said}; at one look", found.measured)
    since, breaks, last_break = begin if found.result == "pass" else None, 0, found
    latest = begin + within
    while True:
        now = time.monotonic()
        if since is not None and now - since >= hold:
            measured = {**found.measured, "held": round(now - since, 1), "breaks": breaks}
            return Finding("pass", f"{found.said}, for {now - since:.0f} s", measured)
        if since is not None and bench.remaining() <= 0:
            said = f"the time for judging was over; {found.said}, for {now - since:.0f} of {hold:g} s"
            return Finding("unknown", said, {**found.measured, "breaks": breaks})
        if since is None and (now >= latest or bench.remaining() <= 0):
            said = f"{last_break.said}; not for {hold:g} s on end"
            return Finding(last_break.result, said, {**last_break.measured, "breaks": breaks})
        await asyncio.sleep(min(every, hold / 4 or every))
        found = await _asked(look)
        if found.result == "pass":
            since = since if since is not None else time.monotonic()
        else:
            breaks += since is not None
            since = None
            if found.result == "fail" or last_break.result != "fail":
                last_break = found


async def watch(look: Look, bench: Bench, *, grace: float, every: float = EVERY) -> Finding:
    """Look until all else has been judged (`bench.over`); a failure of more than `grace` seconds ends it.

    Where nobody could look for longer than that (and than `BLIND`), it is left open.
    """
    assert bench.over is not None
    begin = good = time.monotonic()
    blind, worst, looks = 0.0, 0.0, 0
    last = Finding("unknown", "it was never looked at")
    while True:
        over = bench.over.is_set()
        found = await _asked(look)
        now, looks = time.monotonic(), looks + 1
        if found.result == "pass":
            good = now
        elif found.result == "fail":
            worst = max(worst, now - good)
        else:
            blind = max(blind, now - good)
        last = found if found.result != "pass" else last
        shown = {**found.measured, "watched": round(now - begin, 1), "looks": looks, "longest_break": round(worst, 1)}
        if worst > grace or (over and found.result == "fail"):
            return Finding("fail", f"{last.said}, for {max(worst, now - good):.1f} s", shown)
        if over:
            if blind > max(grace, BLIND):
                return Finding("unknown", f"for {blind:.1f} s nobody could look: {last.said}", shown)
            if found.result != "pass":
                return Finding("unknown", found.said, shown)
            return Finding("pass", f"{found.said}, at each of {looks} looks in {now - begin:.0f} s", shown)
        try:
            async with asyncio.timeout(every):
                await bench.over.wait()
        except TimeoutError:
            continue


class Timed(Check):
    """A state that is looked at by `look`; see the module for `time`, `hold` and `grace`."""

    time: Literal["before", "after", "held", "continuous"] | None = None
    hold: float = Field(default=0.0, ge=0)
    grace: float = Field(default=0.0, ge=0)
    within: float = Field(default=10.0, gt=0)

    @model_validator(mode="after")
    def _times(self) -> "Timed":
        if self.hold and self.time not in (None, "held"):
            raise ValueError(f"`hold` does not go with `time: {self.time}`")
        if self.time == "held" and not self.hold:
            raise ValueError("`time: held` needs `hold`: for how many seconds?")
        if self.grace and self.time != "continuous":
            raise ValueError("`grace` goes with `time: continuous`")
        return self

    def prepare(self, spec: CheckSpec) -> "Timed":
        """An outcome is held: a moment's look is what most wrong fixes pass."""
        if spec.family == "outcome" and self.time_mode() in ("after", "before"):
            what = f"the outcome check `{spec.id}` looks at one moment"
            raise spec.source.error(what, spec.at, "add `hold:` with the seconds for which it must be so on end")
        return self

    def time_mode(self) -> Mode:
        return self.time or ("held" if self.hold else "after")

    @abstractmethod
    async def look(self, bench: Bench, before: Any) -> Finding:
        """Look once. Errors of the cluster that are raised become `unknown`."""

    async def first(self, bench: Bench) -> Any:
        """What is so while all is well, for `look`.

        Raises:
            Abnormal: it is not well.
            ProblemError: it looks at nothing.
        """
        return None

    async def baseline(self, bench: Bench) -> Any:
        before = await self.first(bench)
        if self.time == "before":
            found = await ask_until(lambda: self.look(bench, before), bench, self.within)
            if found.result != "pass":
                raise Abnormal(f"a condition for judging does not hold: {found.said}")
            return found.said
        return before

    async def judge(self, bench: Bench, before: Any) -> Finding:
        mode = self.time_mode()
        if mode == "before":
            return Finding("pass", f"before anything was broken: {before}")

        async def look() -> Finding:
            return await self.look(bench, before)

        if mode == "held":
            return await hold_up(look, bench, hold=self.hold, within=self.within)
        if mode == "continuous":
            return await watch(look, bench, grace=self.grace)
        return await ask_until(look, bench, self.within)
