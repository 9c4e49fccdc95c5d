"""Takes new orders and processes them: a few at a time, oldest first, each by one worker only."""

import asyncio
import json
import os
import signal
import sys
import time

import asyncpg

BATCH = int(os.environ.get("BATCH_SIZE", "20"))
IDLE = float(os.environ.get("IDLE_SECONDS", "0.5"))

TAKE = """
update orders set status = 'done', processed_at = clock_timestamp()
where id in (
  select id from orders where status = 'new' order by created_at limit $1 for update skip locked
)
"""


def say(level: str, message: str, **more: object) -> None:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    sys.stdout.write(json.dumps({"time": now, "level": level, "message": message, **more}) + "\n")


async def work(connection: asyncpg.Connection, stop: asyncio.Event) -> None:
    while not stop.is_set():
        async with connection.transaction():
            done = int((await connection.execute(TAKE, BATCH)).split()[1])
        if done:
            say("info", "processed", orders=done)
        if done < BATCH:
            try:
                await asyncio.wait_for(stop.wait(), IDLE)
            except TimeoutError:
                continue


async def main() -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    said = ""
    while not stop.is_set():
        try:
            connection = await asyncpg.connect(os.environ["DATABASE_URL"], timeout=5, statement_cache_size=0)
            try:
                say("info", "connected")
                said = ""
                await work(connection, stop)
            finally:
                connection.terminate()
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError) as error:
            reason = f"{type(error).__name__}: {error}"
            if reason != said:
                say("warning", "database trouble", reason=(said := reason))
            await asyncio.sleep(0.2)
    say("info", "stopped")


if __name__ == "__main__":
    asyncio.run(main())
