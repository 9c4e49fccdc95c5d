"""Waiting until users really suffer, and until that has lasted long enough for a page."""

from aftershock.base.errors import DeadlinePassed, ProblemError
from aftershock.base.wait import NotYet, until
from aftershock.fault.scene import UsersView
from aftershock.fault.watching import recent_share
from aftershock.problem.model import Problem, Suffering

__all__ = ["until_paged", "until_suffering"]


def suffers(rule: Suffering, users: UsersView) -> str:
    """Empty when users suffer by this rule, else how they fare."""
    users.check()
    share = recent_share(users, window=rule.window, patience=rule.patience)
    if share is None:
        return "no request was due"
    return "" if share < rule.success_below else f"{share:.0%} of their requests are served"


async def until_suffering(rule: Suffering, users: UsersView) -> float:
    """The moment from which users suffer, on their clock.

    Raises:
        ProblemError: they never did: the fault has no effect that they feel.
    """

    async def probe() -> float:
        if why := suffers(rule, users):
            raise NotYet(why)
        return users.now()

    try:
        return await until(probe, what="users suffer", seconds=rule.within, every=0.25)
    except DeadlinePassed as late:
        raise ProblemError(
            f"users never suffered: {late.what}", todo="see whether fault and trigger do what they should"
        ) from late


async def until_paged(problem: Problem, users: UsersView, since: float) -> None:
    """Wait until users have suffered without a break for as long as it takes to be paged.

    Raises:
        ProblemError: it heals by itself, again and again.
    """
    rule = problem.suffering

    async def probe() -> None:
        nonlocal since
        if why := suffers(rule, users):
            since = users.now()
            raise NotYet(f"it got better by itself: {why}")
        if users.now() - since < problem.page.after:
            raise NotYet("it has not lasted long enough")

    try:
        await until(probe, what="the page goes out", seconds=rule.within + problem.page.after, every=0.25)
    except DeadlinePassed as late:
        raise ProblemError(f"users did not suffer long enough for a page: {late.what}") from late
