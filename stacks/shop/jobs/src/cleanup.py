"""Cleanup: takes away what nobody needs any more, in small pieces, so that no lock is held for long."""

from typing import Any

import reach
from marketlib.settings import Settings
from release import KEEP

PIECE = 1000

# Name, days kept, and which rows are old; `ctid` keeps a piece small without an index on the age.
RULES = {
    "orders.idempotency": "created_at < now() - $1 * interval '1 day'",
    "orders.outbox": "published_at < now() - $1 * interval '1 day'",
    "notify.sent": "status <> 'queued' and created_at < now() - $1 * interval '1 day'",
    "notify.hooks": "status <> 'queued' and created_at < now() - $1 * interval '1 day'",
    "settlement.runs": "started_at < now() - $1 * interval '1 day'",
    "inventory.reservations": "status <> 'held' and created_at < now() - $1 * interval '1 day'",
}


async def run(settings: Settings) -> dict[str, Any]:
    removed = {}
    async with reach.database(settings, "settlement", "cleanup") as database:
        for table, days in KEEP.items():
            total = 0
            while True:
                async with database.transaction() as connection:
                    done = await connection.execute(
                        f"delete from {table} where ctid = any(array("
                        f"select ctid from {table} where {RULES[table]} limit {PIECE}))",
                        days,
                    )
                count = int(done.rsplit(" ", 1)[-1])
                total += count
                if count < PIECE:
                    break
            removed[table] = total
    return {"removed": removed}
