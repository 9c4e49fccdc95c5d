"""Inventory as of release 2.2.0."""

import uuid

import asyncpg

import stock
from marketlib.errors import HttpError

VERSION = "2.2.0"
EXTRA_ROUTES: dict = {}


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
