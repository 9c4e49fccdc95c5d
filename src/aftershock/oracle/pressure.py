"""Whether the machine left the cluster alone: pressure, memory and steal, sampled once a second.

A verdict must not hang on what else the machine was doing. The kernel's pressure stall information
(`/proc/pressure`) tells how much of the time some or all tasks waited for CPU, memory or disk; the
first line of `/proc/stat` tells how much of it a hypervisor kept for itself. The incident makes
pressure of its own, so only heights that a small cluster does not reach count as outside pressure,
and only for at least a third of a window. CPU waits are judged most mildly: four busy trials on two
cores wait for CPU nearly always, and still answer in milliseconds.
"""

import asyncio
import contextlib
import json
import time
from collections import deque
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

__all__ = ["Pressure", "Sample", "parse_pressure", "parse_stat", "unfair"]


@dataclass(frozen=True)
class Sample:
    """Shares of one second, 0 to 1; None where the kernel does not tell."""

    t: float
    cpu_some: float | None
    memory_full: float | None
    io_full: float | None
    steal: float | None


# From these heights on a second counts against the machine.
LIMITS = {"cpu_some": 0.98, "memory_full": 0.2, "io_full": 0.5, "steal": 0.2}
SHARE_OF_WINDOW = 1 / 3


def parse_pressure(text: str, line: str) -> int | None:
    """Microseconds of stall so far, of the line `some` or `full`.

    >>> parse_pressure("some avg10=1.00 avg60=0.50 avg300=0.10 total=1234", "some")
    1234
    """
    for row in text.splitlines():
        if row.startswith(line + " "):
            return int(row.rsplit("total=", 1)[1])
    return None


def parse_stat(text: str) -> tuple[int, int]:
    """Ticks of all CPUs and those stolen, from /proc/stat.

    >>> parse_stat("cpu  10 0 10 70 5 0 0 5 0 0")
    (100, 5)
    """
    ticks = [int(word) for word in text.splitlines()[0].split()[1:9]]
    return sum(ticks), ticks[7]


def unfair(samples: list[Sample]) -> str:
    """Why a stretch was unfair; empty when it was fair. A stretch without samples is fair: nothing was seen.

    >>> unfair([])
    ''
    """
    for name, limit in LIMITS.items():
        known = [value for sample in samples if (value := getattr(sample, name)) is not None]
        above = sum(value >= limit for value in known)
        if known and above > SHARE_OF_WINDOW * len(known):
            words = {"cpu_some": "tasks waited for CPU", "memory_full": "everything waited for memory"}
            words |= {"io_full": "everything waited for disk", "steal": "the hypervisor kept the CPU"}
            return f"{words[name]} in {above} of {len(known)} seconds"
    return ""


class Pressure:
    """Samples in the background while open, into a JSON Lines file of the record and into memory."""

    def __init__(self, path: Path, root: Path = Path("/proc")) -> None:
        self._path = path
        self._root = root
        self._samples: deque[Sample] = deque(maxlen=7200)
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._sample())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def between(self, since: float, until: float) -> list[Sample]:
        return [sample for sample in self._samples if since <= sample.t <= until]

    def unfair(self, since: float, until: float) -> str:
        """Why the time between two moments (seconds since the epoch) was unfair, or an empty string."""
        return unfair(self.between(since, until))

    def _read(self, name: str) -> str | None:
        try:
            return (self._root / name).read_text()
        except OSError:
            return None

    def _totals(self) -> dict[str, int | None]:
        totals: dict[str, int | None] = {}
        for name in ("cpu_some", "memory_full", "io_full"):
            file, line = name.split("_")
            text = self._read(f"pressure/{file}")
            totals[name] = parse_pressure(text, line) if text else None
        stat = self._read("stat")
        totals["ticks"], totals["stolen"] = parse_stat(stat) if stat else (None, None)
        return totals

    async def _sample(self) -> None:
        with self._path.open("a", buffering=1) as file:
            before, at = self._totals(), time.monotonic()
            while True:
                await asyncio.sleep(1.0)
                after, now = self._totals(), time.monotonic()
                sample = _difference(before, after, now - at)
                before, at = after, now
                self._samples.append(sample)
                file.write(json.dumps(asdict(sample)) + "\n")


def _difference(before: dict[str, int | None], after: dict[str, int | None], seconds: float) -> Sample:
    def share(name: str) -> float | None:
        old, new = before[name], after[name]
        return None if old is None or new is None else round(min((new - old) / 1e6 / seconds, 1.0), 3)

    steal = None
    if before["ticks"] is not None and after["ticks"] is not None and after["ticks"] > before["ticks"]:
        steal = round(((after["stolen"] or 0) - (before["stolen"] or 0)) / (after["ticks"] - before["ticks"]), 3)
    return Sample(round(time.time(), 3), share("cpu_some"), share("memory_full"), share("io_full"), steal)
