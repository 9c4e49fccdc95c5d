"""The connection pool. It goes through PgBouncer in transaction mode: no prepared statements, no session state."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Self

import asyncpg

from logs import log

FAILURES = (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError)


class Unavailable(Exception):
    """The database could not be asked; the text says why."""


class Connection(asyncpg.Connection):
    def get_reset_query(self) -> str:
        return ""  # PgBouncer gives another server connection to the next transaction anyway


class Database:
    """A pool that is filled in the background, so that the process answers while the database is away.

    size: most connections; wait: seconds a request waits for one.
    """

    def __init__(self, url: str, *, size: int, wait: float) -> None:
        self._url = url
        self._size = size
        self._wait = wait
        self._pool: asyncpg.Pool | None = None
        self._connecting: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._connecting = asyncio.create_task(self._connect())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._connecting:
            self._connecting.cancel()
        if self._pool:
            self._pool.terminate()

    async def _connect(self) -> None:
        said = ""
        while self._pool is None:
            try:
                self._pool = await asyncpg.create_pool(
                    self._url,
                    min_size=2,
                    max_size=self._size,
                    max_inactive_connection_lifetime=60,
                    timeout=5,
                    statement_cache_size=0,
                    connection_class=Connection,
                    server_settings={"application_name": "orders-api"},
                )
            except FAILURES as error:
                if str(error) != said:
                    log.warning("waiting for the database", extra={"reason": (said := str(error))})
                await asyncio.sleep(0.2)

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[asyncpg.Connection]:
        """One transaction on a connection of the pool."""
        if self._pool is None:
            raise Unavailable("not connected yet")
        try:
            async with self._pool.acquire(timeout=self._wait) as connection, connection.transaction():
                yield connection
        except TimeoutError as error:
            raise Unavailable(f"no free connection within {self._wait:g} s") from error
        except FAILURES as error:
            raise Unavailable(f"{type(error).__name__}: {error}") from error

    async def check(self, *, within: float, probe: str) -> None:
        """Raise Unavailable unless the probe query answers in time and returns true."""
        try:
            async with asyncio.timeout(within), self.transaction() as connection:
                answer = await connection.fetchval(probe)
        except TimeoutError:
            raise Unavailable(f"no database connection within {within:g} s") from None
        if not answer:
            raise Unavailable("the schema is older than this release")
