"""What the users were served, by the time each request was due.

Arrivals are open-loop: request number n is due at `begin + n / rate`, whatever became of those
before it. So it is known without any record how many belong into a window, and one that hangs and
has left no record yet is still seen: as a request without an end. Latency counts from the time a
request was due (coordinated omission: Tene, "How NOT to Measure Latency"); how far the users'
program itself was behind is kept apart as `lag`, since that tells of the machine and not of the shop.
"""

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from aftershock.base.errors import AftershockError
from aftershock.workload.arrivals import Schedule, due_numbers
from aftershock.workload.tail import Tail

__all__ = [
    "Request",
    "RequestLog",
    "Second",
    "Window",
    "by_kind",
    "due_numbers",
    "longest_stall",
    "per_second",
    "percentile",
    "share_within",
    "summarise",
]

PENDING = "no answer yet"


@dataclass(frozen=True)
class Request:
    """One request. Times are seconds since the epoch; `end` is None while there is no answer.

    `ok`: answered as promised and with the right content. `status` is the HTTP status, 0 without one.
    """

    n: int
    due: float
    start: float | None
    end: float | None
    kind: str
    ok: bool
    status: int
    error: str

    @property
    def latency(self) -> float:
        """Seconds from the time it was due to the answer; infinite while there is none."""
        return math.inf if self.end is None else self.end - self.due

    def served_within(self, seconds: float) -> bool:
        return self.ok and self.latency <= seconds


@dataclass(frozen=True)
class Window:
    """The requests due in [begin, end). Latencies in seconds, None where nothing was served."""

    begin: float
    end: float
    expected: int
    recorded: int
    ok: int
    p50: float | None
    p95: float | None
    lag_p95: float
    stall: float
    errors: dict[str, int]

    @property
    def success(self) -> float:
        """Share of the requests *due* that were served; 0 where none was due."""
        return self.ok / self.expected if self.expected else 0.0

    @property
    def pending(self) -> int:
        return self.expected - self.recorded


@dataclass(frozen=True)
class Second:
    """One second of requests, by due time."""

    at: float
    due: int
    ok: int
    p50: float | None
    p95: float | None


def percentile(values: Iterable[float], share: float) -> float | None:
    """Nearest-rank percentile; None of nothing.

    >>> percentile([10, 20, 30, 40], 0.5)
    20
    >>> percentile([10, 20, 30, 40], 0.95)
    40
    """
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else None


def share_within(requests: Sequence[Request], seconds: float) -> float:
    """Share of the requests that were served within so many seconds; 0 of none."""
    return sum(request.served_within(seconds) for request in requests) / len(requests) if requests else 0.0


def longest_stall(requests: Sequence[Request], since: float, until: float, *, patience: float = 5.0) -> float:
    """The longest time, in seconds of due time, in which no request was served within `patience`."""
    good = sorted(request.due for request in requests if request.served_within(patience))
    edges = [since, *good, until]
    return max((after - before for before, after in itertools.pairwise(edges)), default=until - since)


def summarise(requests: Sequence[Request], since: float, until: float) -> Window:
    """The figures of a window from all requests that were due in it."""
    served = [request.latency for request in requests if request.ok]
    lags = [request.start - request.due for request in requests if request.start is not None]
    return Window(
        begin=since,
        end=until,
        expected=len(requests),
        recorded=sum(request.end is not None for request in requests),
        ok=len(served),
        p50=percentile(served, 0.5),
        p95=percentile(served, 0.95),
        lag_p95=percentile(lags, 0.95) or 0.0,
        stall=longest_stall(requests, since, until),
        errors=dict(Counter(request.error for request in requests if not request.ok)),
    )


def by_kind(requests: Sequence[Request], since: float, until: float, *, depth: int = 1) -> dict[str, Window]:
    """The figures of each journey apart; of each of its steps with a `depth` of 2 (`buy`, `buy.checkout`).

    A request that has no answer yet is of no known kind, and counts under the empty name.
    """
    kinds: dict[str, list[Request]] = {}
    for request in requests:
        kinds.setdefault(".".join(request.kind.split(".")[:depth]), []).append(request)
    return {kind: summarise(content, since, until) for kind, content in sorted(kinds.items())}


def per_second(requests: Sequence[Request], since: float, until: float) -> list[Second]:
    """The series of whole seconds from `since` on; seconds in which nothing was due are there too."""
    bins: list[list[Request]] = [[] for _ in range(max(0, math.ceil(until - since)))]
    for request in requests:
        if since <= request.due < until:
            bins[int(request.due - since)].append(request)
    series = []
    for index, content in enumerate(bins):
        served = [request.latency for request in content if request.ok]
        p50, p95 = percentile(served, 0.5), percentile(served, 0.95)
        series.append(Second(since + index, len(content), len(served), p50, p95))
    return series


class RequestLog:
    """The users' request log, read as it grows. Each question first takes in what is new."""

    def __init__(self, path: Path) -> None:
        self._tail = Tail(path)
        self._records: dict[int, Request] = {}
        self._begin: float | None = None
        self._rate = 0.0
        self._schedule = Schedule(0.0, 1.0)
        self._finished: float | None = None
        self.head: dict[str, Any] = {}

    def poll(self) -> None:
        """Take in what is new."""
        for line in self._tail:
            if "n" in line:
                self._records[line["n"]] = Request(**line)
            elif "begin" in line:
                self.head = line
                self._begin, self._rate = line["begin"], line["rate"]
                self._schedule = Schedule(self._begin, self._rate, line.get("spread"))
            elif "finished" in line:
                self._finished = line["finished"]

    @property
    def started(self) -> bool:
        self.poll()
        return self._begin is not None

    @property
    def begin(self) -> float:
        if self._begin is None:
            self.poll()
        if self._begin is None:
            raise AftershockError("the users have not started", where=str(self._tail.path))
        return self._begin

    @property
    def rate(self) -> float:
        """Requests due per second."""
        assert self.begin
        return self._rate

    def requests(self, since: float, until: float) -> list[Request]:
        """Every request due in [since, until), in order; those without a record have no end."""
        self.poll()
        assert self.begin
        if self._finished is not None:
            until = min(until, self._finished)
        blank = Request(0, 0.0, None, None, "", False, 0, PENDING)
        due = self._schedule.due
        return [self._records.get(n) or replace(blank, n=n, due=due(n)) for n in self._schedule.numbers(since, until)]

    def window(self, since: float, until: float) -> Window:
        return summarise(self.requests(since, until), since, until)

    def series(self, since: float, until: float) -> list[Second]:
        return per_second(self.requests(since, until), since, until)
