"""A cell's process: what becomes of one that cannot begin, and of one that does not end."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from aftershock.audit import process
from aftershock.audit.matrix import Cell
from aftershock.audit.process import run_process

CELL = Cell("fix:a", "wrong", ("failed",), "", script="true\n")


async def test_a_problem_that_cannot_be_read_is_told_with_its_words(tmp_path):
    folder = tmp_path / "x" / "grey-otter"
    folder.mkdir(parents=True)
    (folder / "problem.yaml").write_text("titel: x\n")
    events: list[dict[str, Any]] = []
    told = await run_process(str(folder), CELL, tmp_path / "cell", scan=False, seconds=60, tell=events.append)
    assert told.startswith("its process ended with 2: ")
    assert "titel" in told
    assert events == []
    assert (tmp_path / "cell" / "script.sh").read_text() == "true\n"
    spec = json.loads((tmp_path / "cell" / "cell.json").read_text())
    assert (spec["name"], spec["scan"], Path(spec["script"]).name) == ("fix:a", False, "script.sh")


@pytest.mark.parametrize("obeys", [True, False])
async def test_one_that_does_not_end_is_asked_and_then_killed(tmp_path, monkeypatch, obeys):
    """The program is another here: one that tells a line and goes on for ever, whether or not it may be asked."""
    program = tmp_path / "python"
    trap = "" if obeys else "trap '' TERM\n"
    program.write_text(f'#!/bin/bash\n{trap}echo \'{{"event": "stage"}}\'\nwhile :; do sleep 0.1; done\n')
    program.chmod(0o755)
    monkeypatch.setattr(process.sys, "executable", str(program))
    monkeypatch.setattr(process, "TO_CLEAN_UP", 0.5)
    events: list[dict[str, Any]] = []
    begin = time.monotonic()
    told = await run_process("x", CELL, tmp_path / "cell", scan=False, seconds=1, tell=events.append)
    assert told == "it had not ended after 1 s"
    assert events == [{"event": "stage"}]
    assert time.monotonic() - begin < 20
