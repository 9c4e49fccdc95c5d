"""What each promise of the marketplace entails, and where that is written down.

An acknowledged order: the order with its lines and amount, one captured charge in our books and in the
provider's, a balanced booking, the goods off the shelf, one parcel, one mail for each event. A return:
the money back once, the goods back, a mail. What was asked for without an answer may have come to pass
or not, but not by half: no charge without an order, none twice.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from aftershock.workload.ledger import Promise
from aftershock.workload.reconcile import Books, Difference, Question

__all__ = ["judge", "query"]

# Seconds after which it must be so.
SETTLED, SHIPPED, MAILED, RETURNED = 60.0, 60.0, 60.0, 60.0
PAID = ("paid", "returning", "returned")

QUERY = """
select json_build_object(
  'id', k.id, 'customer', o.customer, 'amount', o.amount, 'status', o.status, 'stock', o.stock,
  'lines', (select json_agg(json_build_object('product', l.product, 'quantity', l.quantity, 'price', l.price))
            from orders.lines l where l.order_id = k.id),
  'charges', (select json_agg(json_build_object('amount', c.amount, 'status', c.status, 'provider', c.provider_id))
              from payments.charges c where c.order_id = k.id),
  'booked', (select json_agg(b.amount) from (select sum(e.amount) as amount from payments.entries e
             where e.order_id = k.id and e.account = 'sales' group by e.booking) b),
  'refunds', (select json_agg(json_build_object('amount', r.amount, 'status', r.status))
              from payments.refunds r where r.order_id = k.id),
  'reservation', (select v.status from inventory.reservations v where v.order_id = k.id),
  'reserved', (select json_agg(json_build_object('product', w.product, 'quantity', w.quantity))
               from inventory.reservation_lines w where w.order_id = k.id),
  'given_back', (select json_agg(json_build_object('product', b.product, 'quantity', b.quantity))
                 from inventory.returns b where b.order_id = k.id),
  'shipment', (select s.status from shipping.shipments s where s.order_id = k.id),
  'mails', (select json_object_agg(n.event, n.status) from notify.sent n where n.order_id = k.id))
