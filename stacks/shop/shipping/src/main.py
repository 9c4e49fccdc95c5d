"""shipping: makes a shipment of each paid order, hands it over after a while and says so.

GET /shipments/{order}   {order, status, carrier, tracking, created_at, shipped_at}

Takes orders.paid, tells shipments.created. A message that comes twice finds the shipment there; one that was
handed over and not told (the process died) is told by the next look.
"""

import contextlib
import uuid
from collections.abc import AsyncIterator
from typing import Any

import shipments
from marketlib.app import HttpError, JSONResponse, Request, Response, Route, once
from marketlib.db import Database
from marketlib.logs import log
from marketlib.metrics import Counter, Gauge
from marketlib.queue import Queue
from marketlib.settings import Settings
from marketlib.worker import every, run
from release import BATCH, VERSION

settings = Settings.load("shipping")
database = Database(
    settings.str("DATABASE_URL", "postgresql://shipping@localhost:6432/market"),
    size=settings.int("POOL_SIZE", 4),
    wait=settings.seconds("POOL_WAIT", 2.0),
    application_name="shipping",
    password_file=settings.str("DATABASE_PASSWORD_FILE") or None,
)
queue = Queue(settings.str("NATS_URL", "nats://nats.data:4222"), "shipping")
made = Counter("shipping_shipments", "Shipments by what was done.", ["step"])
late = Gauge("shipping_overdue", "Shipments that should have been handed over by now.")
untold = Gauge("shipping_untold", "Shipments handed over that nobody was told about yet.")


async def paid(message: dict[str, Any], about: Any) -> None:
    """An order was paid."""
    async with database.transaction() as connection:
        fresh = await shipments.create(
            connection,
            uuid.UUID(message["order"]),
            int(message["customer"]),
            settings.seconds("SHIP_AFTER_SECONDS", 10),
        )
    made.labels("created" if fresh else "again").inc()


async def hand_over() -> None:
    """Give the carrier what is due."""
    async with database.transaction() as connection:
        shipped = await shipments.hand_over(connection, BATCH)
        late.set(await shipments.overdue(connection))
    if shipped:
        made.labels("shipped").inc(len(shipped))
        log.info("handed over", extra={"shipments": len(shipped)})
    await tell()


async def tell() -> None:
    """Publish what is not published; the stream has it before it counts as told."""
    async with database.transaction() as connection:
        rows = await shipments.untold(connection, BATCH)
    untold.set(len(rows))
    for row in rows:
        event = {
            "order": str(row["order_id"]),
            "customer": row["customer"],
            "carrier": row["carrier"],
            "tracking": row["tracking"],
            "shipped_at": row["shipped_at"].isoformat(),
        }
        await queue.publish("shipments.created", event, message_id=f"{row['order_id']}.shipments.created")
        async with database.transaction() as connection:
            await shipments.told(connection, row["order_id"])
        made.labels("told").inc()


async def show(request: Request) -> Response:
    try:
        order = uuid.UUID(request.path_params["order"])
    except ValueError:
        raise HttpError(404, "no such shipment") from None
    async with database.transaction(readonly=True) as connection:
        found = await shipments.find(connection, order)
    if found is None:
        raise HttpError(404, "no such shipment")
    return JSONResponse(found)


async def ready() -> None:
    await database.check(probe="select exists (select from public.schema_migrations where version = '0006')")


@contextlib.asynccontextmanager
async def lifespan(app: Any) -> AsyncIterator[None]:
    async with database, queue:
        yield


if __name__ == "__main__":
    run(
        {
            "orders": queue.consumer("ORDERS", "orders.paid", durable="shipping", handle=paid),
            "ship": every(settings.seconds("LOOK_EVERY", 1.0), hand_over),
        },
        service="shipping",
        version=VERSION,
        routes=[Route("/shipments/{order}", show, methods=["GET"])],
        lifespan=lifespan,
        ready=once(ready),
        settings=settings,
    )
