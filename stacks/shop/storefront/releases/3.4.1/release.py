"""The pages as of release 3.4.1."""

import datetime
from typing import Any

from marketlib.flags import flag
from marketlib.settings import Settings
from pages import Neighbours, featured_ids

VERSION = "3.4.1"
FEATURED, RELATED = 6, 4


class Pages:
    def __init__(self, neighbours: Neighbours, settings: Settings) -> None:
        self._ask = neighbours

    async def home(self) -> dict[str, Any]:
        ids = featured_ids(datetime.datetime.now(datetime.UTC).date(), FEATURED)
        featured = [await self._ask.product(number) for number in ids]
        return {
            "featured": [
                {key: item[key] for key in ("id", "name", "price", "category", "seller")} for item in featured
            ],
            "categories": await self._ask.categories(),
            "banner": flag("home_banner", ""),
        }

    async def product(self, number: int) -> dict[str, Any]:
        found = await self._ask.product(number)
        stock = await self._ask.stock(number)
        return {"product": found, "stock": stock, "related": await self._ask.related(found, RELATED)}
