"""Judging users by windows of requests. Pure functions over what was due and what came of it.

Requests count by the time they were *due*, not by the time they ended: a stuck request leaves no
answer, and a log of answers only looks emptier while everybody waits. So a window also requires
the number of requests that the rate makes due, and a request out of patience has failed.

Latency is judged by shares under an absolute floor and by the median. A multiple of a baseline's
95th percentile was tried first and measured the machine: 6 to 513 ms on the same healthy system.
"""

import bisect
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from aftershock.fault.watching import settled
from aftershock.workload.served import Request, percentile

__all__ = ["Criteria", "Scan", "Stall", "Window", "measure", "scan", "stall"]

EPSILON = 1e-9


@dataclass(frozen=True)
class Criteria:
    """What a good window is.

    Args:
        hold: its length in seconds.
        success: least share of requests served.
        fast_share, fast_under: least share of requests answered well within so many seconds.
        median_under: the median latency of served requests must not exceed this; None to not ask.
        patience: seconds after which an answer no longer counts.
        expected: least share of the requests that the rate makes due.
    """

    hold: float
    success: float = 0.99
    fast_share: float = 0.95
    fast_under: float = 0.25
    median_under: float | None = None
    patience: float = 5.0
    expected: float = 0.97


@dataclass(frozen=True)
class Window:
    """What users saw in [since, until): counts, shares of the requests due, latencies in seconds.

    `lag`: how late the users' own program sent them (95th percentile); it tells of the machine.
    """

    since: float
    until: float
    due: int
    open: int
    served_share: float
    fast_share: float
    p50: float | None
    p95: float | None
    lag: float

    def faults(self, criteria: Criteria, rate: float) -> tuple[str, ...]:
        """Which criteria a whole window misses: count, success, fast, median. A value at the limit passes.

        `lag` is added where it was slow and the users' own program was late by half of what counts as fast.
        """
        missed = []
        if self.due < criteria.expected * rate * (self.until - self.since) - EPSILON or self.due == 0:
            missed.append("count")
        if self.served_share < criteria.success - EPSILON:
            missed.append("success")
        if self.fast_share < criteria.fast_share - EPSILON:
            missed.append("fast")
        slow_median = criteria.median_under is not None and (self.p50 is None or self.p50 > criteria.median_under)
        if slow_median and "success" not in missed:
            missed.append("median")
        if {"fast", "median"} & set(missed) and self.lag > criteria.fast_under / 2:
            missed.append("lag")
        return tuple(missed)


def measure(
    requests: Sequence[Request], since: float, until: float, *, patience: float, fast_under: float, now: float
) -> Window:
    """Count what was due in [since, until), as known at `now`. Shares are of all that were due."""
    inside = [r for r in requests if since <= r.due < until]
    good = [r for r in inside if r.served_within(patience)]
    latencies = sorted(r.end - r.due for r in good if r.end is not None)
    fast = bisect.bisect_right(latencies, fast_under + EPSILON)
    count = len(inside)
    return Window(
        since=since,
        until=until,
        due=count,
        open=sum(not settled(r, patience, now) for r in inside),
        served_share=len(good) / count if count else 0.0,
        fast_share=fast / count if count else 0.0,
        p50=percentile(latencies, 0.5),
        p95=percentile(latencies, 0.95),
        lag=percentile([r.start - r.due for r in inside if r.start is not None], 0.95) or 0.0,
    )


@dataclass(frozen=True)
class Scan:
    """Where the search for a good window stands. `window` is the good one, or the one that
    may become it; when it failed, the newest seconds."""

    state: Literal["passed", "open", "failed"]
    window: Window
    faults: tuple[str, ...] = ()


