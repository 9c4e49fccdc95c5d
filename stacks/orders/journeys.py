"""Users of the small shop: of ten four browse, two look up a customer's orders, two read an own order, two order."""

import random
import uuid
from collections.abc import Mapping
from typing import Any

from aftershock.workload.journeys import Ask, Journey

__all__ = ["JOURNEYS", "Orders"]


class Orders(Journey):
    KINDS = ("browse", "history", "read", "order")
    WEIGHTS = (4, 2, 2, 2)
    CUSTOMERS = 500
    PRODUCTS = 50

    def __init__(self, components: frozenset[str] = frozenset()) -> None:
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


JOURNEYS = {"orders": Orders}
