"""Charges and the ledger. All functions run inside the caller's transaction.

A charge is `new` while an attempt may be under way, `unknown` after one whose outcome nobody saw, and then
`captured`, `declined` or `failed` (given up) for good. Only the change to `captured` books entries, in the
same transaction, so the ledger and the charges cannot tell different stories.
"""

import uuid
from dataclasses import dataclass
from typing import Self

import asyncpg

from marketlib.errors import HttpError

RECEIVABLE, SALES = "provider-receivable", "sales"
FIELDS = "order_id, id, customer, amount, status, attempts, provider_id, created_at"
OPEN = ("new", "unknown")


@dataclass(frozen=True, slots=True)
class Charge:
    """amount: cents. attempts: how often the provider may have been asked to charge."""

    order: uuid.UUID
    id: uuid.UUID
    customer: int
    amount: int
    status: str
    attempts: int
    provider_id: str | None
    age: float = 0.0

    @classmethod
    def of(cls, row: asyncpg.Record) -> Self:
        return cls(
            row["order_id"], row["id"], row["customer"], row["amount"], row["status"], row["attempts"],
            row["provider_id"], row.get("age", 0.0),
        )  # fmt: skip

    @property
    def open(self) -> bool:
        return self.status in OPEN


async def find(connection: asyncpg.Connection, order: uuid.UUID) -> Charge | None:
    row = await connection.fetchrow(f"select {FIELDS} from payments.charges where order_id = $1", order)
    return Charge.of(row) if row else None


async def claim(
    connection: asyncpg.Connection, order: uuid.UUID, customer: int, amount: int, seconds: float
) -> tuple[Charge, bool]:
    """The order's charge, made if there is none; and whether this caller may now ask the provider for it.

    Only where nobody has yet: after an attempt that may have reached it, the reconciling loop goes on. The claim
    holds for `seconds`, longer than an attempt takes; that loop then takes over from a process that died.
    """
    await connection.execute(
        "insert into payments.charges (order_id, customer, amount) values ($1, $2, $3)"
        " on conflict (order_id) do nothing",
        order,
        customer,
        amount,
    )
    row = await connection.fetchrow(
        f"select {FIELDS}, coalesce(claimed_until > now(), false) as busy from payments.charges"
        " where order_id = $1 for update",
        order,
    )
    charge = Charge.of(row)
    if charge.status != "failed" and (charge.customer, charge.amount) != (customer, amount):
        raise HttpError(422, "the order has a charge of another amount or customer")
    if not charge.open or row["busy"] or charge.attempts > 0:
        return charge, False
    await connection.execute(
        "update payments.charges set attempts = attempts + 1, claimed_until = now() + $2 * interval '1 second',"
        " updated_at = now() where order_id = $1",
        order,
        seconds,
    )
    return charge, True


async def due(connection: asyncpg.Connection, grace: float, seconds: float, most: int) -> list[Charge]:
    """Claim charges whose outcome has to be asked for: an attempt was made `grace` seconds ago and is not known."""
    rows = await connection.fetch(
        f"update payments.charges c set claimed_until = now() + $2 * interval '1 second'"
        f" from (select order_id from payments.charges"
        f"       where status in ('new', 'unknown') and attempts > 0 and coalesce(claimed_until, '-infinity') < now()"
        f"         and coalesce(next_check_at, updated_at + $1 * interval '1 second') < now()"
        f"       order by next_check_at nulls first limit $3 for update skip locked) d"
        f" where c.order_id = d.order_id"
        f" returning {', '.join('c.' + f for f in FIELDS.split(', '))},"
        f" extract(epoch from now() - c.created_at)::float8 as age",
        grace,
        seconds,
        most,
    )
    return [Charge.of(row) for row in rows]


async def not_sent(connection: asyncpg.Connection, order: uuid.UUID) -> None:
    """The attempt did not reach the provider: as if it had not been made."""
    await connection.execute(
        "update payments.charges set attempts = greatest(attempts - 1, 0), claimed_until = null, updated_at = now()"
        " where order_id = $1 and status in ('new', 'unknown')",
        order,
    )


async def unknown(connection: asyncpg.Connection, order: uuid.UUID, seconds: float) -> None:
    """Nobody knows whether the provider charged; ask in so many seconds."""
    await connection.execute(
        "update payments.charges set status = 'unknown', claimed_until = null, updated_at = now(),"
        " next_check_at = now() + $2 * interval '1 second' where order_id = $1 and status in ('new', 'unknown')",
        order,
        seconds,
    )


async def settle(connection: asyncpg.Connection, order: uuid.UUID, status: str, provider_id: str | None) -> None:
    """The outcome is known. Books the entries of a captured charge; what is final already stays."""
    row = await connection.fetchrow(
        "update payments.charges set status = $2, provider_id = $3, claimed_until = null, next_check_at = null,"
        f" updated_at = now() where order_id = $1 and status in ('new', 'unknown') returning {FIELDS}",
        order,
        status,
        provider_id,
    )
    if row and status == "captured":
        await book(connection, row["id"], order, row["amount"])


async def book(connection: asyncpg.Connection, booking: uuid.UUID, order: uuid.UUID, amount: int) -> None:
    """Debit what the provider owes us and credit sales; a negative amount does the contrary."""
    await connection.execute(
        "insert into payments.entries (booking, account, order_id, amount)"
        " values ($1, $2, $4, $5), ($1, $3, $4, -$5::int)",
        booking,
        RECEIVABLE,
        SALES,
        order,
        amount,
    )


async def void(connection: asyncpg.Connection, order: uuid.UUID) -> Charge:
    """Give up a charge that nobody has asked the provider for; a request for it that comes late finds that.

    Any other is left as it is: the answer says what became of it.
    """
    await connection.execute(
        "insert into payments.charges (order_id, customer, amount, status) values ($1, 0, 0, 'failed')"
        " on conflict (order_id) do nothing",
        order,
    )
    await connection.execute(
        "update payments.charges set status = 'failed', updated_at = now() where order_id = $1 and status = 'new'"
        " and attempts = 0 and coalesce(claimed_until, '-infinity') < now()",
        order,
    )
    charge = await find(connection, order)
    assert charge is not None  # it was made above if it was missing
    return charge
