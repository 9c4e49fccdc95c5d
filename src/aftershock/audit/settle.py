"""From the record of a trial to the result of a cell: did it run, did it change what it says, was the verdict the
expected one, and for the expected reason. Pure, but for reading the record."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from aftershock.audit.adversaries import NOTHING_TO_CHANGE
from aftershock.audit.leaks import Leak
from aftershock.audit.matrix import Cell
from aftershock.base.record import read_lines
from aftershock.oracle.verdict import COUNTED
from aftershock.problem.model import Family

__all__ = ["CellResult", "read_off", "settle", "static", "unsettled", "void"]

# The stages of a trial that a cell is read off, in their order.
STAGES = {"baseline": ("baseline",), "fault": ("fault", "trigger"), "suffering": ("suffering",), "page": ("page",)}
NOTHING = "there was nothing that it could change"
ORDER: dict[Family, int] = {"outcome": 0, "cause": 1, "preservation": 1, "challenge": 2}


@dataclass(frozen=True)
class CellResult:
    """How a cell came out. `check`: the one that decided; `results`: every check's, by id.

    `key`: hash of all that it hangs on. `changed`: what the script changed. `void`: why it does not apply here.
    `retry`: it says nothing about the oracle, since the machine got in the way, and may be tried again.
    """

    name: str
    kind: str
    expected: str
    verdict: str
    check: str
    ok: bool
    seconds: float
    why: str = ""
    key: str = ""
    decides: tuple[str, ...] = ()
    results: Mapping[str, str] = field(default_factory=dict)
    said: Mapping[str, str] = field(default_factory=dict)
    changed: Mapping[str, str] = field(default_factory=dict)
    void: str = ""
    retry: bool = False
    attempts: int = 1
    record: str = ""


def _result(cell: Cell, key: str, **said: Any) -> CellResult:
    given: dict[str, Any] = {"verdict": "", "check": "", "ok": False, "seconds": 0.0, **said}
    expected = "|".join(cell.expected)
    return CellResult(cell.name, cell.kind, expected, key=key, decides=cell.decides, **given)


def void(cell: Cell, key: str, why: str, seconds: float = 0.0) -> CellResult:
    """A cell that does not apply to this problem."""
    return _result(cell, key, verdict="void", ok=True, why=why, void=why, seconds=seconds)


def unsettled(cell: Cell, key: str, why: str, seconds: float = 0.0) -> CellResult:
    """A cell whose trial left no record: its process ended some other way."""
    return _result(cell, key, verdict="infra_error", why=why, seconds=seconds, retry=True)


def settle(cell: Cell, key: str, document: Mapping[str, Any]) -> CellResult:
    """The result of a trial's cell, from the trial's final document."""
    agent = document.get("agent_result") or {}
    details = agent.get("details") or {}
    decided = list(document.get("decided_by") or [])
    result = _result(
        cell,
        key,
        verdict=str(document["verdict"]),
        check=_shown(cell, decided),
        seconds=round(float(document["seconds"]["total"]), 1),
        results={check["id"]: check["result"] for check in document["checks"]},
        said={check["id"]: check["said"] for check in document["checks"] if check["result"] not in ("pass", "skipped")},
        changed=details.get("changed") or {},
        record=str(document["record"]),
        retry=document["verdict"] == "infra_error",
    )
    if cell.kind == "adversary" and details.get("exit") == NOTHING_TO_CHANGE:
        return replace(result, verdict="void", ok=True, check="", void=NOTHING, why=NOTHING)
    why = _refuse(cell, document)
    return replace(result, ok=not why, why=why)


def _shown(cell: Cell, decided: Sequence[str]) -> str:
    expected = [check for check in decided if _is_expected(check, cell.decides)]
    return (expected or list(decided) or [""])[0]


def _is_expected(check: str, decides: Sequence[str]) -> bool:
    return any(check == one or check == one.split("/")[0] for one in decides)


def _refuse(cell: Cell, document: Mapping[str, Any]) -> str:
    """Why the cell did not come out as expected; empty when it did."""
    verdict, decided = document["verdict"], list(document.get("decided_by") or [])
    if verdict not in COUNTED:
        return f"{verdict}: {document['why']}"
    if why := _idle(cell, document.get("agent_result") or {}):
        return why
    if verdict not in cell.expected:
        how = f": {document['why']}" if document.get("why") else ""
        return f"the verdict is {verdict}, expected was {' or '.join(cell.expected)}{how}"
    if not cell.decides or verdict == "succeeded":
        return ""
    family = {check["id"]: ORDER[check["family"]] for check in document["checks"]}
    expected = [check for check in decided if _is_expected(check, cell.decides)]
    if not expected:
        found = ", ".join(decided) or "nothing"
        return f"right verdict, wrong reason: {found} decided, not {' or '.join(cell.decides)}"
    if family[decided[0]] < family[expected[0]]:
        return f"right verdict, wrong reason: {decided[0]} had decided before {expected[0]}"
    return ""


def _idle(cell: Cell, agent: Mapping[str, Any]) -> str:
    """Why the script cannot be said to have acted; empty when it did, or when there is none."""
    if not cell.script:
        return ""
    details = agent.get("details") or {}
    commands = details.get("commands", 0)
    if not commands:
        return "the script ran nothing against the cluster"
    # A fix with a step left out may well break off further down: that is what the step was for.
    if agent.get("ended") != "done" and cell.kind != "without":
        return f"the script {agent.get('ended', 'did not run')}: {agent.get('said', '')}"
    changed, entered = details.get("changed") or {}, details.get("entered") or []
    if lacking := [one for one in cell.changes if one not in changed and one not in entered]:
        return f"the script says that it changes {', '.join(lacking)}, and did not"
    if not changed and not entered and cell.name != "adversary:wait":
        return "the script changed nothing"
    return ""


def read_off(cell: Cell, key: str, folder: Path, leaks: Sequence[Leak] | None) -> CellResult:
    """The result of a cell that is read off the trial in which nobody answers.

    Args:
        folder: the record of that trial.
        leaks: what the scan of its dump found; None where there is no dump.
    """
    if cell.name == "leaks":
        if leaks is None:
            return _result(cell, key, verdict="unknown", why="the trial did not come to the page, so nothing was read")
        shown = "; ".join(f"{leak.kind} `{leak.what}` in {leak.where}" for leak in leaks[:3])
        return _result(cell, key, verdict="holds" if not leaks else "leaks", ok=not leaks, why=shown)
    events = [event for event in read_lines(folder / "events.jsonl") if event["event"] == "stage"]
    ended = {event["stage"]: float(event["seconds"]) for event in events if event["state"] == "end"}
    lacking = [stage for stage in STAGES[cell.name] if stage not in ended]
    seconds = round(sum(ended.get(stage, 0.0) for stage in STAGES[cell.name]), 1)
    why = f"the stage {lacking[0]} did not come to its end" if lacking else ""
    return _result(cell, key, verdict="broken" if lacking else "holds", ok=not lacking, seconds=seconds, why=why)


def static(cell: Cell, key: str, faults: Sequence[str]) -> CellResult:
    """The result of a cell that needs no cluster."""
    why = "; ".join(faults[:3]) + (f" (and {len(faults) - 3} more)" if len(faults) > 3 else "")
    return _result(cell, key, verdict="broken" if faults else "holds", ok=not faults, why=why)
