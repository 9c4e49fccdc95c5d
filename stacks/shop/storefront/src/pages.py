"""What pages are made of. What a page can do without may be missing; the rest is the page."""

import datetime
from typing import Any
from urllib.parse import urlencode

from marketlib.client import Client
from marketlib.errors import HttpError, Unavailable
from marketlib.logs import log
from marketlib.metrics import Counter
from marketlib.settings import Settings

__all__ = ["Neighbours", "featured_ids"]

degraded = Counter("storefront_degraded", "Pages shown without a part.", ["part"])
PRODUCTS = 2000


class Neighbours:
    """The services that the pages are made from."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.catalog = Client(
            settings.str("CATALOG_URL", "http://catalog:8000"), "catalog", settings.seconds("CATALOG_TIMEOUT", 2.0)
        )
        self.inventory = Client(
            settings.str("INVENTORY_URL", "http://inventory:8000"),
            "inventory",
            settings.seconds("INVENTORY_TIMEOUT", 0.5),
            retries=0,
        )
        self.search = Client(
            settings.str("SEARCH_URL", "http://search:8000"),
            "search",
            settings.seconds("SEARCH_TIMEOUT", 0.5),
            retries=0,
        )

    async def close(self) -> None:
        for client in (self.catalog, self.inventory, self.search):
            await client.close()

    async def product(self, number: int) -> dict[str, Any]:
        answer = await self.catalog.get(f"/products/{number}")
        if answer.status == 404:
            raise HttpError(404, "no such product")
        found: dict[str, Any] = answer.data
        return found

    async def featured(self, ids: list[int]) -> list[dict[str, Any]]:
        answer = await self.catalog.get(f"/products?ids={','.join(map(str, ids))}")
        if answer.ok:
            items: list[dict[str, Any]] = answer.data["items"]
            return items
        raise Unavailable("catalog", f"answered {answer.status}", status=answer.status)

    async def categories(self) -> list[dict[str, Any]]:
        answer = await self.catalog.get("/categories")
        found: list[dict[str, Any]] = answer.data["categories"] if answer.ok else []
        return found

    async def stock(self, number: int) -> int | None:
        """Pieces on the shelf, None if inventory cannot say."""
        try:
            answer = await self.inventory.get(f"/stock/{number}")
        except Unavailable as error:
            return missing("stock", error.why)
        return int(answer.data["available"]) if answer.ok else missing("stock", f"answered {answer.status}")

    async def related(self, product: dict[str, Any], most: int) -> list[dict[str, Any]]:
        """Others that are called by the same noun; none if search cannot say."""
        noun = str(product["name"]).rsplit(" ", 1)[-1]
        try:
            answer = await self.search.get(f"/search?{urlencode({'q': noun, 'limit': most + 1})}")
        except Unavailable as error:
            missing("related", error.why)
            return []
        if not answer.ok:
            missing("related", f"answered {answer.status}")
            return []
        return [item for item in answer.data["items"] if item["id"] != product["id"]][:most]


def missing(part: str, why: str) -> None:
    degraded.labels(part).inc()
    log.warning("page without a part", extra={"part": part, "reason": why})


def featured_ids(day: datetime.date, count: int) -> list[int]:
    """The products of the day: others each day, the same for everybody."""
    first = day.toordinal() * 131
    return [(first + i * 173) % PRODUCTS + 1 for i in range(count)]
