"""Running a matrix: each cell in its own box, several at once, a record as it goes, resumed after a kill.

The journal of an audit (`events.jsonl` in its folder) gets each result as soon as it is known. An audit that finds a
journal without an end goes on from there: cells that ended and still hang on the same things are not run again.
"""

import asyncio
import fcntl
import json
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from aftershock.audit import lint, record
from aftershock.audit.admission import MEMORY_OF_A_TRIAL, Admission, cores
from aftershock.audit.keys import keys_of
from aftershock.audit.leaks import Leak, scan_file
from aftershock.audit.matrix import Cell, chosen, matrix
from aftershock.audit.process import run_process
from aftershock.audit.settle import CellResult, read_off, settle, static, unsettled, void
from aftershock.base.errors import UsageError
from aftershock.base.record import Record, read_lines
from aftershock.cluster.host import memory_available
from aftershock.oracle.diagnosis import misgraded
from aftershock.problem.model import Problem
from aftershock.stack.load import Stack

__all__ = ["Tell", "audit"]

Tell = Callable[[str, Mapping[str, Any]], None]

ATTEMPTS = 3
# Seconds besides a problem's own limits: restoring, faults, suffering, taking down.
BESIDES = 600.0


@dataclass
class _Audit:
    """One problem's audit while it runs."""

    problem: Problem
    stack: Stack
    cells: tuple[Cell, ...]
    keys: dict[str, str]
    folder: Path
    admission: Admission
    journal: Record
    tell: Tell
    results: dict[str, CellResult] = field(default_factory=dict)
    leaks: list[Leak] = field(default_factory=list)
    invalid: str = ""

    def keep(self, result: CellResult, leaks: Sequence[Leak] = ()) -> None:
        """A result is known: into the journal first, then told."""
        self.results[result.name] = result
        self.leaks += leaks
        self.journal.event("cell", result=asdict(result), leaks=[asdict(leak) for leak in leaks])
        self.tell("cell", {"cell": result.name, "result": result})

    async def trial(self, cell: Cell) -> None:
        """Run a cell until the machine lets it be judged, three times at most."""
        for attempt in range(1, ATTEMPTS + 1):
            if self.invalid and cell.kind != "nop":
                return  # every other cell would say the same
            async with self.admission.enter(alone=attempt == ATTEMPTS) as ticket:
                result, folder = await self._attempt(cell, attempt, ticket.started)
            if not result.retry:
                break
            self.tell("again", {"cell": cell.name, "why": result.why, "attempt": attempt})
        self.keep(replace(result, attempts=attempt))
        if cell.kind == "nop":
            self._read_off(folder)
            if result.verdict == "invalid_problem":
                self.invalid = result.why

    async def _attempt(self, cell: Cell, attempt: int, started: Callable[[], None]) -> tuple[CellResult, Path]:
        name = cell.name.replace("/", "+").replace(":", "-").replace("#", "-")
        folder = self.folder / "cells" / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"
        begin = time.monotonic()
        self.tell("begin", {"cell": cell.name, "folder": folder, "attempt": attempt})

        def heard(event: dict[str, Any]) -> None:
            if event.get("event") == "stage" and event.get("stage") == "restore" and event.get("state") != "begin":
                started()
            self.tell("event", {"cell": cell.name, "event": event})

        limits = self.problem.limits
        trouble = await run_process(
            str(self.problem.folder),
            cell,
            folder,
            scan=cell.kind == "nop",
            seconds=BESIDES + limits.baseline + limits.agent + limits.judge,
            tell=heard,
        )
        document = _document(folder)
        if document is None or document["state"] != "finished":
            return unsettled(
                cell, self.keys[cell.name], trouble or "it left no record", time.monotonic() - begin
            ), folder
        return settle(cell, self.keys[cell.name], document), folder

    def _read_off(self, folder: Path) -> None:
        dump = folder / "agent" / "dump.jsonl"
        found = scan_file(dump, self.problem) if dump.is_file() else None
        for cell in self.cells:
            if cell.kind == "read-off":
                result = read_off(cell, self.keys[cell.name], folder, found)
                self.keep(result, (found or []) if cell.name == "leaks" else [])

    def statics(self, wanted: Sequence[Cell]) -> None:
        """The cells that need no cluster."""
        for cell in wanted:
            if cell.kind == "static":
                self.keep(static(cell, self.keys[cell.name], _static_faults(cell, self.problem)))
            elif cell.void:
                self.keep(void(cell, self.keys[cell.name], cell.void))


def _document(folder: Path) -> dict[str, Any] | None:
    try:
        document: dict[str, Any] = json.loads((folder / "trial.json").read_text())
    except (OSError, ValueError):
        return None
    return document


