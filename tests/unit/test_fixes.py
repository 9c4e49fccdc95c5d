"""Marks in fix scripts, and leaving a step out."""

import subprocess
from pathlib import Path

import pytest

from aftershock.base.errors import ProblemError
from aftershock.problem.fixes import parts, read_fix, without
from aftershock.problem.load import load

SCRIPT = """\
#!/bin/sh
# expect: right
# changes: ConfigMap/report, exec/postgres-0
# In two steps,
# both of them needed.
set -eu
say() { echo "$1" >>"$1.ran"; }
# step: setting, without it: next-one
say setting
# always
say between
# step: restart, without it: users-served
say restart
# step: tidy
say tidy
# check
say checked
"""
CHECKS = ["users-served", "next-one"]


def fix(tmp_path: Path, text: str = SCRIPT) -> Path:
    path = tmp_path / "two-steps.sh"
    path.write_text(text)
    return path


def ran(tmp_path: Path, text: str) -> set[str]:
    """What a script really ran."""
    place = tmp_path / "ran"
    place.mkdir()
    subprocess.run(["bash", "-c", text], cwd=place, check=True)
    return {path.stem for path in place.glob("*.ran")}


def test_a_header_with_steps_and_changes(tmp_path):
    read = read_fix(fix(tmp_path), CHECKS)
    assert read.steps == (("setting", "next-one"), ("restart", "users-served"), ("tidy", ""))
    assert read.changes == ("ConfigMap/report", "exec/postgres-0")
    assert read.description == "In two steps, both of them needed."


def test_the_parts_are_the_whole_script():
    assert "".join(part.text for part in parts(SCRIPT)) == SCRIPT
    assert [part.kind for part in parts(SCRIPT)] == ["always", "step", "always", "step", "step", "check"]
    assert [part.line for part in parts(SCRIPT)][1] == 8


def test_a_step_left_out_takes_the_proofs_with_it_and_nothing_else(tmp_path):
    assert ran(tmp_path, without(SCRIPT, "setting")) == {"between", "restart", "tidy"}


def test_the_whole_script_runs_everything(tmp_path):
    assert ran(tmp_path, SCRIPT) == {"setting", "between", "restart", "tidy", "checked"}


@pytest.mark.parametrize(
    ("old", "new", "line", "what", "todo"),
    [
        ("# step: tidy", "# step: restart", 14, "two steps are called `restart`", "line 12"),
        ("# step: tidy", "#step: tidy", 14, "cannot be read", "# step: name"),
        ("without it: next-one", "without it: next-on", 8, "no check is called `next-on`", "did you mean `next-one`?"),
        ("without it: next-one", "without: next-one", 8, "cannot be read", "without it:"),
        ("exec/postgres-0", "postgres-0", 3, "`postgres-0` is not a thing that a fix changes", "exec/postgres-0"),
    ],
)
def test_marks_that_are_wrong_are_told_with_their_line(tmp_path, old, new, line, what, todo):
    path = fix(tmp_path, SCRIPT.replace(old, new, 1))
    with pytest.raises(ProblemError) as caught:
        read_fix(path, CHECKS)
    assert what in caught.value.what
    assert todo in caught.value.todo
    assert caught.value.where == f"{path}:{line}"


def test_every_right_fix_of_the_first_problem_can_lose_each_necessary_step_and_still_be_a_script():
    problem = load("amber-heron")
    seen = 0
    for one in problem.fixes:
        text = one.path.read_text()
        for step, decides in one.steps:
            left = without(text, step)
            assert len(left) < len(text)
            assert decides == "" or decides in problem.check_ids()
            subprocess.run(["bash", "-n", "-c", left], check=True)
            seen += 1
    assert seen >= 6
