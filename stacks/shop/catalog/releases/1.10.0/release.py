"""The catalogue as of release 1.10.0."""

import math
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any

import queries
from marketlib.app import HttpError, JSONResponse, Request, Response
from marketlib.cache import Cache
from marketlib.db import Database
from marketlib.errors import Unavailable
from marketlib.logs import log
from marketlib.metrics import Counter
from marketlib.settings import Settings

VERSION = "1.10.0"
PAGE_SIZE = 24
MOST_AT_ONCE = 50
ABSENT = {"absent": True}

stale = Counter("catalog_stale_answers", "Answers from an old copy, because the database could not be asked.")


class Products:
    """Products, through the cache. An old copy is kept for when the database is away."""

    def __init__(self, database: Database, cache: Cache, settings: Settings) -> None:
        self._database = database
        self._cache = cache
        self._settings = settings

    async def _through(self, key: str, load: Callable[[Any], Awaitable[Any]], times: float = 1) -> Any:
        """The value of a key: fresh from the cache or the database, else an old one."""
        seconds = self._settings.seconds("CACHE_TTL", 30.0) * times
        kept = await self._cache.get(key)
        if kept is not None and kept["until"] > time.time():
            return kept["value"]

        async def fresh() -> Any:
            async with self._database.transaction(readonly=True) as connection:
                value = await load(connection)
            entry = {
                "until": time.time() + seconds * random.uniform(0.9, 1.1),
                "value": ABSENT if value is None else value,
            }
            await self._cache.set(key, entry, max(seconds, self._settings.seconds("CACHE_KEEP", 3600.0)))
            return entry["value"]

        try:
            return await self._cache.together(key, fresh)
        except Unavailable as error:
            if kept is None:
                raise
            stale.inc()
            log.warning("answered from an old copy", extra={"key": key, "reason": error.why})
            return kept["value"]

    async def one(self, product: int) -> dict[str, Any] | None:
        found: dict[str, Any] = await self._through(f"product:{product}", lambda c: queries.one(c, product))
        return None if found == ABSENT else found

    async def page(self, category: str, number: int) -> dict[str, Any]:
        items = await self._through(f"page:{category}:{number}", lambda c: queries.page(c, category, number, PAGE_SIZE))
        total = await self._through(f"total:{category}", lambda c: queries.count(c, category), times=10)
        return {"items": items, "page": number, "pages": math.ceil(total / PAGE_SIZE)}

    async def several(self, products: list[int]) -> list[dict[str, Any]]:
        name = "-".join(str(product) for product in products)
        if len(name) > 150:
            async with self._database.transaction(readonly=True) as connection:
                return await queries.several(connection, products)
        found: list[dict[str, Any]] = await self._through(f"several:{name}", lambda c: queries.several(c, products))
        return found

    async def categories(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = await self._through("categories", queries.categories, times=10)
        return found


async def several(products: Products, request: Request) -> Response:
    """GET /products?ids=3,1,2: {items}, in that order; unknown ones are left out."""
    parts = request.query_params["ids"].split(",")
    if len(parts) > MOST_AT_ONCE or not all(part.isdecimal() and len(part) < 10 for part in parts):
        raise HttpError(422, f"ids must be up to {MOST_AT_ONCE} numbers, with commas between")
    return JSONResponse({"items": await products.several([int(part) for part in parts])})


EXTRA_ROUTES = {"ids": several}
