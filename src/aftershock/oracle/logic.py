"""Three-valued logic: what several answers come to. Pure functions; `unknown` is never a pass."""

from collections.abc import Sequence
from typing import Literal

from aftershock.oracle.base import Result

__all__ = ["combine", "negated", "weigh"]


def combine(op: Literal["all", "any", "none"], results: Sequence[Result]) -> Result:
    """Kleene's three-valued logic; nothing at all is `unknown`, of every op.

    >>> combine("all", ["pass", "unknown"]), combine("all", ["unknown", "fail"]), combine("any", ["unknown", "pass"])
    ('unknown', 'fail', 'pass')
    >>> combine("none", ["fail", "fail"]), combine("none", ["fail", "unknown"]), combine("none", ["unknown", "pass"])
    ('pass', 'unknown', 'fail')
    >>> combine("all", []), combine("any", []), combine("none", [])
    ('unknown', 'unknown', 'unknown')
    """
    if op == "none":
        return negated(combine("any", results))
    decisive: Result = "fail" if op == "all" else "pass"
    other: Result = "pass" if op == "all" else "fail"
    if decisive in results:
        return decisive
    return "unknown" if "unknown" in results or not results else other


def negated(result: Result) -> Result:
    """What is not known does not become known by its opposite.

    >>> negated("pass"), negated("fail"), negated("unknown")
    ('fail', 'pass', 'unknown')
    """
    opposite: dict[Result, Result] = {"pass": "fail", "fail": "pass", "unknown": "unknown"}
    return opposite[result]


def weigh(results: Sequence[Result], weights: Sequence[float], at_least: float) -> tuple[Result, float, float]:
    """Whether what passed weighs enough, with the least and the greatest share (0 to 1) that it may weigh.

    It passes when what surely passed is enough, and fails when it would not be with all that is unknown.

    >>> weigh(["pass", "fail"], [3, 1], 0.75)
    ('pass', 0.75, 0.75)
    >>> weigh(["pass", "unknown"], [1, 1], 0.6)
    ('unknown', 0.5, 1.0)
    >>> weigh(["fail", "unknown"], [3, 1], 0.5)
    ('fail', 0.0, 0.25)
    >>> weigh([], [], 0.5)
    ('unknown', 0.0, 0.0)
    """
    total = sum(weights)
    if not total:
        return "unknown", 0.0, 0.0
    least, most = (
        sum(weight for result, weight in zip(results, weights, strict=True) if result in counted) / total
        for counted in (("pass",), ("pass", "unknown"))
    )
    if least >= at_least - 1e-9:
        return "pass", least, most
    return ("fail" if most < at_least - 1e-9 else "unknown"), least, most
