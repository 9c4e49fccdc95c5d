"""search: products by the words of their names.

GET /search?q=&limit=   {items: [{id, name, price}], total}

The index is in memory and made anew from the catalogue every `reload_every` (60 s).
"""

import asyncio
import time
from typing import Any

from marketlib import worker
from marketlib.app import HttpError, JSONResponse, Request, Response, Route
from marketlib.client import Client
from marketlib.errors import Unavailable
from marketlib.logs import log
from marketlib.metrics import Gauge, Histogram
from marketlib.settings import Settings
from release import VERSION, find
from words import Index

settings = Settings.load("search")
catalog = Client(
    settings.str("CATALOG_URL", "http://catalog:8000"), "catalog", settings.seconds("CATALOG_TIMEOUT", 5.0), retries=2
)
index = Index([])
sizes = Gauge("search_index_products", "Products in the index.")
made_at = Gauge("search_index_timestamp_seconds", "When the index was made.")
reloads = Histogram("search_index_reload_seconds", "Time to make the index anew.", buckets=(0.05, 0.1, 0.25, 0.5, 1, 5))
PAGE, MOST = 500, 50


async def reload() -> None:
    """Make the index anew; the old one stays if that fails."""
    global index
    begin = time.perf_counter()
    products: list[dict[str, Any]] = []
    after = 0
    while after is not None:
        answer = await catalog.get(f"/export?after={after}&limit={PAGE}")
        if not answer.ok:
            raise Unavailable("catalog", f"answered {answer.status} to the export", status=answer.status)
        products += answer.data["items"]
        after = answer.data["next"]
        await asyncio.sleep(0)  # let searches in
    if not products:
        raise Unavailable("catalog", "exported no products")
    index = Index(products)
    sizes.set(len(products))
    made_at.set_to_current_time()
    reloads.observe(time.perf_counter() - begin)


async def keep_fresh(stop: asyncio.Event) -> None:
    while not stop.is_set():
        await reload()
        log.info("index made", extra={"products": len(index.products)})
        await worker.wait(stop, settings.seconds("RELOAD_EVERY", 60.0))
    await catalog.close()


async def search(request: Request) -> Response:
    query, limit = request.query_params.get("q", ""), request.query_params.get("limit", "20")
    if len(query) > 200:
        raise HttpError(422, "q may have 200 characters")
    if not limit.isdecimal() or not 1 <= int(limit[:4]) <= MOST:
        raise HttpError(422, f"limit must be from 1 to {MOST}")
    ids = find(index, query)
    return JSONResponse({"items": [index.products[i] for i in ids[: int(limit[:4])]], "total": len(ids)})


async def ready() -> None:
    if not index.products:
        raise Unavailable("index", "not made yet", sent=False)


ROUTES = [Route("/search", search, methods=["GET"])]

if __name__ == "__main__":
    worker.run({"index": keep_fresh}, service="search", version=VERSION, routes=ROUTES, ready=ready, settings=settings)
