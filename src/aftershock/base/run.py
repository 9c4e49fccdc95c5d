"""The one way to run a program and wait for it.

Programs get no terminal, their own process group, and a deadline after which the whole group is
killed. `Completed` keeps both streams; `check=True` turns a non-zero exit into `CommandFailed`
with the last lines that the program printed.
"""

import asyncio
import contextlib
import os
import shlex
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from aftershock.base.errors import CommandFailed, HostError
from aftershock.base.wait import patience

__all__ = ["Completed", "kill_group", "run"]


@dataclass(frozen=True)
class Completed:
    """A program that ended. `code` is its exit status, 124 when it was killed at the deadline."""

    argv: tuple[str, ...]
    code: int
    out: str
    err: str
    seconds: float

    @property
    def ok(self) -> bool:
        return self.code == 0

    def tail(self, chars: int = 600) -> str:
        """The end of what it printed, errors first."""
        return (self.err.strip() or self.out.strip())[-chars:]


def kill_group(pid: int) -> None:
    """End a process group that we started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


async def run(
    argv: Sequence[str],
    *,
    stdin: str | bytes | None = None,
    timeout: float = 60.0,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    check: bool = True,
    where: str = "",
) -> Completed:
    """Run a program to its end.

    Args:
        argv: program and arguments; no shell.
        stdin: what it reads; nothing when None.
        timeout: seconds, before patience, until its process group is killed (code 124).
        env: added to this process' environment.

    Raises:
        CommandFailed: with `check`, when the exit status is not 0.
        HostError: when the program is not there.
    """
    begin = time.monotonic()
    timeout *= patience()
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.PIPE if stdin is not None else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, **env} if env else None,
            cwd=cwd,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        raise HostError(f"the program {argv[0]} is not there", todo="run `aftershock doctor`") from error
    data = stdin.encode() if isinstance(stdin, str) else stdin
    code: int | None = None
    try:
        async with asyncio.timeout(timeout):
            out, err = await process.communicate(data)
        code = process.returncode
    except TimeoutError:
        kill_group(process.pid)
        out, err = await process.communicate()
        code = 124
        err += f"\nkilled after {timeout:g} s".encode()
    finally:
        if code is None:
            kill_group(process.pid)
    done = Completed(
        tuple(argv),
        code if code is not None else -1,
        out.decode(errors="replace"),
        err.decode(errors="replace"),
        time.monotonic() - begin,
    )
    if check and not done.ok:
        shown = shlex.join(argv)
        raise CommandFailed(f"`{shown[:200]}` ended with {done.code}: {done.tail()}", code=done.code, where=where)
    return done
