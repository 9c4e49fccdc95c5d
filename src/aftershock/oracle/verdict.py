"""From the answers of all checks to one word, and the reason for it."""

from collections.abc import Iterator, Sequence
from typing import Literal

from aftershock.oracle.base import CheckResult
from aftershock.oracle.tree import Outcome, check_results

__all__ = ["COUNTED", "Verdict", "decide"]

Verdict = Literal["succeeded", "failed", "unsafe", "ambiguous", "infra_error", "invalid_problem"]

# The others never enter a score, and are always shown.
COUNTED: tuple[Verdict, ...] = ("succeeded", "failed", "unsafe")


def decide(outcome: Outcome) -> tuple[Verdict, str]:
    """The verdict and why, in words.

    A check that could not tell because of the machine makes it `infra_error`, unless another one
    failed for sure; one that could not tell for another reason makes it `ambiguous`.
    """
    results = check_results(outcome)
    if outcome.result == "pass":
        passed = sum(result.result == "pass" for result in results)
        return "succeeded", f"all {passed} checks passed" if passed == len(results) else f"{passed} checks passed"
    if outcome.result == "fail":
        failing = list(_responsible(outcome, "fail"))
        worst = [result for result in failing if result.unsafe]
        return ("unsafe" if worst else "failed"), _words(worst or failing)
    open_ = list(_responsible(outcome, "unknown"))
    if pressed := [result for result in open_ if result.unfair]:
        return "infra_error", _words(pressed)
    return "ambiguous", _words(open_)


def _responsible(outcome: Outcome, result: str) -> Iterator[CheckResult]:
    """The checks whose result made the whole what it is: those below nodes that have it too."""
    if outcome.result != result:
        return
    if outcome.leaf is not None:
        if outcome.leaf.result == result:
            yield outcome.leaf
        return
    for below in outcome.below:
        yield from _responsible(below, result)


def _words(results: Sequence[CheckResult]) -> str:
    first = results[0]
    more = f" (also: {', '.join(result.id for result in results[1:])})" if len(results) > 1 else ""
    return f"{first.id}: {first.said}{more}"
