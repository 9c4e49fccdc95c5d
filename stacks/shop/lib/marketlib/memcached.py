"""A small client of memcached's text protocol: get, set, delete, on a few connections that stay open."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self

from marketlib.errors import Unavailable

__all__ = ["Memcached"]

TARGET = "memcached"
KEY = re.compile(r"^[!-~]{1,250}$")
REST_SECONDS = 1.0


class Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def line(self) -> bytes:
        line = await self.reader.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionResetError("the connection was closed")
        if line.startswith((b"SERVER_ERROR", b"CLIENT_ERROR", b"ERROR")):
            raise OSError(line.decode("latin-1").strip())
        return line

    async def get(self, key: str) -> bytes | None:
        self.writer.write(f"get {key}\r\n".encode())
        head = await self.line()
        if head == b"END\r\n":
            return None
        size = int(head.split()[3])
        data = (await self.reader.readexactly(size + 2))[:size]
        await self.line()
        return data

    async def set(self, key: str, data: bytes, seconds: int) -> None:
        self.writer.write(f"set {key} 0 {seconds} {len(data)}\r\n".encode() + data + b"\r\n")
        await self.line()

    async def delete(self, key: str) -> None:
        self.writer.write(f"delete {key}\r\n".encode())
        await self.line()


class Memcached:
    """A pool of connections. After a failure it is left alone for a second, so that nobody waits in vain.

    Args:
        size: most connections; calls beyond them wait within their time.
        timeout: seconds for a call, the wait for a connection included.
    """

    def __init__(self, host: str, port: int = 11211, *, size: int = 8, timeout: float = 0.25) -> None:
        self._host = host
        self._port = port
        self._timeout = timeout
        self._free: list[Connection] = []
        self._slots = asyncio.Semaphore(size)
        self._rest_until = 0.0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for connection in self._free:
            connection.writer.close()
        self._free.clear()

    async def get(self, key: str) -> bytes | None:
        """What is kept under the key, None if nothing is. Raises Unavailable."""
        async with self._connection(key) as connection:
            return await connection.get(key)

    async def set(self, key: str, data: bytes, seconds: float) -> None:
        async with self._connection(key) as connection:
            await connection.set(key, data, max(1, round(seconds)))

    async def delete(self, key: str) -> None:
        async with self._connection(key) as connection:
            await connection.delete(key)

    @contextlib.asynccontextmanager
    async def _connection(self, key: str) -> AsyncIterator[Connection]:
        if not KEY.match(key):
            raise ValueError(f"not a key of memcached: {key!r}")
        loop = asyncio.get_running_loop()
        if loop.time() < self._rest_until:
            raise Unavailable(TARGET, "failed a moment ago", sent=False)
        connection = None
        try:
            async with asyncio.timeout(self._timeout), self._slots:
                if self._free:
                    connection = self._free.pop()
                else:
                    connection = Connection(*await asyncio.open_connection(self._host, self._port))
                yield connection
                self._free.append(connection)
                connection = None
        except (OSError, TimeoutError, EOFError, ValueError, IndexError) as error:
            self._rest_until = loop.time() + REST_SECONDS
            self._drop_free()
            raise Unavailable(TARGET, f"{type(error).__name__}: {error}") from error
        finally:
            if connection:
                connection.writer.close()

    def _drop_free(self) -> None:
        for connection in self._free:
            connection.writer.close()
        self._free.clear()
