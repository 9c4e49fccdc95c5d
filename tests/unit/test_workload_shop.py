"""The shop's users and books: what they do, what they are promised, and how differences are told."""

import itertools
import json
import random
import time
from pathlib import Path
from typing import Any

import pytest

from aftershock.base.paths import source_root
from aftershock.workload.arrivals import Alarm, Schedule
from aftershock.workload.journal import Journal
from aftershock.workload.journeys import Answer, Ask, journey, module_of
from aftershock.workload.ledger import Ledger, Promise
from aftershock.workload.reconcile import Books, Difference
from aftershock.workload.served import RequestLog, by_kind

SHOP = source_root() / "stacks" / "shop"
ORDER = "0b0f8a4e-3c52-4f0e-9a5c-3f6f6c1d2e3f"
LINES = [{"product": 7, "quantity": 2, "price": 450}]


def answer_to(ask: Ask) -> tuple[int, Any]:
    """What a shop that works answers."""
    step = ask.kind.partition(".")[2]
    if step == "sign-in":
        assert ask.body
        return 201, {"token": "t", "customer": int(ask.body["email"].split("@")[0].removeprefix("user"))}
    if step == "home":
        return 200, {"featured": [1], "categories": [], "banner": ""}
    if step in ("list", "query"):
        return 200, {"items": [{"id": 5, "name": "x", "price": 3}]}
    if step == "product":
        return 200, {"product": {"id": int(ask.path.rpartition("/")[2]), "price": 3}, "stock": None, "related": []}
    if step == "checkout":
        assert ask.attempt
        lines = [{**line, "price": 100} for line in ask.attempt["lines"]]
        amount = sum(line["quantity"] * 100 for line in lines)
        return 201, {
            "id": ask.attempt["id"], "customer": ask.attempt["customer"], "lines": lines, "amount": amount,
            "status": "paid",
        }  # fmt: skip
    if step == "track":
        return 200, {"order": ask.path.rpartition("/")[2], "status": "paid", "shipment": None}
    if step == "ask":
        return 202, {"id": ask.path.split("/")[3], "status": "returning"}
    return 200, {"orders": [1], "lines": []}


def walk(seed: int, count: int, components: tuple[str, ...] = ()) -> tuple[list[Ask], list[dict[str, Any]]]:
    rng, users = random.Random(seed), journey("shop", SHOP / "journeys.py", components)
    asks, promises, carts = [], [], dict[int | None, dict[int, int]]()
    for _ in range(count):
        ask = users.next(rng)
        status, data = answer_to(ask)
        cart = carts.setdefault(ask.user, {})
        if ask.kind.endswith(".put"):
            assert ask.body
            cart[int(ask.path.rpartition("/")[2])] = ask.body["quantity"]
        if ask.kind.endswith((".put", ".cart")):
            data = {"lines": [{"product": p, "quantity": q} for p, q in cart.items()]}
        if ask.kind == "track.order":
            data = next(p for p in promises if p["id"] == ask.path.rpartition("/")[2])
        error = users.judge(ask, status, data)
        assert error == "", (ask, data)
        if (entry := users.promise(ask, data)) is not None:
            promises.append(entry)
            users.remember(entry)
        users.done(ask, Answer(status, data, error))
        asks.append(ask)
    return asks, promises


def test_users_do_everything_that_a_shop_is_for() -> None:
    asks, promises = walk(3, 3000)
    kinds = {ask.kind for ask in asks}
    assert {kind.split(".")[0] for kind in kinds} == {"browse", "search", "cart", "buy", "track", "return", "sell"}
    orders = sum(ask.kind == "buy.checkout" for ask in asks)
    assert 0.03 < orders / len(asks) < 0.08, "about one order a second at 20 requests a second"
    assert {entry["kind"] for entry in promises} == {"order", "return"}
    keys = [ask.headers["Idempotency-Key"] for ask in asks if ask.kind == "buy.checkout"]
    assert len(set(keys)) == len(keys)
    assert walk(3, 300)[0] == asks[:300], "a seed makes the same users again"
    assert not {ask.kind for ask in walk(3, 3000, ("gateway",))[0] if ask.kind.startswith("search")}


def test_a_customer_without_an_answer_asks_again_under_the_same_key() -> None:
    rng, users = random.Random(1), module_of(SHOP / "journeys.py").Shop()
    steps = users._check_out(rng, 9, "token", {7: 2})
    first = next(steps)
    again = steps.send(Answer(503, None, "HTTP 503"))
    assert again == first
    assert first.attempt["id"] == first.headers["Idempotency-Key"]
    with pytest.raises(StopIteration) as ended:
        steps.send(Answer(402, {"error": "declined"}, ""))
    assert ended.value.value == ""


