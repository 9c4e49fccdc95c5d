"""Whether the machine left the cluster alone: pressure, memory and steal, sampled once a second.

A verdict must not hang on what else the machine was doing. The kernel's pressure stall information
(`/proc/pressure`) tells how much of the time some or all tasks waited for CPU, memory or disk; the
first line of `/proc/stat` tells how much of it a hypervisor kept for itself. Only heights that a small
cluster does not reach count, and only for more than a third of a window. CPU waits are judged most
mildly: four busy trials on two cores wait for CPU nearly always, and still answer in milliseconds.

The incident, and whoever answers it, make pressure of their own, and nobody may escape a verdict by
keeping the machine busy. So waiting for CPU is outside pressure only where *others* had a good part of
it (`OTHERS`): the cluster's own control group tells what it used itself. Where it cannot be read,
only a height counts that one cluster does not reach by itself.

What was sampled is kept in the record, and `Recorded` reads it back: how a limit judges real trials can
be seen without running one.
"""

import asyncio
import contextlib
import json
import os
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol, Self

__all__ = ["Fairness", "Pressure", "Recorded", "Sample", "parse_pressure", "parse_stat", "read_samples", "unfair"]


@dataclass(frozen=True)
class Sample:
    """Shares of one second, 0 to 1; None where the kernel does not tell.

    `others`: of all CPUs' time, what ran outside the cluster's own control group.
    """

    t: float
    cpu_some: float | None
    memory_full: float | None
    io_full: float | None
    steal: float | None
    others: float | None = None


# From these heights on a second counts against the machine. Waiting for CPU has two: where it is not known who
# had the CPU, a height that one cluster does not reach by itself; where others are known to have had it, the one that
# tells when a healthy shop is slower than is asked for. Of 29 trials before their fault, beside up to seven other
# programs on two cores, five served 68 to 93 % of the requests within 250 ms: all of these had more than a third of
# their seconds above 0.8, and two only above 0.98. The quiet ones had none.
LIMITS = {"cpu_some": 0.95, "memory_full": 0.2, "io_full": 0.5, "steal": 0.2}
CPU_OF_OTHERS = 0.8
SHARE_OF_WINDOW = 1 / 3
# Of all CPUs: with less than this used by others, the cluster waits for itself.
OTHERS = 0.2


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


def parse_busy(text: str) -> int:
    """Ticks in which some program ran, of all CPUs: neither idle, nor waiting for a disk, nor stolen.

    >>> parse_busy("cpu  10 0 10 70 5 0 0 5 0 0")
    20
    """
    user, nice, system, _idle, _iowait, irq, softirq = (int(word) for word in text.splitlines()[0].split()[1:8])
    return user + nice + system + irq + softirq


def unfair(samples: list[Sample]) -> str:
    """Why a stretch was unfair; empty when it was fair. A stretch without samples is fair: nothing was seen.

    >>> unfair([])
    ''
    """
    for name, limit in LIMITS.items():
        known = [(value, sample) for sample in samples if (value := getattr(sample, name)) is not None]
        above = sum(value >= (_cpu_limit(sample) if name == "cpu_some" else limit) for value, sample in known)
        if known and above > SHARE_OF_WINDOW * len(known):
            words = {"cpu_some": "tasks waited for CPU", "memory_full": "everything waited for memory"}
            words |= {"io_full": "everything waited for disk", "steal": "the hypervisor kept the CPU"}
            return f"{words[name]} in {above} of {len(known)} seconds"
    return ""


def _cpu_limit(sample: Sample) -> float:
    """The height of waiting for CPU that counts; none does where the cluster itself had what CPU was used."""
    if sample.others is None:
        return LIMITS["cpu_some"]
    return CPU_OF_OTHERS if sample.others >= OTHERS else float("inf")


class Fairness(Protocol):
    """What tells whether a stretch of time was fair: `Pressure` as it happens, `Recorded` afterwards."""

    def unfair(self, since: float, until: float) -> str: ...


def read_samples(path: Path) -> list[Sample]:
    """The samples of a trial's `pressure.jsonl`; a line that was cut off at the end is left out."""
    found = []
    for line in path.read_text().splitlines():
        with contextlib.suppress(ValueError, TypeError):
            found.append(Sample(**json.loads(line)))
    return found


@dataclass(frozen=True)
class Recorded:
    """A series that was sampled before."""

    samples: tuple[Sample, ...]

    @classmethod
    def read(cls, path: Path) -> "Recorded":
        return cls(tuple(read_samples(path)))

    def unfair(self, since: float, until: float) -> str:
        return unfair([sample for sample in self.samples if since <= sample.t <= until])


class Pressure:
    """Samples in the background while open, into a JSON Lines file of the record and into memory."""

    def __init__(self, path: Path, root: Path = Path("/proc"), own: Sequence[Path] = ()) -> None:
        """
        Args:
            own: the cluster's control group, in each hierarchy.
        """
        self._path = path
        self._root = root
        self._own = own
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
        totals["busy"] = parse_busy(stat) if stat else None
        totals["own"] = self._used()
        return totals

    def _used(self) -> int | None:
        """Microseconds of CPU that the cluster has used so far."""
        for group in self._own:
            for name, word in (("cpu.stat", "usage_usec "), ("cpuacct.usage", "")):
                with contextlib.suppress(OSError, ValueError):
                    text = (group / name).read_text()
                    line = next((row for row in text.splitlines() if row.startswith(word)), None)
                    if line is not None:
                        return int(line.removeprefix(word)) // (1 if word else 1000)
        return None

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
    others = None
    if None not in (before["own"], after["own"], before["busy"], after["busy"]) and steal is not None:
        ticks = (after["ticks"] or 0) - (before["ticks"] or 0)
        busy = ((after["busy"] or 0) - (before["busy"] or 0)) / ticks
        own = ((after["own"] or 0) - (before["own"] or 0)) / 1e6 * os.sysconf("SC_CLK_TCK") / ticks
        others = round(max(busy - own, 0.0), 3)
    return Sample(round(time.time(), 3), share("cpu_some"), share("memory_full"), share("io_full"), steal, others)
