"""Inventory as of release 2.2.1."""

import uuid
from collections.abc import Awaitable, Callable

import asyncpg

import stock
from marketlib.app import JSONResponse, Request, Response
from marketlib.db import Database
from marketlib.errors import HttpError

VERSION = "2.2.1"
MOST = 50


def several(database: Database) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        """GET /stock?products=1,2,3: {stock: {product: available}}; unknown products are left out."""
        parts = request.query_params.get("products", "").split(",")
        if len(parts) > MOST or not all(part.isdecimal() and len(part) < 10 for part in parts):
            raise HttpError(422, f"products must be up to {MOST} numbers, with commas between")
        async with database.transaction(readonly=True) as connection:
            rows = await connection.fetch(
                "select product, on_hand - reserved as available from inventory.stock where product = any($1::int[])",
                [int(part) for part in parts],
            )
        return JSONResponse({"stock": {str(row["product"]): row["available"] for row in rows}})

    return answer


EXTRA_ROUTES = {"/stock": several}


async def reserve(connection: asyncpg.Connection, order: uuid.UUID, pieces: dict[int, int]) -> tuple[str, bool]:
    """Hold the goods of an order, once. Returns the reservation's status, and whether it was made now."""
    if not await stock.opened(connection, order):
        return await stock.existing(connection, order, pieces), False
    shelves = await stock.lock(connection, pieces)
    for product, quantity in pieces.items():
        if product not in shelves:
            raise HttpError(404, "no such product", product=product)
        if shelves[product] < quantity:
            raise HttpError(409, "out of stock", product=product)
    await stock.move(connection, pieces, on_hand=0, reserved=1)
    await stock.note(connection, order, pieces)
    return "held", True
