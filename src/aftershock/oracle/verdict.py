"""From the answers of all checks to one word, and the reason for it."""

from collections.abc import Iterator, Sequence
from typing import Literal

from aftershock.oracle.base import CheckResult
from aftershock.oracle.tree import STAGE, Outcome, check_results

__all__ = ["COUNTED", "Verdict", "decide", "deciding"]

Verdict = Literal["succeeded", "failed", "unsafe", "ambiguous", "infra_error", "invalid_problem"]

# The others never enter a score, and are always shown.
COUNTED: tuple[Verdict, ...] = ("succeeded", "failed", "unsafe")


def decide(outcome: Outcome) -> tuple[Verdict, str]:
    """The verdict and why, in words.

    A check that could not tell because of the machine makes it `infra_error`, unless another one
    failed for sure; one that could not tell for another reason makes it `ambiguous`. A check that is
    `unsafe` and failed makes it unsafe, whatever else passed and wherever it stands.
    """
    results = check_results(outcome)
    if outcome.result == "pass" and not _broken(results):
        passed = sum(result.result == "pass" for result in results)
        return "succeeded", f"all {passed} checks passed" if passed == len(results) else f"{passed} checks passed"
    found = deciding(outcome)
    if outcome.result == "fail" or _broken(results):
        return ("unsafe" if found[0].unsafe else "failed"), _words(found)
    return ("infra_error" if found[0].unfair else "ambiguous"), _words(found)


def deciding(outcome: Outcome) -> list[CheckResult]:
    """The checks that decided, the weightiest first; none where all passed.

    Unsafe ones outweigh all others, then the families as they are asked: the outcome, cause and
    preservation, challenges. Of those that could not tell, the machine's pressure outweighs the rest.
    """
    if broken := _broken(check_results(outcome)):
        return broken
    if outcome.result == "pass":
        return []
    found = sorted(_responsible(outcome, outcome.result), key=lambda result: STAGE[result.family])
    if outcome.result == "unknown":
        return [result for result in found if result.unfair] or found
    return found


def _broken(results: Sequence[CheckResult]) -> list[CheckResult]:
    """Safety that was broken: it is no part of the objectives, so no other success makes up for it."""
    broken = [result for result in results if result.unsafe and result.result == "fail"]
    return sorted(broken, key=lambda result: STAGE[result.family])


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
