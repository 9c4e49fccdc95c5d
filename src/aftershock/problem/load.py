"""Finding and reading problem folders. There is no central list: a folder with a problem.yaml is one."""

import hashlib
import re
from pathlib import Path
from typing import Literal, cast

from aftershock.base.errors import ProblemError, UsageError
from aftershock.base.paths import source_root
from aftershock.problem.model import (
    CheckSpec,
    Database,
    Fix,
    GroupSpec,
    Limits,
    Page,
    Postmortem,
    Problem,
    Suffering,
    walk,
)
from aftershock.problem.schema import ProblemFile, read_nodes, read_steps
from aftershock.problem.source import Source, near

__all__ = ["digest", "find", "load", "read"]

EXPECTATIONS = ("right", "wrong", "unsafe", "partial")


def find(root: Path | None = None) -> dict[str, Path]:
    """All problem folders under `<root>/problems`, by id."""
    base = (root or source_root()) / "problems"
    return {file.parent.name: file.parent for file in sorted(base.glob("*/problem.yaml"))}


def load(name: str, root: Path | None = None) -> Problem:
    """Read a problem by its id, or by the path of its folder.

    Raises:
        UsageError: there is none of that id.
        ProblemError: it is malformed; `where` names file and line.
    """
    folders = find(root)
    if name in folders:
        return read(folders[name])
    if "/" in name and (Path(name) / "problem.yaml").is_file():
        return read(Path(name).resolve())
    raise UsageError(
        f"there is no problem `{name}`",
        where=str((root or source_root()) / "problems"),
        todo=near(name, folders) if folders else "set $AFTERSHOCK_ROOT to the folder that holds problems/",
    )


def read(folder: Path) -> Problem:
    """Read one problem folder."""
    source = Source.read(folder / "problem.yaml")
    if not isinstance(source.data, dict):
        raise source.error("the file is empty or not a mapping", (), "copy an existing problem and go on from there")
    file = source.model(ProblemFile, source.data)
    if not (folder / file.page.file).is_file():
        raise source.error(f"there is no {file.page.file}", ("page",), "write what the on-call would be told into it")
    oracle = GroupSpec("all", read_nodes(source, file.oracle, ("oracle",)))
    _unique(source, walk(oracle))
    if not file.trigger and not file.fault:
        raise source.error("neither a fault nor a trigger", (), "add `fault:` or `trigger:` with steps")
    return Problem(
        id=folder.name,
        folder=folder,
        title=file.title,
        summary=file.summary.strip(),
        stack=file.stack,
        postmortem=Postmortem(**file.postmortem.model_dump()),
        users_rate=file.users.rate,
        databases={name: Database(**entry.model_dump()) for name, entry in file.databases.items()},
        fault=read_steps(source, file.fault, ("fault",)),
        trigger=read_steps(source, file.trigger, ("trigger",)),
        suffering=Suffering(**file.suffering.model_dump()),
        page=Page(**file.page.model_dump()),
        limits=Limits(**file.limits.model_dump()),
        oracle=oracle,
        fixes=read_fixes(folder, [check.id for check in walk(oracle)]),
        digest=digest(folder),
        size=file.size,
        components=tuple(file.components),
    )


def _unique(source: Source, checks: list[CheckSpec]) -> None:
    seen: dict[str, CheckSpec] = {}
    for check in checks:
        if check.id in seen:
            raise source.error(
                f"two checks are called `{check.id}`", check.at, f"the other is at {source.where(seen[check.id].at)}"
            )
        seen[check.id] = check


def read_fixes(folder: Path, checks: list[str]) -> tuple[Fix, ...]:
    """The scripts of fixes/, with what their header comments say."""
    return tuple(_read_fix(path, checks) for path in sorted((folder / "fixes").glob("*.sh")))


def _read_fix(path: Path, checks: list[str]) -> Fix:
    """Header: the leading comment lines. `# key: value` sets expect or decides, other lines describe."""
    expect = decides = ""
    described: list[str] = []
    line = 1
    for number, text in enumerate(path.read_text().splitlines(), 1):
        if not text.startswith("#"):
            break
        if text.startswith("#!"):
            continue
        said = text.lstrip("#").strip()
        if match := re.fullmatch(r"(expect|decides)\s*:\s*(\S.*)", said):
            if match[1] == "expect":
                expect = match[2].strip()
            else:
                decides = match[2].strip()
            line = number
        elif said:
            described.append(said)
    if expect not in EXPECTATIONS:
        raise ProblemError(
            f"`expect` is {expect!r}" if expect else "the header has no `# expect:` line",
            where=f"{path}:{line}",
            todo=f"write `# expect: {' | '.join(EXPECTATIONS)}` at the top of the script",
        )
    if expect != "right" and not decides:
        raise ProblemError(
            "the header has no `# decides:` line",
            where=f"{path}:{line}",
            todo="name the check that should tell this fix from a right one",
        )
    if decides and decides.split("/")[0] not in checks:
        raise ProblemError(f"no check is called `{decides}`", where=f"{path}:{line}", todo=near(decides, checks))
    kind = cast(Literal["right", "wrong", "unsafe", "partial"], expect)
    return Fix(path.stem, path, kind, decides, " ".join(described))


def digest(folder: Path) -> str:
    """SHA-256 over the names, executable bits and bytes of all files of a folder, and nothing else."""
    total = hashlib.sha256()
    for path in sorted(folder.rglob("*"), key=lambda path: path.relative_to(folder).as_posix()):
        name = path.relative_to(folder)
        if path.is_symlink():
            raise ProblemError("a link in a problem folder", where=str(path), todo="put the file itself there")
        if not path.is_file() or "__pycache__" in name.parts:
            continue
        data = path.read_bytes()
        mode = "x" if path.stat().st_mode & 0o100 else "-"
        total.update(f"{name.as_posix()}\0{mode}\0{len(data)}\0".encode())
        total.update(data)
    return total.hexdigest()
