"""The database of a job: it waits for the first connection, which a service does not."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from marketlib.db import Database
from marketlib.errors import Unavailable
from marketlib.settings import Settings


@contextlib.asynccontextmanager
async def database(settings: Settings, role: str, name: str, url: str = "DATABASE_URL") -> AsyncIterator[Database]:
    """Connected, or Unavailable after CONNECT_WAIT seconds. `url` is the setting that says where."""
    made = Database(
        settings.str(url, f"postgresql://{role}@localhost:6432/market"),
        size=2,
        wait=5,
        application_name=name,
        password_file=settings.str("DATABASE_PASSWORD_FILE") or None,
        command_timeout=settings.seconds("COMMAND_TIMEOUT", 60),
    )
    async with made:
        end = asyncio.get_running_loop().time() + settings.seconds("CONNECT_WAIT", 30)
        while True:
            try:
                await made.check(within=2)
                break
            except Unavailable:
                if asyncio.get_running_loop().time() > end:
                    raise
                await asyncio.sleep(0.1)
        yield made
