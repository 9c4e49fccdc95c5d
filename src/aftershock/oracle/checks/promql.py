"""What the metrics say, and whether the alerts still could: asked through the API server's service proxy."""

import contextlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field, model_validator

from aftershock.base.errors import ClusterError, ProblemError
from aftershock.fault.fields import Expect
from aftershock.oracle.base import Abnormal, Bench, Finding, check
from aftershock.oracle.checks.objects import Count, how_many
from aftershock.oracle.checks.timed import Timed

__all__ = ["PromQl", "Series", "Unserved", "ask_service", "series_of"]

SERVICE = r"^([a-z0-9-]+/)?[a-z0-9-]+:[a-z0-9-]+$"
SHOWN = 5

Series = list[tuple[dict[str, str], float]]


class Unserved(ClusterError):
    """The API server answers and says that nothing serves this: no such Service, or no pod behind it."""


def unserved(status: int, document: Any) -> bool:
    """Whether the API server itself says so, and not the program behind the Service.

    >>> unserved(404, {"kind": "Status", "reason": "NotFound"}), unserved(404, {"error": "no such page"})
    (True, False)
    >>> unserved(503, {"kind": "Status", "message": "no endpoints available for service \\"metrics\\""})
    True
    """
    if not isinstance(document, dict) or document.get("kind") != "Status":
        return False
    return status == 404 or (status == 503 and "no endpoints available" in str(document.get("message")))


async def ask_service(bench: Bench, service: str, path: str, query: str = "") -> Any:
    """GET a path of `[namespace/]name:port` as JSON.

    Raises:
        Unserved: there is nothing that could answer.
        ClusterError: it does not answer, or not with JSON: what is asked for cannot be told.
    """
    space, _, rest = service.rpartition("/")
    space = space or bench.scene.namespace
    where = f"/api/v1/namespaces/{space}/services/{rest}/proxy/{path.lstrip('/')}"
    answer = await bench.scene.api.request("GET", where, query=query)
    if answer.is_error:
        with contextlib.suppress(ValueError):
            if unserved(answer.status_code, answer.json()):
                raise Unserved(f"nothing serves {service} ({answer.status_code})", where=path)
        raise ClusterError(f"{service} does not answer ({answer.status_code}): {answer.text[:200]}", where=path)
    try:
        return answer.json()
    except (json.JSONDecodeError, ValueError) as error:
        raise ClusterError(f"{service} does not answer with JSON: {answer.text[:100]}", where=path) from error


def series_of(answer: Mapping[str, Any]) -> Series:
    """The series of an instant query's answer, values that are no numbers left out.

    >>> series_of({"status": "success", "data": {"resultType": "vector", "result": [
    ...     {"metric": {"pod": "a"}, "value": [1, "2.5"]}, {"metric": {"pod": "b"}, "value": [1, "NaN"]}]}})
    [({'pod': 'a'}, 2.5)]
    >>> series_of({"status": "success", "data": {"resultType": "scalar", "result": [1, "3"]}})
    [({}, 3.0)]
    """
    if answer.get("status") != "success":
        raise ClusterError(f"the query was refused: {answer.get('error', answer)}"[:300])
    data = answer["data"]
    entries = [{"value": data["result"]}] if data["resultType"] == "scalar" else data["result"]
    found: Series = [(dict(entry.get("metric") or {}), float(entry["value"][1])) for entry in entries]
    return [(labels, value) for labels, value in found if not math.isnan(value)]


def words_of(series: Sequence[tuple[Mapping[str, str], float]]) -> str:
    """
    >>> words_of([({"__name__": "up", "pod": "a"}, 1.0)])
    'up{pod=a} is 1'
    """
    shown = []
    for labels, value in series[:SHOWN]:
        inside = ", ".join(f"{key}={text}" for key, text in sorted(labels.items()) if key != "__name__")
        shown.append(f"{labels.get('__name__', '')}{{{inside}}} is {value:g}")
    return "; ".join(shown) + (f"; and {len(series) - SHOWN} more" if len(series) > SHOWN else "")


@check("promql")
class PromQl(Timed):
    """The series of a query have values as expected: all of them, or as many as `count` says.

    No series at all is a failure, and so is one whose value is no number. Databases go on giving the last value
    of a series for minutes after its source is gone, so the query's own metrics must be `fresh`: the newest
    sample under `fresh_of` (a metric of the same source) may be so many seconds old.
    """

    service: str = Field(pattern=SERVICE)
    query: str = Field(min_length=1)
    equals: float | None = None
    at_least: float | None = None
    at_most: float | None = None
    count: Count = Count(all=True)
    fresh_of: str = ""
    fresh: float = Field(default=60.0, gt=0)
    path: str = ""

    @model_validator(mode="after")
    def _expected(self) -> "PromQl":
        self.expect()
        if re.search(r"\bALERTS(_FOR_STATE)?\b", self.query):
            raise ValueError("an alert that is silent proves nothing: ask users by `served`, the alert by `alert_able`")
        if not self.count.all and not self.count.at_least and not self.count.equals:
            raise ValueError("`count` would pass with no series at all: add `at_least` or `all`")
        return self

    def expect(self) -> Expect:
        return Expect(equals=self.equals, at_least=self.at_least, at_most=self.at_most)

    async def ask(self, bench: Bench, query: str) -> Series:
        return series_of(await ask_service(bench, self.service, f"{self.path}/api/v1/query", query=query))

    async def first(self, bench: Bench) -> Any:
        """The series there are while all is well."""
        try:
            series = await self.ask(bench, self.query)
        except ClusterError as error:
            raise Abnormal(f"metrics cannot be asked before anything is broken: {error.what}") from error
        if not series and self.time_mode() != "before":
            why = await self._stale(bench)
            if not why:
                raise ProblemError(
                    f"the query gives no series before anything is broken: {self.query}",
                    todo="correct it, or let it give 0 (`... or vector(0)`): a check over nothing must not pass",
                )
            raise Abnormal(why)
        return {"series": len(series)}

    async def _stale(self, bench: Bench) -> str:
        if not self.fresh_of:
            return ""
        # timestamp() of an instant selector is the sample's own time
        age = await self.ask(bench, f"time() - max(timestamp({self.fresh_of}))")
        if not age:
            return f"there is no {self.fresh_of}"
        return f"the newest {self.fresh_of} is {age[0][1]:.0f} s old" if age[0][1] > self.fresh else ""

    async def look(self, bench: Bench, before: Any) -> Finding:
        try:
            if why := await self._stale(bench):
                return Finding("unknown", f"the metrics are stale: {why}")
            series = await self.ask(bench, self.query)
        except Unserved as error:
            return Finding("fail", error.what, {"before": before, "absent": True})
        expect = self.expect()
        bad = [(labels, value) for labels, value in series if expect.refuse(value)]
        shown = {
            "series": len(series),
            "values": [[labels, value] for labels, value in series[:SHOWN]],
            "before": before,
        }
        if not series:
            return Finding("fail", f"the query gives no series, {expect.words()} expected", {**shown, "absent": True})
        if why := how_many(len(series) - len(bad), len(series), self.count):
            return Finding("fail", f"{why} {expect.words()}: {words_of(bad or series)}", shown)
        return Finding("pass", words_of([entry for entry in series if entry not in bad]), shown)
