"""A program that the workload runs beside itself, in the world outside: started, watched, ended."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Sequence
from pathlib import Path

from aftershock.base.errors import ClusterError
from aftershock.base.run import kill_group

__all__ = ["Child"]

SOURCE = Path(__file__).resolve().parents[2]


class Child:
    """One program, what it says in `log`.

    Args:
        what: who it is, for errors ("the users' program").
    """

    def __init__(self, what: str, argv: Sequence[str], log: Path) -> None:
        self._what = what
        self._argv = list(argv)
        self._log = log
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        self._log.parent.mkdir(parents=True, exist_ok=True)
        path = os.pathsep.join(filter(None, (str(SOURCE), os.environ.get("PYTHONPATH", ""))))
        with self._log.open("ab") as said:
            self._process = await asyncio.create_subprocess_exec(
                *self._argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                env={**os.environ, "PYTHONPATH": path},
                start_new_session=True,
            )

    def check(self) -> None:
        """Raise ClusterError when it has ended by itself."""
        if self._process is not None and self._process.returncode is not None:
            said = self._log.read_text(errors="replace").strip()[-400:]
            raise ClusterError(f"{self._what} ended with {self._process.returncode}: {said}", where=str(self._log))

    async def stop(self) -> None:
        """End it, also when it does not listen. Its files stay."""
        process, self._process = self._process, None
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(5):
                await process.wait()
        except TimeoutError:
            kill_group(process.pid)
            await process.wait()
