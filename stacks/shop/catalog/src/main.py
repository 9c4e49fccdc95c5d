"""catalog: what the market sells.

GET /products?category=&page=   a page of products
GET /products/{id}              one product
GET /categories                 all categories
GET /export?after=&limit=       all products in pages, for who keeps an index of them
"""

import contextlib
import re
from collections.abc import AsyncIterator
from typing import Any

import queries
from marketlib.app import HttpError, JSONResponse, Request, Response, Route, once, serve
from marketlib.cache import Cache, Memcached
from marketlib.db import Database
from marketlib.settings import Settings
from release import EXTRA_ROUTES, VERSION, Products

settings = Settings.load("catalog")
database = Database(
    settings.str("DATABASE_URL", "postgresql://catalog@localhost:6432/market_ro"),
    size=settings.int("POOL_SIZE", 6),
    wait=settings.seconds("POOL_WAIT", 1.0),
    application_name="catalog",
    password_file=settings.str("DATABASE_PASSWORD_FILE") or None,
    command_timeout=settings.seconds("COMMAND_TIMEOUT", 3.0),
)
memcached = Memcached(settings.str("MEMCACHED_HOST", "localhost"), timeout=settings.seconds("MEMCACHED_TIMEOUT", 0.25))
products = Products(database, Cache(memcached, "catalog", prefix=f"catalog:{VERSION}:"), settings)
MOST_EXPORTED = 1000
SLUG = re.compile(r"^[a-z0-9-]{0,60}$")


def number(request: Request, name: str, default: int, most: int = 2**31 - 1) -> int:
    text = request.query_params.get(name, str(default))
    if not text.isdecimal() or len(text) > 10 or int(text) > most:
        raise HttpError(422, f"{name} must be a whole number up to {most}")
    return int(text)


async def listing(request: Request) -> Response:
    if "ids" in request.query_params and "ids" in EXTRA_ROUTES:
        return await EXTRA_ROUTES["ids"](products, request)
    category, page = request.query_params.get("category", ""), max(1, number(request, "page", 1, 10_000))
    if not SLUG.match(category):
        raise HttpError(422, "category must be small letters, digits and hyphens")
    return JSONResponse(await products.page(category, page))


async def product(request: Request) -> Response:
    text = request.path_params["id"]
    found = await products.one(int(text)) if text.isdecimal() and len(text) < 10 else None
    if not found:
        raise HttpError(404, "no such product")
    return JSONResponse(found)


async def categories(request: Request) -> Response:
    return JSONResponse({"categories": await products.categories()})


async def export(request: Request) -> Response:
    after, limit = number(request, "after", 0), max(1, number(request, "limit", 500, MOST_EXPORTED))
    async with database.transaction(readonly=True) as connection:
        items = await queries.export(connection, after, limit)
    return JSONResponse({"items": items, "next": items[-1]["id"] if len(items) == limit else None})


async def ready() -> None:
    await database.check(probe="select exists (select from public.schema_migrations where version = '0001')")


@contextlib.asynccontextmanager
async def lifespan(app: Any) -> AsyncIterator[None]:
    async with database, memcached:
        yield


ROUTES = [
    Route("/products", listing, methods=["GET"]),
    Route("/products/{id}", product, methods=["GET"]),
    Route("/categories", categories, methods=["GET"]),
    Route("/export", export, methods=["GET"]),
]

if __name__ == "__main__":
    serve(ROUTES, service="catalog", version=VERSION, lifespan=lifespan, ready=once(ready), settings=settings)
