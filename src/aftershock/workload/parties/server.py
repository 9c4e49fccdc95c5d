"""A server over asyncio's streams whose connections end with it. What is said on one is its subclass' affair."""

import asyncio
import contextlib
from abc import abstractmethod

__all__ = ["LARGEST", "Gone", "Server"]

LARGEST = 4 << 20


class Gone(Exception):
    """The party is gone before it has answered."""


class Server:
    def __init__(self) -> None:
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    @abstractmethod
    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, from its first byte until this returns."""

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port."""
        self._server = await asyncio.start_server(self._connected, host, port, limit=LARGEST)
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in list(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError, Gone):
                await self.converse(reader, writer)
        except asyncio.CancelledError:
            pass
        finally:
            self._open.discard(task)
            writer.close()
