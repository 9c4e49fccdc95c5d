"""From the outbox to the queue: at least once, in the order of writing as far as one replica goes.

The event was written with the change that it tells of. It is published with an id of its own, which the stream
takes once within its window; consumers keep their own tables for what comes later than that.
"""

import asyncio
import contextlib
import json
import random
from collections.abc import Sequence

import asyncpg

from marketlib.db import Database
from marketlib.errors import Unavailable
from marketlib.logs import log
from marketlib.metrics import Counter, Gauge
from marketlib.queue import Queue
from marketlib.worker import wait

BATCH = 50
STREAM, SUBJECTS = "ORDERS", ["orders.>", "shipments.>"]
KEEP = {"max_age": 7 * 86400, "max_bytes": 256 * 2**20, "duplicate_window": 120}

published = Counter("orders_outbox_published", "Events published.", ["subject"])
waiting = Gauge("orders_outbox_waiting", "Events that are not published yet.")
oldest = Gauge("orders_outbox_oldest_seconds", "Age of the oldest event that is not published yet.")


class Relay:
    def __init__(self, database: Database, queue: Queue, every: float) -> None:
        self._database = database
        self._queue = queue
        self._every = every
        self._nudged = asyncio.Event()

    def nudge(self) -> None:
        """There is something new."""
        self._nudged.set()

    async def loop(self, stop: asyncio.Event) -> None:
        """Publish until told to stop; while the queue or the database is away, look again every second or two."""
        said = ""
        known = False
        while not stop.is_set():
            self._nudged.clear()
            try:
                if not known:
                    await self._queue.ensure_stream(STREAM, SUBJECTS, **KEEP)
                    known = True
                while await self.publish() == BATCH and not stop.is_set():
                    pass
                said = ""
            except Unavailable as error:
                if str(error) != said:
                    log.warning("events wait", extra={"reason": (said := str(error))})
                await wait(stop, random.uniform(self._every, 2 * self._every))
                continue
            nudge = asyncio.ensure_future(self._nudged.wait())
            ended = asyncio.ensure_future(wait(stop, self._every))
            await asyncio.wait([nudge, ended], return_when=asyncio.FIRST_COMPLETED)
            nudge.cancel()
            ended.cancel()
        with contextlib.suppress(Unavailable):  # another replica has the rest
            await self.publish()

    async def publish(self) -> int:
        """Publish a batch; how many were. What is being published by another replica is left to it."""
        async with self._database.transaction() as connection:
            about = await connection.fetchrow(
                "select count(*) as n, coalesce(extract(epoch from now() - min(created_at)), 0)::float8 as age"
                " from orders.outbox where published_at is null"
            )
            waiting.set(about["n"])
            oldest.set(about["age"])
            if not about["n"]:
                return 0
            rows = await connection.fetch(
                "select id, order_id, subject, payload from orders.outbox where published_at is null"
                " order by id limit $1 for update skip locked",
                BATCH,
            )
            done, trouble = await self._send(rows)
            if done:
                await connection.execute(
                    "update orders.outbox set published_at = now() where id = any($1::bigint[])", done
                )
        if trouble:
            raise trouble
        return len(done)

    async def _send(self, rows: Sequence[asyncpg.Record]) -> tuple[list[int], Unavailable | None]:
        """The ids of those that the stream has, and what kept it from having the rest."""
        done: list[int] = []
        for row in rows:
            try:
                await self._queue.publish(
                    row["subject"], json.loads(row["payload"]), message_id=f"{row['order_id']}.{row['subject']}"
                )
            except Unavailable as error:
                return done, error
            published.labels(row["subject"]).inc()
            done.append(row["id"])
        return done, None
