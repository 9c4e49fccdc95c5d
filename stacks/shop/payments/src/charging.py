"""Charging a customer exactly once, through a provider that may charge and not say so.

An attempt is claimed in the database before the provider is asked, so a process that dies in between leaves
a trace that the reconciling loop finds. Once an attempt may have reached the provider, only that loop goes on:
it asks what became of it, and if the provider still knows nothing after a while asks it again under the same key.
"""

import asyncio
import contextlib
import dataclasses
import uuid
from collections.abc import AsyncIterator
from typing import Any

import books
from marketlib import context
from marketlib.client import Client
from marketlib.db import Database
from marketlib.errors import Unavailable
from marketlib.logs import log
from marketlib.metrics import Counter, Gauge
from release import ASK_AGAIN_AFTER, LONGEST_PAUSE

CLAIM_SECONDS = 12.0  # longer than an attempt with both of its calls
GIVE_UP_SECONDS = 1800.0
BATCH = 10

outcomes = Counter("payments_charges", "Attempts to charge, by outcome.", ["outcome"])
waiting = Gauge("payments_charges_unknown", "Charges of which nobody knows whether they were made.")


@contextlib.asynccontextmanager
async def unhurried() -> AsyncIterator[None]:
    """Without the deadline of the request: what is begun with the provider is ended and written down."""
    token = context.enter(dataclasses.replace(context.current(), deadline=None))
    try:
        yield
    finally:
        context.leave(token)


class Charging:
    def __init__(self, database: Database, provider: Client) -> None:
        self._database = database
        self._provider = provider
        self._running: set[asyncio.Task[Any]] = set()

    async def finish(self) -> None:
        """Wait for the attempts under way, whose requests may have given up."""
        if self._running:
            await asyncio.wait(self._running, timeout=4)

    async def charge(self, order: uuid.UUID, customer: int, amount: int) -> books.Charge:
        """Make the order's charge, or find what became of it. Unavailable: nothing was charged now."""
        async with self._database.transaction() as connection:
            charge, mine = await books.claim(connection, order, customer, amount, CLAIM_SECONDS)
        if not mine:
            return charge
        task = asyncio.create_task(self._attempt(charge))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await asyncio.shield(task)

    async def _attempt(self, charge: books.Charge) -> books.Charge:
        async with unhurried():
            try:
                status, provider_id = await self._outcome(charge)
            except Unavailable as error:
                if error.sent:
                    return await self._left_open(charge, 2.0, str(error))
                outcomes.labels("not_sent").inc()
                async with self._database.transaction() as connection:
                    await books.not_sent(connection, charge.order)
                raise
            return await self._settled(charge, status, provider_id)

    async def _outcome(self, charge: books.Charge) -> tuple[str, str | None]:
        """Have the provider charge. Unavailable if it does not say; `sent` is False if it was certainly not asked."""
        answer = await self._provider.post(
            "/v1/charges",
            {"amount": charge.amount, "reference": str(charge.order)},
            idempotent=False,
            headers={"Idempotency-Key": str(charge.order)},
        )
        if answer.status in (200, 201):
            return str(answer.data.get("status", "captured")), str(answer.data["id"])
        if answer.status == 402:
            return "declined", None
        if answer.status == 429:
            raise Unavailable("payment-provider", "too many requests", status=429, sent=False)
        raise Unavailable("payment-provider", f"answered {answer.status}", status=answer.status)

    async def _find(self, charge: books.Charge) -> tuple[str, str | None] | None:
        """What the provider knows about the order's charge; None if it has never heard of it."""
        answer = await self._provider.get(f"/v1/charges?reference={charge.order}")
        if answer.status == 404:
            return None
        if answer.status != 200:
            raise Unavailable("payment-provider", f"answered {answer.status}", status=answer.status)
        data = answer.data
        found = data if isinstance(data, list) else data.get("charges", [data] if "id" in data else [])
        for one in sorted(found, key=lambda one: one.get("status") != "captured"):
            if one.get("status") == "captured":
                return "captured", str(one["id"])
            if one.get("status") == "declined":
                return "declined", None
        return None

    async def _settled(self, charge: books.Charge, status: str, provider_id: str | None) -> books.Charge:
        if status not in ("captured", "declined"):
            return await self._left_open(charge, 2.0, f"the provider's status is {status}")
        outcomes.labels(status).inc()
        try:
            async with self._database.transaction() as connection:
                await books.settle(connection, charge.order, status, provider_id)
                found = await books.find(connection, charge.order)
        except Unavailable as error:
            log.error("outcome not written down, it is asked for later",
                      extra={"order": str(charge.order), "outcome": status, "reason": str(error)})  # fmt: skip
            return dataclasses.replace(charge, status="unknown")
        return found or charge

    async def _left_open(self, charge: books.Charge, seconds: float, why: str) -> books.Charge:
        outcomes.labels("unknown").inc()
        log.warning("outcome of a charge is unknown", extra={"order": str(charge.order), "reason": why})
        with contextlib.suppress(Unavailable):  # then the claim runs out, which is as good
            async with self._database.transaction() as connection:
                await books.unknown(connection, charge.order, seconds)
        return dataclasses.replace(charge, status="unknown")

    async def reconcile(self) -> None:
        """Ask the provider about the charges whose outcome is not known."""
        async with self._database.transaction() as connection:
            charges = await books.due(connection, CLAIM_SECONDS, CLAIM_SECONDS, BATCH)
            waiting.set(await connection.fetchval("select count(*) from payments.charges where status = 'unknown'"))
        async with unhurried():
            await asyncio.gather(*(self._resolve(charge) for charge in charges))

    async def _resolve(self, charge: books.Charge) -> None:
        pause = min(LONGEST_PAUSE, 2.0 + charge.age / 4)
        try:
            found = await self._find(charge)
            if found is None and charge.age > GIVE_UP_SECONDS:
                log.error("charge given up, the provider does not know it", extra={"order": str(charge.order)})
                async with self._database.transaction() as connection:
                    await books.settle(connection, charge.order, "failed", None)
                return
            if found is None and charge.age > ASK_AGAIN_AFTER:
                found = await self._outcome(charge)
        except Unavailable as error:
            await self._left_open(charge, pause, str(error))
            return
        if found is None:
            await self._left_open(charge, pause, "the provider does not know it yet")
            return
        settled = await self._settled(charge, *found)
        log.info("outcome of a charge found", extra={"order": str(charge.order), "status": settled.status})
