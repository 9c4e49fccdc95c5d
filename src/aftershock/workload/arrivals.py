"""When requests are due: open-loop, known for every number without any record.

Steady: request n at `begin + n / rate`. Spread: anywhere within its slot of `1 / rate` seconds, drawn
from a seed, so that arrivals fall into no step with the system's own periods and are the same again in
the next run. Both make the count of requests due in a window known beforehand, to one or two.
"""

import ctypes
import math
import os
from asyncio import Future, get_running_loop
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Alarm", "Schedule", "due_numbers"]

MASK = (1 << 64) - 1
CLOCK_MONOTONIC = 1
ABSOLUTE = 1


def drawn(seed: int, n: int) -> float:
    """A number in [0, 1) that looks drawn by chance, the same each time (Steele, Lea, Flood: SplitMix64)."""
    z = (seed * 0x9E3779B97F4A7C15 + (n + 1) * 0xD1B54A32D192ED03) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return float((z ^ (z >> 31)) >> 11) / float(1 << 53)


def due_numbers(begin: float, rate: float, since: float, until: float) -> range:
    """The numbers of the requests due in [since, until).

    >>> due_numbers(100.0, 20.0, 100.0, 101.0)
    range(0, 20)
    >>> due_numbers(100.0, 20.0, 99.0, 100.01)
    range(0, 1)
    """
    first = max(0, math.ceil((since - begin) * rate - 1e-6))
    return range(first, max(first, math.ceil((until - begin) * rate - 1e-6)))


@dataclass(frozen=True)
class Schedule:
    """Times are seconds since the epoch, `rate` requests per second. Steady without a seed.

    >>> Schedule(100.0, 20.0).due(10)
    100.5
    >>> list(Schedule(100.0, 20.0).numbers(100.0, 100.2))
    [0, 1, 2, 3]
    >>> 100.5 <= Schedule(100.0, 20.0, seed=7).due(10) < 100.55
    True
    """

    begin: float
    rate: float
    seed: int | None = None

    def due(self, n: int) -> float:
        return self.begin + (n + (0.0 if self.seed is None else drawn(self.seed, n))) / self.rate

    def numbers(self, since: float, until: float) -> Iterator[int]:
        """The numbers of the requests due in [since, until), in order."""
        numbers = due_numbers(self.begin, self.rate, since, until)
        if self.seed is None:
            yield from numbers
        else:
            around = range(max(0, numbers.start - 1), numbers.stop)
            yield from (n for n in around if since <= self.due(n) < until)


class _Spec(ctypes.Structure):
    _fields_ = (
        ("every_s", ctypes.c_long),
        ("every_ns", ctypes.c_long),
        ("at_s", ctypes.c_long),
        ("at_ns", ctypes.c_long),
    )


class Alarm:
    """Waking up on time: the kernel's own timer, since the event loop's rounds up to the next millisecond."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._timer: int = self._libc.timerfd_create(CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self._timer < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        self._waiting: Future[None] | None = None
        get_running_loop().add_reader(self._timer, self._rung)

    def _rung(self) -> None:
        os.read(self._timer, 8)
        self.wake()

    def wake(self) -> None:
        """Let `until` return now."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def until(self, monotonic: float) -> None:
        """Wait until that time on the monotonic clock, or until `wake`."""
        self._waiting = get_running_loop().create_future()
        seconds = int(monotonic)
        spec = _Spec(0, 0, seconds, max(1, int((monotonic - seconds) * 1e9)))
        if self._libc.timerfd_settime(self._timer, ABSOLUTE, ctypes.byref(spec), None):
            raise OSError(ctypes.get_errno(), "timerfd_settime")
        try:
            await self._waiting
        finally:
            self._waiting = None

    def close(self) -> None:
        get_running_loop().remove_reader(self._timer)
        os.close(self._timer)
