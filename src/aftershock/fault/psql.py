"""SQL as an operator runs it: `psql` inside the database's pod, started through `kubectl exec`.

An incident may take every connection of a database, the operators' included, and then whoever
comes to judge is locked out too. So a `Session` is opened while all is well, as the operator's
role, and kept: one `psql` that reads statements and answers them until it is closed or broken;
a broken one is opened again at the next question. What it asked last can be read by others in
`pg_stat_activity`, so `forget` follows each round of questions before somebody may look.

`run_once` is for faults: a `psql` of its own, as any role, gone afterwards.
"""

import asyncio
import contextlib
import itertools
import time
from collections.abc import Mapping

import structlog

from aftershock.base.errors import AftershockError, ClusterError
from aftershock.base.run import kill_group
from aftershock.cluster.api import Api
from aftershock.problem.model import Database

__all__ = ["Databases", "QueryFailed", "Rows", "Session", "SessionLost"]

log = structlog.get_logger()

Rows = list[list[str]]
SEPARATOR = "\x1f"

# Seconds: in haste a query waits so long for a lock, and a session that could not be had is not tried again.
LOCK_HASTE = 0.7
LOST_HASTE = 5.0


class QueryFailed(AftershockError):
    """The server refused a statement; `state` is its SQLSTATE, empty where psql did not tell."""

    def __init__(self, what: str, *, where: str = "", todo: str = "", state: str = "") -> None:
        super().__init__(what, where=where, todo=todo)
        self.state = state

    @property
    def decisive(self) -> bool:
        """Whether the database is answering and says no: what is asked for does not exist or is malformed."""
        return self.state.startswith("42")


class SessionLost(AftershockError):
    """No answer: the session cannot be opened, broke, or took too long."""


def psql_argv(database: Database, role: str | None = None) -> list[str]:
    """Plain rows, fields separated by a character that no text holds, no start-up file."""
    host = ["-h", database.host] if database.host else []
    user = role or database.user
    return [database.program, "-X", "-q", "-A", "-t", "-F", SEPARATOR, *host, "-U", user, "-d", database.database]


class Session:
    """One long-lived psql. Statements are answered one at a time, in order."""

    def __init__(self, argv: list[str], *, where: str = "", statement_timeout: float = 5.0) -> None:
        self._argv = argv
        self._where = where
        self._timeout = statement_timeout
        self._process: asyncio.subprocess.Process | None = None
        self._complaints: list[str] = []
        self._listening: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()
        self._owed = ""  # mark of an answer that nobody has read yet
        self._hasty = False  # as the server was told
        self._lost: tuple[float, SessionLost] | None = None
        self._number = itertools.count(1)
        self.opened = 0

    async def ask(self, sql: str, *, timeout: float = 12.0, hasty: bool = False) -> Rows:
        """The rows that one statement returns; a broken session is opened again, once.

        Args:
            hasty: do not wait: not in a lock queue, and not for a session that was just refused.

        Raises:
            QueryFailed: the server refused the statement.
            SessionLost: there is no session to be had, or no answer in time.
        """
        limit = timeout / 2 if hasty else timeout
        async with self._lock:
            if hasty and self._lost and time.monotonic() - self._lost[0] < LOST_HASTE:
                raise self._lost[1]
            try:
                async with asyncio.timeout(limit):
                    return await self._ask(sql, hasty)
            except TimeoutError:
                await self._drop()
                lost = SessionLost(f"no answer within {limit:g} s", where=self._where)
            except SessionLost as error:
                await self._drop()
                lost = error
            self._lost = time.monotonic(), lost
            raise lost

    async def _ask(self, sql: str, hasty: bool) -> Rows:
        if self._process is not None and self._process.returncode is None:
            try:
                await self._hurry(hasty)
                return await self._send(sql)
            except SessionLost:
                log.info("a database session broke and is opened again", where=self._where)
        await self._open()
        await self._hurry(hasty)
        return await self._send(sql)

    async def _hurry(self, hasty: bool) -> None:
        if hasty != self._hasty:
            await self._send(f"set lock_timeout = {int(LOCK_HASTE * 1000) if hasty else 0}")
            self._hasty = hasty

    async def _open(self) -> None:
        await self._drop()
        self._process = await asyncio.create_subprocess_exec(
            *self._argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            limit=1 << 20,
        )
        self._complaints.clear()
        self._listening = asyncio.create_task(self._listen(self._process))
        self._hasty = False
        # What is asked here is nobody's business: it must not turn up in the server's log either.
        with contextlib.suppress(QueryFailed):  # only a superuser may
            await self._send("set log_min_duration_statement = -1; set log_min_messages = panic")
        await self._send(f"set statement_timeout = {int(self._timeout * 1000)}")
        self.opened += 1

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        async for line in process.stderr:
            self._complaints.append(line.decode(errors="replace").strip())
            del self._complaints[:-20]

    async def _send(self, sql: str) -> Rows:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        if self._owed:
            await self._answer(process, self._owed)
        self._owed = mark = f"--{next(self._number)}--"
        text = f"{sql.rstrip().rstrip(';')}\n;\n\\echo {mark} :ERROR :SQLSTATE :LAST_ERROR_MESSAGE\n"
        try:
            process.stdin.write(text.encode())
            await process.stdin.drain()
        except (BrokenPipeError, ConnectionResetError):
            raise self._gone() from None
        rows, failed, state, said = await self._answer(process, mark)
        if failed:
            raise QueryFailed(f"the database refused ({state}): {said}", where=self._where, state=state)
        return rows

    async def _answer(self, process: asyncio.subprocess.Process, mark: str) -> tuple[Rows, bool, str, str]:
        """Read up to a mark. Whoever asked may be gone by then: the next to ask reads what is owed first."""
        assert process.stdout is not None
        rows: Rows = []
        while True:
            raw = await process.stdout.readline()
            if not raw:
                await self._ended()
                raise self._gone()
            line = raw.decode(errors="replace").rstrip("\n")
            if line.startswith(mark):
                self._owed = ""
                failed, state, said = line.split(" ", 3)[1:]
                return rows, failed == "true", state, said
            rows.append(line.split(SEPARATOR))

    async def _ended(self) -> None:
        if self._listening is not None:
            with contextlib.suppress(asyncio.CancelledError):
                await self._listening

    def _gone(self) -> SessionLost:
        said = " ".join(self._complaints[-2:])[-300:] or "it gave no reason"
        return SessionLost(f"the session is gone: {said}", where=self._where)

    async def _drop(self) -> None:
        process, self._process = self._process, None
        self._owed = ""
        if process is not None:
            kill_group(process.pid)
            await process.wait()
        if self._listening is not None:
            self._listening.cancel()
            self._listening = None

    async def close(self) -> None:
        async with self._lock:
            await self._drop()


