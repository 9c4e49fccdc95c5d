"""One cell, in a process of its own: `python -m aftershock.audit.cell SPEC.json`.

A fix that never ends, a hook that hangs or a defect takes down nothing but its own cell, and four users' logs are
read by four interpreters. The record of the trial is the result; stages are told on standard output, a line each.
"""

import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

from aftershock.agent.base import Agent
from aftershock.agent.scripted import FixScript, Nop
from aftershock.audit.witness import Witnessed
from aftershock.base.errors import AftershockError
from aftershock.cluster.base import Cluster
from aftershock.problem.model import Fix
from aftershock.stack.provide import on_fresh_cluster
from aftershock.trial.conduct import conduct
from aftershock.trial.plan import plan
from aftershock.workload.parent import die_with_parent

__all__ = ["run_cell"]


async def run_cell(spec: dict[str, Any]) -> None:
    """Run the trial of a cell.

    Args:
        spec: `problem` (id or folder), `name`, `script` (path, or empty for nobody), `scan`, `record` (folder).
    """
    planned = plan(spec["problem"], "nop")
    stack = planned.stack
    agent: Agent = Nop()
    if spec["script"]:
        agent = FixScript(Fix(spec["name"], Path(spec["script"]), "wrong", "", spec["name"]))
    watched = replace(planned, agent=Witnessed(agent, stack.namespace, scan=spec["scan"]))

    def factory() -> AbstractAsyncContextManager[Cluster]:
        return on_fresh_cluster(stack)

    await conduct(watched, factory, Path(spec["record"]), listener=_tell)


def _tell(event: dict[str, Any]) -> None:
    if event["event"] in ("stage", "check", "verdict"):
        # Whoever listened may be gone, killed; the box has to be taken down all the same.
        with contextlib.suppress(BrokenPipeError):
            sys.stdout.write(json.dumps(event, default=str) + "\n")
            sys.stdout.flush()


async def _cancelled_by_sigterm(work: Coroutine[Any, Any, None]) -> None:
    """The signal comes from the audit, or from the kernel when the audit is gone: the box goes too."""
    task = asyncio.ensure_future(work)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    await task


def main() -> int:
    die_with_parent()
    try:
        asyncio.run(_cancelled_by_sigterm(run_cell(json.loads(Path(sys.argv[1]).read_text()))))
    except AftershockError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    except asyncio.CancelledError:
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
