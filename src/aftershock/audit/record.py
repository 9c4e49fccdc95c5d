"""audit.json: a problem's proof, with the hash of all that was judged; and the question whether it still holds."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from aftershock.audit.derive import check_rows, findings, hangs_on
from aftershock.audit.keys import keys_of
from aftershock.audit.leaks import Leak
from aftershock.audit.matrix import Cell, matrix
from aftershock.audit.settle import CellResult
from aftershock.base.errors import AftershockError, ProblemError
from aftershock.base.record import write_json
from aftershock.cluster.parts import digest
from aftershock.problem.model import Problem
from aftershock.stack.load import Stack
from aftershock.stack.load import load as load_stack

__all__ = ["NAME", "Soundness", "assemble", "kept_cells", "read", "save", "soundness"]

NAME = "audit.json"
FORMAT = 1


@dataclass(frozen=True)
class Soundness:
    """Whether a problem counts, and why not."""

    sound: bool
    why: str


def assemble(
    problem: Problem,
    cells: Sequence[Cell],
    keys: Mapping[str, str],
    results: Mapping[str, CellResult],
    leaks: Sequence[Leak],
    *,
    seconds: float,
    machine: Mapping[str, Any],
) -> dict[str, Any]:
    """The record of an audit, also of one that is not complete: cells without a result are red then."""
    ordered = [results[cell.name] for cell in cells if cell.name in results]
    lacking = [cell.name for cell in cells if cell.name not in results]
    found = findings(problem.oracle, ordered)
    red = [cell for cell in ordered if not cell.ok]
    grave = [finding.what for finding in found if finding.grave]
    sound = not (lacking or red or grave or leaks)
    why = ""
    if lacking:
        why = f"{len(lacking)} of {len(cells)} cells were not run: {', '.join(lacking[:4])}"
    if red or grave:
        why = "; ".join(grave[:3]) or f"{red[0].name}: {red[0].why}"
    return {
        "format": FORMAT,
        "problem": problem.id,
        "sound": sound,
        "why": why,
        "digest": problem.digest,
        "judged": digest(*(f"{name} {key}" for name, key in sorted(keys.items()))),
        "audited": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "seconds": round(seconds, 1),
        "machine": dict(machine),
        "cells": [{**_plain(asdict(cell)), "hangs_on": hangs_on(problem.oracle, cell.results)} for cell in ordered],
        "lacking": lacking,
        "checks": [{**_plain(asdict(row)), "idle": row.idle} for row in check_rows(problem.oracle, ordered)],
        "findings": [asdict(finding) for finding in found],
        "leaks": [asdict(leak) for leak in leaks],
    }


def _plain(entry: dict[str, Any]) -> dict[str, Any]:
    """Without what only says where it was run."""
    return {key: value for key, value in entry.items() if key not in ("record", "retry")}


def save(folder: Path, document: Mapping[str, Any]) -> Path:
    """Write it into the problem's folder."""
    write_json(folder / NAME, document)
    return folder / NAME


def read(folder: Path) -> dict[str, Any] | None:
    """The record of a problem, None where there is none.

    Raises:
        ProblemError: it is damaged.
    """
    try:
        document = json.loads((folder / NAME).read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ProblemError(
            f"the audit's record cannot be read: {error}", where=str(folder / NAME), todo="audit the problem again"
        ) from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ProblemError("the audit's record has another format", where=str(folder / NAME), todo="audit it again")
    return document


def kept_cells(document: Mapping[str, Any] | None, keys: Mapping[str, str]) -> dict[str, CellResult]:
    """The results of a record that still hold: of cells that hang on the same things as now."""
    found = {}
    for entry in (document or {}).get("cells", []):
        known = {name: value for name, value in entry.items() if name in CellResult.__dataclass_fields__}
        result = CellResult(**{**known, "decides": tuple(known.get("decides", ()))})
        if keys.get(result.name) == result.key:
            found[result.name] = result
    return found


def soundness(problem: Problem, stacks: dict[str, Stack] | None = None) -> Soundness:
    """Whether a problem's record is green, complete and about what is there now.

    Args:
        stacks: those that were read already, by name; filled with what is read.
    """
    known = {} if stacks is None else stacks
    try:
        document = read(problem.folder)
        if document is None:
            return Soundness(False, "it was never audited")
        stack = known.get(problem.stack) or load_stack(problem.stack)
        known[problem.stack] = stack
        cells = matrix(problem, stack)
    except AftershockError as error:
        return Soundness(False, error.what)
    keys = keys_of(cells, problem, stack)
    kept = kept_cells(document, keys)
    if stale := [name for name in keys if name not in kept]:
        if document["lacking"] and set(stale) <= set(document["lacking"]):
            return Soundness(False, document["why"])
        return Soundness(False, f"stale: {len(stale)} of {len(keys)} cells are about something else than is there now")
    return Soundness(bool(document["sound"]), document["why"])
