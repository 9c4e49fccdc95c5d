"""Agents without a mind: nobody at all, and a fix script of the problem."""

import re
import time
from dataclasses import dataclass
from pathlib import Path

from aftershock.agent.base import AgentContext, AgentResult
from aftershock.base.run import run
from aftershock.problem.model import Fix

__all__ = ["FixScript", "Nop"]

# The script is read by a shell that traces it to a file of its own: what it printed and what it ran
# stay apart, and a fix that never did anything is seen for what it is.
SHELL = 'exec 9>"$1"; BASH_XTRACEFD=9; PS4="+ \\$EPOCHREALTIME "; script=$2; set --; set -x; . "$script"'
TRACED = re.compile(r"^\++ (\d+[.,]\d+) (.*)$")
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Nop:
    """Does nothing: what happens when nobody answers."""

    name: str = "nop"

    async def act(self, context: AgentContext) -> AgentResult:
        return AgentResult("done", 0.0, "nothing was done")


@dataclass(frozen=True)
class FixScript:
    """Runs one of the problem's fixes, with the agent's rights and through the agent's door."""

    fix: Fix

    @property
    def name(self) -> str:
        return f"fix:{self.fix.name}"

    async def act(self, context: AgentContext) -> AgentResult:
        trace, output = context.out / "fix.trace", context.out / "fix.log"
        environment = {
            "PATH": f"{context.kubectl}:{SYSTEM_PATH}",
            "HOME": str(context.home),
            "TMPDIR": str(context.home),
            "KUBECONFIG": str(context.kubeconfig),
            "LANG": "C.UTF-8",
        }
        bare = ["env", "-i", *(f"{key}={value}" for key, value in environment.items())]
        shell = ["bash", "-eu", "-o", "pipefail", "-c", SHELL, self.fix.path.name, str(trace), str(self.fix.path)]
        begin = time.monotonic()
        done = await run([*bare, *shell], timeout=context.seconds, cwd=context.home, check=False)
        output.write_text(done.out + (f"\n--- errors\n{done.err}" if done.err.strip() else ""))
        commands = traced(trace)
        details = {
            "exit": done.code,
            "expect": self.fix.expect,
            "commands": len(commands),
            "last_command": commands[-1][:200] if commands else "",
            "output": str(output),
            "trace": str(trace),
            "ran": done.ok and bool(commands),
        }
        seconds = round(time.monotonic() - begin, 3)
        if done.code == 124:
            return AgentResult("deadline", seconds, f"stopped after {context.seconds:g} s; {done.tail(200)}", details)
        if not done.ok:
            said = f"ended with {done.code} at `{details['last_command']}`: {done.tail(300)}"
            return AgentResult("crashed", seconds, said, details)
        if not commands:
            return AgentResult("crashed", seconds, "the script did nothing at all", details)
        return AgentResult("done", seconds, self.fix.description, details)


def traced(trace: Path) -> list[str]:
    """The commands that a traced shell ran against the cluster, or with it: all but plain shell words."""
    if not trace.exists():
        return []
    found = [match[2] for line in trace.read_text(errors="replace").splitlines() if (match := TRACED.match(line))]
    return [command for command in found if command.split()[0] in ("kubectl", "timeout", "env", "curl")]
