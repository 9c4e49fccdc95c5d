"""Starting the external parties of a stack, telling them how to behave, reading their ledgers.

They run on this machine, in the network of the world outside a box, at the addresses by which its
services know them. They are counted to the box and end with it, whatever becomes of the command that
started them; a trial's end with the trial as well.
"""

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from aftershock.base.errors import ClusterError, MissingCapability, UsageError
from aftershock.base.record import read_lines
from aftershock.base.wait import NotYet, until
from aftershock.cluster.base import Cluster, World
from aftershock.workload.child import Child

__all__ = ["ADDRESSES", "Outside", "Parties", "world_of"]

ADDRESSES = {"payments": "203.0.113.10", "mail": "203.0.113.11", "hooks": "203.0.113.12", "pager": "203.0.113.13"}


class Parties:
    """Parties that were started with their ledgers in a folder, for whoever talks to them."""

    def __init__(self, out: Path, names: Sequence[str]) -> None:
        self.out = out
        self.names = tuple(names)

    async def tell(self, party: str, **how: Any) -> dict[str, Any]:
        """Have a party behave: mood, delay (seconds), share, count, keys. Without anything, well again.

        Raises:
            UsageError: there is no such party or mood.
            ClusterError: the parties do not run.
        """
        return await self._ask({"party": party, "tell": how})

    async def _ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        try:
            async with asyncio.timeout(5):
                reader, writer = await asyncio.open_unix_connection(self.out / "control")
                writer.write(json.dumps(question).encode() + b"\n")
                answer: dict[str, Any] = json.loads(await reader.readline())
                writer.close()
                await writer.wait_closed()
        except (OSError, ValueError, TimeoutError) as error:
            raise ClusterError(f"the parties do not answer: {error}", where=str(self.out / "control")) from error
        if "error" in answer:
            raise UsageError(answer["error"], where=f"parties: {', '.join(self.names)}")
        return answer

    def ledger(self, party: str) -> list[dict[str, Any]]:
        """All lines of a party's ledger, in order."""
        return list(read_lines(self.out / f"{party}.jsonl"))


class Outside(Parties):
    """Parties from entering this context until leaving it.

    Args:
        world: where they live; None for this machine's own network, with addresses of `listen`.
        kept: they go on after the context and after this program, until the box ends.
        listen: addresses other than those that the box's services know.
    """

    def __init__(
        self,
        world: World | None,
        names: Sequence[str],
        out: Path,
        *,
        kept: bool = False,
        listen: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(out, names)
        unknown = [name for name in names if name not in ADDRESSES]
        if unknown:
            raise UsageError(f"there is no party `{unknown[0]}`", todo=f"known: {', '.join(ADDRESSES)}")
        self._kept = kept
        program = [sys.executable, "-m", "aftershock.workload.parties", "--out", str(out)]
        program += [f"--listen={name}={(listen or ADDRESSES)[name]}" for name in names]
        if not kept:
            program.append("--die-with-parent")
        argv = world.argv_kept(program) if world else program
        self._child = Child("the external parties' program", argv, out / "parties.log")

    async def __aenter__(self) -> Self:
        self.out.mkdir(parents=True, exist_ok=True)
        (self.out / "control").unlink(missing_ok=True)
        await self._child.start()
        try:
            await until(self._listening, what="the external parties listen", seconds=20, where=str(self.out))
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._kept or error is not None:
            await self.stop()

    async def _listening(self) -> None:
        self._child.check()
        if not (self.out / "control").exists() or not (self.out / "parties.json").exists():
            raise NotYet("they have not said so")

    async def stop(self) -> None:
        """End them; their ledgers stay."""
        await self._child.stop()


def world_of(cluster: Cluster, names: Sequence[str]) -> World:
    """The world in which a stack's parties can live.

    Raises:
        MissingCapability: the cluster has none.
    """
    if cluster.world is None:
        raise MissingCapability(
            f"the cluster {cluster.name} has no world outside",
            where=f"the external parties {', '.join(names)}",
            todo="use a box (`aftershock up`), which has it",
        )
    return cluster.world
