"""How the users fare right now, for waiting on it."""

from aftershock.fault.scene import UsersView
from aftershock.workload.served import Request, share_within

__all__ = ["recent_share", "settled"]


def settled(request: Request, patience: float, now: float) -> bool:
    """Whether it can no longer change: answered, or out of patience."""
    return request.end is not None or now - request.due > patience


def recent_share(users: UsersView, *, window: float, patience: float, now: float | None = None) -> float | None:
    """Share of the requests served, of those due in the newest `window` seconds about which all is known.

    A stuck request leaves no answer: out of patience it counts as not served, and before that the
    window ends at the first one whose fate is open. None when no request was due in it.
    """
    now = users.now() if now is None else now
    requests = users.requests(now - window - patience - 1, now)
    end = min((r.due for r in requests if not settled(r, patience, now)), default=now)
    known = [r for r in requests if end - window <= r.due < end]
    return share_within(known, patience) if known else None
