"""Flags as of release 1.2.0."""

import asyncio
import time
from typing import Any

import rows
from marketlib.db import Database
from marketlib.errors import Unavailable
from marketlib.logs import log
from marketlib.settings import Settings

VERSION = "1.2.0"


class Values:
    """The flags, read from the database at most once a second; the last ones while it is away."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings
        self._kept: dict[str, Any] | None = None
        self._read_at = float("-inf")
        self._lock = asyncio.Lock()

    async def all(self) -> dict[str, Any]:
        async with self._lock:
            if self._kept is None or time.monotonic() - self._read_at >= self._settings.seconds("KEEP", 1.0):
                await self._read()
        assert self._kept is not None
        return self._kept

    async def _read(self) -> None:
        try:
            async with self._database.transaction(readonly=True) as connection:
                self._kept = await rows.every(connection)
        except Unavailable as error:
            if self._kept is None:
                raise
            log.warning("flags not read, the last ones stay", extra={"reason": error.why})
        self._read_at = time.monotonic()

    async def set(self, name: str, value: Any, who: str) -> Any:
        """Set a flag, or make it; returns the old value."""
        async with self._database.transaction() as connection:
            old = await rows.current(connection, name)
            await rows.store(connection, name, value, who)
        self._read_at = float("-inf")
        return old
