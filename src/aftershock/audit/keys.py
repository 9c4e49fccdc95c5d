"""What a cell's result depends on, as a hash: when it changes, the result is stale.

A cell depends on the code that judges, on the stack, on what the problem brings about and asks, and on its own
script. It does not depend on a README, a title or another fix: correcting one fix makes only its own cells stale.
Code is hashed
without its comments, and of the library of steps and checks only what the problem uses.
"""

import ast
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import aftershock
from aftershock.audit.matrix import Cell
from aftershock.fault.base import primitives_registry
from aftershock.fault.registry import Registry
from aftershock.oracle.base import checks_registry
from aftershock.problem.model import GroupSpec, NodeSpec, Problem, walk
from aftershock.stack.load import Stack

__all__ = ["bare", "closure", "code_hash", "keys_of", "problem_hash"]

PACKAGE = Path(aftershock.__file__).parent
# Whose code counts: what brings an incident about, acts in it and judges it. Not drawing, command line, cluster.
SCOPE = re.compile(
    r"^aftershock\.(fault|oracle|workload)(\.|$)"
    r"|^aftershock\.agent\.(base|scripted|credentials)$"
    r"|^aftershock\.trial\.(conduct|suffering|plan)$"
    r"|^aftershock\.audit\.(witness|dump|leaks|settle)$"
)
# What every trial of an audit runs; the users are a program of their own, and find their journeys by name.
ENTRIES = (
    "aftershock.trial.conduct",
    "aftershock.agent.scripted",
    "aftershock.audit.witness",
    "aftershock.audit.leaks",
    "aftershock.audit.settle",
)
USERS = "workload"


def _hash(parts: Iterable[str]) -> str:
    total = hashlib.sha256()
    for part in parts:
        total.update(f"{len(part)}\0{part}".encode())
    return total.hexdigest()


def bare(text: str) -> str:
    """The code without blank lines and lines that are only a comment. It is the same for every Python.

    >>> bare("x = 1\\n\\n  # one\\ny = 2  \\n")
    'x = 1\\ny = 2'
    """
    lines = (line.rstrip() for line in text.splitlines())
    return "\n".join(line for line in lines if line and not line.lstrip().startswith("#"))


def code_hash(problem: Problem) -> str:
    """Of the code that has a part in this problem's verdicts: of steps and checks only those that it uses.

    A new primitive, or one that only others use, makes no proof stale.
    """
    used = {cls.__module__ for registry in (primitives_registry, checks_registry) for cls in _used(registry, problem)}
    users = (f"aftershock.{USERS}.{path.stem}" for path in (PACKAGE / USERS).glob("*.py"))
    return _code(frozenset((*ENTRIES, *used, *users)))


def _used(registry: Registry[Any], problem: Problem) -> list[type[Any]]:
    """The classes that a problem names anywhere, also inside its challenges."""
    named = set(_words([[step.name, step.params] for step in (*problem.fault, *problem.trigger)]))
    named |= set(_words([[check.kind, check.params] for check in walk(problem.oracle)]))
    return [cls for name, cls in registry.classes().items() if name in named]


def _words(value: Any) -> Iterator[str]:
    """All strings and keys of plain data."""
    if isinstance(value, Mapping):
        yield from (str(key) for key in value)
        value = list(value.values())
    if isinstance(value, list | tuple):
        for below in value:
            yield from _words(below)
    elif isinstance(value, str):
        yield value


@cache
def _code(entries: frozenset[str]) -> str:
    modules = closure(entries)
    return _hash(f"{name}\0{bare(_file(name).read_text())}" for name in sorted(modules))


def closure(entries: Iterable[str]) -> set[str]:
    """These modules and all within the scope that they import, directly or not."""
    found: set[str] = set()
    ahead = [name for name in entries if SCOPE.match(name)]
    while ahead:
        name = ahead.pop()
        if name not in found:
            found.add(name)
            ahead += [other for other in _imports(name) if SCOPE.match(other)]
    return found


@cache
def _imports(name: str) -> frozenset[str]:
    """The modules of this package that a module imports, anywhere in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(_file(name).read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(other for other in found if other.startswith("aftershock.") and _file(other).is_file())


def _file(name: str) -> Path:
    place = PACKAGE.joinpath(*name.split(".")[1:])
    return place / "__init__.py" if place.is_dir() else place.with_suffix(".py")


def problem_hash(problem: Problem) -> str:
    """Of what the problem brings about and asks: not its prose, not its fixes."""
    steps = [[step.name, _plain(step.params)] for step in (*problem.fault, *problem.trigger)]
    folder = problem.folder
    brought = [p for p in sorted(folder.rglob("*")) if p.is_file() and p.relative_to(folder).parts[0] in BROUGHT]
    return _hash(
        [
            json.dumps([len(problem.fault), steps, _tree(problem.oracle)], sort_keys=True, default=str),
            repr((problem.id, problem.stack, problem.users_rate, sorted(problem.databases.items()))),
            repr((problem.suffering, problem.page, problem.limits, problem.audit.leaks_allowed)),
            problem.page_text(),
            *(f"{path.relative_to(folder)}\0{path.read_bytes().hex()}" for path in brought),
        ]
    )


BROUGHT = ("manifests", "hooks.py")


def _tree(node: NodeSpec) -> Any:
    if isinstance(node, GroupSpec):
        return [node.op, [_tree(below) for below in node.nodes]]
    return [node.id, node.family, node.kind, node.unsafe, _plain(node.params)]


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value, default=str))


def keys_of(cells: Sequence[Cell], problem: Problem, stack: Stack) -> dict[str, str]:
    """Of each cell, by name, the hash of all that its result hangs on."""
    code = code_hash(problem)
    shared = [problem_hash(problem), stack.digest, code]
    whole = [problem.digest, stack.digest, code]
    return {
        cell.name: _hash(
            [cell.name, *whole] if cell.kind == "static" else [*shared, _own(cell), *_name(cell), cell.script]
        )
        for cell in cells
    }


def _own(cell: Cell) -> str:
    return repr((cell.kind, cell.expected, cell.decides, cell.changes, cell.void))


def _name(cell: Cell) -> list[str]:
    return [cell.name if cell.is_trial or cell.kind == "read-off" else ""]
