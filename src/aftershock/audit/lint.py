"""Lint: what can be known to be wrong or missing in a problem folder without a cluster, with a code for each rule.

The codes stay; `explain` says for each why it is asked. An *error* keeps a problem from being sound, a *warning*
says that it could be better. What cannot be read is AS001 and ends the look at that folder.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from aftershock.audit.adversaries import adversaries
from aftershock.audit.leaks import WORDS, whole
from aftershock.base.errors import AftershockError, ProblemError, UsageError
from aftershock.oracle.diagnosis import misgraded
from aftershock.problem.incident import FILE as INCIDENT
from aftershock.problem.incident import misquoted, read_incident
from aftershock.problem.load import read
from aftershock.problem.model import FAMILIES, CheckSpec, Problem, walk
from aftershock.problem.source import Source, near
from aftershock.stack.load import Stack
from aftershock.stack.load import load as load_stack
from aftershock.trial.plan import compile_plan

__all__ = ["RULES", "Fault", "Rule", "explain", "lint_folder", "lint_folders"]

Severity = Literal["error", "warning"]
FILLER = "FILL IN"


@dataclass(frozen=True)
class Rule:
    code: str
    severity: Severity
    what: str
    why: str


@dataclass(frozen=True)
class Fault:
    """One thing that a rule found: where (file and line), what, and what would be right."""

    code: str
    severity: Severity
    problem: str
    where: str
    what: str
    todo: str


RULES = {entry["code"]: Rule(**entry) for entry in Source.read(Path(__file__).with_name("rules.yaml")).data}


def explain(code: str) -> Rule:
    """
    Raises:
        UsageError: there is no such code.
    """
    if code.upper() not in RULES:
        raise UsageError(f"there is no rule {code}", todo=near(code.upper(), RULES))
    return RULES[code.upper()]


def lint_folders(folders: Iterable[Path]) -> list[Fault]:
    """The faults of several problem folders; also that no two have one id."""
    seen: dict[str, Path] = {}
    found: list[Fault] = []
    stacks: dict[str, Stack] = {}
    for folder in folders:
        if folder.name in seen and seen[folder.name] != folder:
            found.append(_fault("AS003", folder.name, str(folder), "", f"the other is {seen[folder.name]}"))
        seen.setdefault(folder.name, folder)
        found += lint_folder(folder, stacks)
    return found


def lint_folder(folder: Path, stacks: dict[str, Stack] | None = None) -> list[Fault]:
    """The faults of one problem folder.

    Args:
        stacks: those that were read already.
    """
    name = folder.name
    try:
        problem = read(folder)
    except AftershockError as error:
        return [_fault("AS001", name, error.where or str(folder), error.what, error.todo)]
    known = {} if stacks is None else stacks
    found: list[Fault] = []
    try:
        if problem.stack not in known:
            known[problem.stack] = load_stack(problem.stack)
        compile_plan(problem, known[problem.stack], "nop")
    except AftershockError as error:
        found.append(_fault("AS002", name, error.where or str(folder), error.what, error.todo))
    for rule in (_head, _fixes, _oracle, _incident, _answers, _texts):
        found += rule(problem)
    return found


def _fault(code: str, problem: str, where: str, what: str = "", todo: str = "") -> Fault:
    rule = RULES[code]
    return Fault(code, rule.severity, problem, where, what or rule.what, todo)


def _at(problem: Problem, file: str = "problem.yaml", word: str = "") -> str:
    """A file of the folder, with the line on which a word stands first."""
    path = problem.folder / file
    if word and path.is_file():
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if word in line:
                return f"{path}:{number}"
    return str(path)


def _head(problem: Problem) -> Iterator[Fault]:
    if not problem.mechanism:
        todo = "add `mechanism:` with a word of the vocabulary (`aftershock schema problem` lists them)"
        yield _fault("AS010", problem.id, _at(problem, word="stack:"), todo=todo)
    telling = {word for text in (problem.title, problem.mechanism, problem.stack) for word in re.split(r"\W+", text)}
    told = [w for w in re.split(r"\W+", problem.id) if len(w) > 2 and w.lower() in {t.lower() for t in telling}]
    if told or len(problem.id.split("-")) < 2:
        what = f"the id says `{told[0]}`" if told else "the id is one word"
        yield _fault("AS011", problem.id, str(problem.folder), what, "rename the folder to two neutral words")
    for name in problem.audit.adversaries:
        if name not in adversaries():
            where = _at(problem, word=f"{name}:")
            yield _fault("AS080", problem.id, where, f"there is no adversary `{name}`", near(name, adversaries()))


def _fixes(problem: Problem) -> Iterator[Fault]:
    folder = str(problem.folder / "fixes")
    by = {
        kind: [fix for fix in problem.fixes if fix.expect == kind] for kind in ("right", "wrong", "partial", "unsafe")
    }
    if len(by["right"]) < 2:
        yield _fault("AS020", problem.id, folder, f"{len(by['right'])} right fixes", "add one that differs in kind")
    if len(by["wrong"]) + len(by["partial"]) < 5:
        count = len(by["wrong"]) + len(by["partial"])
        yield _fault("AS021", problem.id, folder, f"{count} wrong or partial fixes", "add what looks right and is not")
    if not by["unsafe"]:
        yield _fault("AS022", problem.id, folder, todo="add one that serves users and loses or opens something")
    unsafe = {check.id for check in walk(problem.oracle) if check.unsafe}
    for fix in problem.fixes:
        path = f"{fix.path}:1"
        if fix.expect == "right" and not any(decides for _, decides in fix.steps):
            todo = "mark each necessary step with `# step: NAME, without it: CHECK`"
            yield _fault("AS023", problem.id, path, f"{fix.name}: no necessary step is marked", todo)
        if not fix.changes:
            todo = "add `# changes: Kind/name, exec/POD` to the header"
            yield _fault("AS024", problem.id, path, f"{fix.name} does not say what it changes", todo)
        if fix.expect == "unsafe" and fix.decides.split("/")[0] not in unsafe:
            todo = f"mark {fix.decides} `unsafe: true`, or name another check"
            yield _fault("AS025", problem.id, _at(problem, f"fixes/{fix.path.name}", "# decides:"), todo=todo)


def _oracle(problem: Problem) -> Iterator[Fault]:
    checks = walk(problem.oracle)
    for family in FAMILIES:
        if not any(check.family == family for check in checks):
            what = f"no check of the family `{family}`"
            yield _fault("AS030", problem.id, _at(problem, word="oracle:"), what, f"add one with `family: {family}`")
    if not any(check.unsafe for check in checks):
        yield _fault("AS031", problem.id, _at(problem, word="oracle:"), todo="mark what must not be lost")
    named = {fix.decides.split("/")[0] for fix in problem.fixes}
    named |= {decides.split("/")[0] for fix in problem.fixes for _, decides in fix.steps}
    for check in checks:
        if check.id not in named:
            yield _fault(
                "AS032", problem.id, _where(check), f"no fix is decided by `{check.id}`", "add a fix that it tells"
            )


def _where(check: CheckSpec) -> str:
    return check.source.where(check.at)


def _incident(problem: Problem) -> Iterator[Fault]:
    path = problem.folder / INCIDENT
    if not path.is_file():
        yield _fault("AS040", problem.id, str(path), todo="write it; `aftershock schema incident` says how")
        return
    try:
        incident, source = read_incident(path)
    except ProblemError as error:
        yield _fault("AS041", problem.id, error.where, error.what, error.todo)
        return
    for wrong in misquoted(incident, source):
        yield _fault("AS042", problem.id, wrong.where, wrong.what, wrong.todo)
    if problem.mechanism and incident.mechanism != problem.mechanism:
        what = f"the incident's mechanism is {incident.mechanism}, the problem's {problem.mechanism}"
        yield _fault("AS041", problem.id, source.where(("mechanism",)), what, "a problem replays its incident")


def _answers(problem: Problem) -> Iterator[Fault]:
    if problem.answers is None:
        yield _fault("AS050", problem.id, _at(problem), todo="add `answers:` with `diagnoses` and `examples`")
        return
    where = _at(problem, word="answers:")
    for example, got in misgraded(problem.answers):
        what = f"`{example.name}` is graded {got.level} ({got.score:g}), not {example.expect}"
        parts = ", ".join(f"{name} {value:g}" for name, value in got.parts.items())
        yield _fault("AS051", problem.id, _at(problem, word=example.name), what, f"its parts: {parts}")
    expected = {example.expect for example in problem.answers.examples}
    if lacking := {"right", "wrong"} - expected:
        yield _fault("AS051", problem.id, where, f"no example that is {' or '.join(sorted(lacking))}", "add one")


def _texts(problem: Problem) -> Iterator[Fault]:
    if not (problem.folder / "README.md").is_file():
        yield _fault(
            "AS070", problem.id, str(problem.folder / "README.md"), todo="tell the story; copy another's order"
        )
    forbidden = [*WORDS, problem.id, *([problem.mechanism] if problem.mechanism else [])]
    brought = [p for p in sorted((problem.folder / "manifests").rglob("*")) if p.is_file()]
    for code, paths in (("AS060", [problem.folder / problem.page.file]), ("AS061", brought)):
        for path in paths:
            text = path.read_text(errors="replace")
            for number, line in enumerate(text.splitlines(), 1):
                for word in forbidden:
                    if whole(word).search(line):
                        yield _fault(code, problem.id, f"{path}:{number}", f"it says `{word}`", "say it in other words")
    for path in sorted(problem.folder.rglob("*")):
        if path.is_file() and path.suffix in (".yaml", ".md", ".sh"):
            for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
                if FILLER in line:
                    yield _fault("AS012", problem.id, f"{path}:{number}", todo="write what belongs there")
