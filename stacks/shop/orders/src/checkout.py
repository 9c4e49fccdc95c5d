"""From a wish to a paid order.

    look up prices -> write the order down -> reserve -> charge -> commit the goods -> paid, with its event

Each step can be done again: reserving and charging go by the order's id, and a change of status names where it
comes from. So a client that asks again under its key, here or at another replica, goes on where the first one
stopped; and so does the loop in `finish`, for those that never come back.

What a client is told: 201 paid; 202 the charge may have been made, it is found out; 402, 409 given up for good;
503 nothing is known to be wrong, ask again under the same key.
"""

import asyncio
import contextlib
import dataclasses
import uuid
from typing import Any

from marketlib.client import Client
from marketlib.errors import HttpError, Unavailable
from marketlib.logs import log
from marketlib.metrics import Counter
from model import Asked, Line, Order
from store import Store

outcomes = Counter("orders_checkouts", "Checkouts by outcome.", ["outcome"])

Said = tuple[int, dict[str, Any]]
FINAL = {
    "paid": 200,
    "returning": 200,
    "returned": 200,
    "pending": 202,
    "new": 202,
    "declined": 402,
    "cancelled": 409,
}


def said(order: Order) -> Said:
    """What a client is told about an order that it asks for again."""
    body = order.shown()
    if order.status in ("declined", "cancelled"):
        body["error"] = order.reason or order.status
    return FINAL[order.status], body


class Checkout:
    def __init__(self, store: Store, catalog: Client, inventory: Client, payments: Client) -> None:
        self.store = store
        self.catalog = catalog
        self.inventory = inventory
        self.payments = payments

    async def checkout(self, wish: Asked) -> Said:
        order = await self.store.find(wish.key)
        if order is None:
            order = await self.store.create(wish, await self._priced(wish.pieces))
            order = order or await self._again(wish.key)
        elif await self.store.fingerprint(wish.key) not in (None, wish.fingerprint):
            raise HttpError(422, "this Idempotency-Key was used for something else")
        if order.customer != wish.customer:
            raise HttpError(422, "this Idempotency-Key was used for something else")
        answer = said(order) if order.status != "new" else await self.go_on(order)
        outcomes.labels(answer[1]["status"] if answer[0] != 200 else "again").inc()
        return answer

    async def _priced(self, pieces: dict[int, int]) -> list[Line]:
        answers = await asyncio.gather(*(self.catalog.get(f"/products/{product}") for product in pieces))
        lines = []
        for (product, quantity), answer in zip(pieces.items(), answers, strict=True):
            if answer.status == 404:
                raise HttpError(422, "no such product", product=product)
            if answer.status != 200:
                raise Unavailable("catalog", f"answered {answer.status}", status=answer.status)
            lines.append(Line(product, quantity, int(answer.data["price"]), int(answer.data["seller"])))
        return lines

    async def go_on(self, order: Order) -> Said:
        """Take an open order as far as it goes."""
        if order.stock == "none" and (ended := await self._reserve(order)):
            return ended
        try:
            answer = await self.payments.post(
                "/charges",
                {"order": str(order.id), "customer": order.customer, "amount": order.amount},
                idempotent=False,  # payments takes it once, but a second call would hide that the first one was sent
            )
        except Unavailable as error:
            if not error.sent or error.status == 503:
                raise  # certainly not charged by this call
            return await self._wait(order, str(error))
        if answer.status in (200, 201) and answer.data["status"] == "captured":
            return await self.captured(order)
        if answer.status == 402:
            return await self.give_up(order, "declined", "payment declined")
        if answer.status == 202:
            return await self._wait(order, "the provider did not say")
        raise Unavailable("payments", f"answered {answer.status}", status=answer.status)

    async def _reserve(self, order: Order) -> Said | None:
        lines = [{"product": x.product, "quantity": x.quantity} for x in order.lines]
        answer = await self.inventory.post("/reservations", {"order": str(order.id), "lines": lines}, idempotent=True)
        if answer.status in (200, 201):
            if await self.store.held(order.id):
                return None
            # Given up meanwhile, by the loop or by another request: what it decided holds.
            await self.release(order.id)
            return said(await self._again(order.id))
        if answer.status in (404, 409):
            why = str(answer.data.get("error", "out of stock"))
            if await self.store.closed(order.id, "cancelled", why, unheld=True):
                body = {**(await self._again(order.id)).shown(), "error": why}
                return 409, {**body, "product": answer.data.get("product")}
            return said(await self._again(order.id))
        raise Unavailable("inventory", f"answered {answer.status}", status=answer.status)

    async def _wait(self, order: Order, why: str) -> Said:
        log.warning("payment outcome unknown", extra={"order": str(order.id), "reason": why})
        await self.store.pending(order.id)
        return said(await self._again(order.id))

    async def captured(self, order: Order) -> Said:
        """The money is here: the goods leave, the order is paid."""
        stock = "committed" if await self.commit(order.id) else "held"
        if await self.store.paid(order, stock):
            return 201, dataclasses.replace(order, status="paid").shown()
        return said(await self._again(order.id))

    async def give_up(self, order: Order, status: str, reason: str) -> Said:
        await self.store.closed(order.id, status, reason)
        now = await self._again(order.id)
        if now.status in ("declined", "cancelled"):
            await self.release(order.id)
        return said(now)

    async def commit(self, order: uuid.UUID) -> bool:
        """Whether the goods are off the shelf; if not, the loop sees to it."""
        with contextlib.suppress(Unavailable):
            answer = await self.inventory.post(f"/reservations/{order}/commit", idempotent=True)
            if answer.ok:
                return True
            log.error("goods not committed", extra={"order": str(order), "status": answer.status})
        return False

    async def release(self, order: uuid.UUID) -> bool:
        """Whether the goods are free again. The order must be closed: nobody commits them any more."""
        with contextlib.suppress(Unavailable):
            answer = await self.inventory.delete(f"/reservations/{order}")
            if answer.ok:
                await self.store.stock(order, "released")
                return True
            log.error("goods not released", extra={"order": str(order), "status": answer.status})
        return False

    async def _again(self, order: uuid.UUID) -> Order:
        found = await self.store.find(order)
        assert found is not None
        return found