@pytest.mark.parametrize(
    ("status", "change", "said"),
    [
        (201, {}, ""),
        (202, {"status": "pending"}, ""),
        (402, {}, ""),
        (503, {}, "HTTP 503"),
        (201, {"amount": 899}, "wrong: amount is 899, its lines sum to 900"),
        (201, {"status": "pending"}, "wrong: status is pending"),
        (201, {"lines": []}, "wrong: lines are {}, were {7: 2}"),
        (201, {"customer": 8}, "wrong: customer is 8, was 9"),
    ],
)
def test_an_order_must_be_what_was_asked_for(status: int, change: dict[str, Any], said: str) -> None:
    good = module_of(SHOP / "journeys.py").good_checkout("k", 9, {7: 2})
    data = {"id": "k", "customer": 9, "lines": LINES, "amount": 900, "status": "paid", **change}
    assert good(status, data) == said


def kept(**change: Any) -> dict[str, Any]:
    row = {
        "id": ORDER, "customer": 9, "amount": 900, "status": "paid", "stock": "committed", "lines": LINES,
        "charges": [{"amount": 900, "status": "captured", "provider": "ch_1"}], "booked": [-900], "refunds": None,
        "reservation": "committed", "reserved": [{"product": 7, "quantity": 2}], "given_back": None,
        "shipment": "shipped", "mails": {},
    }  # fmt: skip
    return {**row, **change}


def mail(*events: str) -> list[dict[str, Any]]:
    return [{"message_id": f"{ORDER}.{event}@market.example"} for event in events]


CHARGE = {"kind": "charge", "status": "captured", "reference": ORDER, "amount": 900}
MAILS = mail("orders.paid", "shipments.created")


def judged(
    row: dict[str, Any] | None,
    *,
    charges: list[dict[str, Any]] | None = None,
    mails: list[dict[str, Any]] | None = None,
    status: str = "paid",
    acknowledged: bool = True,
    returned: bool = False,
    age: float = 600.0,
) -> list[str]:
    now = time.time()
    fields = {"kind": "order", "customer": 9, "amount": 900, "lines": LINES, "status": status}
    promises = {ORDER: Promise(ORDER, now - age, fields)} if acknowledged else {}
    if returned:
        back = {"kind": "return", "order": ORDER, "amount": 900}
        promises[f"{ORDER}/return"] = Promise(f"{ORDER}/return", now - age, back)
    parties = {"payments": [CHARGE] if charges is None else charges, "mail": MAILS if mails is None else mails}
    stores = {} if row is None else {ORDER: row}
    books = Books(promises, {ORDER: {"attempted": now - age}}, stores, parties, now)
    found: list[Difference] = module_of(SHOP / "books.py").judge(books)
    return [f"{difference.kind}: {difference.what}" for difference in found]


def test_a_kept_promise_has_no_difference() -> None:
    assert judged(kept()) == []


@pytest.mark.parametrize(
    ("change", "parties", "said"),
    [
        ({"status": None}, {}, ["lost: the order is not there"]),
        ({"amount": 800}, {}, ["wrong: amount is 800, was 900"]),
        ({}, {"charges": []}, ["lost: the provider has no charge"]),
        ({}, {"charges": [CHARGE, CHARGE]}, ["doubled: the provider charged 2 times"]),
        (
            {},
            {"mails": mail("orders.paid", "orders.paid", "shipments.created")},
            ["doubled: 2 mails about orders.paid"],
        ),
        ({}, {"mails": mail("shipments.created")}, ["lost: no mail about orders.paid"]),
        ({"shipment": None}, {"mails": mail("orders.paid")}, ["lost: the parcel is None"]),
        ({"reservation": "held"}, {}, ["lost: the goods are held"]),
        ({"booked": [-900, -900]}, {}, ["wrong: bookings are [-900, -900]"]),
        ({"status": "cancelled"}, {}, ["wrong: was acknowledged as paid and is cancelled"]),
    ],
)
def test_differences_are_told(change: dict[str, Any], parties: dict[str, Any], said: list[str]) -> None:
    assert said[0] in judged(kept(**change), **parties)


def test_what_is_not_due_yet_is_open() -> None:
    assert judged(kept(shipment="preparing"), mails=mail("orders.paid"), age=5) == ["open: the parcel is preparing"]
    assert judged(kept(), mails=[], age=5)[0].startswith("open: no mail")


