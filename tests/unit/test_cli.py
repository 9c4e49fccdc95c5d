"""The command line: help, errors with what, where and next, one JSON record last."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parents[2]
PROGRAM = str(Path(sys.executable).with_name("aftershock"))


def run(*argv: str, **env: str) -> subprocess.CompletedProcess[str]:
    wide = {**os.environ, "COLUMNS": "200", **env}
    return subprocess.run([PROGRAM, *argv], capture_output=True, text=True, timeout=60, check=False, env=wide)


def test_help_lists_every_command_and_imports_nothing_heavy() -> None:
    shown = run("--help").stdout
    for command in (
        "up",
        "down",
        "list",
        "shell",
        "snapshot",
        "restore",
        "doctor",
        "trial",
        "demo",
        "audit",
        "lint",
        "show",
    ):
        assert f" {command} " in shown
    heavy = ("kr8s", "httpx", "pydantic", "yaml", "aiohttp")
    code = f"import sys, aftershock.cli.main; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_version() -> None:
    import aftershock

    assert run("--version").stdout.strip() == aftershock.__version__
    assert aftershock.__all__ == ["__version__"]


@pytest.mark.parametrize(
    ("argv", "code", "said", "step"),
    [
        (("trial", "no-such-problem"), 2, "no-such-problem", ""),
        (("trial", "amber-heron", "--agent", "nobody"), 2, "nobody", "nop"),
        (("trial", "amber-heron", "--agent", "fix:no-such-fix"), 2, "no-such-fix", ""),
        (("audit", "no-such-problem"), 2, "no-such-problem", ""),
        (("audit", "amber-heron", "--jobs", "many"), 2, "not a number of boxes", "auto"),
        (("show", "amber-hero"), 2, "no problem `amber-hero`", "amber-heron"),
        (("lint", "amber-hero"), 2, "no problem `amber-hero`", "amber-heron"),
        (("lint", "--explain", "AS999"), 2, "no rule AS999", "AS"),
        (("new", "grey-otter", "--from", "/no/such.yaml"), 2, "could not read", ""),
        (("down", "no-such-box"), 2, "there is no box no-such-box", "boxes here"),
        (("restore", "no-such-state"), 2, "there is no snapshot no-such-state", "snapshots here"),
        (("up", "--name", "Not A Name"), 2, "cannot be a box's name", "lower-case"),
        (("up", "--stack", "no-such-stack"), 2, "no-such-stack", ""),
        (("trial", "amber-heron", "--kubeconfig", "/dev/null"), 2, "not a kubeconfig", "path"),
    ],
)
def test_what_is_wrong_is_told_with_the_next_step(
    argv: tuple[str, ...], code: int, said: str, step: str, tmp_path: Path
) -> None:
    done = run(*argv, "--json", AFTERSHOCK_STATE=str(tmp_path))
    assert done.returncode == code, done.stderr
    record = json.loads(done.stdout.strip().splitlines()[-1])
    assert said in record["error"]
    assert step in record["next"]
    assert said in done.stderr.replace("\n", " ")


def test_an_empty_machine_says_so(tmp_path: Path) -> None:
    for argv, key in ((("list",), "boxes"), (("snapshot", "list"), "snapshots")):
        done = run(*argv, "--json", AFTERSHOCK_STATE=str(tmp_path))
        assert json.loads(done.stdout)[key] == []


def problems_of(*argv: str, root: Path) -> list[dict[str, object]]:
    done = run("list", *argv, "--json", AFTERSHOCK_STATE=str(root / "state"), AFTERSHOCK_ROOT=str(root))
    assert done.returncode == 0, done.stderr
    found: list[dict[str, object]] = json.loads(done.stdout)["problems"]
    return found


def test_problems_are_listed_with_what_keeps_them_from_being_sound(tmp_path: Path) -> None:
    folder = tmp_path / "problems" / "amber-heron"
    shutil.copytree(HERE / "problems" / "amber-heron", folder)
    (folder / "audit.json").unlink(missing_ok=True)
    (tmp_path / "stacks").symlink_to(HERE / "stacks")
    broken = tmp_path / "problems" / "grey-otter"
    broken.mkdir()
    (broken / "problem.yaml").write_text("titel: x\n")
    rows = {row["id"]: row for row in problems_of(root=tmp_path)}
    assert rows["amber-heron"] == {
        "id": "amber-heron",
        "title": "A column is added while a report reads",
        "mechanism": "lock-contention",
        "sound": False,
        "why": "it was never audited",
    }
    assert "titel" in str(rows["grey-otter"]["why"])
    assert problems_of("--sound", root=tmp_path) == []


def test_show_and_lint_speak_of_one_problem() -> None:
    shown = json.loads(run("show", "amber-heron", "--json").stdout)
    assert shown["mechanism"] == "lock-contention"
    assert {fix["name"] for fix in shown["fixes"]} >= {"report-in-batches", "fresh-table"}
    linted = run("lint", "amber-heron", "--json")
    assert (linted.returncode, json.loads(linted.stdout)["errors"]) == (0, 0)
    assert "necessary step" in json.loads(run("lint", "--explain", "AS023", "--json").stdout)["why"]


def test_schemas_are_printed() -> None:
    assert json.loads(run("schema", "answer").stdout)["properties"].keys() >= {"components", "mechanism", "confidence"}
