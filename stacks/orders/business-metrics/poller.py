"""Business metrics: every few seconds, how the shop is selling, as one line for the log pipeline.

Each poll makes a connection of its own, so that a stuck one cannot hold up the next.
"""

import asyncio
import json
import os
import sys
import time

import asyncpg

EVERY = float(os.environ.get("POLL_SECONDS", "3"))

QUERY = """
select count(*) as orders_last_minute,
       coalesce(sum(amount), 0) as revenue_cents_last_minute,
       count(*) filter (where status = 'new') as waiting
from orders where created_at > now() - interval '1 minute'
"""


def say(level: str, message: str, **more: object) -> None:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    sys.stdout.write(json.dumps({"time": now, "level": level, "message": message, **more}) + "\n")


async def poll() -> None:
    try:
        connection = await asyncpg.connect(
            os.environ["DATABASE_URL"], timeout=5, server_settings={"application_name": "business-metrics"}
        )
        try:
            say("info", "sales", **await connection.fetchrow(QUERY))
        finally:
            connection.terminate()
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError) as error:
        say("warning", "poll failed", reason=f"{type(error).__name__}: {error}")


async def main() -> None:
    polls: set[asyncio.Task[None]] = set()
    while True:
        task = asyncio.create_task(poll())
        polls.add(task)
        task.add_done_callback(polls.discard)
        await asyncio.sleep(EVERY)


if __name__ == "__main__":
    asyncio.run(main())
