"""inventory: what is on the shelves, and who has reserved what.

GET    /stock/{product}               {product, available}
POST   /reservations                  {order, lines: [{product, quantity}]}; once for an order
POST   /reservations/{order}/commit   the goods leave the shelf
DELETE /reservations/{order}          the goods are free again
POST   /stock/{product}/return        {order, quantity}; once for an order and a product
"""

import contextlib
import uuid
from collections.abc import AsyncIterator
from typing import Any

import stock
from marketlib.app import HttpError, JSONResponse, Request, Response, Route, json_body, once, serve
from marketlib.db import Database
from marketlib.metrics import Counter
from marketlib.settings import Settings
from release import EXTRA_ROUTES, VERSION, reserve

settings = Settings.load("inventory")
database = Database(
    settings.str("DATABASE_URL", "postgresql://inventory@localhost:6432/market"),
    size=settings.int("POOL_SIZE", 8),
    wait=settings.seconds("POOL_WAIT", 1.5),
    application_name="inventory",
    password_file=settings.str("DATABASE_PASSWORD_FILE") or None,
)
results = Counter("inventory_reservations", "Reservations asked for.", ["result"])
MOST_LINES, MOST_PIECES = 50, 100


def number(value: Any, name: str, most: int = 2**31 - 1) -> int:
    if type(value) is not int or not 0 < value <= most:
        raise HttpError(422, f"{name} must be a whole number from 1 to {most}")
    return value


def order_id(value: Any) -> uuid.UUID:
    try:
        return uuid.UUID(value)
    except (ValueError, TypeError, AttributeError):
        raise HttpError(422, "order must be a UUID") from None


def wanted(lines: Any) -> dict[int, int]:
    """Pieces by product; a product that is named twice counts twice."""
    if not isinstance(lines, list) or not 0 < len(lines) <= MOST_LINES:
        raise HttpError(422, f"lines must be a list of 1 to {MOST_LINES}")
    pieces: dict[int, int] = {}
    for line in lines:
        if not isinstance(line, dict):
            raise HttpError(422, "a line must be an object")
        product = number(line.get("product"), "product")
        pieces[product] = pieces.get(product, 0) + number(line.get("quantity"), "quantity", MOST_PIECES)
    return pieces


def product_of(request: Request) -> int:
    text = request.path_params["product"]
    if not text.isdecimal() or len(text) > 9:
        raise HttpError(404, "no such product")
    return int(text)


async def show(request: Request) -> Response:
    product = product_of(request)
    async with database.transaction(readonly=True) as connection:
        available = await stock.available(connection, product)
    return JSONResponse({"product": product, "available": available})


async def create(request: Request) -> Response:
    body = await json_body(request)
    order, pieces = order_id(body.get("order")), wanted(body.get("lines"))
    try:
        async with database.transaction() as connection:
            status, made = await reserve(connection, order, pieces)
    except HttpError as error:
        results.labels(error.message.replace(" ", "_")).inc()
        raise
    results.labels("made" if made else "again").inc()
    return JSONResponse({"order": str(order), "status": status}, 201 if made else 200)


async def commit(request: Request) -> Response:
    order = order_id(request.path_params["order"])
    async with database.transaction() as connection:
        await stock.commit(connection, order)
    return JSONResponse({"order": str(order), "status": "committed"})


async def release(request: Request) -> Response:
    order = order_id(request.path_params["order"])
    async with database.transaction() as connection:
        await stock.release(connection, order)
    return JSONResponse({"order": str(order), "status": "released"})


async def give_back(request: Request) -> Response:
    product, body = product_of(request), await json_body(request)
    order, quantity = order_id(body.get("order")), number(body.get("quantity"), "quantity", MOST_PIECES * MOST_LINES)
    async with database.transaction() as connection:
        await stock.give_back(connection, order, product, quantity)
        available = await stock.available(connection, product)
    return JSONResponse({"product": product, "available": available})


async def ready() -> None:
    await database.check(probe="select exists (select from public.schema_migrations where version = '0005')")


@contextlib.asynccontextmanager
async def lifespan(app: Any) -> AsyncIterator[None]:
    async with database:
        yield


ROUTES = [
    *(Route(path, build(database), methods=["GET"]) for path, build in EXTRA_ROUTES.items()),
    Route("/stock/{product}", show, methods=["GET"]),
    Route("/stock/{product}/return", give_back, methods=["POST"]),
    Route("/reservations", create, methods=["POST"]),
    Route("/reservations/{order}/commit", commit, methods=["POST"]),
    Route("/reservations/{order}", release, methods=["DELETE"]),
]

if __name__ == "__main__":
    serve(ROUTES, service="inventory", version=VERSION, lifespan=lifespan, ready=once(ready), settings=settings)
