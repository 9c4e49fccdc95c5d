"""Running a matrix: resumed after a kill, only what changed, again where the machine got in the way.

The trials' processes are replaced by one that writes the record that such a trial leaves: what runs a trial is
tested on the real box. The problem is the real one.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aftershock.audit import record, run
from aftershock.audit.admission import Admission
from aftershock.audit.matrix import Cell
from aftershock.base.errors import UsageError
from aftershock.base.record import Record
from aftershock.problem.load import load, read
from aftershock.problem.model import Problem, walk
from aftershock.stack.load import load as load_stack

Verdicts = Callable[[Cell, int], str]


class Trials:
    """Stands for the processes: what each cell's trial comes to, and which were run."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.ran: list[str] = []
        self.kill_at = ""
        self.verdicts: Verdicts = lambda cell, attempt: cell.expected[0]
        self.dump = json.dumps({"where": "log a", "text": "all is well", "data": None})

    async def process(self, problem: str, cell: Cell, folder: Path, *, scan: bool, seconds: float, tell: Any) -> str:
        if cell.name == self.kill_at:
            raise RuntimeError("killed")
        self.ran.append(cell.name)
        tell({"event": "stage", "stage": "restore", "state": "end"})
        attempt = self.ran.count(cell.name)
        verdict = self.verdicts(cell, attempt)
        journal = Record(folder)
        for stage in ("baseline", "fault", "trigger", "suffering", "page"):
            journal.event("stage", stage=stage, state="end", seconds=1.0)
        (folder / "trial.json").write_text(json.dumps(self.document(cell, verdict, folder)))
        journal.close()
        if scan:
            (folder / "agent").mkdir()
            (folder / "agent" / "dump.jsonl").write_text(self.dump + "\n")
        return ""

    def document(self, cell: Cell, verdict: str, folder: Path) -> dict[str, Any]:
        decided = list(cell.decides[:1]) or ["users-served"]
        failed = verdict in ("failed", "unsafe")
        checks = [
            {"id": c.id, "family": c.family, "result": "fail" if failed and c.id in decided else "pass", "said": "x"}
            for c in walk(self.problem.oracle)
        ]
        details = {"commands": 3, "changed": dict.fromkeys(cell.changes, "changed: spec") or {"Pod/a": "deleted"}}
        return {
            "state": "finished",
            "verdict": verdict,
            "why": "so",
            "decided_by": decided if failed else [],
            "checks": checks,
            "seconds": {"total": 60.0},
            "record": str(folder),
            "agent_result": {"ended": "done", "said": "", "details": {**details, "entered": []}},
        }


