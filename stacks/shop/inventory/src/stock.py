"""The shelves. All functions run inside the caller's transaction; raising HttpError undoes it.

Rows of several products are always locked in the order of their numbers, so that two orders of the same
goods wait for each other instead of deadlocking.
"""

import uuid
from collections.abc import Iterable

import asyncpg

from marketlib.errors import HttpError


async def available(connection: asyncpg.Connection, product: int) -> int:
    count = await connection.fetchval("select on_hand - reserved from inventory.stock where product = $1", product)
    if count is None:
        raise HttpError(404, "no such product")
    return int(count)


async def lock(connection: asyncpg.Connection, products: Iterable[int]) -> dict[int, int]:
    """Lock the shelves of some products; what is available on each."""
    rows = await connection.fetch(
        "select product, on_hand - reserved as available from inventory.stock"
        " where product = any($1::int[]) order by product for update",
        list(products),
    )
    return {row["product"]: row["available"] for row in rows}


async def opened(connection: asyncpg.Connection, order: uuid.UUID) -> bool:
    """Make the order's reservation; False if there is one. Waits for another that is being made."""
    made = await connection.fetchval(
        "insert into inventory.reservations (order_id, status) values ($1, 'held')"
        " on conflict (order_id) do nothing returning true",
        order,
    )
    return bool(made)


async def existing(connection: asyncpg.Connection, order: uuid.UUID, pieces: dict[int, int]) -> str:
    """The status of the order's reservation, which must be for the same goods and still hold."""
    status = await connection.fetchval("select status from inventory.reservations where order_id = $1", order)
    if status == "released":
        raise HttpError(409, "reservation was released")
    if await held_by(connection, order) != pieces:
        raise HttpError(422, "the order has a reservation of other goods")
    return str(status)


async def held_by(connection: asyncpg.Connection, order: uuid.UUID) -> dict[int, int]:
    rows = await connection.fetch(
        "select product, quantity from inventory.reservation_lines where order_id = $1", order
    )
    return {row["product"]: row["quantity"] for row in rows}


async def note(connection: asyncpg.Connection, order: uuid.UUID, pieces: dict[int, int]) -> None:
    await connection.execute(
        "insert into inventory.reservation_lines (order_id, product, quantity)"
        " select $1, * from unnest($2::int[], $3::int[])",
        order,
        list(pieces),
        list(pieces.values()),
    )


async def move(connection: asyncpg.Connection, pieces: dict[int, int], *, on_hand: int, reserved: int) -> None:
    """Add to both counts of each product `on_hand` and `reserved` times its pieces. The rows are locked already."""
    await connection.execute(
        "update inventory.stock s set on_hand = s.on_hand + w.pieces * $3,"
        " reserved = s.reserved + w.pieces * $4, updated_at = now()"
        " from unnest($1::int[], $2::int[]) w (product, pieces) where s.product = w.product",
        list(pieces),
        list(pieces.values()),
        on_hand,
        reserved,
    )


async def turned(connection: asyncpg.Connection, order: uuid.UUID, status: str) -> bool:
    """Turn a held reservation into another status; False if it was not held."""
    done = await connection.fetchval(
        "update inventory.reservations set status = $2, updated_at = now()"
        " where order_id = $1 and status = 'held' returning true",
        order,
        status,
    )
    return bool(done)


async def commit(connection: asyncpg.Connection, order: uuid.UUID) -> None:
    """Take the goods off the shelves, once."""
    if await turned(connection, order, "committed"):
        pieces = await held_by(connection, order)
        await lock(connection, pieces)
        await move(connection, pieces, on_hand=-1, reserved=-1)
        return
    status = await connection.fetchval("select status from inventory.reservations where order_id = $1", order)
    if status is None:
        raise HttpError(404, "no such reservation")
    if status == "released":
        raise HttpError(409, "reservation was released")


async def release(connection: asyncpg.Connection, order: uuid.UUID) -> None:
    """Free the goods, once. An order that has none yet gets none any more: its request may come late."""
    fresh = await connection.fetchval(
        "insert into inventory.reservations (order_id, status) values ($1, 'released')"
        " on conflict (order_id) do nothing returning true",
        order,
    )
    if fresh:
        return
    if await turned(connection, order, "released"):
        pieces = await held_by(connection, order)
        await lock(connection, pieces)
        await move(connection, pieces, on_hand=0, reserved=-1)
        return
    status = await connection.fetchval("select status from inventory.reservations where order_id = $1", order)
    if status == "committed":
        raise HttpError(409, "reservation was committed")


async def give_back(connection: asyncpg.Connection, order: uuid.UUID, product: int, quantity: int) -> None:
    """Goods that a customer sent back are on the shelf again, once."""
    fresh = await connection.fetchval(
        "insert into inventory.returns (order_id, product, quantity) values ($1, $2, $3)"
        " on conflict (order_id, product) do nothing returning true",
        order,
        product,
        quantity,
    )
    if fresh:
        await lock(connection, [product])
        await move(connection, {product: quantity}, on_hand=1, reserved=0)
