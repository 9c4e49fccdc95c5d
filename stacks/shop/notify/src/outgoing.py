"""What has to be sent, as rows: made once for an event, claimed for a while by who sends, tried until done."""

import json
import uuid
from typing import Any

import asyncpg

CLAIM_SECONDS = 45  # longer than one batch takes at a relay that hangs


def by_seller(lines: list[dict[str, Any]]) -> dict[int, list[dict[str, Any]]]:
    """Each seller's own lines of an order."""
    found: dict[int, list[dict[str, Any]]] = {}
    for line in lines:
        shown = {name: line[name] for name in ("product", "quantity", "price")}
        found.setdefault(int(line["seller"]), []).append(shown)
    return found


async def queue_mail(
    connection: asyncpg.Connection, order: uuid.UUID, event: str, customer: int, details: dict[str, Any]
) -> None:
    await connection.execute(
        "insert into notify.sent (order_id, event, customer, details) values ($1, $2, $3, $4)"
        " on conflict (order_id, event) do nothing",
        order,
        event,
        customer,
        json.dumps(details),
    )


async def queue_hook(connection: asyncpg.Connection, order: uuid.UUID, event: str, seller: int, payload: str) -> None:
    """Only for sellers who gave an address."""
    await connection.execute(
        "insert into notify.hooks (order_id, event, seller, payload) select $1, $2, seller, $4 from notify.partners"
        " where seller = $3 on conflict (order_id, event, seller) do nothing",
        order,
        event,
        seller,
        payload,
    )


async def due_mails(connection: asyncpg.Connection, most: int) -> list[asyncpg.Record]:
    """Claim mails to send. Whoever dies while sending leaves them to the next, when the claim has run out."""
    return await connection.fetch(
        "with due as (select order_id, event from notify.sent where status = 'queued' and next_at <= now()"
        "   order by next_at limit $1 for update skip locked),"
        " m as (update notify.sent s set attempts = attempts + 1, next_at = now() + $2 * interval '1 second'"
        "   from due where s.order_id = due.order_id and s.event = due.event"
        "   returning s.order_id, s.event, s.customer, s.details, s.attempts)"
        " select m.*, c.email, c.name from m left join accounts.contacts c on c.id = m.customer",
        most,
        CLAIM_SECONDS,
    )


async def due_hooks(connection: asyncpg.Connection, most: int) -> list[asyncpg.Record]:
    return await connection.fetch(
        "with due as (select order_id, event, seller from notify.hooks where status = 'queued' and next_at <= now()"
        "   order by next_at limit $1 for update skip locked),"
        " h as (update notify.hooks k set attempts = attempts + 1, next_at = now() + $2 * interval '1 second'"
        "   from due where k.order_id = due.order_id and k.event = due.event and k.seller = due.seller"
        "   returning k.order_id, k.event, k.seller, k.payload, k.attempts)"
        " select h.*, p.url, p.secret from h join notify.partners p on p.seller = h.seller",
        most,
        CLAIM_SECONDS,
    )


async def note_mail(
    connection: asyncpg.Connection, order: uuid.UUID, event: str, status: str, error: str = "", pause: float = 0
) -> None:
    """What became of a mail: sent, failed for good, or queued again in so many seconds."""
    await connection.execute(
        "update notify.sent set status = $3, last_error = nullif($4, ''), next_at = now() + $5 * interval '1 second',"
        " sent_at = case when $3 = 'sent' then now() end where order_id = $1 and event = $2",
        order,
        event,
        status,
        error[:300],
        pause,
    )


async def note_hook(
    connection: asyncpg.Connection,
    order: uuid.UUID,
    event: str,
    seller: int,
    status: str,
    error: str = "",
    pause: float = 0,
) -> None:
    await connection.execute(
        "update notify.hooks set status = $4, last_error = nullif($5, ''), next_at = now() + $6 * interval '1 second',"
        " sent_at = case when $4 = 'sent' then now() end where order_id = $1 and event = $2 and seller = $3",
        order,
        event,
        seller,
        status,
        error[:300],
        pause,
    )
