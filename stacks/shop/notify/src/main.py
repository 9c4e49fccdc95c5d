"""notify: one mail to the customer for each event of an order, and a webhook to the sellers who want one.

Takes orders.paid, shipments.created, orders.returned. An event becomes rows of what has to be sent, once, and is
acknowledged then; sending is done from the rows, with pauses that grow. So a mail relay or a partner that is away
holds up neither the queue nor each other.
"""

import contextlib
import json
import uuid
from collections.abc import AsyncIterator
from typing import Any

import outgoing
from hooks import Hooks
from mails import Mails
from marketlib.app import once
from marketlib.db import Database
from marketlib.flags import flag
from marketlib.queue import Queue
from marketlib.settings import Settings
from marketlib.worker import every, run
from release import EVENTS, VERSION

settings = Settings.load("notify")
database = Database(
    settings.str("DATABASE_URL", "postgresql://notify@localhost:6432/market"),
    size=settings.int("POOL_SIZE", 5),
    wait=settings.seconds("POOL_WAIT", 2.0),
    application_name="notify",
    password_file=settings.str("DATABASE_PASSWORD_FILE") or None,
)
queue = Queue(settings.str("NATS_URL", "nats://nats.data:4222"), "notify")
mails = Mails(
    database,
    host=settings.str("SMTP_HOST", "mail-relay.shop"),
    port=settings.int("SMTP_PORT", 25),
    timeout=settings.seconds("SMTP_TIMEOUT", 5.0),
    verdict=settings.seconds("SMTP_VERDICT_TIMEOUT", 30.0),
)
hooks = Hooks(database, timeout=settings.seconds("HOOK_TIMEOUT", 3.0))


async def happened(message: dict[str, Any], about: Any) -> None:
    """Write down what has to be sent for an event."""
    order, event = uuid.UUID(message["order"]), about.subject
    async with database.transaction() as connection:
        await outgoing.queue_mail(connection, order, event, int(message["customer"]), message)
        if event == "orders.paid" and flag("seller_webhooks", True):
            for seller, lines in outgoing.by_seller(message.get("lines", [])).items():
                payload = {"event": event, "order": str(order), "lines": lines, "paid_at": message.get("paid_at")}
                await outgoing.queue_hook(connection, order, event, seller, json.dumps(payload))


async def ready() -> None:
    await database.check(probe="select exists (select from public.schema_migrations where version = '0007')")


@contextlib.asynccontextmanager
async def lifespan(app: Any) -> AsyncIterator[None]:
    async with database, queue, hooks:
        yield


if __name__ == "__main__":
    consumers = {
        event: queue.consumer("ORDERS", event, durable=f"notify-{event.replace('.', '-')}", handle=happened)
        for event in EVENTS
    }
    look = settings.seconds("LOOK_EVERY", 1.0)
    run(
        {**consumers, "mails": every(look, mails.look), "hooks": every(look, hooks.look)},
        service="notify",
        version=VERSION,
        lifespan=lifespan,
        ready=once(ready),
        settings=settings,
        flags=True,
    )
