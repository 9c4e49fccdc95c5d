"""The catalogue as of release 1.8.2."""

import math
from typing import Any

import queries
from marketlib.cache import Cache
from marketlib.db import Database
from marketlib.settings import Settings

VERSION = "1.8.2"
PAGE_SIZE = 20
EXTRA_ROUTES: dict[str, Any] = {}


class Products:
    """Products, through the cache."""

    def __init__(self, database: Database, cache: Cache, settings: Settings) -> None:
        self._database = database
        self._cache = cache
        self._settings = settings

    def _ttl(self) -> float:
        return self._settings.seconds("CACHE_TTL", 30.0)

    async def one(self, product: int) -> dict[str, Any] | None:
        async def load() -> Any:
            async with self._database.transaction(readonly=True) as connection:
                return await queries.one(connection, product)

        found: dict[str, Any] | None = await self._cache.through(f"product:{product}", self._ttl(), load)
        return found

    async def page(self, category: str, number: int) -> dict[str, Any]:
        async def load() -> Any:
            async with self._database.transaction(readonly=True) as connection:
                items = await queries.page(connection, category, number, PAGE_SIZE)
                total = await queries.count(connection, category)
            return {"items": items, "page": number, "pages": math.ceil(total / PAGE_SIZE)}

        found: dict[str, Any] = await self._cache.through(f"page:{category}:{number}", self._ttl(), load)
        return found

    async def categories(self) -> list[dict[str, Any]]:
        async def load() -> Any:
            async with self._database.transaction(readonly=True) as connection:
                return await queries.categories(connection)

        found: list[dict[str, Any]] = await self._cache.through("categories", 10 * self._ttl(), load)
        return found
