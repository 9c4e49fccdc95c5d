"""What can be seen to be weak in an oracle without running it: mistakes known from the field.

A kind of check refuses what cannot be right (`docs/checks.md` says which). What is listed here may be right at some
problem: the audit decides, and this says early what it will probably find. Pure.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from aftershock.oracle.tree import Leaf, Node, leaves

__all__ = ["WEAKNESSES", "Weakness", "weaknesses"]

USERS = ("served", "journey", "challenge")
CAPACITY = ("capacity", "at_least")
READY = ("status.conditions[type=Ready]", "status.phase", "status.ready", "status.available")


@dataclass(frozen=True)
class Weakness:
    """One of them: its name, where, what is to be feared, and what would be better."""

    name: str
    where: str
    what: str
    todo: str


def _unseen(found: list[Leaf]) -> Iterator[Weakness]:
    if not any(leaf.family == "outcome" and leaf.check.kind in USERS for leaf in found):
        where = found[0].where if found else ""
        todo = "add `served` or `journey`, under the unmodified load"
        yield Weakness("users-unasked", where, "no outcome check asks the users, only the system of itself", todo)


def _momentary(found: list[Leaf]) -> Iterator[Weakness]:
    for leaf in found:
        if leaf.family == "outcome" and leaf.check.time_mode() == "after":
            todo = "hold it for a window: a wrong fix is good for a moment"
            yield Weakness("momentary", leaf.where, f"the outcome `{leaf.id}` is asked at one moment", todo)


def _reference(found: list[Leaf]) -> Iterator[Weakness]:
    for leaf in found:
        field = str(getattr(leaf.check, "field", ""))
        value = getattr(leaf.check, "equals", None) is not None or bool(getattr(leaf.check, "matches", None))
        if leaf.family == "cause" and field.startswith(("spec", "data", "metadata")) and value:
            todo = "ask for what it does; a right fix elsewhere would be rejected"
            yield Weakness("reference-value", leaf.where, f"`{leaf.id}` asks for one value of {field}", todo)


def _readiness(found: list[Leaf]) -> Iterator[Weakness]:
    told = [leaf for leaf in found if leaf.family in ("outcome", "cause")]
    ready = [leaf for leaf in told if str(getattr(leaf.check, "field", "")).startswith(READY)]
    if ready and len(ready) == len(told):
        todo = "ask users, and whether the broken invariant holds"
        yield Weakness("readiness-only", ready[0].where, "all that is asked is that pods are ready", todo)


def _one_of_many(found: list[Leaf]) -> Iterator[Weakness]:
    for leaf in found:
        count = getattr(leaf.check, "count", None)
        least = getattr(count, "at_least", None)
        if least == 1 and not getattr(count, "all", False) and getattr(leaf.check, "selector", ""):
            todo = "write `count: {all: true}`, or say why one is enough"
            yield Weakness("one-replica", leaf.where, f"`{leaf.id}` is content with one of all that match", todo)


def _no_capacity(found: list[Leaf]) -> Iterator[Weakness]:
    if not any(leaf.check.kind in CAPACITY for leaf in found):
        where = found[0].where if found else ""
        todo = "add `capacity: {objects: [...]}`"
        yield Weakness("capacity-unasked", where, "nothing asks whether as many replicas serve as before", todo)


def _untriggered(found: list[Leaf]) -> Iterator[Weakness]:
    if not any(leaf.family == "challenge" for leaf in found):
        where = found[0].where if found else ""
        todo = "add `challenge: {steps: [{trigger_again: {...}}]}`"
        yield Weakness(
            "trigger-unfired", where, "the trigger is never fired again: killing its effect once passes", todo
        )


def _idle_challenge(found: list[Leaf]) -> Iterator[Weakness]:
    for leaf in found:
        steps = leaf.check.steps()
        if leaf.check.kind == "challenge" and steps and all(step.kind == "wait" for step in steps):
            todo = "fire the trigger (`trigger_again`), kill a pod, drain a node"
            yield Weakness("idle-challenge", leaf.where, f"the challenge `{leaf.id}` only waits", todo)


Rule = Callable[[list[Leaf]], Iterator[Weakness]]
WEAKNESSES: tuple[Rule, ...] = (
    _unseen, _momentary, _reference, _readiness, _one_of_many, _no_capacity, _untriggered,
    _idle_challenge,
)  # fmt: skip


def weaknesses(oracle: Node) -> list[Weakness]:
    """All of them, in the order of the rules."""
    found = list(leaves(oracle))
    return [weakness for rule in WEAKNESSES for weakness in rule(found)]
