"""A problem's own check: a function in its `hooks.py`, for what no other check can ask.

    # hooks.py
    def vouchers_match(context):
        ...
        return {"result": "pass", "said": "all 40 vouchers are in both books", "before": 40}

It is run in a process of its own (`hookrun`) with a deadline. What it raises, a hang, an answer that is none,
and a process that it leaves behind are all `unknown`, with the reason: a hook cannot pass by mistake.
"""

import ast
import asyncio
import contextlib
import json
import sys
from pathlib import Path
from typing import Any

from pydantic import Field

from aftershock.base.errors import ProblemError
from aftershock.base.wait import patience
from aftershock.fault.psql import QueryFailed, SessionLost
from aftershock.oracle.base import Abnormal, Bench, Finding, check
from aftershock.oracle.checks.timed import Timed
from aftershock.problem.model import CheckSpec

__all__ = ["Hook", "finding_of"]

FILE = "hooks.py"
EXTRA = 3.0  # seconds that the keeper has beyond the hook's own
LONGEST = 2000


def finding_of(told: dict[str, Any], function: str) -> Finding:
    """What the keeper told, as a finding.

    >>> finding_of({"answer": {"result": "pass", "said": "all are there"}}, "f")
    Finding(result='pass', said='all are there', measured={}, unfair='', unsafe=False)
    >>> finding_of({"answer": True}, "f").said
    'the hook f answered True, and not {"result": "pass" | "fail" | "unknown", "said": "..."}'
    >>> finding_of({"answer": {"result": "pass", "said": "fine"}, "leaked": ["sleep 60"]}, "f").result
    'unknown'
    """
    if "hung" in told:
        return Finding("unknown", f"the hook {function} did not end within {told['hung']:g} s")
    if "error" in told:
        return Finding("unknown", f"the hook {function} broke: {told['error']}", {"trace": told.get("trace", [])})
    answer = told.get("answer")
    wanted = '{"result": "pass" | "fail" | "unknown", "said": "..."}'
    if not isinstance(answer, dict) or answer.get("result") not in ("pass", "fail", "unknown"):
        return Finding("unknown", f"the hook {function} answered {str(answer)[:100]}, and not {wanted}")
    said = answer.get("said")
    if not isinstance(said, str) or not said.strip():
        return Finding("unknown", f"the hook {function} says {answer['result']} and not why: `said` is missing")
    measured = {key: value for key, value in answer.items() if key not in ("result", "said")}
    if told.get("leaked"):
        return Finding("unknown", f"the hook {function} left processes behind: {'; '.join(told['leaked'])}", measured)
    return Finding(answer["result"], said[:LONGEST], measured)


@check("hook")
class Hook(Timed):
    """A function of the problem's hooks.py: `ask` names queries whose rows it is given, `args` what else it needs."""

    function: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    args: dict[str, Any] = Field(default_factory=dict)
    ask: dict[str, str] = Field(default_factory=dict)
    database: str | None = Field(default=None, alias="in")
    deadline: float = Field(default=20.0, gt=0, le=120)

    def prepare(self, spec: CheckSpec) -> "Hook":
        """The file must be there, be Python, and have the function: read, not run."""
        path = Path(spec.source.path).parent / FILE
        try:
            tree = ast.parse(path.read_text(), str(path))
        except OSError:
            raise spec.source.error(f"there is no {FILE}", spec.at, "write the function into it") from None
        except SyntaxError as error:
            raise ProblemError(f"this is not Python: {error.msg}", where=f"{path}:{error.lineno}") from None
        names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
        if self.function not in names:
            todo = f"there are: {', '.join(names) or 'none'}"
            raise spec.source.error(f"{FILE} has no function {self.function}", (*spec.at, "function"), todo)
        super().prepare(spec)
        return self

    async def first(self, bench: Bench) -> Any:
        """The hook must pass while all is well; what it returns as `before` it is given later."""
        found = await self._call(bench, None, baseline=True)
        if found.result != "pass":
            kind = ProblemError if found.result == "unknown" else Abnormal
            raise kind(f"before anything is broken: {found.said}")
        return found.measured.get("before")

    async def look(self, bench: Bench, before: Any) -> Finding:
        return await self._call(bench, before, baseline=False)

    async def _call(self, bench: Bench, before: Any, *, baseline: bool) -> Finding:
        scene, rows = bench.scene, {}
        for name, query in self.ask.items():
            try:
                rows[name] = await bench.ask(self.database, query)
            except QueryFailed as error:
                if not error.decisive:
                    return Finding("unknown", error.what)
                rows[name] = None  # type: ignore[assignment]
            except SessionLost as error:
                return Finding("unknown", error.what)
        context = {
            "kubeconfig": str(scene.api.kubeconfig),
            "kubectl": scene.api.kubectl,
            "namespace": scene.namespace,
            "args": self.args,
            "before": before,
            "rows": rows,
            "promises": {key: dict(fields) for key, fields in scene.users.promises().items()},
            "baseline": baseline,
        }
        seconds = min(self.deadline * patience(), max(bench.remaining(), 1.0))
        job = {"path": str(scene.folder / FILE), "function": self.function, "seconds": seconds, "context": context}
        return finding_of(await keep(job), self.function)


async def keep(job: dict[str, Any]) -> dict[str, Any]:
    """Have the keeper run a job. However this ends, nothing of it is left."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "aftershock.oracle.hookrun",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(job["seconds"] + EXTRA + 5 * patience()):
            out, _ = await process.communicate(json.dumps(job).encode())
        told: dict[str, Any] = json.loads(out)
    except TimeoutError:
        return {"hung": job["seconds"]}
    except ValueError:
        return {"error": f"its keeper ended with {process.returncode}"}
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()  # it ends all that it keeps, then itself
            await asyncio.shield(process.wait())
    return told