class Databases:
    """The databases of a problem, each with the session kept for judging."""

    def __init__(self, api: Api, namespace: str, declared: Mapping[str, Database]) -> None:
        self._api = api
        self._namespace = namespace
        self._declared = declared
        self._sessions: dict[str, Session] = {}

    def _named(self, name: str | None) -> str:
        """The name of a declared database; the only one's when no name is given."""
        if name is None and len(self._declared) == 1:
            return next(iter(self._declared))
        if name is None or name not in self._declared:
            raise ClusterError(f"the problem declares no database {name or ''}".strip(), todo="see `databases:`")
        return name

    def _exec(self, database: Database, argv: list[str]) -> list[str]:
        container = ["-c", database.container] if database.container else []
        return [*self._api.kubectl_argv(), "-n", self._namespace, "exec", "-i", database.pod, *container, "--", *argv]

    async def ask(self, name: str | None, sql: str, *, timeout: float = 12.0, hasty: bool = False) -> Rows:
        """Ask the kept session of a database; it is opened at the first question."""
        key = self._named(name)
        database = self._declared[key]
        if key not in self._sessions:
            where = f"psql in pod {self._namespace}/{database.pod}"
            self._sessions[key] = Session(self._exec(database, psql_argv(database)), where=where)
        return await self._sessions[key].ask(sql, timeout=timeout, hasty=hasty)

    async def open_all(self) -> None:
        """Open a session to each declared database while there is room."""
        for name in self._declared:
            await self.ask(name, "select 1")

    async def forget(self) -> None:
        """Leave nothing of what was asked in the sessions' last statement."""
        for session in self._sessions.values():
            with contextlib.suppress(AftershockError):
                await session.ask("select 1", timeout=5.0)

    async def run_once(self, name: str | None, sql: str, *, role: str | None = None, timeout: float = 30.0) -> Rows:
        """Run statements in a psql of its own, as a role; stops at the first error."""
        database = self._declared[self._named(name)]
        argv = [*psql_argv(database, role), "-v", "ON_ERROR_STOP=1"]
        done = await self._api.exec(
            self._namespace, database.pod, argv, container=database.container, stdin=sql, timeout=timeout
        )
        if not done.ok:
            raise QueryFailed(f"psql ended with {done.code}: {done.tail(300)}", where=f"pod {database.pod}")
        return [line.split(SEPARATOR) for line in done.out.splitlines()]

    def client(self, name: str | None, *, role: str | None = None, application: str = "psql") -> list[str]:
        """How to start a psql that somebody else might have started: it shows as `application` in pg_stat_activity."""
        database = self._declared[self._named(name)]
        host = ["-h", database.host] if database.host else []
        target = f"dbname={database.database} application_name='{application}'"
        return self._exec(database, [database.program, "-XqAt", *host, "-U", role or database.user, "-d", target])

    async def close(self) -> None:
        for session in self._sessions.values():
            await session.close()
        self._sessions.clear()
