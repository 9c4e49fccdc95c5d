"""The main job, as a user runs it: an incident, an answer, a verdict, a record."""

import json
from pathlib import Path

from aftershock.base.record import read_lines

from .conftest import aftershock, record

KEYS = {"problem", "agent", "verdict", "checks", "seconds", "record"}


def test_nothing_done_fails_and_a_right_fix_succeeds(tmp_path: Path) -> None:
    """One after the other, each on its own fresh cluster."""
    verdicts = {}
    for agent in ("nop", "fix:report-in-batches"):
        folder = tmp_path / agent.replace(":", "-")
        done = aftershock("trial", "amber-heron", "--agent", agent, "--json", "--record", str(folder), timeout=900)
        found = record(done)
        assert found.keys() >= KEYS, done.stderr
        assert found["seconds"].keys() >= {"total", "restore", "agent", "judge"}
        verdicts[agent] = (found["verdict"], [c["id"] for c in found["checks"] if c["result"] == "fail"])
        assert json.loads((folder / "trial.json").read_text())["verdict"] == found["verdict"]
        events = [e for e in read_lines(folder / "events.jsonl") if e["event"] == "stage"]
        stages = [e["stage"] for e in events if e["state"] == "begin"]
        assert stages == [
            "restore", "users", "baseline", "fault", "trigger", "suffering", "page", "agent", "judge", "teardown",
        ]  # fmt: skip
        page = (folder / "trial.html").read_text()
        assert "<svg" in page
        assert "http://" not in page.replace("http://www.w3.org", ""), "the page loads nothing from elsewhere"
    assert verdicts["nop"][0] == "failed"
    assert "users-served" in verdicts["nop"][1]
    assert verdicts["fix:report-in-batches"] == ("succeeded", [])
