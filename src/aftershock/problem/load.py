"""Finding and reading problem folders. There is no central list: a folder with a problem.yaml is one."""

import hashlib
import re
from pathlib import Path

from aftershock.base.errors import ProblemError, UsageError
from aftershock.base.paths import source_root
from aftershock.problem.answers import answers_of
from aftershock.problem.fixes import read_fixes
from aftershock.problem.model import (
    AuditRules,
    CheckSpec,
    Database,
    Expected,
    GroupSpec,
    Limits,
    Page,
    Postmortem,
    Problem,
    StepSpec,
    Suffering,
    walk,
)
from aftershock.problem.schema import ProblemFile, read_nodes, read_steps
from aftershock.problem.source import Source, near

__all__ = ["digest", "find", "load", "read"]

# What a problem comes to, not what it is.
RECORDS = ("audit.json",)


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
        fault=(*noise_of(source, file), *read_steps(source, file.fault, ("fault",))),
        trigger=read_steps(source, file.trigger, ("trigger",)),
        suffering=Suffering(**file.suffering.model_dump()),
        page=Page(**file.page.model_dump()),
        limits=Limits(**file.limits.model_dump()),
        oracle=oracle,
        fixes=read_fixes(folder, [check.id for check in walk(oracle)]),
        digest=digest(folder),
        mechanism=file.mechanism or "",
        answers=answers_of(file.answers) if file.answers else None,
        audit=_audit(source, file),
        size=file.size,
        components=tuple(file.components),
    )


def noise_of(source: Source, file: ProblemFile) -> tuple[StepSpec, ...]:
    """The innocent changes, as the fault's first step: they begin with it, and go on beside what follows."""
    return (StepSpec("noise", file.noise, source, ("noise",)),) if file.noise is not None else ()


def _audit(source: Source, file: ProblemFile) -> AuditRules:
    rules = file.audit
    for index, allowed in enumerate(rules.leaks_allowed):
        try:
            re.compile(allowed.pattern)
        except re.error as error:
            at = ("audit", "leaks_allowed", index, "pattern")
            raise source.error(f"not a regular expression: {error}", at, "escape what is meant literally") from None
    return AuditRules(
        repeats=rules.repeats,
        wait=rules.wait,
        adversaries={
            name: Expected(tuple(entry.expect), entry.decides, entry.because)
            for name, entry in rules.adversaries.items()
        },
        leaks_allowed={entry.pattern: entry.because for entry in rules.leaks_allowed},
    )


def _unique(source: Source, checks: list[CheckSpec]) -> None:
    seen: dict[str, CheckSpec] = {}
    for check in checks:
        if check.id in seen:
            raise source.error(
                f"two checks are called `{check.id}`", check.at, f"the other is at {source.where(seen[check.id].at)}"
            )
        seen[check.id] = check


def digest(folder: Path) -> str:
    """SHA-256 over the names, executable bits and bytes of all files of a folder but its audit record."""
    total = hashlib.sha256()
    for path in sorted(folder.rglob("*"), key=lambda path: path.relative_to(folder).as_posix()):
        name = path.relative_to(folder)
        if path.is_symlink():
            raise ProblemError("a link in a problem folder", where=str(path), todo="put the file itself there")
        if not path.is_file() or "__pycache__" in name.parts or name.as_posix() in RECORDS:
            continue
        data = path.read_bytes()
        mode = "x" if path.stat().st_mode & 0o100 else "-"
        total.update(f"{name.as_posix()}\0{mode}\0{len(data)}\0".encode())
        total.update(data)
    return total.hexdigest()