from unnest(array[{ids}]::uuid[]) k(id) left join orders.orders o on o.id = k.id
"""


def query(ids: Sequence[str]) -> Question:
    text = QUERY.format(ids=",".join(f"'{id}'" for id in ids))
    argv = ("psql", "-X", "-q", "-At", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-d", "market")
    return Question("data", "postgres-0", argv, container="postgres", stdin=text)


def judge(books: Books) -> list[Difference]:
    return [*Judged(books).all()]


class Judged:
    def __init__(self, books: Books) -> None:
        self.books = books
        self.charged: dict[str, list[Any]] = {}
        self.repaid: dict[str, list[Any]] = {}
        for line in books.parties.get("payments", ()):
            where = self.charged if line["kind"] == "charge" else self.repaid
            if line["status"] in ("captured", "refunded"):
                where.setdefault(line["reference"], []).append(line["amount"])
        self.mailed = Counter(line["message_id"] for line in books.parties.get("mail", ()))
        self.returned = {p.fields["order"]: p for p in books.promises.values() if p.kind == "return"}

    def all(self) -> Iterator[Difference]:
        for id, promise in self.books.promises.items():
            if promise.kind == "order":
                yield from self.order(id, promise)
            else:
                yield from self.back(promise)
        for id in self.books.attempts:
            if id not in self.books.promises:
                yield from self.unanswered(id)

    def missing(self, id: str, since: float, within: float, what: str) -> Difference:
        left = since + within - self.books.now
        return Difference("open" if left > 0 else "lost", id, what)

    def order(self, id: str, promise: Promise) -> Iterator[Difference]:
        row, said = self.books.stores.get(id), promise.fields
        if row is None or row["status"] is None:
            yield Difference("lost", id, "the order is not there")
            return
        for key in ("customer", "amount"):
            if row[key] != said[key]:
                yield Difference("wrong", id, f"{key} is {row[key]}, was {said[key]}")
        if pieces(row["lines"], "price") != pieces(said["lines"], "price"):
            yield Difference("wrong", id, f"lines are {json.dumps(row['lines'])}")
        since = promise.acknowledged
        if row["status"] in PAID:
            yield from self.paid(id, row, since)
        elif said["status"] == "paid":
            yield Difference("wrong", id, f"was acknowledged as paid and is {row['status']}")
        elif row["status"] in ("new", "pending"):
            yield self.missing(id, since, SETTLED, f"is still {row['status']}")
        else:
            yield from self.given_up(id, row)

    def paid(self, id: str, row: Any, since: float) -> Iterator[Difference]:
        amount, provider = row["amount"], self.charged.get(id, [])
        if len(provider) > 1:
            yield Difference("doubled", id, f"the provider charged {len(provider)} times")
        elif "payments" in self.books.parties and not provider:
            yield Difference("lost", id, "the provider has no charge")
        elif provider and provider[0] != amount:
            yield Difference("wrong", id, f"the provider charged {provider[0]}, not {amount}")
        captured = [c["amount"] for c in row["charges"] or [] if c["status"] == "captured"]
        if captured != [amount]:
            yield Difference("wrong", id, f"captured charges are {captured}, not {[amount]}")
        if sum(1 for booked in row["booked"] or [] if booked == -amount) != 1:
            yield Difference("wrong", id, f"bookings are {row['booked']}")
        if row["reservation"] != "committed":
            yield self.missing(id, since, SETTLED, f"the goods are {row['reservation']}")
        elif pieces(row["reserved"]) != pieces(row["lines"]):
            yield Difference("wrong", id, f"goods off the shelf are {json.dumps(row['reserved'])}")
        if row["shipment"] != "shipped":
            yield self.missing(id, since, SHIPPED, f"the parcel is {row['shipment']}")
        yield from self.mail(id, "orders.paid", since)
        if row["shipment"] == "shipped":
            yield from self.mail(id, "shipments.created", since)
        elif self.mailed[name(id, "shipments.created")]:
            yield Difference("wrong", id, "a parcel was announced that has not left")

    def given_up(self, id: str, row: Any) -> Iterator[Difference]:
        """No money, no goods."""
        if net := sum(self.charged.get(id, [])) - sum(self.repaid.get(id, [])):
            yield Difference("wrong", id, f"is {row['status']}, and the provider has kept {net}")
        if row["reservation"] == "committed":
            yield Difference("wrong", id, f"is {row['status']}, and the goods are gone")

    def back(self, promise: Promise) -> Iterator[Difference]:
        id = promise.fields["order"]
        row = self.books.stores.get(id)
        if row is None or row["status"] is None:
            return  # told already as a lost order
        if row["status"] != "returned":
            yield self.missing(id, promise.acknowledged, RETURNED, f"the return is {row['status']}")
            return
        repaid = self.repaid.get(id, [])
        if len(repaid) > 1:
            yield Difference("doubled", id, f"the provider paid back {len(repaid)} times")
        elif "payments" in self.books.parties and sum(repaid) != promise.fields["amount"]:
            yield Difference("wrong", id, f"the provider paid back {sum(repaid)}")
        if pieces(row["given_back"]) != pieces(row["lines"]):
            yield Difference("wrong", id, f"goods given back are {json.dumps(row['given_back'])}")
        yield from self.mail(id, "orders.returned", promise.acknowledged)

    def mail(self, id: str, event: str, since: float) -> Iterator[Difference]:
        if "mail" not in self.books.parties:
            return
        count = self.mailed[name(id, event)]
        if count > 1:
            yield Difference("doubled", id, f"{count} mails about {event}")
        elif not count:
            yield self.missing(id, since, MAILED, f"no mail about {event}")

    def unanswered(self, id: str) -> Iterator[Difference]:
        """Asked for, and never answered well: by half is wrong, twice is wrong."""
        row = self.books.stores.get(id)
        since = float(self.books.attempts[id]["attempted"])
        if len(self.charged.get(id, [])) > 1:
            yield Difference("doubled", id, f"the provider charged {len(self.charged[id])} times")
        if row is None or row["status"] is None:
            if self.charged.get(id):
                yield Difference("wrong", id, "charged, and there is no order")
        elif row["status"] in PAID:
            yield from self.paid(id, row, since)
        elif row["status"] in ("declined", "cancelled"):
            yield from self.given_up(id, row)
        else:
            yield self.missing(id, since, 3 * SETTLED, f"is still {row['status']}")


def name(id: str, event: str) -> str:
    return f"{id}.{event}@market.example"


def pieces(lines: Any, *more: str) -> list[tuple[int, ...]]:
    return sorted((line["product"], line["quantity"], *(line[key] for key in more)) for line in lines or [])
