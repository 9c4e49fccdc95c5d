"""State, asked for until it is right or the time for it is over: a query, a field, a log."""

import re
from typing import Any

from pydantic import Field, field_validator, model_validator

from aftershock.base.errors import AftershockError, ProblemError
from aftershock.cluster.api import Object
from aftershock.fault.base import Ref
from aftershock.fault.fields import MISSING, Expect, field_of, parse_path
from aftershock.fault.psql import QueryFailed
from aftershock.oracle.base import Abnormal, Bench, Finding, check
from aftershock.oracle.checks.timed import Timed, ask_until

__all__ = ["AtLeast", "LogProgress", "Sql", "Unchanged", "ask_until"]


@check("sql")
class Sql(Timed):
    """The first value that a query returns, asked through the session opened before the fault.

    With `unchanged` it must be what it was at baseline.
    """

    query: str = Field(min_length=1)
    database: str | None = Field(default=None, alias="in")
    equals: str | int | float | bool | None = None
    at_least: float | None = None
    at_most: float | None = None
    unchanged: bool = False
    within: float = Field(default=10.0, gt=0)

    @model_validator(mode="after")
    def _expected(self) -> "Sql":
        if not self.unchanged:
            self.expected(None)
        elif (self.equals, self.at_least, self.at_most) != (None, None, None):
            raise ValueError("`unchanged` does not go with `equals`, `at_least` or `at_most`")
        return self

    def expected(self, before: str | None) -> Expect:
        return Expect(equals=before if self.unchanged else self.equals, at_least=self.at_least, at_most=self.at_most)

    async def first(self, bench: Bench) -> str | None:
        """The value before; a query that the database refuses is a fault of the problem."""
        value = await self._value_before(bench)
        if self.unchanged and not value:
            raise ProblemError("the query gives nothing before anything is broken", todo="there is nothing to be kept")
        return value

    async def _value_before(self, bench: Bench) -> str | None:
        try:
            rows = await bench.ask(self.database, self.query)
        except QueryFailed as error:
            if error.decisive:
                return None  # what it asks for may only come to exist later
            raise Abnormal(f"the query cannot be asked before anything is broken: {error.what}") from error
        return rows[0][0] if rows else None

    async def look(self, bench: Bench, before: Any) -> Finding:
        expected = self.expected(before)
        try:
            rows = await bench.ask(self.database, self.query)
        except QueryFailed as error:
            return Finding("fail" if error.decisive else "unknown", error.what, {"baseline": before})
        value = rows[0][0] if rows else None
        why = expected.refuse(value)
        said = f"the query: {why}" if why else f"the query gives {value}"
        absent = {} if value else {"absent": True}
        return Finding("fail" if why else "pass", said, {"value": value, "baseline": before, **absent})


class FieldCheck(Timed):
    """Base of checks that compare one field of an object with what it was."""

    object: Ref
    field: str
    namespace: str | None = None
    within: float = Field(default=10.0, gt=0)

    @field_validator("field")
    @classmethod
    def _path(cls, path: str) -> str:
        parse_path(path)
        return path

    async def first(self, bench: Bench) -> Any:
        """The value before. Nothing there is a fault of the problem: it could never be kept."""
        value = field_of(await bench.scene.get(self.object, self.namespace), self.field)
        if value is MISSING or value is None:
            raise ProblemError(
                f"{self.object} has no {self.field} before anything is broken",
                todo="correct the object or the path: a check over nothing must not pass",
            )
        return value

    async def _value(self, bench: Bench) -> tuple[Object | None, Any]:
        obj = await bench.scene.get(self.object, self.namespace)
        return obj, field_of(obj, self.field)


@check("unchanged")
class Unchanged(FieldCheck):
    """A field is what it was at baseline."""

    within: float = Field(default=1.0, gt=0)

    async def look(self, bench: Bench, before: Any) -> Finding:
        obj, value = await self._value(bench)
        shown = {"value": None if value is MISSING else value, "baseline": before}
        if obj is None:
            return Finding("fail", f"{self.object} is gone", {**shown, "absent": True})
        if value is MISSING:
            return Finding("fail", f"{self.object} has no {self.field} any more", shown)
        if value != before:
            return Finding("fail", f"{self.object} {self.field} was {before}, is {value}", shown)
        return Finding("pass", f"{self.object} {self.field} is as it was", shown)


@check("at_least")
class AtLeast(FieldCheck):
    """A number, such as ready replicas, is not below what it was at baseline."""

    async def first(self, bench: Bench) -> float:
        value = await super().first(bench)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ProblemError(f"{self.object} {self.field} is {value!r}, not a number", todo="use `unchanged`")
        return value

    async def look(self, bench: Bench, before: Any) -> Finding:
        obj, value = await self._value(bench)
        number = 0 if value is MISSING or value is None else value
        shown = {"value": number, "baseline": before}
        if obj is None:
            return Finding("fail", f"{self.object} is gone", {**shown, "absent": True})
        if number < before:
            return Finding("fail", f"{self.object} {self.field} is {number}, it was {before}", shown)
        return Finding("pass", f"{self.object} {self.field} is {number}, it was {before}", shown)


@check("log_progress")
class LogProgress(Timed):
    """Something goes on working: lines that match are in its pods' logs, from the last `fresh` seconds."""

    selector: str = Field(pattern="=")
    pattern: str = Field(min_length=1)
    container: str = ""
    fresh: int = Field(default=30, gt=0)
    count: int = Field(default=1, gt=0)
    namespace: str | None = None
    within: float = Field(default=30.0, gt=0)

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, pattern: str) -> str:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"not a regular expression: {error}") from error
        return pattern

    async def _look(self, bench: Bench) -> Finding:
        space = self.namespace or bench.scene.namespace
        pods = await bench.scene.api.list("Pod", space, labels=self.selector)
        lines: list[str] = []
        unread = ""
        for pod in pods:
            try:
                text = await bench.scene.api.logs(
                    space, pod["metadata"]["name"], container=self.container, since=self.fresh
                )
            except AftershockError as error:
                unread = error.what
                continue
            lines += [line for line in text.splitlines() if re.search(self.pattern, line)]
        shown = {"lines": len(lines), "pods": len(pods), "last": lines[-1][:200] if lines else None}
        said = f"{len(lines)} lines match `{self.pattern}` in the last {self.fresh} s, in the logs of {len(pods)} pods"
        if len(lines) >= self.count:
            return Finding("pass", said, shown)
        if unread:
            return Finding("unknown", f"{said}; {unread}", shown)
        return Finding("fail", said, shown if pods else {**shown, "absent": True})

    async def first(self, bench: Bench) -> Any:
        found = await ask_until(lambda: self._look(bench), bench, self.within + self.fresh)
        if found.result != "pass":
            raise Abnormal(f"it does not work before anything is broken: {found.said}")
        return found.measured

    async def look(self, bench: Bench, before: Any) -> Finding:
        return await self._look(bench)
