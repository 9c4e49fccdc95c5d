"""What users do: a journey picks the next request and judges its answer.

A journey knows what was promised to its users so far, and reads some of it back: an answer that
differs from what was acknowledged is a wrong answer, however fast it came.
"""

import random
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from aftershock.base.errors import UsageError

__all__ = ["Ask", "Journey", "Orders", "journey"]


@dataclass(frozen=True)
class Ask:
    """One request that a user is about to make. `expect`: fields that its answer must hold."""

    kind: str
    method: str
    path: str
    body: Mapping[str, Any] | None = None
    expect: Mapping[str, Any] = field(default_factory=dict)


class Journey(Protocol):
    def next(self, rng: random.Random) -> Ask:
        """What the next user asks for."""
        ...

    def judge(self, ask: Ask, status: int, answer: Any) -> str:
        """Why this answer is no good; empty when it is as promised."""
        ...

    def promise(self, ask: Ask, answer: Any) -> dict[str, Any] | None:
        """The ledger entry (with an `id`) of a good answer that promises something."""
        ...

    def remember(self, entry: Mapping[str, Any]) -> None:
        """An entry that is in the ledger now, and may be read back from now on."""
        ...


class Orders:
    """A shop: of ten users four browse, two look up a customer's orders, two read an own order, two order."""

    KINDS = ("browse", "history", "read", "order")
    WEIGHTS = (4, 2, 2, 2)
    CUSTOMERS = 500
    PRODUCTS = 50

    def __init__(self) -> None:
        self._promised: list[Mapping[str, Any]] = []

    def next(self, rng: random.Random) -> Ask:
        kind = rng.choices(self.KINDS, self.WEIGHTS)[0]
        if kind == "read" and not self._promised:
            kind = "history"
        if kind == "browse":
            return Ask(kind, "GET", "/products")
        if kind == "history":
            return Ask(kind, "GET", f"/orders?customer={rng.randint(1, self.CUSTOMERS)}")
        if kind == "read":
            entry = rng.choice(self._promised)
            return Ask(kind, "GET", f"/orders/{entry['id']}", expect=entry)
        body = {
            "id": str(uuid.UUID(int=rng.getrandbits(128), version=4)),
            "customer": rng.randint(1, self.CUSTOMERS),
            "product": rng.randint(1, self.PRODUCTS),
            "quantity": rng.randint(1, 3),
        }
        return Ask(kind, "POST", "/orders", body, expect=body)

    def judge(self, ask: Ask, status: int, answer: Any) -> str:
        if status not in ((200, 201) if ask.kind == "order" else (200,)):
            return f"HTTP {status}"
        if ask.kind in ("browse", "history"):
            return "" if isinstance(answer, list) and answer else "wrong: not a list with content"
        if not isinstance(answer, dict):
            return "wrong: not an object"
        if ask.kind == "order" and not isinstance(answer.get("amount"), int):
            return "wrong: no amount"
        for key, value in ask.expect.items():
            if answer.get(key) != value:
                return f"wrong: {key} is {answer.get(key)!r}, was {value!r}"
        return ""

    def promise(self, ask: Ask, answer: Any) -> dict[str, Any] | None:
        if ask.kind != "order":
            return None
        return {key: answer[key] for key in ("id", "customer", "product", "quantity", "amount")}

    def remember(self, entry: Mapping[str, Any]) -> None:
        self._promised.append(entry)


def journey(name: str) -> Journey:
    """A journey by its name."""
    known: dict[str, type[Orders]] = {"orders": Orders}
    if name not in known:
        raise UsageError(f"there is no journey `{name}`", todo=f"known: {', '.join(sorted(known))}")
    return known[name]()