def scan(
    requests: Sequence[Request], criteria: Criteria, *, rate: float, since: float, limit: float, now: float
) -> Scan:
    """Look for the first good window that begins at `since` or later and ends by `limit`.

    A window that has seen more bad requests than it may have is left at once, for the one that
    begins after the first of them; when that would end beyond `limit`, no good window can come any
    more and the answer is `failed` although time remains.
    """
    ordered = sorted((r for r in requests if r.due >= since), key=lambda r: r.due)
    dues = [r.due for r in ordered]
    start = since
    missed = "count"
    while start + criteria.hold <= limit + EPSILON:
        end = start + criteria.hold
        inside = ordered[bisect.bisect_left(dues, start) : bisect.bisect_left(dues, end)]
        offence = _offence(inside, criteria, max(rate * criteria.hold, len(inside)), now)
        if offence is None:
            window = _measure(inside, start, end, criteria, now)
            if now < end or window.open:
                return Scan("open", window)
            faults = window.faults(criteria, rate)
            if not faults:
                return Scan("passed", window)
            missed = faults[0]
            start = start + 1.0
            continue
        missed = offence[1]
        start = max(offence[0] + 1e-6, start + 1e-6)
    return _failed(ordered, criteria, rate, since, missed, now)


def _failed(ordered: Sequence[Request], criteria: Criteria, rate: float, since: float, missed: str, now: float) -> Scan:
    """Say what was wrong by the newest `hold` seconds, and by what is known of them.

    The window that was tried last may be a moment old: of requests that are stuck it only knows that
    they are slow, which a busy machine can do too. Those before it tell.
    """
    start, end = max(since, now - criteria.hold), max(now, since + EPSILON)
    inside = [r for r in ordered if start <= r.due < end]
    window = _measure([r for r in inside if settled(r, criteria.patience, now)], start, end, criteria, now)
    found = [fault for fault in window.faults(criteria, rate) if fault != "count"] if window.due else []
    if len(inside) < criteria.expected * rate * (end - start) - 1:
        found.append("count")
    return Scan("failed", window, tuple(found or [missed]))


def _measure(inside: Sequence[Request], start: float, end: float, criteria: Criteria, now: float) -> Window:
    return measure(inside, start, end, patience=criteria.patience, fast_under=criteria.fast_under, now=now)


def _offence(inside: Sequence[Request], criteria: Criteria, expected: float, now: float) -> tuple[float, str] | None:
    """The first bad request of a window that has more than it may have, and what is wrong with it."""
    may_fail = (1 - criteria.success) * expected + EPSILON
    may_lag = (1 - criteria.fast_share) * expected + EPSILON
    failed = lagging = 0
    first_failed = first_lagging = 0.0
    for request in inside:
        over = now - request.due
        if request.end is None and over <= criteria.fast_under:
            continue
        if settled(request, criteria.patience, now) and not request.served_within(criteria.patience):
            failed += 1
            first_failed = first_failed or request.due
            if failed > may_fail:
                return first_failed, "success"
        latency = over if request.end is None else request.end - request.due
        if latency > criteria.fast_under + EPSILON or (request.end is not None and not request.ok):
            lagging += 1
            first_lagging = first_lagging or request.due
            if lagging > may_lag:
                return first_lagging, "fast"
    return None


@dataclass(frozen=True)
class Stall:
    """How users fared while something happened.

    `gap`: the longest stretch in seconds in which no served request was due. `bad_seconds`: in how
    many seconds at least one request that was due was not served.
    """

    due: int
    bad: int
    gap: float
    bad_seconds: int
    open: int


def stall(requests: Sequence[Request], since: float, until: float, *, patience: float, now: float) -> Stall:
    """Measure [since, until) as known at `now`; the part about which nothing is known yet is left out of the gap."""
    inside = sorted((r for r in requests if since <= r.due < until), key=lambda r: r.due)
    known = [r for r in inside if settled(r, patience, now)]
    waiting = [r.due for r in inside if not settled(r, patience, now)]
    end = min([until, now, *waiting])
    good = [r.due for r in known if r.served_within(patience) and r.due <= end]
    marks = [since, *good, max(end, since)]
    bad = [r for r in known if not r.served_within(patience)]
    return Stall(
        due=len(inside),
        bad=len(bad),
        gap=max(later - earlier for earlier, later in itertools.pairwise(marks)),
        bad_seconds=len({int(r.due - since) for r in bad}),
        open=len(waiting),
    )
