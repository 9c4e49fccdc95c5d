"""Orders in PostgreSQL. Each function is one transaction or runs in the caller's.

Every change of status names the statuses that it may come from. So of two processes that work on one order
(a client that asked twice, the loop that picks up what was left) one changes it, and the other sees that.
"""

import json
import uuid
from collections.abc import Sequence
from typing import Any

import asyncpg

from marketlib.db import Database
from marketlib.errors import HttpError
from model import Asked, Line, Order

FIELDS = "id, customer, status, amount, channel, stock, reason, created_at"
LINES = (
    "(select json_agg(json_build_array(product, quantity, price, seller) order by line)"
    " from orders.lines where order_id = o.id) as lines"
)


def order_of(row: asyncpg.Record, lines: Sequence[Line] | None = None) -> Order:
    if lines is None:
        lines = [Line(*line) for line in json.loads(row["lines"] or "[]")]
    return Order(*(row[name] for name in FIELDS.split(", ")), tuple(lines))


class Store:
    def __init__(self, database: Database) -> None:
        self.database = database

    async def find(self, order: uuid.UUID) -> Order | None:
        async with self.database.transaction(readonly=True) as connection:
            row = await connection.fetchrow(f"select {FIELDS}, {LINES} from orders.orders o where id = $1", order)
        return order_of(row) if row else None

    async def newest(self, customer: int, limit: int) -> list[Order]:
        async with self.database.transaction(readonly=True) as connection:
            rows = await connection.fetch(
                f"select {FIELDS}, {LINES} from orders.orders o where customer = $1 order by created_at desc limit $2",
                customer,
                limit,
            )
        return [order_of(row) for row in rows]

    async def fingerprint(self, key: uuid.UUID) -> str | None:
        """Of the wish that first came with the key; None if it is too long ago."""
        async with self.database.transaction(readonly=True) as connection:
            return await connection.fetchval("select fingerprint from orders.idempotency where key = $1", key)

    async def create(self, wish: Asked, lines: Sequence[Line]) -> Order | None:
        """Write the order down as new; None if there is one of this key."""
        async with self.database.transaction() as connection:
            row = await connection.fetchrow(
                "insert into orders.orders (id, customer, amount, address, channel) values ($1, $2, $3, $4, $5)"
                f" on conflict (id) do nothing returning {FIELDS}",
                wish.key,
                wish.customer,
                sum(line.price * line.quantity for line in lines),
                wish.address,
                wish.channel,
            )
            if not row:
                return None
            await connection.execute(
                "insert into orders.lines (order_id, line, product, seller, quantity, price)"
                " select $1, n, product, seller, quantity, price"
                " from unnest($2::int[], $3::int[], $4::int[], $5::int[]) with ordinality"
                " x (product, seller, quantity, price, n)",
                wish.key,
                [x.product for x in lines],
                [x.seller for x in lines],
                [x.quantity for x in lines],
                [x.price for x in lines],
            )
            await connection.execute(
                "insert into orders.idempotency (key, customer, fingerprint) values ($1, $2, $3)"
                " on conflict (key) do nothing",
                wish.key,
                wish.customer,
                wish.fingerprint,
            )
        return order_of(row, lines)

    async def held(self, order: uuid.UUID) -> bool:
        """The goods are reserved, so the customer may be charged; False if the order was given up meanwhile."""
        async with self.database.transaction() as connection:
            done = await connection.fetchval(
                "update orders.orders set stock = 'held', updated_at = now()"
                " where id = $1 and status in ('new', 'pending') returning true",
                order,
            )
        return bool(done)

    async def pending(self, order: uuid.UUID) -> None:
        """The customer is told to wait."""
        async with self.database.transaction() as connection:
            await connection.execute(
                "update orders.orders set status = 'pending', updated_at = now() where id = $1 and status = 'new'",
                order,
            )

    async def paid(self, order: Order, stock: str) -> bool:
        """The order is paid, and the world will be told: both or neither. False if it was not open."""
        async with self.database.transaction() as connection:
            row = await connection.fetchrow(
                "update orders.orders set status = 'paid', stock = $2, reason = null, paid_at = now(),"
                " updated_at = now()"
                " where id = $1 and status in ('new', 'pending') returning paid_at",
                order.id,
                stock,
            )
            if row:
                await self._tell(connection, order, "orders.paid", paid_at=row["paid_at"].isoformat())
        return row is not None

    async def closed(self, order: uuid.UUID, status: str, reason: str, *, unheld: bool = False) -> bool:
        """Give the order up as declined or cancelled; False if it was not open.

        unheld: only if nobody has got as far as to reserve the goods.
        """
        async with self.database.transaction() as connection:
            done = await connection.fetchval(
                "update orders.orders set status = $2, reason = $3, updated_at = now()"
                " where id = $1 and status in ('new', 'pending') and (not $4 or stock = 'none') returning true",
                order,
                status,
                reason,
                unheld,
            )
        return bool(done)

    async def stock(self, order: uuid.UUID, stock: str) -> None:
        async with self.database.transaction() as connection:
            await connection.execute("update orders.orders set stock = $2 where id = $1", order, stock)

    async def returning(self, order: uuid.UUID, reason: str) -> bool:
        async with self.database.transaction() as connection:
            done = await connection.fetchval(
                "update orders.orders set status = 'returning', reason = $2, updated_at = now()"
                " where id = $1 and status = 'paid' returning true",
                order,
                reason,
            )
        return bool(done)

    async def returned(self, order: Order) -> None:
        """Money and goods are back; the customer is told."""
        async with self.database.transaction() as connection:
            done = await connection.fetchval(
                "update orders.orders set status = 'returned', updated_at = now()"
                " where id = $1 and status = 'returning' returning true",
                order.id,
            )
            if done:
                await self._tell(connection, order, "orders.returned")

    async def _tell(self, connection: asyncpg.Connection, order: Order, subject: str, **more: Any) -> None:
        await connection.execute(
            "insert into orders.outbox (order_id, subject, payload) values ($1, $2, $3)"
            " on conflict (order_id, subject) do nothing",
            order.id,
            subject,
            json.dumps({**order.event(), **more}),
        )

    async def left(self, *, new_after: float, pending_after: float, most: int) -> list[Order]:
        """Orders that somebody has to finish, claimed for this process by moving their time on."""
        async with self.database.transaction() as connection:
            rows = await connection.fetch(
                f"with due as (select id from orders.orders where"
                f"   (status in ('new', 'pending', 'returning') or stock = 'held')"
                f"   and updated_at < now() - $2 * interval '1 second'"
                f"   and (status <> 'new' or updated_at < now() - $1 * interval '1 second')"
                f"   order by updated_at limit $3 for update skip locked),"
                f" o as (update orders.orders u set updated_at = now() from due where u.id = due.id"
                f"   returning {', '.join('u.' + name for name in FIELDS.split(', '))})"
                f" select {FIELDS}, {LINES} from o",
                new_after,
                pending_after,
                most,
            )
        return [order_of(row) for row in rows]

    async def open_counts(self) -> dict[str, int]:
        async with self.database.transaction(readonly=True) as connection:
            rows = await connection.fetch(
                "select status, count(*) from orders.orders where status in ('new', 'pending', 'returning') group by 1"
            )
        return {row["status"]: row["count"] for row in rows}

    async def seller_of(self, key_hash: str) -> int:
        async with self.database.transaction(readonly=True) as connection:
            seller = await connection.fetchval("select seller from orders.seller_keys where key_hash = $1", key_hash)
        if seller is None:
            raise HttpError(401, "the API key is not valid")
        return int(seller)

    async def sold(self, seller: int, since: Any, most: int) -> list[dict[str, Any]]:
        """Paid orders with goods of the seller, oldest first, with the seller's lines only."""
        async with self.database.transaction(readonly=True) as connection:
            rows = await connection.fetch(
                "select o.id, o.status, o.paid_at,"
                " json_agg(json_build_object('product', l.product, 'quantity', l.quantity, 'price', l.price)"
                "   order by l.line) as lines"
                " from orders.orders o join orders.lines l on l.order_id = o.id"
                " where l.seller = $1 and o.created_at >= $2 and o.status in ('paid', 'returning', 'returned')"
                " group by o.id order by o.created_at limit $3",
                seller,
                since,
                most,
            )
        return [
            {
                "id": str(row["id"]),
                "status": row["status"],
                "paid_at": row["paid_at"].isoformat(),
                "lines": json.loads(row["lines"]),
            }
            for row in rows
        ]