def test_a_pending_order_may_end_either_way_but_not_by_half() -> None:
    given_up = kept(status="declined", charges=None, booked=None, reservation="released", shipment=None)
    assert judged(given_up, charges=[], mails=[], status="pending") == []
    assert judged(given_up, mails=[], status="pending") == ["wrong: is declined, and the provider has kept 900"]
    repaid = {**CHARGE, "kind": "refund", "status": "refunded"}
    assert judged(given_up, charges=[CHARGE, repaid], mails=[], status="pending") == []
    assert judged(kept(status="pending"), status="pending") == ["lost: is still pending"]


def test_what_was_never_answered_may_have_come_to_pass_but_once() -> None:
    nothing = kept(status=None, customer=None, amount=None)
    assert judged(nothing, charges=[], mails=[], acknowledged=False) == []
    assert judged(nothing, mails=[], acknowledged=False) == ["wrong: charged, and there is no order"]
    assert judged(kept(), acknowledged=False) == []
    assert judged(kept(), charges=[CHARGE, CHARGE], acknowledged=False)[0].startswith("doubled")


def test_a_return_gives_money_and_goods_back_once() -> None:
    repaid = {**CHARGE, "kind": "refund", "status": "refunded"}
    back = kept(status="returned", booked=[-900, 900], given_back=[{"product": 7, "quantity": 2}])
    mails = [*MAILS, *mail("orders.returned")]
    assert judged(back, charges=[CHARGE, repaid], mails=mails, returned=True) == []
    assert judged(back, charges=[CHARGE], mails=mails, returned=True) == ["wrong: the provider paid back 0"]
    assert judged(back, charges=[CHARGE, repaid, repaid], mails=mails, returned=True) == [
        "doubled: the provider paid back 2 times"
    ]


def test_a_journal_is_whole_after_a_cut(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    first = Journal(path)
    first.write({"id": "a", "acknowledged": 1.0})
    first.close()
    with path.open("ab") as file:
        file.write(b'{"id": "b", "ackn')
    again = Journal(path)
    again.write({"id": "c", "acknowledged": 2.0, "long": "x" * 100_000})
    again.close()
    assert [json.loads(line)["id"] for line in path.read_text().splitlines()] == ["a", "c"]
    assert set(Ledger(path).promises()) == {"a", "c"}


def test_spread_arrivals_are_known_beforehand(tmp_path: Path) -> None:
    schedule = Schedule(1000.0, 20.0, seed=5)
    dues = [schedule.due(n) for n in range(400)]
    assert dues == sorted(dues)
    assert dues == [Schedule(1000.0, 20.0, seed=5).due(n) for n in range(400)]
    gaps = [b - a for a, b in itertools.pairwise(dues)]
    assert max(gaps) < 0.1
    assert min(gaps) < 0.01, "no even beat"
    edges = [1000.0, 1003.21, 1007.7, 1011.0]
    counted = [n for a, b in itertools.pairwise(edges) for n in schedule.numbers(a, b)]
    assert counted == [n for n in range(230) if dues[n] < 1011.0]
    path = tmp_path / "requests.jsonl"
    lines = [{"begin": 1000.0, "rate": 20.0, "clock": 0.0, "spread": 5}]
    for n in range(100):
        kind = "buy.checkout" if n % 4 == 0 else "browse.home"
        line = {"n": n, "due": dues[n], "start": dues[n], "end": dues[n] + 0.01, "kind": kind, "ok": n % 8 != 0}
        lines.append({**line, "status": 200, "error": "" if n % 8 else "HTTP 503"})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    requests = RequestLog(path).requests(1000.0, 1005.0)
    assert len(requests) == 100
    journeys = by_kind(requests, 1000.0, 1005.0)
    assert {kind: (w.expected, w.ok) for kind, w in journeys.items()} == {"browse": (75, 75), "buy": (25, 12)}
    assert set(by_kind(requests, 1000.0, 1005.0, depth=2)) == {"browse.home", "buy.checkout"}


async def test_the_alarm_rings_on_time() -> None:
    alarm = Alarm()
    late = []
    for _ in range(20):
        at = time.monotonic() + 0.0123
        await alarm.until(at)
        late.append(time.monotonic() - at)
    alarm.close()
    assert min(late) >= 0
    assert sorted(late)[5] < 0.001, "the loop's own timer would be half a millisecond late"
