"""Inventory as of release 2.1.0."""

import uuid

import asyncpg

import stock
from marketlib.errors import HttpError

VERSION = "2.1.0"
EXTRA_ROUTES: dict = {}


async def reserve(connection: asyncpg.Connection, order: uuid.UUID, pieces: dict[int, int]) -> tuple[str, bool]:
    """Hold the goods of an order, once. Returns the reservation's status, and whether it was made now."""
    if not await stock.opened(connection, order):
        return await stock.existing(connection, order, pieces), False
    for product, quantity in pieces.items():
        held = await connection.fetchval(
            "update inventory.stock set reserved = reserved + $2, updated_at = now()"
            " where product = $1 and on_hand - reserved >= $2 returning true",
            product,
            quantity,
        )
        if not held:
            await stock.available(connection, product)
            raise HttpError(409, "out of stock", product=product)
    await stock.note(connection, order, pieces)
    return "held", True
