"""The sales report: walks all orders and adds up revenue per product and customer group.

READ_MODE snapshot: one transaction and one cursor for the whole walk, so that all sums are of one moment.
READ_MODE batches: a short query a batch, by key; sums may be some minutes apart, which the report can bear.
Progress is printed every PROGRESS_ROWS; the walk is slow on purpose, to leave the database to the shop.
"""

import asyncio
import json
import os
import sys
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator

import asyncpg

BATCH = int(os.environ.get("BATCH_ROWS", "50"))
PAUSE = float(os.environ.get("BATCH_PAUSE_SECONDS", "2"))
MODE = os.environ.get("READ_MODE", "snapshot")
EVERY = int(os.environ.get("PROGRESS_ROWS", "250"))
REST = float(os.environ.get("REST_SECONDS", "30"))

COLUMNS = "id, customer, product, amount"


def say(level: str, message: str, **more: object) -> None:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    sys.stdout.write(json.dumps({"time": now, "level": level, "message": message, **more}) + "\n")


async def snapshot(connection: asyncpg.Connection) -> AsyncIterator[list[asyncpg.Record]]:
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        cursor = await connection.cursor(f"select {COLUMNS} from orders order by id")
        while rows := await cursor.fetch(BATCH):
            yield rows


async def batches(connection: asyncpg.Connection) -> AsyncIterator[list[asyncpg.Record]]:
    last = uuid.UUID(int=0)
    query = f"select {COLUMNS} from orders where id > $1 order by id limit $2"
    while rows := await connection.fetch(query, last, BATCH):
        yield rows
        last = rows[-1]["id"]


async def report(connection: asyncpg.Connection) -> None:
    begin = time.monotonic()
    products: Counter[int] = Counter()
    groups: Counter[int] = Counter()
    seen = 0
    say("info", "report started", read_mode=MODE)
    async for rows in {"snapshot": snapshot, "batches": batches}[MODE](connection):
        for row in rows:
            products[row["product"]] += row["amount"]
            groups[row["customer"] % 10] += row["amount"]
        seen += len(rows)
        if seen % EVERY < len(rows):
            say("info", "progress", rows=seen, revenue_cents=groups.total())
        await asyncio.sleep(PAUSE)
    minutes = round((time.monotonic() - begin) / 60, 1)
    say(
        "info",
        "report finished",
        rows=seen,
        revenue_cents=groups.total(),
        best=products.most_common(5),
        minutes=minutes,
    )


async def main() -> None:
    said = ""
    while True:
        try:
            connection = await asyncpg.connect(
                os.environ["DATABASE_URL"], timeout=3, server_settings={"application_name": "sales-report"}
            )
            try:
                await report(connection)
                said = ""
            finally:
                connection.terminate()
            await asyncio.sleep(REST)
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError) as error:
            reason = f"{type(error).__name__}: {error}"
            if reason != said:
                say("warning", "report interrupted, starting again", reason=(said := reason))
            await asyncio.sleep(0.5)


if __name__ == "__main__":
    asyncio.run(main())
