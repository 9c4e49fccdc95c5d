"""How one journey fares among all the users' requests. Pure functions over what was due and what came of it.

A request tells of what kind it was only when it has ended: until then it may be of any. So a window is decided
once all requests in it have ended, or can end no more (`ends`: the users' own time-out, after which each leaves
a record). Then those of the journey are counted as `windows` counts all: by the time they were due.
"""

import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from aftershock.oracle.windows import Criteria, Window, measure
from aftershock.workload.served import Request, percentile

__all__ = ["Fare", "Rule", "Search", "fare", "look_for"]

STEP = 1.0
EPSILON = 1e-9


@dataclass(frozen=True)
class Rule:
    """What a journey must be like.

    Args:
        criteria: as for all users; its `hold` is the window's length. `expected` is not used: a journey's share of
            the requests varies.
        kinds: the requests that make the journey; none: all.
        correct: least share of the answered requests whose answer was right.
        percentiles: share -> seconds within which that share of the requests must be served.
        least: so many requests of it must have been due, or nothing can be told.
        ends: seconds after which a request has ended for its users.
    """

    criteria: Criteria
    kinds: frozenset[str]
    correct: float = 1.0
    percentiles: tuple[tuple[float, float], ...] = ()
    least: int = 20
    ends: float = 11.0


@dataclass(frozen=True)
class Fare:
    """A window of a journey. `wrong`: answered with what was not promised. `unknown`: may yet turn out to be of it."""

    window: Window
    wrong: int
    unknown: int
    latencies: tuple[tuple[float, float | None], ...] = ()

    def faults(self, rule: Rule) -> tuple[str, ...]:
        """What it misses: success, fast, median (and lag), correct, percentile, few."""
        if self.window.due < rule.least:
            return ("few",)
        missed = [fault for fault in self.window.faults(rule.criteria, 0.0) if fault != "count"]
        if self.wrong > (1 - rule.correct) * self.window.due + EPSILON:
            missed.append("correct")
        if any(
            value is None or value > limit
            for (_, limit), (_, value) in zip(rule.percentiles, self.latencies, strict=True)
        ):
            missed.append("percentile")
        return tuple(missed)


def fare(requests: Sequence[Request], since: float, until: float, rule: Rule, now: float) -> Fare:
    """Measure a journey in [since, until). A percentile counts what was never served as infinitely late."""
    inside = [r for r in requests if since <= r.due < until]
    mine = [r for r in inside if r.end is not None and (not rule.kinds or r.kind in rule.kinds)]
    open_ = [r for r in inside if r.end is None]
    gone = [r for r in open_ if now - r.due > rule.ends]  # without a record to the end: nobody's, so everybody's
    c = rule.criteria
    window = measure([*mine, *gone], since, until, patience=c.patience, fast_under=c.fast_under, now=now)
    latencies = sorted(r.latency if r.served_within(c.patience) else float("inf") for r in (*mine, *gone))
    found = tuple((share, _finite(percentile(latencies, share))) for share, _ in rule.percentiles)
    wrong = sum(r.error.startswith("wrong") for r in mine)
    return Fare(window, wrong, len(open_) - len(gone), found)


def _finite(value: float | None) -> float | None:
    return None if value is None or value == float("inf") else value


@dataclass(frozen=True)
class Search:
    """Where the search for a good window stands, with the window it is about."""

    state: Literal["passed", "open", "failed"]
    fare: Fare
    faults: tuple[str, ...] = ()


def look_for(requests: Sequence[Request], rule: Rule, *, since: float, limit: float, now: float) -> Search:
    """The first good window that begins at `since` or later, in steps of a second, and ends by `limit`.

    It is failed as soon as each window that could be has more bad requests than it may ever have.
    """
    ordered = sorted((r for r in requests if r.due >= since), key=lambda r: r.due)
    dues = [r.due for r in ordered]
    hold, start = rule.criteria.hold, since
    newest: Search | None = None
    while start + hold <= limit + EPSILON:
        end = start + hold
        inside = ordered[bisect.bisect_left(dues, start) : bisect.bisect_left(dues, end)]
        seen = fare(inside, start, end, rule, now)
        if now < end or seen.unknown:
            if not _lost(inside, rule, len(inside)):
                return Search("open", seen, seen.faults(rule))
            newest = Search("failed", seen, ("success",))
        else:
            faults = seen.faults(rule)
            if not faults:
                return Search("passed", seen)
            newest = Search("failed", seen, faults)
        start += STEP
    if newest is None:
        blank = fare(ordered, since, max(now, since + EPSILON), rule, now)
        return Search("failed", blank, blank.faults(rule) or ("few",))
    return newest


def _lost(inside: Sequence[Request], rule: Rule, due: int) -> bool:
    """Whether so many failed that no further request of the window can make up for it.

    At most all requests that fit into the window could be of the journey, which is the mildest assumption.
    """
    ended = [r for r in inside if r.end is not None]
    bad = sum(not r.served_within(rule.criteria.patience) for r in ended if not rule.kinds or r.kind in rule.kinds)
    if not inside:
        return False
    spread = inside[-1].due - inside[0].due
    rate = (len(inside) - 1) / spread if spread > 0 else 0.0
    most = max(due, rate * rule.criteria.hold)
    return bad > (1 - rule.criteria.success) * most + 1
