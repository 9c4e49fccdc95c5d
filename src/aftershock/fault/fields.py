"""Naming a field inside a Kubernetes object, and saying what its value must be.

Paths are dotted names, with list items by index, by a key's value, or all of them:
`spec.template.spec.containers[name=api].readinessProbe`, `data["run.sh"]`, `spec.rules[*].host`.
What matches nothing is `MISSING`, never an empty value: a check over nothing must not pass.
"""

import re
from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator

__all__ = ["MISSING", "Expect", "covers", "field_of", "parse_path"]


class _Missing:
    def __repr__(self) -> str:
        return "nothing"

    def __bool__(self) -> bool:
        return False


MISSING = _Missing()

_PART = re.compile(
    r"""\.?(?P<name>[^.\[\]"]+) | \[(?P<index>\d+)\] | \[(?P<all>\*)\] | \["(?P<quoted>[^"]+)"\]
      | \[(?P<key>[\w.-]+)=(?P<value>[^\]]+)\]""",
    re.VERBOSE,
)

Part = str | int | tuple[str, str] | None  # a name, an index, key and value, or None for all items


def parse_path(path: str) -> tuple[Part, ...]:
    """
    >>> parse_path('spec.containers[name=api].ports[0]')
    ('spec', 'containers', ('name', 'api'), 'ports', 0)

    Raises:
        ValueError: it is no path.
    """
    parts: list[Part] = []
    position = 0
    while position < len(path):
        match = _PART.match(path, position)
        if match is None:
            raise ValueError(f"not a field path from `{path[position:]}` on")
        if match["index"] is not None:
            parts.append(int(match["index"]))
        elif match["all"]:
            parts.append(None)
        elif match["key"]:
            parts.append((match["key"], match["value"]))
        else:
            parts.append(match["name"] or match["quoted"])
        position = match.end()
    if not parts:
        raise ValueError("an empty field path")
    return tuple(parts)


def field_of(obj: Any, path: str) -> Any:
    """The value at a path, or MISSING. With `[*]`, the list of what was found, MISSING when that is empty."""
    return _walk(obj, parse_path(path))


def _walk(value: Any, parts: tuple[Part, ...]) -> Any:
    if not parts:
        return value
    part, rest = parts[0], parts[1:]
    if isinstance(part, str):
        return _walk(value[part], rest) if isinstance(value, dict) and part in value else MISSING
    if not isinstance(value, list):
        return MISSING
    if isinstance(part, int):
        return _walk(value[part], rest) if part < len(value) else MISSING
    if part is None:
        found = [below for item in value if (below := _walk(item, rest)) is not MISSING]
        return found or MISSING
    for item in value:
        if isinstance(item, dict) and str(item.get(part[0])) == part[1]:
            return _walk(item, rest)
    return MISSING


def covers(actual: Any, wanted: Any) -> bool:
    """Whether everything in `wanted` is in `actual`; a wanted None means that the key is gone.

    >>> covers({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}})
    True
    >>> covers({"a": 1}, {"a": None})
    False
    """
    if isinstance(wanted, dict):
        if not isinstance(actual, dict):
            return all(value is None for value in wanted.values())
        return all(
            key not in actual or actual[key] is None if value is None else key in actual and covers(actual[key], value)
            for key, value in wanted.items()
            if not key.startswith("$")  # directives of a strategic merge patch
        )
    if isinstance(wanted, list):
        return isinstance(actual, list) and all(any(covers(have, item) for have in actual) for item in wanted)
    return bool(actual == wanted)


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


class Expect(BaseModel):
    """What a value must be: one of `equals`, `at_least`, `at_most`, or both of the latter."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    equals: str | int | float | bool | None = None
    at_least: float | None = None
    at_most: float | None = None

    @model_validator(mode="after")
    def _one(self) -> "Expect":
        if self.equals is None and self.at_least is None and self.at_most is None:
            raise ValueError("say what is expected: `equals`, `at_least` or `at_most`")
        if self.equals is not None and (self.at_least is not None or self.at_most is not None):
            raise ValueError("`equals` does not go with `at_least` or `at_most`")
        return self

    def refuse(self, value: Any) -> str:
        """Empty when the value is as expected, else why not. Text that is a number compares as one."""
        if value is MISSING or value is None or value == []:
            return f"there is nothing, expected {self.words()}"
        if self.equals is not None:
            have, want = _number(value), _number(self.equals)
            same = have == want if have is not None and want is not None else _text(value) == _text(self.equals)
            return "" if same else f"it is {_text(value)}, expected {self.words()}"
        number = _number(value)
        if number is None:
            return f"it is {value!r}, expected {self.words()}"
        low = self.at_least is not None and number < self.at_least
        high = self.at_most is not None and number > self.at_most
        return f"it is {_text(value)}, expected {self.words()}" if low or high else ""

    def words(self) -> str:
        if self.equals is not None:
            return _text(self.equals)
        parts = []
        if self.at_least is not None:
            parts.append(f"at least {self.at_least:g}")
        if self.at_most is not None:
            parts.append(f"at most {self.at_most:g}")
        return " and ".join(parts)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
