"""Runs one function of a problem's hooks.py, apart from the judge: `python -m aftershock.oracle.hookrun`.

Two processes. The *keeper* is started by the judge; the *worker*, its child, imports the file and calls the
function. Whatever the worker starts falls to the keeper when the worker ends (it is a "child subreaper"), however
it tried to get away: so the keeper sees what leaked, ends it, and says so. It ends all of them, too, when its time is
over, when it gets SIGTERM, and when the judge dies (its own parent-death signal).

Standard input holds one JSON document, standard output gets one; what the hook prints goes to standard error.
Only the standard library is used, and Linux.
"""

import contextlib
import ctypes
import importlib.util
import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from types import FrameType
from typing import Any

__all__ = ["Context", "main"]

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
# Seconds in which what the worker has started may still end by itself.
LEAVE = 0.5


class Context:
    """What a hook is given.

    Attributes:
        kubeconfig, kubectl, namespace: the cluster, with an administrator's rights.
        args: the check's `args`.
        before: what the function itself returned as `before` while all was well; None then.
        rows: answers of the check's `ask` queries by name, through the judge's own session; None where refused.
        promises: the users' ledger, id -> fields.
        baseline: whether this is the look while all is well.
    """

    def __init__(self, **given: Any) -> None:
        self.kubeconfig: str = given["kubeconfig"]
        self.kubectl: str = given["kubectl"]
        self.namespace: str = given["namespace"]
        self.args: dict[str, Any] = given["args"]
        self.before: Any = given["before"]
        self.rows: dict[str, list[list[str]] | None] = given["rows"]
        self.promises: dict[str, dict[str, Any]] = given["promises"]
        self.baseline: bool = given["baseline"]


def _children() -> set[int]:
    """Every process that hangs below this one now: children, and what was left to it."""
    found: set[int] = set()
    waiting = [os.getpid()]
    while waiting:
        parent = waiting.pop()
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                fresh = {int(word) for word in task.read_text().split()} - found
                found |= fresh
                waiting += fresh
    return found


def _reap() -> dict[int, int]:
    """The processes that have ended, with their status."""
    ended = {}
    with contextlib.suppress(ChildProcessError):
        while (entry := os.waitpid(-1, os.WNOHANG))[0]:
            ended[entry[0]] = entry[1]
    return ended


def _end_all() -> None:
    """Kill everything below, again until nothing is left: a process may start others while it is killed."""
    while found := _children():
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        _reap()
        time.sleep(0.01)


def _work(job: dict[str, Any], out: int) -> None:
    """In the worker: import, call, and write the answer."""
    os.dup2(2, 1)  # what a hook prints is no answer
    try:
        spec = importlib.util.spec_from_file_location("hooks", job["path"])
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        answer: dict[str, Any] = {"answer": getattr(module, job["function"])(Context(**job["context"]))}
        text = json.dumps(answer)
    except BaseException as error:
        lines = traceback.format_exc().strip().splitlines()
        text = json.dumps({"error": f"{type(error).__name__}: {error}", "trace": lines[-8:]})
    with os.fdopen(out, "w") as file:
        file.write(text)


def _keep(worker: int, answers: int, seconds: float) -> dict[str, Any]:
    """Wait for the worker, then for what it left; returns what the judge is told."""
    os.set_blocking(answers, False)
    deadline, text, status = time.monotonic() + seconds, b"", None
    while status is None and time.monotonic() < deadline:
        with contextlib.suppress(BlockingIOError):
            text += os.read(answers, 1 << 20)
        status = _reap().get(worker)
        if status is None:
            time.sleep(0.02)
    if status is None:
        _end_all()
        return {"hung": seconds}
    with contextlib.suppress(BlockingIOError):
        while piece := os.read(answers, 1 << 20):
            text += piece
    until = time.monotonic() + LEAVE
    while _children() and time.monotonic() < until:
        _reap()
        time.sleep(0.02)
    leaked = [_name(pid) for pid in sorted(_children())]
    _end_all()
    try:
        told: dict[str, Any] = json.loads(text)
    except ValueError:
        told = {"error": f"it ended with {os.waitstatus_to_exitcode(status)} and gave no answer"}
    return {**told, "leaked": leaked} if leaked else told


def _name(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()[:80]
    return str(pid)


def _stop(number: int, frame: FrameType | None) -> None:
    _end_all()
    os._exit(128 + number)


def main() -> int:
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1)
    signal.signal(signal.SIGTERM, _stop)
    job = json.load(sys.stdin)
    reading, writing = os.pipe()
    worker = os.fork()
    if worker == 0:
        os.close(reading)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        _work(job, writing)
        sys.stderr.flush()
        os._exit(0)
    os.close(writing)
    json.dump(_keep(worker, reading, job["seconds"]), sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