class Place:
    """A copy of the problem, and audits of it."""

    def __init__(self, folder: Path, runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.runs = folder, runs
        self.trials = Trials(read(folder))
        monkeypatch.setattr(run, "run_process", self.trials.process)

    async def audit(self, **said: Any) -> dict[str, Any]:
        self.trials.ran.clear()
        problem = read(self.folder)
        stack = load_stack(problem.stack)
        return await run.audit(problem, stack, folder=self.runs, admission=Admission(4, lambda: 64 << 30), **said)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    folder = tmp_path / "amber-heron"
    shutil.copytree(load("amber-heron").folder, folder)
    (folder / "audit.json").unlink(missing_ok=True)
    return Place(folder, tmp_path / "runs", monkeypatch)


async def test_a_green_audit_is_sound_until_something_changes(place):
    document = await place.audit()
    assert document["sound"], document["why"]
    assert len(place.trials.ran) == len(set(place.trials.ran)) > 25
    assert json.loads((place.folder / "audit.json").read_text())["judged"] == document["judged"]
    assert record.soundness(read(place.folder)).sound
    for key in ("problem", "sound", "cells", "checks", "leaks", "seconds"):
        assert key in document
    assert {"name", "expected", "verdict", "check", "ok", "seconds"} <= document["cells"][0].keys()
    assert {"id", "kills", "idle"} <= document["checks"][0].keys()
    yaml = place.folder / "problem.yaml"
    yaml.write_text(yaml.read_text().replace("hold: 30", "hold: 29"))
    holds = record.soundness(read(place.folder))
    assert not holds.sound
    assert "stale" in holds.why


async def test_the_records_digest_is_not_part_of_the_problems(place):
    before = read(place.folder).digest
    await place.audit()
    assert read(place.folder).digest == before


async def test_only_what_changed_is_run_since_the_last_record(place):
    await place.audit()
    path = place.folder / "fixes" / "stop-report.sh"
    path.write_text(path.read_text() + "true\n")
    document = await place.audit(since=True)
    assert place.trials.ran == ["fix:stop-report"]
    assert document["sound"]
    await place.audit()
    assert len(place.trials.ran) > 25, "without --since all is run anew"


async def test_what_was_red_is_run_again_since(place):
    place.trials.verdicts = lambda cell, attempt: (
        "failed" if cell.name == "fix:report-in-batches#1" else cell.expected[0]
    )
    assert not (await place.audit())["sound"]
    place.trials.verdicts = lambda cell, attempt: cell.expected[0]
    assert (await place.audit(since=True))["sound"]
    assert place.trials.ran == ["fix:report-in-batches#1"]


async def test_an_audit_that_was_killed_goes_on(place):
    place.trials.kill_at = "fix:stop-report"
    with pytest.raises(RuntimeError, match="killed"):
        await place.audit()
    ended = {
        json.loads(line)["result"]["name"]
        for line in (place.runs / "events.jsonl").read_text().splitlines()
        if json.loads(line)["event"] == "cell"
    }
    assert ended
    with (place.runs / "events.jsonl").open("a") as journal:
        journal.write('{"event": "cell", "resu')  # what a kill leaves of a line
    place.trials.kill_at = ""
    document = await place.audit()
    assert document["sound"], document["why"]
    assert not ended & set(place.trials.ran), "no cell that had ended was run again"
    assert "fix:stop-report" in place.trials.ran


async def test_a_cell_that_the_machine_got_in_the_way_of_is_run_again_three_times_at_most(place):
    def verdicts(cell: Cell, attempt: int) -> str:
        slow = cell.name == "fix:stop-report" and attempt < 3
        return "infra_error" if slow or cell.name == "fix:drop-probe" else cell.expected[0]

    place.trials.verdicts = verdicts
    document = await place.audit()
    assert place.trials.ran.count("fix:stop-report") == 3
    assert place.trials.ran.count("fix:drop-probe") == 3
    cells = {cell["name"]: cell for cell in document["cells"]}
    assert (cells["fix:stop-report"]["ok"], cells["fix:stop-report"]["attempts"]) == (True, 3)
    assert not cells["fix:drop-probe"]["ok"]
    assert not document["sound"]


async def test_a_problem_that_does_not_land_is_told_once(place):
    place.trials.verdicts = lambda cell, attempt: "invalid_problem"
    document = await place.audit()
    assert not document["sound"]
    assert len(place.trials.ran) < 6, "the rest would only have said the same"
    assert "invalid_problem" in document["why"]


async def test_a_leak_keeps_a_problem_from_being_sound(place):
    place.trials.dump = json.dumps({"where": "log a", "text": "the benchmark begins", "data": None})
    document = await place.audit()
    assert [leak["what"] for leak in document["leaks"]] == ["benchmark"]
    assert not document["sound"]
    assert not (await place.audit(since=True, pattern="fix:*"))["sound"], "and goes on to, until it is read again"


async def test_a_part_is_not_the_whole(place):
    document = await place.audit(pattern="fix:report-in-batches,nop")
    assert sorted(place.trials.ran) == ["fix:report-in-batches#1", "fix:report-in-batches#2", "nop"]
    assert not document["sound"]
    assert "were not run" in document["why"]
    assert record.soundness(read(place.folder)).why == document["why"]
    whole = await place.audit(since=True)
    assert whole["sound"]
    assert "nop" not in place.trials.ran


async def test_two_audits_of_one_problem_do_not_run_at_once(place):
    import fcntl

    place.runs.mkdir()
    with (place.runs / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(UsageError, match="another audit"):
            await place.audit()


def test_a_problem_without_a_record_and_one_whose_record_is_damaged(place):
    assert record.soundness(read(place.folder)).why == "it was never audited"
    (place.folder / "audit.json").write_text("{")
    assert "cannot be read" in record.soundness(read(place.folder)).why
