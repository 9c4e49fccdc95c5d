"""Finishing what a request left: orders whose process died, whose charge is unknown, whose goods are still held.

Each replica looks every few seconds; rows are claimed by moving `updated_at`, so two replicas rarely take the
same one, and nothing breaks where they do.
"""

import asyncio

from checkout import Checkout
from marketlib.errors import Unavailable
from marketlib.logs import log
from marketlib.metrics import Counter, Gauge
from model import Order
from release import ABANDONED_AFTER, LOOK_AFTER
from store import Store

BATCH = 20
TOGETHER = 4

finished = Counter("orders_finished", "Orders that the loop finished, by what it found.", ["found"])
still_open = Gauge("orders_open", "Orders that are not finished.", ["status"])


class Finisher:
    def __init__(self, store: Store, checkout: Checkout) -> None:
        self.store = store
        self.checkout = checkout

    async def look(self) -> None:
        """One look at what is left."""
        counts = await self.store.open_counts()
        for status in ("new", "pending", "returning"):
            still_open.labels(status).set(counts.get(status, 0))
        orders = await self.store.left(new_after=ABANDONED_AFTER, pending_after=LOOK_AFTER, most=BATCH)
        gate = asyncio.Semaphore(TOGETHER)

        async def one(order: Order) -> None:
            async with gate:
                try:
                    await self.finish(order)
                except Unavailable as error:
                    log.warning("order not finished yet", extra={"order": str(order.id), "reason": str(error)})

        await asyncio.gather(*(one(order) for order in orders))

    async def finish(self, order: Order) -> str:
        """Take one order further; the name of what was done. Unavailable: not yet."""
        if order.status == "pending":
            status = (await self.checkout.go_on(order))[1]["status"]
            found = f"pending_{status}"
        elif order.status == "new":
            found = await self._abandoned(order)
        elif order.status == "returning":
            found = await self._returning(order)
        elif order.status in ("declined", "cancelled"):
            found = "released" if await self.checkout.release(order.id) else "still_held"
        elif order.stock == "held":
            done = await self.checkout.commit(order.id)
            if done:
                await self.store.stock(order.id, "committed")
            found = "committed" if done else "still_held"
        else:
            found = "nothing"
        finished.labels(found).inc()
        if found not in ("nothing", "still_held", "pending_pending"):
            log.info("order finished", extra={"order": str(order.id), "found": found})
        return found

    async def _abandoned(self, order: Order) -> str:
        """Nobody was told anything about it: given up, unless the customer was charged."""
        if order.stock == "none":
            if await self.store.closed(order.id, "cancelled", "abandoned", unheld=True):
                await self.checkout.release(order.id)  # its request to reserve may still come
            return "abandoned"
        answer = await self.checkout.payments.post(f"/charges/{order.id}/void", idempotent=True)
        status = answer.data["status"] if answer.ok else ""
        if status == "captured":
            await self.checkout.captured(order)
            return "charged"
        if status in ("failed", "declined"):
            ended = ("declined", "payment declined") if status == "declined" else ("cancelled", "abandoned")
            await self.checkout.give_up(order, *ended)
            return "abandoned"
        if status == "unknown":
            return "unknown"  # payments finds out; the next look sees it
        raise Unavailable("payments", f"answered {answer.status}", status=answer.status)

    async def _returning(self, order: Order) -> str:
        """Money back, goods back on the shelf, and then the customer is told. Each is done once."""
        body = {"order": str(order.id), "amount": order.amount, "key": "return"}
        answer = await self.checkout.payments.post("/refunds", body, idempotent=True)
        if answer.status == 202:
            return "refund_pending"
        if answer.status not in (200, 201):
            log.error("refund refused, a person has to look", extra={"order": str(order.id), "answer": answer.data})
            return "refund_refused"
        for line in order.lines:
            given = await self.checkout.inventory.post(
                f"/stock/{line.product}/return", {"order": str(order.id), "quantity": line.quantity}, idempotent=True
            )
            if not given.ok:
                raise Unavailable("inventory", f"answered {given.status}", status=given.status)
        await self.store.returned(order)
        return "returned"
