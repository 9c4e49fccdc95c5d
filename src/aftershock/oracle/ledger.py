"""Comparing what users were promised with what the database holds. Pure functions.

Truth is the users' ledger, never the database: a wrong fix once made database and index agree by
deleting rows. The ledger is read before and after the database, and what changed in between is
left out: a user may change something at that very moment, and a right fix must not fail by it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Kept", "array_literal", "compare"]


@dataclass(frozen=True)
class Kept:
    """Ids of promises by what became of them. `judged` counts those that could be compared."""

    judged: int
    left_out: int
    missing: tuple[str, ...]
    doubled: tuple[str, ...]
    different: tuple[str, ...]

    @property
    def whole(self) -> bool:
        return not (self.missing or self.doubled or self.different)


def compare(
    before: Mapping[str, Mapping[str, Any]],
    after: Mapping[str, Mapping[str, Any]],
    rows: Sequence[Sequence[str]],
    fields: Sequence[str] = (),
) -> Kept:
    """Compare the ledger with rows of (id, *fields).

    Args:
        before, after: the ledger, read before and after the rows.
        rows: what the database holds for the ids of `before`, as text.
        fields: names of the ledger's fields that the further columns must equal.

    >>> compare({"a": {}, "b": {}}, {"a": {}, "b": {}}, [["a"], ["a"]])
    Kept(judged=2, left_out=0, missing=('b',), doubled=('a',), different=())
    """
    stable = {key: promise for key, promise in before.items() if key in after and dict(after[key]) == dict(promise)}
    found: dict[str, list[Sequence[str]]] = {}
    for row in rows:
        found.setdefault(row[0], []).append(row[1:])
    missing, doubled, different = [], [], []
    for key, promise in stable.items():
        have = found.get(key, [])
        if not have:
            missing.append(key)
        elif len(have) > 1:
            doubled.append(key)
        elif any(not _same(value, promise.get(name)) for value, name in zip(have[0], fields, strict=False)):
            different.append(key)
    return Kept(len(stable), len(before) - len(stable), tuple(missing), tuple(doubled), tuple(different))


def _same(text: str, value: Any) -> bool:
    """Whether the database's text says what the ledger says; numbers compare as numbers."""
    if isinstance(value, bool):
        return text in ({"t", "true"} if value else {"f", "false"})
    if isinstance(value, int | float):
        try:
            return float(text) == float(value)
        except ValueError:
            return False
    return text == ("" if value is None else str(value))


def array_literal(ids: Sequence[str]) -> str:
    """A PostgreSQL array of text as a quoted literal.

    >>> array_literal(["a", "b'c"])
    '\\'{"a","b\\'\\'c"}\\''
    """
    items = ",".join('"' + item.replace("\\", "\\\\").replace('"', '\\"').replace("'", "''") + '"' for item in ids)
    return "'{" + items + "}'"
