"""PostgreSQL through PgBouncer in transaction mode: no prepared statements, no session state.

    database = Database(url, size=10, wait=2, application_name="orders", password_file=path)
    async with database: ...                        # in the service's lifespan
    async with database.transaction() as connection: ...

Unavailable is raised for what is the database's trouble (no connection, overload, a deadlock, a
timeout). What is the query's own (a constraint, a wrong name) stays asyncpg's error.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Self

import asyncpg

from marketlib import context, tracing
from marketlib.errors import Unavailable
from marketlib.logs import log
from marketlib.metrics import BUCKETS, Counter, Gauge, Histogram

__all__ = ["Database", "Unavailable"]

TROUBLE = (
    asyncpg.PostgresConnectionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.OperatorInterventionError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.TransactionRollbackError,
    asyncpg.ObjectNotInPrerequisiteStateError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.InternalServerError,
    asyncpg.PostgresSystemError,
    asyncpg.InterfaceError,
    OSError,
    TimeoutError,
)
TARGET = "database"

connections = Gauge("db_pool_connections", "Connections of the pool.", ["state"])
waits = Histogram("db_pool_wait_seconds", "Time until a connection of the pool was free.", buckets=BUCKETS)
held = Histogram("db_transaction_seconds", "Time that a transaction held its connection.", buckets=BUCKETS)
errors = Counter("db_errors", "Transactions that the database did not do.", ["reason"])


class Connection(asyncpg.Connection):  # type: ignore[misc]
    def get_reset_query(self) -> str:
        return ""  # PgBouncer gives another server connection to the next transaction anyway


class Database:
    """A pool that is filled in the background, so that the process answers while the database is away.

    Args:
        url: postgresql://user@host:port/name.
        size: most connections.
        wait: seconds that a request waits for one.
        application_name: what the database's own views show.
        password_file: read anew for each connection, so that a rotated password needs no restart.
        command_timeout: seconds that a statement may take.
    """

    def __init__(
        self,
        url: str,
        size: int = 10,
        wait: float = 2.0,
        application_name: str = "",
        *,
        password_file: str | Path | None = None,
        command_timeout: float = 5.0,
    ) -> None:
        self._url = url
        self._size = size
        self._wait = wait
        self._name = application_name
        self._password_file = Path(password_file) if password_file else None
        self._command_timeout = command_timeout
        self._pool: asyncpg.Pool | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._why = "not connected yet"
        self._used = 0

    async def __aenter__(self) -> Self:
        self._connecting = asyncio.create_task(self._connect())
        connections.labels("max").set(self._size)
        connections.labels("used").set_function(lambda: self._used)
        connections.labels("idle").set_function(lambda: self._pool.get_idle_size() if self._pool else 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._connecting:
            self._connecting.cancel()
        if self._pool:
            with contextlib.suppress(TimeoutError, *TROUBLE):
                await asyncio.wait_for(self._pool.close(), 1)
            self._pool.terminate()

    async def _connect(self) -> None:
        settings: dict[str, Any] = {}
        if self._password_file:
            path = self._password_file
            settings["password"] = lambda: path.read_text().strip()
        pause = 0.2
        while self._pool is None:
            try:
                self._pool = await asyncpg.create_pool(
                    self._url,
                    min_size=1,
                    max_size=self._size,
                    max_inactive_connection_lifetime=60,
                    timeout=3,
                    command_timeout=self._command_timeout,
                    statement_cache_size=0,
                    connection_class=Connection,
                    server_settings={"application_name": self._name} if self._name else None,
                    **settings,
                )
            except (*TROUBLE, asyncpg.PostgresError) as error:
                why = f"{type(error).__name__}: {error}"
                if why != self._why:
                    log.warning("waiting for the database", extra={"reason": why})
                self._why = why
                await asyncio.sleep(pause)
                pause = min(1.0, pause * 1.5)

    @contextlib.asynccontextmanager
    async def transaction(self, *, readonly: bool = False) -> AsyncIterator[asyncpg.Connection]:
        """One transaction on a connection of the pool; it never outlasts the request's deadline by much."""
        if self._pool is None:
            errors.labels("not_connected").inc()
            raise Unavailable(TARGET, self._why, sent=False)
        left = context.remaining()
        begin = time.perf_counter()
        try:
            connection = await self._pool.acquire(timeout=self._wait if left is None else min(self._wait, max(left, 0)))
        except TimeoutError:
            errors.labels("pool_wait").inc()
            raise Unavailable(TARGET, f"no free connection within {self._wait:g} s", sent=False) from None
        except TROUBLE as error:
            errors.labels(type(error).__name__).inc()
            raise Unavailable(TARGET, f"{type(error).__name__}: {error}", sent=False) from error
        finally:
            waits.observe(time.perf_counter() - begin)
        self._used += 1
        begin = time.perf_counter()
        try:
            with tracing.span("transaction", "client", **{"db.system": "postgresql", "db.user": self._name}):
                async with connection.transaction(readonly=readonly):
                    yield connection
        except TROUBLE as error:
            errors.labels(type(error).__name__).inc()
            raise Unavailable(TARGET, f"{type(error).__name__}: {error}") from error
        finally:
            self._used -= 1
            held.observe(time.perf_counter() - begin)
            await self._pool.release(connection)

    async def check(self, within: float = 1.0, probe: str = "select true") -> None:
        """Raise Unavailable unless the probe answers in time and is true."""
        try:
            async with asyncio.timeout(within), self.transaction() as connection:
                answer = await connection.fetchval(probe)
        except TimeoutError:
            raise Unavailable(TARGET, f"no answer within {within:g} s") from None
        if not answer:
            raise Unavailable(TARGET, "the schema is older than this release")
