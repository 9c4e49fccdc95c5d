"""Starting and stopping the users of a trial, and asking what they have been through."""

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from aftershock.base.errors import ClusterError
from aftershock.base.wait import NotYet, until
from aftershock.cluster.base import World
from aftershock.workload.child import Child
from aftershock.workload.ledger import ORDER, Ledger
from aftershock.workload.served import Request, RequestLog, Second, Window

__all__ = ["Users"]


class Users:
    """Users of a cluster's front door, from entering this context until leaving it.

    Args:
        world: where they live; None for this machine's own network (no source addresses then).
        front: URL of the front door; the world's when empty.
        host: the shop's name.
        out: folder for the request log and the ledger.
        journey, journeys: what they do: one of the journeys of a stack's module.
        components: what that stack consists of; users leave alone what it has not.
    """

    def __init__(
        self,
        world: World | None,
        *,
        out: Path,
        host: str,
        front: str = "",
        rate: float = 20.0,
        seed: int = 1,
        journey: str,
        journeys: Path,
        components: Sequence[str] = (),
    ) -> None:
        if not front and world is None:
            raise ClusterError("without a world outside, the users need the address of the front door")
        self._world = world
        self._out = out
        program = [sys.executable, "-m", "aftershock.workload.users", "--die-with-parent"]
        program += ["--front", front or f"http://{world.front if world else ''}", "--host", host]
        program += ["--sources", world.users if world else ""]
        program += ["--rate", f"{rate:g}", "--seed", str(seed), "--out", str(out)]
        program += ["--journeys", str(journeys), "--journey", journey, "--components", ",".join(components)]
        self._child = Child("the users' program", world.argv(program) if world else program, out / "users.log")
        self.log = RequestLog(out / "requests.jsonl")
        self.ledger = Ledger(out / "ledger.jsonl")

    async def __aenter__(self) -> Self:
        await self._child.start()
        try:
            await until(self._begun, what="the users have started", seconds=20, where=str(self._out))
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def _begun(self) -> None:
        self.check()
        if not self.log.started:
            raise NotYet("the request log is empty")

    def check(self) -> None:
        """Raise ClusterError when the users' program has ended by itself: figures after that mean nothing."""
        self._child.check()

    async def stop(self) -> None:
        """End the users; also when they do not listen. Their files stay."""
        await self._child.stop()

    def now(self) -> float:
        """The time on the users' clock: seconds since the epoch, as of their start, that never jumps."""
        return float(self.log.head.get("clock", time.time() - time.monotonic())) + time.monotonic()

    @property
    def begin(self) -> float:
        """When the first request was due."""
        return self.log.begin

    @property
    def rate(self) -> float:
        """Requests due per second."""
        return self.log.rate

    def requests(self, since: float, until: float) -> Sequence[Request]:
        """Requests due in [since, until), in order; those without an answer have no end."""
        return self.log.requests(since, until)

    def window(self, since: float, until: float) -> Window:
        return self.log.window(since, until)

    def series(self, since: float, until: float) -> Sequence[Second]:
        return self.log.series(since, until)

    def promises(self) -> Mapping[str, Mapping[str, Any]]:
        """id -> fields of every order that was acknowledged, now."""
        return {id: promise.fields for id, promise in self.ledger.promises().items() if promise.kind == ORDER}
