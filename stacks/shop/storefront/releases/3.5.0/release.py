"""The pages as of release 3.5.0."""

import asyncio
import datetime
from typing import Any

from marketlib.flags import flag
from marketlib.settings import Settings
from pages import Neighbours, featured_ids

VERSION = "3.5.0"
FEATURED, RELATED = 8, 4


class Pages:
    def __init__(self, neighbours: Neighbours, settings: Settings) -> None:
        self._ask = neighbours

    async def home(self) -> dict[str, Any]:
        ids = featured_ids(datetime.datetime.now(datetime.UTC).date(), FEATURED)
        featured, categories = await asyncio.gather(self._ask.featured(ids), self._ask.categories())
        return {"featured": featured, "categories": categories, "banner": flag("home_banner", "")}

    async def product(self, number: int) -> dict[str, Any]:
        found = await self._ask.product(number)
        stock, related = await asyncio.gather(self._ask.stock(number), self._related(found))
        return {"product": found, "stock": stock, "related": related}

    async def _related(self, product: dict[str, Any]) -> list[dict[str, Any]]:
        return await self._ask.related(product, RELATED) if flag("related_products", True) else []
