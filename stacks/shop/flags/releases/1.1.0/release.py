"""Flags as of release 1.1.0."""

from typing import Any

import rows
from marketlib.db import Database
from marketlib.settings import Settings

VERSION = "1.1.0"


class Values:
    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database

    async def all(self) -> dict[str, Any]:
        async with self._database.transaction(readonly=True) as connection:
            return await rows.every(connection)

    async def set(self, name: str, value: Any, who: str) -> Any:
        """Set a flag, or make it; returns the old value."""
        async with self._database.transaction() as connection:
            old = await rows.current(connection, name)
            await rows.store(connection, name, value, who)
        return old
