"""The table of checks and moves in docs/checks.md, made from the code; a test keeps both in step.

python -c "from aftershock.oracle.catalogue import table; print(table())"
"""

import inspect
from collections.abc import Mapping

from pydantic import BaseModel

from aftershock.fault.registry import Registry
from aftershock.oracle.base import Check, checks_registry
from aftershock.oracle.checks.timed import Timed
from aftershock.oracle.move import AGAIN, Again, Move, moves_registry

__all__ = ["table"]


def _says(cls: type) -> str:
    """The first paragraph of a docstring, on one line."""
    return " ".join((inspect.getdoc(cls) or "").split("\n\n")[0].split()).replace("|", "\\|")


def _parameters(cls: type[BaseModel], besides: frozenset[str]) -> str:
    """Names as they are written in YAML; those that must be given are bold."""
    words = []
    for name, field in cls.model_fields.items():
        shown = field.alias or name
        if name not in besides:
            words.append(f"**`{shown}`**" if field.is_required() else f"`{shown}`")
    return ", ".join(words)


def _when(cls: type[Check]) -> str:
    return "any" if issubclass(cls, Timed) else cls.mode


def table() -> str:
    """Markdown: the checks, then the moves."""
    timed = frozenset(Timed.model_fields)
    rows = ["| check | time | what must be so | parameters |", "|---|---|---|---|"]
    for name, cls in _own(checks_registry).items():
        besides = timed if issubclass(cls, Timed) else frozenset()
        rows.append(f"| `{name}` | {_when(cls)} | {_says(cls)} | {_parameters(cls, besides)} |")
    rows += ["", "| move | what happens | parameters |", "|---|---|---|"]
    moves: dict[str, type[BaseModel]] = {AGAIN: Again, **_own(moves_registry)}
    for name, step in sorted(moves.items()):
        besides = frozenset({"within"}) if issubclass(step, Move) else frozenset()
        rows.append(f"| `{name}` | {_says(step)} | {_parameters(step, besides)} |")
    return "\n".join(rows) + "\n"


def _own(registry: Registry[Check] | Registry[Move]) -> Mapping[str, type]:
    """Those that the project brings; tests and others may add their own."""
    return {n: c for n, c in registry.classes().items() if c.__module__.startswith("aftershock.oracle.")}
