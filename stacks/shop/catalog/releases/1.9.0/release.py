"""The catalogue as of release 1.9.0."""

import math
from typing import Any

import queries
from marketlib.app import HttpError, JSONResponse, Request, Response
from marketlib.cache import Cache
from marketlib.db import Database
from marketlib.settings import Settings

VERSION = "1.9.0"
PAGE_SIZE = 24
MOST_AT_ONCE = 50


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
            total = await self._total(category)
            return {"items": items, "page": number, "pages": math.ceil(total / PAGE_SIZE)}

        found: dict[str, Any] = await self._cache.through(f"page:{category}:{number}", self._ttl(), load)
        return found

    async def _total(self, category: str) -> int:
        async def load() -> Any:
            async with self._database.transaction(readonly=True) as connection:
                return await queries.count(connection, category)

        found: int = await self._cache.through(f"total:{category}", 10 * self._ttl(), load)
        return found

    async def several(self, products: list[int]) -> list[dict[str, Any]]:
        async with self._database.transaction(readonly=True) as connection:
            return await queries.several(connection, products)

    async def categories(self) -> list[dict[str, Any]]:
        async def load() -> Any:
            async with self._database.transaction(readonly=True) as connection:
                return await queries.categories(connection)

        found: list[dict[str, Any]] = await self._cache.through("categories", 10 * self._ttl(), load)
        return found


async def several(products: Products, request: Request) -> Response:
    """GET /products?ids=3,1,2: {items}, in that order; unknown ones are left out."""
    parts = request.query_params["ids"].split(",")
    if len(parts) > MOST_AT_ONCE or not all(part.isdecimal() and len(part) < 10 for part in parts):
        raise HttpError(422, f"ids must be up to {MOST_AT_ONCE} numbers, with commas between")
    return JSONResponse({"items": await products.several([int(part) for part in parts])})


EXTRA_ROUTES = {"ids": several}
