"""Giving money back, once for an order and key. A refund that is not done yet is asked for again by a loop."""

import asyncio
import contextlib
import dataclasses
import uuid
from dataclasses import dataclass
from typing import Any

import asyncpg

import books
from charging import CLAIM_SECONDS, unhurried
from marketlib.client import Client
from marketlib.db import Database
from marketlib.errors import HttpError, Unavailable
from marketlib.logs import log
from marketlib.metrics import Counter

FIELDS = "id, order_id, amount, status, attempts"

outcomes = Counter("payments_refunds", "Attempts to refund, by outcome.", ["outcome"])


@dataclass(frozen=True, slots=True)
class Refund:
    id: uuid.UUID
    order: uuid.UUID
    amount: int
    status: str
    attempts: int


async def opened(connection: asyncpg.Connection, order: uuid.UUID, amount: int, key: str) -> tuple[Refund, str, bool]:
    """The refund, made if there is none; the provider's charge; and whether this caller may try now."""
    charge = await connection.fetchrow(
        "select amount, status, provider_id from payments.charges where order_id = $1 for update", order
    )
    if charge is None or charge["status"] != "captured":
        raise HttpError(409, "the order has no captured charge")
    given = await connection.fetchval(
        "select coalesce(sum(amount), 0) from payments.refunds"
        " where order_id = $1 and key <> $2 and status <> 'refused'",
        order,
        key,
    )
    if given + amount > charge["amount"]:
        raise HttpError(409, "more than was charged", charged=charge["amount"], refunded=given)
    await connection.execute(
        "insert into payments.refunds (order_id, key, amount) values ($1, $2, $3)"
        " on conflict (order_id, key) do nothing",
        order,
        key,
        amount,
    )
    row = await connection.fetchrow(
        f"update payments.refunds set attempts = attempts + 1, claimed_until = now() + $3 * interval '1 second'"
        f" where order_id = $1 and key = $2 and status = 'new' and coalesce(claimed_until, '-infinity') < now()"
        f" returning {FIELDS}",
        order,
        key,
        CLAIM_SECONDS,
    )
    mine = row is not None
    row = row or await connection.fetchrow(
        f"select {FIELDS} from payments.refunds where order_id = $1 and key = $2", order, key
    )
    if row["amount"] != amount:
        raise HttpError(422, "the order has a refund of another amount under this key")
    return Refund(*row), charge["provider_id"], mine


class Refunding:
    def __init__(self, database: Database, provider: Client) -> None:
        self._database = database
        self._provider = provider
        self._running: set[asyncio.Task[Any]] = set()

    async def finish(self) -> None:
        if self._running:
            await asyncio.wait(self._running, timeout=4)

    async def refund(self, order: uuid.UUID, amount: int, key: str) -> Refund:
        async with self._database.transaction() as connection:
            refund, charge, mine = await opened(connection, order, amount, key)
        if not mine:
            return refund
        task = asyncio.create_task(self._attempt(refund, charge))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await asyncio.shield(task)

    async def _attempt(self, refund: Refund, charge: str) -> Refund:
        async with unhurried():
            try:
                if refund.attempts > 1 and (found := await self._find(refund)):
                    return await self._done(refund, found)
                answer = await self._provider.post(
                    "/v1/refunds",
                    {"charge": charge, "amount": refund.amount, "reference": str(refund.order)},
                    idempotent=False,
                    headers={"Idempotency-Key": str(refund.id)},
                )
            except Unavailable as error:
                return await self._again(refund, str(error))
            if answer.status in (200, 201):
                return await self._done(refund, str(answer.data["id"]))
            if answer.status in (402, 404, 409, 422):
                return await self._refused(refund, answer.status)
            return await self._again(refund, f"the provider answered {answer.status}")

    async def _find(self, refund: Refund) -> str | None:
        """The provider's id of a refund that it made without our hearing of it."""
        answer = await self._provider.get(f"/v1/refunds?reference={refund.order}")
        if answer.status == 404:
            return None
        if answer.status != 200:
            raise Unavailable("payment-provider", f"answered {answer.status}", status=answer.status)
        async with self._database.transaction(readonly=True) as connection:
            rows = await connection.fetch("select provider_id from payments.refunds where order_id = $1", refund.order)
        known = {row["provider_id"] for row in rows}
        for one in answer.data.get("refunds", answer.data.get("data", [])):
            if one["id"] not in known and one["amount"] == refund.amount:
                return str(one["id"])
        return None

    async def _done(self, refund: Refund, provider_id: str) -> Refund:
        outcomes.labels("done").inc()
        async with self._database.transaction() as connection:
            turned = await connection.fetchval(
                "update payments.refunds set status = 'done', provider_id = $2, claimed_until = null,"
                " updated_at = now()"
                " where id = $1 and status = 'new' returning true",
                refund.id,
                provider_id,
            )
            if turned:
                await books.book(connection, refund.id, refund.order, -refund.amount)
        return dataclasses.replace(refund, status="done")

    async def _refused(self, refund: Refund, status: int) -> Refund:
        outcomes.labels("refused").inc()
        log.error("refund refused", extra={"order": str(refund.order), "refund": str(refund.id), "status": status})
        async with self._database.transaction() as connection:
            await connection.execute(
                "update payments.refunds set status = 'refused', updated_at = now() where id = $1 and status = 'new'",
                refund.id,
            )
        return dataclasses.replace(refund, status="refused")

    async def _again(self, refund: Refund, why: str) -> Refund:
        outcomes.labels("unknown").inc()
        log.warning("refund not done, it is tried again", extra={"order": str(refund.order), "reason": why})
        with contextlib.suppress(Unavailable):
            async with self._database.transaction() as connection:
                await connection.execute(
                    "update payments.refunds set updated_at = now(),"
                    " claimed_until = now() + least(120, 2 ^ least(attempts, 7)) * interval '1 second' where id = $1",
                    refund.id,
                )
        return refund

    async def reconcile(self) -> None:
        """Try again what is not done; the provider takes a refund once under its key."""
        async with self._database.transaction() as connection:
            rows = await connection.fetch(
                "select order_id, amount, key from payments.refunds where status = 'new'"
                " and coalesce(claimed_until, '-infinity') < now() order by updated_at limit 5"
            )
        for row in rows:
            with contextlib.suppress(HttpError):
                await self.refund(row["order_id"], row["amount"], row["key"])
