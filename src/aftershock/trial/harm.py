"""What an incident did to users, from their own log. Pure functions.

Harm still tells agents apart when all of them succeed: how many requests were not served or slow,
and for how long somebody had to feel it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from aftershock.workload.served import Request

__all__ = ["Harm", "harm"]

SLOW = 1.0


@dataclass(frozen=True)
class Harm:
    """Counts of requests by what became of them, and minutes in which some failed or were slow.

    Minutes are whole seconds with at least one such request, divided by 60.
    """

    seconds: float
    due: int
    failed: int
    slow: int
    minutes_failed: float
    minutes_slow: float


def harm(requests: Sequence[Request], since: float, until: float, *, slow: float = SLOW) -> Harm:
    """Harm among the requests due in [since, until). `slow`: answered well, but after so many seconds."""
    inside = [r for r in requests if since <= r.due < until]
    failed = [r for r in inside if not r.ok or r.end is None]
    lagging = [r for r in inside if r.ok and r.end is not None and r.end - r.due > slow]

    def minutes(of: Sequence[Request]) -> float:
        return round(len({int(r.due - since) for r in of}) / 60, 3)

    return Harm(
        seconds=round(until - since, 3),
        due=len(inside),
        failed=len(failed),
        slow=len(lagging),
        minutes_failed=minutes(failed),
        minutes_slow=minutes(lagging),
    )
