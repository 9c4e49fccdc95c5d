"""The one way to wait: ask until it is so, with a deadline and a reason.

A probe returns its value when the condition holds and raises `NotYet("why")` while it does not.
The reason of the last refusal is what the reader sees when the deadline passes. Deadlines use the
monotonic clock, so a jump of the wall clock neither ends nor prolongs a wait.

All deadlines suit a machine of this decade. Where everything is slower by some factor, as under an
emulated processor, `$AFTERSHOCK_PATIENCE` is that factor: it lengthens these deadlines and the time-outs of
programs and requests, and nothing else.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import TypeVar

from aftershock.base.errors import DeadlinePassed

T = TypeVar("T")

__all__ = ["NotYet", "patience", "until"]


class NotYet(Exception):
    """Raised by a probe while its condition does not hold; the text says why."""


def patience() -> float:
    """The factor on all deadlines: `$AFTERSHOCK_PATIENCE`, else 1."""
    return float(os.environ.get("AFTERSHOCK_PATIENCE") or 1)


async def until(
    probe: Callable[[], Awaitable[T]],
    *,
    what: str,
    seconds: float,
    every: float = 0.05,
    where: str = "",
    todo: str = "",
) -> T:
    """Return the probe's first value.

    Args:
        probe: raises `NotYet` while the condition does not hold; other errors go up at once.
        what: the condition, for the error ("node-1 is ready").
        seconds: the deadline, before patience. Also ends a probe that hangs.
        every: pause between two questions in seconds.

    Raises:
        DeadlinePassed: with the last reason.
    """
    last = "it was never answered"
    seconds *= patience()
    try:
        async with asyncio.timeout(seconds):
            while True:
                try:
                    return await probe()
                except NotYet as why:
                    last = str(why)
                await asyncio.sleep(every)
    except TimeoutError:
        raise DeadlinePassed(f"not within {seconds:g} s: {what} (last: {last})", where=where, todo=todo) from None
