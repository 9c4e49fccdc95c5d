"""YAML that remembers its lines, so that an error can name the place and what would be right there.

PyYAML's nodes carry marks which its constructed values have lost. `Source` keeps both: the plain
data, and the line of every key and item under its path. Pydantic does the checking; its errors
come with a path too, and are put into words here.
"""

import difflib
import types
import typing
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from aftershock.base.errors import ProblemError

__all__ = ["At", "Source", "near"]

At = tuple[str | int, ...]
# The one written in C where PyYAML has it: a tenth of the time, which counts when a hundred problems are read.
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
M = TypeVar("M", bound=BaseModel)


def near(word: str, known: Iterable[str]) -> str:
    """What was probably meant, as a sentence.

    >>> near("pach", ["apply", "patch"])
    'did you mean `patch`?'
    >>> near("x", ["patch", "apply"])
    'known: apply, patch'
    """
    names = sorted(known)
    if close := difflib.get_close_matches(word, names, n=1, cutoff=0.6):
        return f"did you mean `{close[0]}`?"
    return f"known: {', '.join(names)}" if names else "nothing is known here"


class Source:
    """One YAML file: its data, and the line of everything in it."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self._lines: dict[At, int] = {(): 1}
        try:
            loader = LOADER(text)
            root = loader.get_single_node()
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line = mark.line + 1 if mark else 1
            raise ProblemError(
                f"this is not YAML: {error.problem or error.context}",
                where=f"{path}:{line}",
                todo="check indentation, quotes and colons on and above this line",
            ) from error
        if root is not None:
            self._mark(root, ())
        self.data: Any = None if root is None else loader.construct_document(root)

    @classmethod
    def read(cls, path: Path) -> "Source":
        try:
            return cls(path, path.read_text())
        except (OSError, UnicodeDecodeError) as error:
            raise ProblemError(f"could not read {path.name}: {error}", where=str(path)) from error

    def _mark(self, node: yaml.Node, at: At) -> None:
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                name = key.value
                below = (*at, name)
                if below in self._lines:
                    raise ProblemError(
                        f"the key `{name}` is there twice",
                        where=f"{self.path}:{key.start_mark.line + 1}",
                        todo=f"keep one; the first is on line {self._lines[below]}",
                    )
                self._lines[below] = key.start_mark.line + 1
                self._mark(value, below)
        elif isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                self._lines[(*at, index)] = item.start_mark.line + 1
                self._mark(item, (*at, index))

    def line(self, at: At) -> int:
        """The line of what is at this path, or of the nearest thing around it."""
        while at not in self._lines:
            at = at[:-1]
        return self._lines[at]

    def where(self, at: At = ()) -> str:
        return f"{self.path}:{self.line(at)}"

    def error(self, what: str, at: At = (), todo: str = "") -> ProblemError:
        return ProblemError(what, where=self.where(at), todo=todo)

    def model(self, model: type[M], data: Any, at: At = ()) -> M:
        """Check data of this file against a model.

        Raises:
            ProblemError: naming the line of the first fault, and what would be right.
        """
        try:
            return model.model_validate(data)
        except ValidationError as error:
            faults = error.errors(include_url=False)
            raise self._explain(model, faults, at) from error

    def _explain(self, model: type[BaseModel], faults: Sequence[Any], at: At) -> ProblemError:
        # A mistyped key is unknown, and the right one missing: the first says what to do about both.
        first = min(faults, key=lambda fault: (fault["type"] != "extra_forbidden", self.line((*at, *fault["loc"]))))
        loc: At = tuple(first["loc"])
        key = next((str(part) for part in reversed(loc) if isinstance(part, str)), "")
        kind = first["type"]
        if kind == "extra_forbidden":
            what, todo = f"unknown key `{key}`", near(key, _keys(model, loc[:-1]))
        elif kind == "missing":
            inside = f" in `{loc[-2]}`" if len(loc) > 1 else ""
            what, todo = f"the key `{key}` is missing{inside}", f"add `{key}:`"
        else:
            message = first["msg"].removeprefix("Value error, ")
            got = repr(first["input"])
            what = f"`{key}`: {message[:1].lower()}{message[1:]}" if key else f"{message[:1].lower()}{message[1:]}"
            todo = f"got {got if len(got) < 80 else got[:77] + '...'}"
        if len(faults) > 1:
            what += f" (and {len(faults) - 1} more faults)"
        return self.error(what, (*at, *loc), todo)


def _keys(model: type[BaseModel], loc: At) -> list[str]:
    """The keys that are known at a path inside a model."""
    current: Any = model
    for part in loc:
        if isinstance(current, type) and issubclass(current, BaseModel) and isinstance(part, str):
            field = next((f for n, f in current.model_fields.items() if part in (n, f.alias)), None)
            if field:  # else it is the key of a mapping of models
                current = _inner(field.annotation)
    if isinstance(current, type) and issubclass(current, BaseModel):
        return [field.alias or name for name, field in current.model_fields.items()]
    return []


def _inner(annotation: Any) -> Any:
    """The model in `X | None`, `list[X]`, `dict[str, X]`."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType, list, tuple, dict):
        for arg in reversed(typing.get_args(annotation)):
            inner = _inner(arg)
            if isinstance(inner, type) and issubclass(inner, BaseModel):
                return inner
        return None
    return annotation
