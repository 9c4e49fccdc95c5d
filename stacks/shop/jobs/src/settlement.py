"""Settlement: finishes what the services left open for long, and compares the books.

First every order that has been open for OPEN_FOR seconds is handed to the orders service again, by its own way of
finishing. Then orders, charges, ledger, goods and shipments are compared for the last WINDOW; what does not agree
is written to settlement.differences, where people look. Nothing is corrected by this job itself.
"""

from pathlib import Path
from typing import Any

import asyncpg

import reach
from marketlib.client import Client
from marketlib.db import Database
from marketlib.errors import Unavailable
from marketlib.logs import log
from marketlib.settings import Settings
from release import CHECKS

# What is younger may be under way; $1 and $2 are the window's age in seconds, from and to.
RECENT = "between now() - $1 * interval '1 second' and now() - $2 * interval '1 second'"
QUERIES = {
    "paid without charge": f"""
        select o.id, 'order of ' || o.amount || ', charge ' || coalesce(c.status || ' of ' || c.amount, 'missing')
        from orders.orders o left join payments.charges c on c.order_id = o.id
        where o.status in ('paid', 'returning', 'returned') and o.created_at {RECENT}
          and (c.status is distinct from 'captured' or c.amount <> o.amount)""",
    "charged without order": f"""
        select c.order_id, 'charge of ' || c.amount || ', order ' || coalesce(o.status, 'missing')
        from payments.charges c left join orders.orders o on o.id = c.order_id
        where c.status = 'captured' and c.created_at {RECENT}
          and coalesce(o.status, '') not in ('paid', 'returning', 'returned')""",
    "charge not booked": f"""
        select c.order_id, 'charge of ' || c.amount || ', booked ' || coalesce(sum(e.amount), 0)
        from payments.charges c
        left join payments.entries e on e.booking = c.id and e.account = 'provider-receivable'
        where c.status = 'captured' and c.created_at {RECENT}
        group by c.order_id, c.amount having coalesce(sum(e.amount), 0) <> c.amount""",
    "goods not taken": f"""
        select o.id, 'order is ' || o.status || ', reservation ' || coalesce(r.status, 'missing')
        from orders.orders o left join inventory.reservations r on r.order_id = o.id
        where o.status in ('paid', 'returning', 'returned') and o.created_at {RECENT}
          and r.status is distinct from 'committed'""",
    "goods held for nothing": f"""
        select r.order_id, 'order ' || coalesce(o.status, 'missing')
        from inventory.reservations r left join orders.orders o on o.id = r.order_id
        where r.status = 'held' and r.created_at {RECENT}
          and coalesce(o.status, '') not in ('new', 'pending')""",
    "paid without shipment": f"""
        select o.id, 'paid at ' || o.paid_at
        from orders.orders o left join shipping.shipments s on s.order_id = o.id
        where o.status = 'paid' and o.created_at {RECENT} and s.order_id is null""",
}


async def run(settings: Settings) -> dict[str, Any]:
    orders = Client(settings.str("ORDERS_URL", "http://orders.shop:8000"), "orders", timeout=10.0)
    token_file = settings.str("ADMIN_TOKEN_FILE", "/etc/market/admin/token")
    window, young = settings.seconds("WINDOW", 86400), settings.seconds("OPEN_FOR", 300)
    async with reach.database(settings, "settlement", "settlement") as database, orders:
        async with database.transaction() as connection:
            number = await connection.fetchval("insert into settlement.runs default values returning id")
        resolved = await resolve(database, orders, token_file, young)
        found = await compare(database, number, window, young)
        async with database.transaction() as connection:
            await connection.execute(
                "update settlement.runs set finished_at = now(), resolved = $2, differences = $3 where id = $1",
                number,
                resolved,
                found,
            )
    return {"run": number, "resolved": resolved, "differences": found}


async def resolve(database: Database, orders: Client, token_file: str, age: float) -> int:
    """Have the orders service finish what has been open for `age` seconds; how many it could."""
    async with database.transaction(readonly=True) as connection:
        rows = await connection.fetch(
            "select id, status from orders.orders where (status in ('new', 'pending', 'returning') or stock = 'held')"
            " and created_at < now() - $1 * interval '1 second' order by created_at limit 500",
            age,
        )
    if not rows:
        return 0
    try:
        headers = {"X-Admin-Token": Path(token_file).read_text().strip()}
    except OSError as error:
        raise Unavailable("admin token", str(error), sent=False) from error
    done = 0
    for row in rows:
        about = {"order": str(row["id"]), "was": row["status"]}
        try:
            answer = await orders.post(f"/admin/orders/{row['id']}/settle", {}, idempotent=True, headers=headers)
        except Unavailable as error:
            log.warning("order stays open", extra={**about, "reason": str(error)})
            continue
        if answer.ok:
            log.info("order handed over", extra={**about, "found": answer.data.get("found")})
            done += 1
        else:
            log.warning("order stays open", extra={**about, "status": answer.status})
    return done


async def compare(database: Database, number: int, window: float, young: float) -> int:
    """Write down what does not agree; how many there are."""
    total = 0
    for kind in CHECKS:
        async with database.transaction() as connection:
            rows: list[asyncpg.Record] = await connection.fetch(QUERIES[kind], window, young)
            for row in rows:
                log.warning("difference", extra={"kind": kind, "order": str(row[0]), "detail": row[1]})
            await connection.executemany(
                "insert into settlement.differences (run, kind, order_id, detail) values ($1, $2, $3, $4)"
                " on conflict do nothing",
                [(number, kind, row[0], row[1] or "") for row in rows],
            )
        total += len(rows)
    return total
