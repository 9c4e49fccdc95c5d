"""Shipments in PostgreSQL, inside the caller's transaction."""

import uuid
from typing import Any

import asyncpg

from release import carrier_of

FIELDS = "order_id, status, carrier, tracking, created_at, shipped_at"


def tracking_of(order: uuid.UUID) -> str:
    """The same for the same order: a label that is printed twice is one parcel."""
    return "MK" + order.hex[:12].upper()


async def create(connection: asyncpg.Connection, order: uuid.UUID, customer: int, seconds: float) -> bool:
    """Note the order's shipment, due in so many seconds; False if there is one."""
    fresh = await connection.fetchval(
        "insert into shipping.shipments (order_id, customer, carrier, tracking, ship_at)"
        " values ($1, $2, $3, $4, now() + $5 * interval '1 second')"
        " on conflict (order_id) do nothing returning true",
        order,
        customer,
        carrier_of(customer),
        tracking_of(order),
        seconds,
    )
    return bool(fresh)


async def hand_over(connection: asyncpg.Connection, most: int) -> list[uuid.UUID]:
    rows = await connection.fetch(
        "update shipping.shipments s set status = 'shipped', shipped_at = now()"
        " from (select order_id from shipping.shipments where status = 'preparing' and ship_at <= now()"
        "       order by ship_at limit $1 for update skip locked) d"
        " where s.order_id = d.order_id returning s.order_id",
        most,
    )
    return [row["order_id"] for row in rows]


async def overdue(connection: asyncpg.Connection) -> int:
    """Shipments that are late by more than a few looks."""
    return int(
        await connection.fetchval(
            "select count(*) from shipping.shipments where status = 'preparing' and ship_at < now() - interval '10 s'"
        )
    )


async def untold(connection: asyncpg.Connection, most: int) -> list[asyncpg.Record]:
    return await connection.fetch(
        "select order_id, customer, carrier, tracking, shipped_at from shipping.shipments"
        " where status = 'shipped' and announced_at is null order by shipped_at limit $1",
        most,
    )


async def told(connection: asyncpg.Connection, order: uuid.UUID) -> None:
    await connection.execute(
        "update shipping.shipments set announced_at = now() where order_id = $1 and announced_at is null", order
    )


async def find(connection: asyncpg.Connection, order: uuid.UUID) -> dict[str, Any] | None:
    row = await connection.fetchrow(f"select {FIELDS} from shipping.shipments where order_id = $1", order)
    if row is None:
        return None
    return {
        "order": str(row["order_id"]),
        "status": row["status"],
        "carrier": row["carrier"],
        "tracking": row["tracking"],
        "created_at": row["created_at"].isoformat(),
        "shipped_at": row["shipped_at"].isoformat() if row["shipped_at"] else None,
    }
