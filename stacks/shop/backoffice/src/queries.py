"""What the back office asks the database."""

import json
from typing import Any

import asyncpg


async def newest(connection: asyncpg.Connection, status: str, most: int) -> list[dict[str, Any]]:
    rows = await connection.fetch(
        "select o.id, o.customer, c.email, o.status, o.amount, o.channel, o.stock, o.reason,"
        " o.created_at, o.updated_at,"
        " (select json_agg(json_build_object('product', product, 'quantity', quantity, 'price', price) order by line)"
        "  from orders.lines where order_id = o.id) as lines"
        " from orders.orders o left join accounts.contacts c on c.id = o.customer"
        " where $1 = '' or o.status = $1 order by o.created_at desc limit $2",
        status,
        most,
    )
    return [
        {
            **row,
            "id": str(row["id"]),
            "lines": json.loads(row["lines"] or "[]"),
            "created_at": row["created_at"].isoformat(),
            "updated_at": row["updated_at"].isoformat(),
        }
        for row in rows
    ]


async def set_price(connection: asyncpg.Connection, product: int, price: int) -> int | None:
    """The price before; None if there is no such product."""
    before = await connection.fetchval("select price from catalog.products where id = $1", product)
    if before is not None:
        await connection.execute(
            "update catalog.products set price = $2, updated_at = now() where id = $1", product, price
        )
    return before


async def today(connection: asyncpg.Connection) -> dict[str, Any]:
    row = await connection.fetchrow(
        "select count(*) filter (where status in ('paid', 'returning', 'returned')) as orders,"
        " coalesce(sum(amount) filter (where status in ('paid', 'returning', 'returned')), 0)::bigint as revenue,"
        " count(*) filter (where status = 'declined') as declined,"
        " count(*) filter (where status = 'cancelled') as cancelled"
        " from orders.orders where created_at >= current_date"
    )
    return dict(row)


async def open_orders(connection: asyncpg.Connection) -> dict[str, int]:
    rows = await connection.fetch(
        "select status, count(*) from orders.orders where status in ('new', 'pending', 'returning') group by status"
    )
    return {row["status"]: row["count"] for row in rows}


async def settled(connection: asyncpg.Connection) -> dict[str, Any] | None:
    """The newest finished settlement."""
    row = await connection.fetchrow(
        "select finished_at, resolved, differences from settlement.runs where finished_at is not null"
        " order by id desc limit 1"
    )
    return {**row, "finished_at": row["finished_at"].isoformat()} if row else None
