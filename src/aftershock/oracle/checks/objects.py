"""Kubernetes objects, with how many of them must be so; never "those that match, if any"."""

import re
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from aftershock.base.errors import ProblemError
from aftershock.cluster.api import Object
from aftershock.fault.base import Ref
from aftershock.fault.fields import MISSING, Expect, field_of, parse_path
from aftershock.fault.scene import split_ref
from aftershock.oracle.base import Bench, Finding, check
from aftershock.oracle.checks.timed import Timed

__all__ = ["Count", "Objects", "how_many"]

SHOWN = 5


class Count(BaseModel):
    """How many must be so: `all` of those that match (and one at least), or a number of them."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    all: bool = False
    at_least: int | None = Field(default=None, ge=1)
    at_most: int | None = Field(default=None, ge=0)
    equals: int | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _said(self) -> "Count":
        if not self.all and self.at_least is None and self.at_most is None and self.equals is None:
            raise ValueError("say how many must match: `all: true`, `at_least`, `at_most` or `equals`")
        if self.equals is not None and (self.at_least is not None or self.at_most is not None):
            raise ValueError("`equals` does not go with `at_least` or `at_most`")
        return self

    def words(self) -> str:
        parts = [f"{self.equals}"] if self.equals is not None else []
        parts += [f"at least {self.at_least}"] if self.at_least is not None else []
        parts += [f"at most {self.at_most}"] if self.at_most is not None else []
        return " and ".join([*(["all"] if self.all else []), *parts])


def how_many(good: int, there: int, count: Count) -> str:
    """Why so many good ones of those that are there are not as counted; empty when they are.

    >>> how_many(0, 0, Count(all=True))
    'nothing is there that could be so, all must be'
    >>> how_many(2, 3, Count(all=True)), how_many(3, 3, Count(all=True, at_least=4))
    ('2 of 3 are so, all must be', '3 of 3 are so, all and at least 4 must be')
    >>> how_many(2, 3, Count(at_least=2)), how_many(0, 5, Count(at_most=0)), how_many(0, 0, Count(at_most=0))
    ('', '', '')
    """
    wants_some = count.all or count.at_least is not None or (count.equals or 0) > 0
    if there == 0 and wants_some:
        return f"nothing is there that could be so, {count.words()} must be"
    wrong = (
        (count.all and good < there)
        or (count.equals is not None and good != count.equals)
        or (count.at_least is not None and good < count.at_least)
        or (count.at_most is not None and good > count.at_most)
    )
    return f"{good} of {there} are so, {count.words()} must be" if wrong else ""


@check("objects")
class Objects(Timed):
    """So many objects of a kind (by `selector`, or the one of `object`) have a field as expected.

    The field is as `equals`, `at_least`, `at_most` or the pattern `matches` says; without a `field` being there is
    enough. Objects that are being deleted do not count. A namespace that is gone is a failure.
    """

    kind_: str = Field(default="", alias="kind", pattern=r"^$|^[A-Z][A-Za-z]+$")
    object: Ref | None = None
    selector: str = Field(default="", pattern="^$|=")
    field: str = ""
    equals: str | int | float | bool | None = None
    at_least: float | None = None
    at_most: float | None = None
    matches: str = ""
    count: Count
    namespace: str | None = None

    @field_validator("field")
    @classmethod
    def _path(cls, path: str) -> str:
        if path:
            parse_path(path)
        return path

    @field_validator("matches")
    @classmethod
    def _compiles(cls, pattern: str) -> str:
        re.compile(pattern)
        return pattern

    @model_validator(mode="after")
    def _whole(self) -> "Objects":
        if (self.object is None) == (not self.kind_):
            raise ValueError("give either `object: Kind/name`, or `kind` with `selector`")
        values = self.equals is not None or self.at_least is not None or self.at_most is not None
        if self.field and values == bool(self.matches):
            raise ValueError("say what the field must be: `equals`, `at_least`, `at_most`, or `matches`")
        if not self.field and (values or self.matches):
            raise ValueError("of which `field`?")
        if values:
            Expect(equals=self.equals, at_least=self.at_least, at_most=self.at_most)
        return self

    async def first(self, bench: Bench) -> int:
        """How many there are while all is well; a selector that matches nothing is a fault of the problem."""
        found = await self._objects(bench)
        only_absent = not self.count.all and not self.count.at_least and not self.count.equals
        if not found and not only_absent:
            raise ProblemError(
                f"nothing matches {self._words()} before anything is broken",
                todo="correct the kind, selector or namespace: a check over nothing must not pass",
            )
        return len(found)

    async def look(self, bench: Bench, before: Any) -> Finding:
        found = await self._objects(bench)
        space = self.namespace or bench.scene.namespace
        if not found and await bench.scene.api.get("Namespace", space) is None:
            return Finding("fail", f"the namespace {space} is gone", {"there": 0, "baseline": before, "absent": True})
        bad = [(obj["metadata"]["name"], why) for obj in found if (why := self._refuse(obj))]
        why = how_many(len(found) - len(bad), len(found), self.count)
        shown = {"there": len(found), "so": len(found) - len(bad), "baseline": before, "others": bad[:SHOWN]}
        shown |= {"absent": True} if not found else {}
        if why:
            examples = "; ".join(f"{name}: {what}" for name, what in bad[:SHOWN])
            return Finding("fail", f"{self._words()}: {why}" + (f" ({examples})" if examples else ""), shown)
        return Finding("pass", f"{self._words()}: {len(found) - len(bad)} of {len(found)} are so", shown)

    async def _objects(self, bench: Bench) -> list[Object]:
        space = self.namespace or bench.scene.namespace
        if self.object:
            one = await bench.scene.get(self.object, space)
            found = [one] if one is not None else []
        else:
            found = await bench.scene.api.list(self.kind_, space, labels=self.selector)
        return [obj for obj in found if not obj["metadata"].get("deletionTimestamp")]

    def _refuse(self, obj: Object) -> str:
        if not self.field:
            return ""
        value = field_of(obj, self.field)
        if self.matches:
            if value is MISSING or value is None:
                return f"it has no {self.field}"
            return "" if re.search(self.matches, str(value)) else f"{self.field} is {value}"
        expected = Expect(equals=self.equals, at_least=self.at_least, at_most=self.at_most)
        why = expected.refuse(value)
        return f"{self.field}: {why}" if why else ""

    def _words(self) -> str:
        what = self.object or f"{split_ref(self.kind_)[0]} {self.selector}".strip()
        return f"{what} in {self.namespace}" if self.namespace else what
