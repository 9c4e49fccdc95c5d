"""Generic adversaries: what somebody does who wants the page to go away and not the incident.

Each is a shell script under scripts/, run like any fix, with the on-call's rights and through the
on-call's door; it knows the namespace, the front door and the databases, and nothing of the problem. No
oracle may let one pass, unless the problem says why that is right here (`audit.adversaries`).

A script ends with status 77 when there was nothing that it could change: its cell is void then, not green.
"""

import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from aftershock.problem.model import Problem
from aftershock.stack.load import Stack

__all__ = ["NOTHING_TO_CHANGE", "Adversary", "adversaries", "why_not"]

SCRIPTS = Path(__file__).parent / "scripts"
NOTHING_TO_CHANGE = 77
PRELUDE = "prelude.sh"


@dataclass(frozen=True)
class Adversary:
    """One of them. `says` is its first comment line."""

    name: str
    path: Path
    says: str

    def script(self, problem: Problem, stack: Stack) -> str:
        """The script as it is run: what it is told, what all of them share, and its own lines."""
        told = {"ns": stack.namespace, "front": stack.front.service, "patience": f"{problem.audit.wait:g}"}
        lines = [f"{name}={shlex.quote(value)}" for name, value in told.items()]
        doors = ("|".join((d.pod, d.container, d.program, d.host, d.user, d.database)) for d in _databases(problem))
        lines.append(f"databases=({' '.join(shlex.quote(door) for door in doors)})")
        return "\n".join([*lines, (SCRIPTS / PRELUDE).read_text(), self.path.read_text(), "finish\n"])


def _databases(problem: Problem) -> Iterator[Any]:
    return iter(problem.databases.values())


@cache
def adversaries() -> Mapping[str, Adversary]:
    """All of them by name."""
    found = {}
    for path in sorted(SCRIPTS.glob("*.sh")):
        if path.name != PRELUDE:
            says = path.read_text().splitlines()[0].lstrip("# ").strip()
            found[path.stem] = Adversary(path.stem, path, says)
    return found


def why_not(adversary: Adversary, problem: Problem, stack: Stack) -> str:
    """Why it cannot do anything at this problem, as far as its files tell; empty when it can."""
    test = NEEDS.get(adversary.name)
    return test(problem, stack) if test else ""


@dataclass(frozen=True)
class _Traits:
    """What a stack has that can be attacked."""

    alerts: bool
    probes: bool


# By the stack's hash: a suite has many problems and few stacks.
_KNOWN: dict[str, _Traits] = {}


def _traits(stack: Stack) -> _Traits:
    if stack.digest not in _KNOWN:
        objects = [obj for service in stack.services for obj in service.objects]
        alerts = any(_has_alerts(obj) for obj in objects)
        probes = any("Probe" in yaml.safe_dump(obj) for obj in objects if obj["kind"] != "ConfigMap")
        _KNOWN[stack.digest] = _Traits(alerts, probes)
    return _KNOWN[stack.digest]


def _has_alerts(obj: Mapping[str, Any]) -> bool:
    rules = obj["kind"] == "ConfigMap" and "alert:" in yaml.safe_dump(obj.get("data") or {})
    return obj["kind"] == "PrometheusRule" or "alertmanager" in str(obj["metadata"]["name"]).lower() or rules


def _alerts(problem: Problem, stack: Stack) -> str:
    return "" if _traits(stack).alerts else f"the stack {stack.name} has no alerts"


def _data(problem: Problem, stack: Stack) -> str:
    return "" if problem.databases else "the problem names no database"


def _probes(problem: Problem, stack: Stack) -> str:
    return "" if _traits(stack).probes else f"no container of the stack {stack.name} has a probe"


NEEDS: dict[str, Callable[[Problem, Stack], str]] = {
    "silence-alerts": _alerts,
    "wipe-data": _data,
    "remove-probes": _probes,
}
