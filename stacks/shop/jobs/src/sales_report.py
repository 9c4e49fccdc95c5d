"""Sales by day and category, from the read replica; the last DAYS are counted anew, for returns change them.

Reads are done in one short query a day, so that no snapshot is held for long. Written through the primary.
"""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import reach
from marketlib.settings import Settings
from release import DAYS

QUERY = """
select p.category, count(distinct o.id) as orders, sum(l.quantity) as quantity,
       sum(l.quantity::bigint * l.price)::bigint as revenue
from orders.orders o
join orders.lines l on l.order_id = o.id
join catalog.products p on p.id = l.product
where o.status = 'paid' and o.paid_at is not null and o.created_at >= $1 and o.created_at < $2
group by p.category
"""


async def run(settings: Settings) -> dict[str, Any]:
    today = datetime.now(UTC).date()
    days = [today - timedelta(days=back) for back in range(DAYS)]
    rows: list[tuple[date, str, int, int, int]] = []
    async with reach.database(settings, "reports", "sales-report", "READ_DATABASE_URL") as replica:
        for day in days:
            begin = datetime(day.year, day.month, day.day, tzinfo=UTC)
            async with replica.transaction(readonly=True) as connection:
                found = await connection.fetch(QUERY, begin, begin + timedelta(days=1))
            rows += [(day, row["category"], row["orders"], row["quantity"], row["revenue"]) for row in found]
    async with (
        reach.database(settings, "reports", "sales-report") as primary,
        primary.transaction() as connection,
    ):
        await connection.execute("delete from reports.sales where day = any($1::date[])", days)
        await connection.executemany(
            "insert into reports.sales (day, category, orders, quantity, revenue) values ($1, $2, $3, $4, $5)", rows
        )
    newest = [row for row in rows if row[0] == today]
    orders, revenue = sum(row[2] for row in newest), sum(row[4] for row in newest)
    return {"days": len(days), "orders_today": orders, "revenue_today": revenue}
