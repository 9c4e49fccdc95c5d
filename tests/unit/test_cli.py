"""The command line: help, errors with what, where and next, one JSON record last."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = str(Path(sys.executable).with_name("aftershock"))


def run(*argv: str, **env: str) -> subprocess.CompletedProcess[str]:
    wide = {**os.environ, "COLUMNS": "200", **env}
    return subprocess.run([PROGRAM, *argv], capture_output=True, text=True, timeout=60, check=False, env=wide)


def test_help_lists_every_command_and_imports_nothing_heavy() -> None:
    shown = run("--help").stdout
    for command in ("up", "down", "list", "shell", "snapshot", "restore", "doctor", "trial", "demo"):
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
        assert json.loads(done.stdout) == {key: []}
