"""From the name on the command line to an agent."""

from collections.abc import Callable

from aftershock.agent.base import Agent
from aftershock.agent.scripted import FixScript, Nop
from aftershock.base.errors import UsageError
from aftershock.problem.model import Problem
from aftershock.problem.source import near

__all__ = ["resolve"]


def _fix(problem: Problem, argument: str) -> Agent:
    fixes = {fix.name: fix for fix in problem.fixes}
    if argument not in fixes:
        raise UsageError(
            f"the problem {problem.id} has no fix `{argument}`",
            where=str(problem.folder / "fixes"),
            todo=near(argument, fixes),
        )
    return FixScript(fixes[argument])


def _nop(problem: Problem, argument: str) -> Agent:
    return Nop()


# The word before the colon, and what makes an agent of the words after it.
KINDS: dict[str, Callable[[Problem, str], Agent]] = {"nop": _nop, "fix": _fix}


def resolve(name: str, problem: Problem) -> Agent:
    """`nop`, or `fix:NAME` for a script of the problem.

    Raises:
        UsageError: there is no such agent; says which is near.
    """
    kind, _, argument = name.partition(":")
    if kind not in KINDS or (kind == "nop" and argument):
        known = ["nop", *(f"fix:{fix.name}" for fix in problem.fixes)]
        raise UsageError(f"there is no agent `{name}`", todo=near(name, known))
    return KINDS[kind](problem, argument)
