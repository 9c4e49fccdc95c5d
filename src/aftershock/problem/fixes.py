"""The scripts of fixes/: what their headers say, and the steps that are marked in them.

Header, the leading comment lines: `# expect: right|wrong|unsafe|partial`, `# decides: CHECK` (not for
right ones), `# changes: Kind/name, exec/POD` (what it will be held to have changed), and a description.

A comment line of its own marks where a part begins; it goes on to the next mark:

    # step: NAME, without it: CHECK      leaving it out must fail, by that check
    # step: NAME                         a step that may be left out
    # check                              waits and proofs; not part of a fix with a step left out
    # always                             belongs to no step, and is always run

What stands before the first mark is always run.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from aftershock.base.errors import ProblemError
from aftershock.problem.model import Fix
from aftershock.problem.source import near

__all__ = ["EXPECTATIONS", "Part", "parts", "read_fix", "read_fixes", "without"]

EXPECTATIONS = ("right", "wrong", "unsafe", "partial")
KEYS = re.compile(r"(expect|decides|changes)\s*:\s*(\S.*)")
MARK = re.compile(r"^# (?:(step): ([a-z][a-z0-9-]*)(?:, without it: ([a-z][a-z0-9/-]*))?|(check)|(always))\s*$")
ALMOST = re.compile(r"^\s*#\s*step\b\s*:", re.IGNORECASE)
CHANGE = re.compile(r"^([A-Z][A-Za-z]+|exec)/[a-z0-9][a-z0-9.-]*$")


@dataclass(frozen=True)
class Part:
    """A part of a fix script. `decides`: the check that tells when this step was left out; may be empty."""

    kind: Literal["always", "step", "check"]
    name: str
    decides: str
    line: int
    text: str


def parts(text: str) -> tuple[Part, ...]:
    """The script cut at its marks; joined together again their texts are the script."""
    found: list[Part] = []
    kind: Literal["always", "step", "check"] = "always"
    name = decides = ""
    begin, lines = 1, list[str]()
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        if match := MARK.match(line):
            found.append(Part(kind, name, decides, begin, "".join(lines)))
            kind = "step" if match[1] else "check" if match[4] else "always"
            name, decides = match[2] or "", match[3] or ""
            begin, lines = number, []
        lines.append(line)
    return (*found, Part(kind, name, decides, begin, "".join(lines)))


def without(text: str, step: str) -> str:
    """The script with one step left out, and with it the proofs, which would hold it up."""
    kept = [part for part in parts(text) if part.kind != "check" and part.name != step]
    return "".join(part.text for part in kept)


def read_fixes(folder: Path, checks: Sequence[str]) -> tuple[Fix, ...]:
    """The scripts of fixes/, with what their header comments say."""
    return tuple(read_fix(path, checks) for path in sorted((folder / "fixes").glob("*.sh")))


def read_fix(path: Path, checks: Sequence[str]) -> Fix:
    """One script.

    Raises:
        ProblemError: its header or a mark is not as it should be; names the line.
    """
    text = path.read_text()
    said, described = _header(text)
    expect, line = said.get("expect", ("", 1))
    if expect not in EXPECTATIONS:
        raise ProblemError(
            f"`expect` is {expect!r}" if expect else "the header has no `# expect:` line",
            where=f"{path}:{line}",
            todo=f"write `# expect: {' | '.join(EXPECTATIONS)}` at the top of the script",
        )
    decides, at = said.get("decides", ("", line))
    if expect != "right" and not decides:
        raise ProblemError(
            "the header has no `# decides:` line",
            where=f"{path}:{line}",
            todo="name the check that should tell this fix from a right one",
        )
    _known(decides, checks, path, at)
    found = parts(text)
    _marks(found, text, checks, path)
    kind = cast(Literal["right", "wrong", "unsafe", "partial"], expect)
    steps = tuple((part.name, part.decides) for part in found if part.kind == "step")
    return Fix(path.stem, path, kind, decides, described, steps=steps, changes=_changes(said, path))


def _header(text: str) -> tuple[dict[str, tuple[str, int]], str]:
    """What the leading comment lines say by key, with the line; and their other lines."""
    said: dict[str, tuple[str, int]] = {}
    described: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith("#") or MARK.match(line):
            break
        words = line.lstrip("#").strip()
        if line.startswith("#!") or not words:
            continue
        if match := KEYS.fullmatch(words):
            said[match[1]] = match[2].strip(), number
        else:
            described.append(words)
    return said, " ".join(described)


def _known(check: str, checks: Sequence[str], path: Path, line: int) -> None:
    if check and check.split("/")[0] not in checks:
        raise ProblemError(f"no check is called `{check}`", where=f"{path}:{line}", todo=near(check, checks))


def _changes(said: dict[str, tuple[str, int]], path: Path) -> tuple[str, ...]:
    text, line = said.get("changes", ("", 1))
    changes = tuple(word.strip() for word in text.split(",") if word.strip())
    for change in changes:
        if not CHANGE.match(change):
            raise ProblemError(
                f"`{change}` is not a thing that a fix changes",
                where=f"{path}:{line}",
                todo="write `# changes: Deployment/web, exec/postgres-0`: objects, and pods that it runs programs in",
            )
    return changes


def _marks(found: Sequence[Part], text: str, checks: Sequence[str], path: Path) -> None:
    seen: dict[str, int] = {}
    for part in found:
        if part.kind == "step":
            if part.name in seen:
                raise ProblemError(
                    f"two steps are called `{part.name}`",
                    where=f"{path}:{part.line}",
                    todo=f"the other is on line {seen[part.name]}",
                )
            seen[part.name] = part.line
            _known(part.decides, checks, path, part.line)
    for number, line in enumerate(text.splitlines(), 1):
        if ALMOST.match(line) and not MARK.match(line):
            raise ProblemError(
                "this mark of a step cannot be read",
                where=f"{path}:{number}",
                todo="write `# step: name` or `# step: name, without it: check-id`, at the line's beginning",
            )
