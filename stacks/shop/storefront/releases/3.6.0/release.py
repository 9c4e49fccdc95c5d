"""The pages as of release 3.6.0."""

import asyncio
import datetime
import time
from typing import Any

from marketlib.errors import Unavailable
from marketlib.flags import flag
from marketlib.settings import Settings
from pages import Neighbours, featured_ids, missing

VERSION = "3.6.0"
FEATURED, RELATED = 8, 4


class Pages:
    """The home page is the same for everybody: it is put together every few seconds, not for each visitor."""

    def __init__(self, neighbours: Neighbours, settings: Settings) -> None:
        self._ask = neighbours
        self._settings = settings
        self._home: dict[str, Any] = {}
        self._home_at = float("-inf")
        self._lock = asyncio.Lock()

    async def home(self) -> dict[str, Any]:
        async with self._lock:
            if time.monotonic() - self._home_at >= self._settings.seconds("HOME_TTL", 5.0):
                await self._renew()
        return {**self._home, "banner": flag("home_banner", "")}

    async def _renew(self) -> None:
        """Put the home page together; while the catalogue is away the last one stays, for a while."""
        ids = featured_ids(datetime.datetime.now(datetime.UTC).date(), FEATURED)
        try:
            featured, categories = await asyncio.gather(self._ask.featured(ids), self._ask.categories())
        except Unavailable as error:
            if time.monotonic() - self._home_at > self._settings.seconds("HOME_KEEP", 600.0):
                raise
            missing("fresh home", error.why)
            return
        self._home = {"featured": featured, "categories": categories}
        self._home_at = time.monotonic()

    async def product(self, number: int) -> dict[str, Any]:
        found, stock = await asyncio.gather(self._ask.product(number), self._ask.stock(number))
        related = await self._ask.related(found, RELATED) if flag("related_products", True) else []
        return {"product": found, "stock": stock, "related": related}
