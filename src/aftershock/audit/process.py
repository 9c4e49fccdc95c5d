"""Running a cell's process to its end, or ending it: first asked to clean up, then killed."""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aftershock.audit.matrix import Cell
from aftershock.base.record import write_json
from aftershock.base.run import kill_group
from aftershock.base.wait import patience

__all__ = ["run_process"]

SOURCE = Path(__file__).resolve().parents[2]
# Seconds that a process gets to take its box down.
TO_CLEAN_UP = 45.0


async def run_process(
    problem: str, cell: Cell, folder: Path, *, scan: bool, seconds: float, tell: Callable[[dict[str, Any]], None]
) -> str:
    """Run a cell.

    Args:
        folder: for the record, made here; `trial.json` in it is the result.
        seconds: until the process is ended, whatever it does.
        tell: gets the trial's events.

    Returns: what went wrong with the process itself; empty when it ended well.
    """
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / "script.sh"
    if cell.script:
        script.write_text(cell.script)
    spec = {
        "problem": problem,
        "name": cell.name,
        "script": str(script) if cell.script else "",
        "scan": scan,
        "record": str(folder),
    }
    write_json(folder / "cell.json", spec)
    path = os.pathsep.join(filter(None, (str(SOURCE), os.environ.get("PYTHONPATH", ""))))
    with (folder / "process.log").open("wb") as said:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "aftershock.audit.cell",
            str(folder / "cell.json"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=said,
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,
            limit=1 << 20,
        )
        try:
            async with asyncio.timeout(seconds * patience()):
                await _listen(process, tell)
                code = await process.wait()
        except TimeoutError:
            return f"it had not ended after {seconds:g} s"
        finally:
            await _end(process)
    if code == 0:
        return ""
    said_last = (folder / "process.log").read_text(errors="replace").strip()[-300:]
    return f"its process ended with {code}: {said_last}"


async def _listen(process: asyncio.subprocess.Process, tell: Callable[[dict[str, Any]], None]) -> None:
    assert process.stdout is not None
    async for line in process.stdout:
        with contextlib.suppress(ValueError):
            tell(json.loads(line))


async def _end(process: asyncio.subprocess.Process) -> None:
    """Ask it to clean up, and kill what is left of it after a while."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(TO_CLEAN_UP * patience()):
                await process.wait()
    kill_group(process.pid)
    await process.wait()
