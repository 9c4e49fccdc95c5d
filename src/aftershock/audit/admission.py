"""How many boxes at once: as many as cores and memory allow, and one that starts at a time.

A trial on a starved machine ends as `infra_error` and has to be run again, so admitting too many costs more than
it gains. A box is at its hungriest while it starts: the next is let in when the one before serves its users, there
is memory for another, and a slot is free. A trial that the machine got in the way of twice is given all of it.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable

from aftershock.base.wait import NotYet, until
from aftershock.cluster.host import memory_available

__all__ = ["MEMORY_OF_A_TRIAL", "Admission", "Ticket", "slots"]

# The design's limit of one trial, and what is left to everything else on the machine.
MEMORY_OF_A_TRIAL = 2 << 30
MARGIN = 1 << 30
BOXES_A_CORE = 2
# Seconds for which memory is waited for before a trial is let in all the same and may fail by itself.
PATIENCE = 600.0


def slots(cores: int, memory: int, others: int = 0) -> int:
    """Boxes at once on a machine with so many cores and bytes of free memory, where others run already.

    >>> slots(2, 24 << 30), slots(16, 9 << 30), slots(1, 1 << 30), slots(2, 24 << 30, others=7)
    (4, 4, 1, 1)
    """
    return max(1, min(cores * BOXES_A_CORE - others, (memory - MARGIN) // MEMORY_OF_A_TRIAL))


class Ticket:
    """What a trial that was let in holds. `started` lets the next one start."""

    def __init__(self, gate: asyncio.Lock) -> None:
        self._gate: asyncio.Lock | None = gate

    def started(self) -> None:
        if self._gate is not None:
            self._gate.release()
            self._gate = None


class Admission:
    """Lets trials in.

    Args:
        jobs: boxes at once.
        available: bytes of memory that are left.
    """

    def __init__(self, jobs: int, available: Callable[[], int] = memory_available) -> None:
        self.jobs = jobs
        self._available = available
        self._slots = asyncio.Semaphore(jobs)
        self._gate = asyncio.Lock()
        self._whole = asyncio.Lock()
        self.running = 0

    @contextlib.asynccontextmanager
    async def enter(self, *, alone: bool = False) -> AsyncIterator[Ticket]:
        """A slot; with `alone` all of them."""
        wanted = self.jobs if alone else 1
        taken = 0
        try:
            async with self._whole if alone else contextlib.nullcontext():
                for _ in range(wanted):
                    await self._slots.acquire()
                    taken += 1
            await self._gate.acquire()
            ticket = Ticket(self._gate)
            try:
                await self._memory()
                self.running += 1
                try:
                    yield ticket
                finally:
                    self.running -= 1
            finally:
                ticket.started()
        finally:
            for _ in range(taken):
                self._slots.release()

    async def _memory(self) -> None:
        async def enough() -> None:
            if self.running and self._available() < MEMORY_OF_A_TRIAL + MARGIN:
                raise NotYet(f"{self._available() >> 20} MiB are left")

        with contextlib.suppress(TimeoutError):
            await until(enough, what="there is memory for another box", seconds=PATIENCE, every=0.5)


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))
