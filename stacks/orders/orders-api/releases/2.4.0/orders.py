"""Orders as of release 2.4.0."""

import uuid
from dataclasses import dataclass
from typing import Any

import asyncpg

VERSION = "2.4.0"
READY = "select true"
FIELDS = "id, customer, product, quantity, amount, status, created_at"


@dataclass(frozen=True)
class Wanted:
    """An order as a client asks for it."""

    id: uuid.UUID
    customer: int
    product: int
    quantity: int


def parse_id(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None


def parse(body: Any) -> Wanted:
    """Raises ValueError with what is wrong, in words for the client."""
    if not isinstance(body, dict):
        raise ValueError("the body must be an object")
    if not isinstance(body.get("id"), str) or (order_id := parse_id(body["id"])) is None:
        raise ValueError("id must be a UUID")
    numbers = [body.get(name) for name in ("customer", "product", "quantity")]
    if not all(type(number) is int and 0 < number < 2**31 for number in numbers):
        raise ValueError("customer, product and quantity must be positive numbers")
    return Wanted(order_id, *numbers)


def shown(row: asyncpg.Record) -> dict[str, Any]:
    return {**row, "id": str(row["id"]), "created_at": row["created_at"].isoformat()}


async def products(connection: asyncpg.Connection) -> list[dict[str, Any]]:
    return [dict(row) for row in await connection.fetch("select id, name, price from products order by id limit 50")]


async def one(connection: asyncpg.Connection, order_id: uuid.UUID | None) -> dict[str, Any] | None:
    row = await connection.fetchrow(f"select {FIELDS} from orders where id = $1", order_id)
    return shown(row) if row else None


async def history(connection: asyncpg.Connection, customer: int) -> list[dict[str, Any]]:
    rows = await connection.fetch(
        f"select {FIELDS} from orders where customer = $1 order by created_at desc limit 20", customer
    )
    return [shown(row) for row in rows]


async def create(connection: asyncpg.Connection, wanted: Wanted) -> tuple[int, dict[str, Any]]:
    """Returns the HTTP status and the order, or what is wrong with it."""
    row = await connection.fetchrow(
        f"insert into orders (id, customer, product, quantity, amount)"
        f" select $1, $2, id, $4, price * $4 from products where id = $3"
        f" on conflict (id) do nothing returning {FIELDS}",
        wanted.id,
        wanted.customer,
        wanted.product,
        wanted.quantity,
    )
    if row:
        return 201, shown(row)
    if first := await one(connection, wanted.id):
        return 200, first
    return 422, {"error": "no such product"}
