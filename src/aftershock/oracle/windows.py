"""Judging users by windows of requests. Pure functions over what was due and what came of it.

Requests count by the time they were *due*, not by the time they ended: a stuck request leaves no
answer, and a log of answers only looks emptier while everybody waits. So a window also requires
the number of requests that the rate makes due, and a request out of patience has failed.

Latency is judged by shares under an absolute floor and by the median. A multiple of a baseline's
95th percentile was tried first and measured the machine: 6 to 513 ms on the same healthy system.

What the machine does beside it shows in the users' own program, which lives outside the cluster: on
a quiet one it sends its requests within a few milliseconds of the time they are due. A second in
which it was late says nothing about the shop's latency. So slowness is forgiven when the quiet
seconds alone, at least half of the window, are good; and with fewer of them it cannot be told. The
same healthy system with and without a busy neighbour: 79 and 100 % of all requests under 250 ms, 100
and 100 % of those in quiet seconds; while queueing for a lock: 79 % of either.
"""

import bisect
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from aftershock.fault.watching import settled
from aftershock.workload.served import Request, percentile

__all__ = ["Criteria", "Scan", "Stall", "Window", "held_up", "measure", "scan", "stall"]

EPSILON = 1e-9

# Seconds by which the users' program may be late in a second that counts as quiet.
LATE = 0.05
QUIET_SHARE = 0.5


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
    `quiet`: share of the seconds in which none was late; what follows is of those seconds only.
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
    quiet: float = 1.0
    quiet_fast_share: float = 0.0
    quiet_p50: float | None = None

    def faults(self, criteria: Criteria, rate: float) -> tuple[str, ...]:
        """Which criteria a whole window misses: count, success, fast, median. A value at the limit passes.

        `lag` is added where it was slow and there were too few quiet seconds to tell whose fault that is.
        """
        told = self.quiet >= QUIET_SHARE - EPSILON
        missed = []
        if self.due < criteria.expected * rate * (self.until - self.since) - EPSILON or self.due == 0:
            missed.append("count")
        if self.served_share < criteria.success - EPSILON:
            missed.append("success")
        if max(self.fast_share, self.quiet_fast_share if told else 0.0) < criteria.fast_share - EPSILON:
            missed.append("fast")
        if criteria.median_under is not None and "success" not in missed:
            medians = [p50 for p50 in (self.p50, self.quiet_p50 if told else None) if p50 is not None]
            if not medians or min(medians) > criteria.median_under:
                missed.append("median")
        if {"fast", "median"} & set(missed) and not told:
            missed.append("lag")
        return tuple(missed)


def measure(
    requests: Sequence[Request], since: float, until: float, *, patience: float, fast_under: float, now: float
) -> Window:
    """Count what was due in [since, until), as known at `now`. Shares are of all that were due."""
    inside = [r for r in requests if since <= r.due < until]
    good, latencies = _good(inside, patience)
    count = len(inside)
    loud = _loud_seconds(inside, since)
    calm = [r for r in inside if int(r.due - since) not in loud]
    _, calm_latencies = _good(calm, patience)
    return Window(
        since=since,
        until=until,
        due=count,
        open=sum(not settled(r, patience, now) for r in inside),
        served_share=good / count if count else 0.0,
        fast_share=_fast(latencies, fast_under) / count if count else 0.0,
        p50=percentile(latencies, 0.5),
        p95=percentile(latencies, 0.95),
        lag=percentile([r.start - r.due for r in inside if r.start is not None], 0.95) or 0.0,
        quiet=_quiet(inside, since),
        quiet_fast_share=_fast(calm_latencies, fast_under) / len(calm) if calm else 0.0,
        quiet_p50=percentile(calm_latencies, 0.5),
    )


def _good(requests: Sequence[Request], patience: float) -> tuple[int, list[float]]:
    """How many were served, and their latencies in order."""
    latencies = sorted(r.end - r.due for r in requests if r.end is not None and r.served_within(patience))
    return len(latencies), latencies


def _fast(latencies: Sequence[float], under: float) -> int:
    return bisect.bisect_right(latencies, under + EPSILON)


def _loud_seconds(requests: Sequence[Request], since: float) -> set[int]:
    """Seconds of the window in which the users' program was late with a request."""
    return {int(r.due - since) for r in requests if r.start is not None and r.start - r.due > LATE}


def _quiet(requests: Sequence[Request], since: float) -> float:
    seconds = len({int(r.due - since) for r in requests})
    return 1 - len(_loud_seconds(requests, since)) / seconds if seconds else 1.0


def held_up(seen: "Window | Stall") -> str:
    """Why a stretch says nothing sure about the shop: the users' own program was late; empty when it was not."""
    if seen.quiet >= QUIET_SHARE - EPSILON:
        return ""
    return f"the users' own program was on time in {seen.quiet:.0%} of the seconds only"


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
        offence = _offence(inside, start, criteria, max(rate * criteria.hold, len(inside)), now)
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


def _offence(
    inside: Sequence[Request], start: float, criteria: Criteria, expected: float, now: float
) -> tuple[float, str] | None:
    """The first bad request of a window that has more than it may have, and what is wrong with it.

    Slow ones count in quiet seconds only: what comes in the others may yet be forgiven.
    """
    loud = _loud_seconds(inside, start)
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
        if int(request.due - start) in loud:
            continue
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
    many seconds at least one request that was due was not served. `served_share`: of those about which
    all is known. `quiet`: share of the seconds in which the users' own program was on time.
    """

    due: int
    bad: int
    gap: float
    bad_seconds: int
    open: int
    served_share: float = 1.0
    quiet: float = 1.0


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
        served_share=1 - len(bad) / len(known) if known else 1.0,
        quiet=_quiet(inside, since),
    )
