"""Clients of data stores that hold on to something: sessions, locks, long reads; and commands to Redis."""

import asyncio
import contextlib
import shlex
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from aftershock.base.errors import AftershockError, ClusterError
from aftershock.base.run import kill_group
from aftershock.base.wait import NotYet
from aftershock.fault.base import Primitive, primitive
from aftershock.fault.fields import Expect
from aftershock.fault.psql import QueryFailed, SessionLost
from aftershock.fault.scene import Scene

OPENING = 15.0  # seconds that a session may take to be had
LOOK = 5.0  # seconds between two looks at whether a session is still there
PAUSE = 2.0  # seconds until a client tries again, as many a program does


@primitive("hold_sessions")
class HoldSessions(Primitive):
    """Keep sessions to PostgreSQL open that have run `statements` and do nothing more: a transaction that was
    forgotten, a lock, a read that takes an hour (`pg_sleep` in it), or just slots that are taken.

    With `again` a session that is ended comes back, as that of a program would. `state` is what
    pg_stat_activity must say of all of them.
    """

    outside: ClassVar[bool] = True

    database: str | None = Field(default=None, alias="in")
    statements: str = "begin; select 1;"
    role: str | None = None
    application: str = Field(default="psql", pattern=r"^[\w ./-]+$")
    count: int = Field(default=1, ge=1, le=500)
    state: Literal["idle", "active", "idle in transaction"] = "idle in transaction"
    again: bool = False

    async def run(self, scene: Scene) -> dict[str, Any]:
        backends: list[int] = [0] * self.count  # of each session, 0 while there is none
        names = [scene.start(f"{self.kind} at {self.where}", self._hold(scene, backends, n)) for n in range(self.count)]
        return {"backends": backends, "running": names}

    async def _hold(self, scene: Scene, backends: list[int], n: int) -> None:
        while True:
            argv = scene.databases.client(self.database, role=self.role, application=self.application)
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                start_new_session=True,
            )
            try:
                backends[n] = await self._begin(process)
                await self._end(scene, process, backends[n])
            finally:
                backends[n] = 0
                kill_group(process.pid)
                await process.wait()
            if not self.again:
                return
            await asyncio.sleep(PAUSE)

    async def _end(self, scene: Scene, process: asyncio.subprocess.Process, backend: int) -> None:
        """Until the session has ended. psql notices only when it next sends something, so the server is asked."""
        if not backend or not self.again:
            await process.wait()
            return
        while process.returncode is None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK):
                    await process.wait()
                    return
            with contextlib.suppress(QueryFailed, SessionLost):
                there = await scene.databases.ask(
                    self.database, f"select count(*) from pg_stat_activity where pid = {backend}", hasty=True
                )
                await scene.databases.ask(self.database, "select 1", hasty=True)  # nobody is to read the above
                if there[0][0] == "0":
                    return

    async def _begin(self, process: asyncio.subprocess.Process) -> int:
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(TimeoutError, BrokenPipeError, ConnectionResetError):
            process.stdin.write(b"select pg_backend_pid();\n")
            async with asyncio.timeout(OPENING):
                said = (await process.stdout.readline()).strip()
            process.stdin.write(self.statements.encode() + b"\n")
            await process.stdin.drain()
            return int(said) if said.isdigit() else 0
        return 0

    async def landed(self, scene: Scene, done: Mapping[str, Any]) -> None:
        wanted = ",".join(str(pid) for pid in done["backends"])
        query = f"select count(*) from pg_stat_activity where pid in ({wanted}) and state = '{self.state}'"
        try:
            rows = await scene.databases.ask(self.database, query)
        except (QueryFailed, SessionLost) as error:
            raise NotYet(error.what) from error
        if int(rows[0][0]) < self.count:
            raise NotYet(f"{rows[0][0]} of {self.count} sessions are {self.state}")

    async def undo(self, scene: Scene, done: Mapping[str, Any]) -> None:
        backends = [pid for pid in done["backends"] if pid]
        for name in done["running"]:
            await scene.stop(name)
        if backends and "snapshot" not in scene.cluster.capabilities:
            # A server process in a long statement does not notice that its client has gone.
            ended = f"select pg_terminate_backend(pid) from unnest(array[{','.join(map(str, backends))}]) pid"
            with contextlib.suppress(AftershockError):
                await scene.databases.ask(self.database, ended)


@primitive("redis")
class Redis(Primitive):
    """Give Redis commands as an operator does, by `redis-cli` in its pod; `check` is a command whose answer's last
    line must then be as expected.

    `password_env`: the variable of the container that holds the password. `undo`: commands that take it back.
    """

    pod: str = Field(min_length=1)
    container: str = ""
    commands: list[str] = Field(min_length=1)
    check: str = Field(min_length=1)
    equals: str | int | float | None = None
    at_least: float | None = None
    at_most: float | None = None
    back: list[str] = Field(default_factory=list, alias="undo")
    password_env: str = Field(default="", pattern=r"^\w*$")
    port: int = Field(default=6379, ge=1, le=65535)
    namespace: str | None = None

    @model_validator(mode="after")
    def _expects(self) -> "Redis":
        self.expected()
        return self

    def expected(self) -> Expect:
        return Expect(equals=self.equals, at_least=self.at_least, at_most=self.at_most)

    def argv(self, command: str) -> list[str]:
        """
        >>> Redis(pod="r", commands=["PING"], check="PING", equals="PONG").argv('SET a "b c"')
        ['redis-cli', '-e', '-p', '6379', 'SET', 'a', 'b c']
        """
        client = ["redis-cli", "-e", "-p", str(self.port), *shlex.split(command)]
        if not self.password_env:
            return client
        return ["sh", "-c", f'REDISCLI_AUTH="${self.password_env}" exec "$0" "$@"', *client]

    async def _give(self, scene: Scene, command: str) -> str:
        space = self.namespace or scene.namespace
        done = await scene.api.exec(space, self.pod, self.argv(command), container=self.container, timeout=self.within)
        if not done.ok:
            raise ClusterError(f"redis refused `{command[:80]}`: {done.tail(200)}", where=f"pod {space}/{self.pod}")
        return done.out.strip()

    async def run(self, scene: Scene) -> dict[str, Any]:
        for command in self.commands:
            await self._give(scene, command)
        return {"commands": len(self.commands)}

    async def landed(self, scene: Scene, done: Mapping[str, Any]) -> None:
        lines = (await self._give(scene, self.check)).splitlines()
        if why := self.expected().refuse(lines[-1] if lines else None):
            raise NotYet(f"{self.check}: {why}")

    async def undo(self, scene: Scene, done: Mapping[str, Any]) -> None:
        for command in self.back:
            await self._give(scene, command)