def _static_faults(cell: Cell, problem: Problem) -> list[str]:
    if cell.name == "answers":
        if problem.answers is None:
            return ["the problem says nothing about what a right diagnosis is"]
        wrong = misgraded(problem.answers)
        return [f"`{example.name}` is graded {got.level} ({got.score}), not {example.expect}" for example, got in wrong]
    faults = lint.lint_folder(problem.folder)
    return [f"{fault.code} {fault.where}: {fault.what}" for fault in faults if fault.severity == "error"]


async def audit(
    problem: Problem,
    stack: Stack,
    *,
    folder: Path,
    admission: Admission,
    pattern: str = "*",
    since: bool = False,
    tell: Tell = lambda kind, data: None,
) -> dict[str, Any]:
    """Audit a problem: run what has to be run, write its `audit.json`, return it.

    Args:
        folder: where the journal and the records of the trials are; an audit that was killed goes on from there.
        pattern: which cells, by name.
        since: take over what the last record says of cells that hang on the same things as now.

    Raises:
        UsageError: no cell matches, or another audit of this problem is running.
    """
    cells = matrix(problem, stack)
    keys = keys_of(cells, problem, stack)
    wanted = _wanted(cells, pattern)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(
                f"another audit of {problem.id} is running", where=str(folder), todo="wait for it"
            ) from None
        before, leaks, begun = _resumed(folder, keys)
        if not begun:
            (folder / "events.jsonl").unlink(missing_ok=True)
        one = _Audit(problem, stack, cells, keys, folder, admission, Record(folder), tell, before, leaks)
        try:
            return await _run(one, wanted, since=since, whole=pattern == "*")
        finally:
            one.journal.close()


async def _run(one: _Audit, wanted: Sequence[Cell], *, since: bool, whole: bool) -> dict[str, Any]:
    begin = time.monotonic()
    one.journal.event("begin", problem=one.problem.id, digest=one.problem.digest)
    last = record.read(one.problem.folder)
    kept = record.kept_cells(last, one.keys)
    if since:
        one.results = {**{name: cell for name, cell in kept.items() if cell.ok}, **one.results}
    if any(cell.kind == "read-off" and cell.name not in one.results for cell in wanted):
        one.results.pop("nop", None)  # what is read off it is not known, so it has to be looked at again
    one.tell("resumed", {"cells": list(one.results), "of": len(one.cells)})
    one.statics([cell for cell in wanted if cell.name not in one.results])
    pending = [cell for cell in wanted if cell.is_trial and cell.name not in one.results]
    if not await _in_turn(one, pending) and not one.invalid:
        one.tell("nothing", {})
    results = {**({} if whole else kept), **one.results}
    leaks = one.leaks or [Leak(**entry) for entry in (last or {}).get("leaks", []) if "leaks" in kept]
    machine = {"cores": cores(), "memory_free_mib": memory_available() >> 20, "jobs": one.admission.jobs}
    machine["memory_of_a_trial_mib"] = MEMORY_OF_A_TRIAL >> 20
    seconds = time.monotonic() - begin
    document = record.assemble(one.problem, one.cells, one.keys, results, leaks, seconds=seconds, machine=machine)
    record.save(one.problem.folder, document)
    one.journal.event("end", sound=document["sound"], why=document["why"], seconds=round(seconds, 1))
    return document


async def _in_turn(one: _Audit, pending: Sequence[Cell]) -> int:
    """Run trials as they are admitted; an error of one ends all."""
    try:
        async with asyncio.TaskGroup() as group:
            for cell in pending:
                group.create_task(one.trial(cell))
    except BaseExceptionGroup as several:
        raise several.exceptions[0] from None
    return len(pending)


def _wanted(cells: Sequence[Cell], pattern: str) -> list[Cell]:
    """The cells to be run; those that are read off another bring it with them."""
    found = list(chosen(cells, pattern))
    if any(cell.kind == "read-off" for cell in found):
        found += [cell for cell in cells if cell.kind == "nop" and cell not in found]
    return sorted(found, key=lambda cell: cell.kind != "nop")


def _resumed(folder: Path, keys: Mapping[str, str]) -> tuple[dict[str, CellResult], list[Leak], bool]:
    """What a journal without an end says of cells that still hang on the same things."""
    results: dict[str, CellResult] = {}
    leaks: list[Leak] = []
    ended = True
    _mend(folder / "events.jsonl")
    for event in read_lines(folder / "events.jsonl"):
        if event["event"] in ("begin", "end"):
            ended = event["event"] == "end"
        elif event["event"] == "cell":
            result = CellResult(**{**event["result"], "decides": tuple(event["result"]["decides"])})
            if keys.get(result.name) == result.key and not result.retry:
                results[result.name] = result
                leaks += [Leak(**leak) for leak in event["leaks"]]
    return ({}, [], False) if ended else (results, leaks, True)


def _mend(journal: Path) -> None:
    """Cut off a last line that a kill left unfinished, so that what is appended is a line of its own."""
    if journal.exists() and (data := journal.read_bytes()) and not data.endswith(b"\n"):
        with journal.open("r+b") as file:
            file.truncate(data.rfind(b"\n") + 1)
