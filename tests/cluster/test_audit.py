"""The audit on the real box: cells that hold, a seeded wrong oracle that is caught, and a kill half-way."""

import asyncio
import contextlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from aftershock.base.paths import source_root
from aftershock.base.wait import NotYet, until
from aftershock.cluster.box import lifecycle

from .conftest import PROGRAM, aftershock, record

SEEDED = """  - id: next-migration
    family: challenge
    why: A challenge that never fires the trigger, as a wrong oracle has it.
    challenge:
      steps:
        - wait: {users: served}
      users: {watch: 2, stall: 5, bad_seconds: 5}
"""


@pytest.fixture
def problem(tmp_path: Path) -> Path:
    """A copy, so that its record is not that of the checkout."""
    folder = tmp_path / "amber-heron"
    shutil.copytree(source_root() / "problems" / "amber-heron", folder)
    (folder / "audit.json").unlink(missing_ok=True)
    return folder


def audit(problem: Path, cells: str, *more: str) -> dict[str, Any]:
    out = problem.parent / "runs"
    return record(aftershock("audit", str(problem), "--cells", cells, "--out", str(out), "--json", *more, timeout=900))


def test_cells_hold_and_nothing_leaks(problem: Path) -> None:
    found = audit(problem, "nop,baseline,fault,suffering,page,leaks,fix:stop-report,adversary:turn-users-away")
    cells = {cell["name"]: cell for cell in found["cells"]}
    assert {name for name, cell in cells.items() if not cell["ok"]} == set(), found["why"]
    assert cells["nop"]["check"] == "users-served"
    assert cells["fix:stop-report"]["check"] == "report-runs"
    assert "Deployment/sales-report" in cells["fix:stop-report"]["changed"]
    assert cells["adversary:turn-users-away"]["changed"]["Service/gateway"] == "changed: spec"
    assert found["leaks"] == []
    assert not found["sound"], "a part is not the whole"
    assert "<svg" not in (page := Path(found["page"]).read_text())
    assert "fix:stop-report" in page
    dump = next((problem.parent / "runs").glob("audit-amber-heron/cells/nop-*/agent/dump.jsonl"))
    places = {json.loads(line)["where"].split(" ")[0].split("/")[0] for line in dump.read_text().splitlines()}
    assert places >= {"page", "kubeconfig", "version", "pods.v1", "deployments.apps", "configmaps.v1", "log", "exec"}


def test_a_challenge_that_never_fires_is_reported(problem: Path) -> None:
    text = (problem / "problem.yaml").read_text()
    head, tail = text.split("  - id: next-migration")[0], text.split("\nanswers:")[1]
    (problem / "problem.yaml").write_text(f"{head}{SEEDED}\nanswers:{tail}")
    found = audit(problem, "fix:end-session")
    assert (found["findings"][0]["code"], found["findings"][0]["grave"]) == ("wrong-passes", True)
    assert "fix:end-session" in found["findings"][0]["what"]


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


async def test_an_audit_that_is_killed_leaves_no_box_and_goes_on(problem: Path) -> None:
    out = problem.parent / "runs"
    argv = [*PROGRAM, "audit", str(problem), "--cells", "lint,fix:stop-report", "--out", str(out), "--json"]
    quiet = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*argv, stdout=quiet, stderr=quiet)
    try:
        users = "audit-amber-heron/cells/fix-stop-report-*/users/requests.jsonl"

        async def running() -> str:
            if process.returncode is not None:
                raise AssertionError("it ended by itself")
            if not list(out.glob(users)):
                raise NotYet("no user has come")
            return next(box.name for box in lifecycle.all_layouts() if parent_of(box.owner.pid) == process.pid)

        box = await until(running, what="the cell's users have come", seconds=300, every=0.5)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()

    async def gone() -> None:
        if box in {layout.name for layout in lifecycle.all_layouts()}:
            raise NotYet(f"{box} is still there")

    await until(gone, what="the cell has ended with its audit", seconds=90, every=0.5)
    found = await asyncio.to_thread(audit, problem, "lint,fix:stop-report")
    assert {cell["name"]: cell["verdict"] for cell in found["cells"]} == {"lint": "holds", "fix:stop-report": "failed"}
    journal = (out / "audit-amber-heron" / "events.jsonl").read_text()
    names = [json.loads(line)["result"]["name"] for line in journal.splitlines() if '"event": "cell"' in line]
    assert names.count("lint") == 1, "what had ended was not done again"
