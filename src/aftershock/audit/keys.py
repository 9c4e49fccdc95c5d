"""What a cell's result depends on, as a hash: when it changes, the result is stale.

A cell depends on the code that judges, on the stack, on what the problem brings about and asks, and on its own
script. It does not depend on a README, a title or another fix: correcting one fix makes only its own cells stale.
Code is hashed as its syntax tree without docstrings, so that a comment costs no audit.
"""

import ast
import hashlib
import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import aftershock
from aftershock.audit.matrix import Cell
from aftershock.problem.model import GroupSpec, NodeSpec, Problem
from aftershock.stack.load import Stack

__all__ = ["code_hash", "key_of", "problem_hash", "syntax"]

PACKAGE = Path(aftershock.__file__).parent
# What brings an incident about and judges it. Drawing, command line and cluster are not among them.
JUDGING = ("agent", "fault", "oracle", "workload", "trial/conduct.py", "trial/suffering.py", "trial/plan.py")
OWN = ("audit/witness.py", "audit/leaks.py", "audit/dump.py", "audit/settle.py")


def _hash(parts: Iterable[str]) -> str:
    total = hashlib.sha256()
    for part in parts:
        total.update(f"{len(part)}\0{part}".encode())
    return total.hexdigest()


def syntax(text: str) -> str:
    """The code's syntax tree without docstrings and places.

    >>> syntax("x = 1  # one") == syntax("x = 1"), syntax("x = 1") == syntax("x = 2")
    (True, False)
    """
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                node.body = node.body[1:]
    return ast.dump(tree)


@cache
def code_hash(package: Path = PACKAGE) -> str:
    """Of all code that has a part in a verdict."""
    files: list[Path] = []
    for name in (*JUDGING, *OWN):
        place = package / name
        files += sorted(place.rglob("*.py")) if place.is_dir() else [place]
    return _hash(f"{file.relative_to(package)}\0{syntax(file.read_text())}" for file in files)


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


def key_of(cell: Cell, problem: Problem, stack: Stack) -> str:
    """The hash of all that a cell's result hangs on."""
    if cell.kind == "static":
        return _hash([cell.name, problem.digest, stack.digest, code_hash()])
    shared = [problem_hash(problem), stack.digest, code_hash()]
    own = repr((cell.kind, cell.expected, cell.decides, cell.changes, cell.void))
    name = cell.name if cell.is_trial or cell.kind == "read-off" else ""
    return _hash([*shared, own, name, cell.script])
