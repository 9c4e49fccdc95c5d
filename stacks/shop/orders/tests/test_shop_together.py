"""Orders, payments, inventory, shipping and notify as real processes: what was promised is kept, once.

After each test the books of the parties outside are compared with the stores, whatever was broken meanwhile.
"""

import asyncio
import os
import random
import signal
import subprocess
import sys
import tempfile
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

httpx = pytest.importorskip("httpx")
for needed in ("asyncpg", "nats", "starlette", "prometheus_client"):
    pytest.importorskip(needed)

import together  # noqa: E402

pytestmark = pytest.mark.skipif(bool(together.missing()), reason=together.missing() or "-")

Bought = tuple[str, int, Any]


@pytest.fixture(scope="module")
async def shop() -> AsyncIterator[together.Shop]:
    # Not pytest's own folder: the database runs as another user, and later runs clear that away.
    with tempfile.TemporaryDirectory(prefix="shop-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        async with together.Shop(Path(folder)) as running:
            yield running


@pytest.fixture
async def calm(shop: together.Shop) -> AsyncIterator[together.Shop]:
    """The shop with everybody outside in order, before and after."""
    shop.outside.mode = shop.relay.mode = "good"
    yield shop
    shop.outside.mode = shop.relay.mode = "good"


def lines(*products: int) -> list[dict[str, int]]:
    return [{"product": product, "quantity": random.randint(1, 3)} for product in products]


async def audit(shop: together.Shop, bought: list[Bought]) -> Counter[str]:
    """Everything that was promised is there once and as promised; nothing is there that should not be."""
    statuses: Counter[str] = Counter()
    charges = Counter(c["reference"] for c in shop.outside.charges)
    for key, status, body in bought:
        row = await shop.db.fetchrow("select * from orders.orders where id = $1", uuid.UUID(key))
        statuses[row["status"] if row else "none"] += 1
        if status in (200, 201):
            assert row["status"] in ("paid", "returning", "returned"), (key, status, row["status"])
            assert row["amount"] == body["amount"] == sum(x["price"] * x["quantity"] for x in body["lines"])
        if status == 202:  # nobody said no to the customer: it has to come to an end, and here to a good one
            assert row["status"] == "paid"
        if status in (402, 409):
            assert row["status"] in ("declined", "cancelled")
        paid = row is not None and row["status"] in ("paid", "returning", "returned")
        assert charges[key] == (1 if paid else 0), (key, row and row["status"], charges[key])
        if paid:
            one = next(c for c in shop.outside.charges if c["reference"] == key)
            assert one["amount"] == row["amount"]
        mails = Counter(shop.relay.taken)
        assert (mails[f"<{key}.orders.paid@market.example>"] > 0) == paid
    recent = f"created_at > {shop.began}"
    assert await shop.sql(f"select count(*) from payments.charges where {recent} and status in ('new', 'unknown')") == 0
    assert (
        await shop.sql(
            "select count(*) from (select 1 from payments.entries group by booking having sum(amount) <> 0) x"
        )
        == 0
    )
    booked = await shop.sql(
        f"select coalesce(sum(amount), 0) from payments.entries where account = 'provider-receivable' and {recent}"
    )
    assert booked == sum(c["amount"] for c in shop.outside.charges) - sum(r["amount"] for r in shop.outside.refunds)
    assert await shop.sql("select count(*) from inventory.stock where reserved <> 0") == 0
    return statuses


async def taken(shop: together.Shop, product: int) -> int:
    """Pieces of a product that left the shelf for paid orders, less what came back."""
    return int(await shop.sql(
        "select coalesce(sum(l.quantity), 0) from inventory.reservation_lines l"
        " join inventory.reservations r using (order_id) where l.product = $1 and r.status = 'committed'"
        f" and r.created_at > {shop.began}", product))  # fmt: skip


async def test_a_hundred_customers(calm: together.Shop) -> None:
    gate = asyncio.Semaphore(12)

    async def one() -> Bought:
        async with gate:
            return await calm.buy(lines(*random.sample(range(1, 40), random.randint(1, 3))),
                                  customer=random.randint(1, 5000), tries=8)  # fmt: skip

    bought = await asyncio.gather(*(one() for _ in range(100)))
    await calm.settled(240)
    assert (await audit(calm, bought))["paid"] >= 95  # a machine under load may refuse some
    mails = Counter(calm.relay.taken)
    for key, status, _ in bought:
        if status in (200, 201, 202):
            assert mails[f"<{key}.orders.paid@market.example>"] == 1
            assert mails[f"<{key}.shipments.created@market.example>"] == 1
    hooks = Counter(calm.outside.hooks)
    assert hooks
    assert set(hooks.values()) == {1}


async def test_the_same_key_again_and_for_something_else(calm: together.Shop) -> None:
    key, wish = str(uuid.uuid4()), lines(50, 51)
    answers = await asyncio.gather(*(calm.checkout(key, 9, wish, at=at) for at in ("orders", "orders-2") * 4))
    codes = Counter(answer.status_code for answer in answers)
    assert codes[201] <= 1
    assert set(codes) <= {200, 201, 202, 503}
    await calm.settled(240)
    again = await calm.checkout(key, 9, wish)
    assert (again.status_code, again.json()["status"]) == (200, "paid")
    assert (await calm.checkout(key, 9, lines(52))).status_code == 422
    assert (await calm.checkout(key, 10, wish)).status_code == 422
    await audit(calm, [(key, 201, again.json())])


async def test_never_more_than_is_there(calm: together.Shop) -> None:
    product = 1999
    await calm.db.execute("update inventory.stock set on_hand = 10, reserved = 0 where product = $1", product)
    before = await taken(calm, product)
    wish = [{"product": product, "quantity": 1}, {"product": 1998, "quantity": 1}]
    bought = await asyncio.gather(*(calm.buy(random.sample(wish, 2), tries=8) for _ in range(40)))
    await calm.settled(240)
    assert await audit(calm, bought) == {"paid": 10, "cancelled": 30}
    assert await taken(calm, product) - before == 10
    assert await calm.sql("select on_hand from inventory.stock where product = $1", product) == 0


async def test_a_provider_that_charges_and_does_not_say(calm: together.Shop) -> None:
    calm.outside.mode = "late"
    bought = await asyncio.gather(*(calm.buy(lines(60 + n)) for n in range(6)))
    assert 201 not in {status for _, status, _ in bought}
    calm.outside.mode = "error_after"
    bought += await asyncio.gather(*(calm.buy(lines(70 + n)) for n in range(6)))
    assert 201 not in {status for _, status, _ in bought}
    calm.outside.mode = "good"
    await calm.settled(240)
    assert set(await audit(calm, bought)) <= {"paid", "none", "cancelled"}


async def test_a_provider_that_does_nothing_for_a_while(calm: together.Shop) -> None:
    calm.outside.mode = "error"
    bought = await asyncio.gather(*(calm.buy(lines(80 + n)) for n in range(4)))
    calm.outside.mode = "good"
    await calm.settled(240)
    assert set(await audit(calm, bought)) <= {"paid", "cancelled", "none"}
    calm.outside.mode = "decline"
    declined = await asyncio.gather(*(calm.buy(lines(90 + n), tries=6) for n in range(4)))
    await calm.settled(240)
    assert set(await audit(calm, declined)) <= {"declined", "cancelled"}


@pytest.mark.parametrize("victim", ["orders", "payments", "inventory"])
async def test_a_process_that_dies_in_the_middle(calm: together.Shop, victim: str) -> None:
    calm.outside.mode = "slow"
    stop = asyncio.Event()
    bought: list[Bought] = []

    async def customer() -> None:
        while not stop.is_set():
            bought.append(await calm.buy(lines(*random.sample(range(100, 140), 2)), tries=8))

    customers = [asyncio.create_task(customer()) for _ in range(10)]
    for _ in range(3):
        await asyncio.sleep(random.uniform(1.0, 1.6))
        calm.kill(victim)
        await asyncio.sleep(0.2)
        calm.start(victim, victim)
        await calm.is_ready(victim)
    await asyncio.sleep(1)
    stop.set()
    await asyncio.gather(*customers)
    calm.outside.mode = "good"
    await calm.settled(240)
    statuses = await audit(calm, bought)
    assert statuses["paid"] >= 10


async def test_the_queue_is_away_for_a_while(calm: together.Shop) -> None:
    calm.kill("nats")
    bought = await asyncio.gather(*(calm.buy(lines(200 + n), tries=8) for n in range(10)))
    assert {status for _, status, _ in bought} <= {200, 201}
    assert await calm.sql("select count(*) from orders.outbox where published_at is null") == 10
    calm.start_nats()
    await calm.settled(240)
    await audit(calm, bought)
    mails = Counter(calm.relay.taken)
    assert all(mails[f"<{key}.orders.paid@market.example>"] == 1 for key, _, _ in bought)


async def test_a_worker_that_dies_and_a_relay_that_hangs_up(calm: together.Shop) -> None:
    calm.relay.mode = "drop"
    bought = await asyncio.gather(*(calm.buy(lines(220 + n), tries=8) for n in range(10)))
    for name in ("notify", "shipping"):
        calm.kill(name)
        calm.start(name, name)
    await asyncio.sleep(4)
    calm.relay.mode = "good"
    await calm.settled(240)
    await audit(calm, bought)
    assert await calm.sql(f"select count(*) from notify.sent where created_at > {calm.began} and status <> 'sent'") == 0


async def test_an_order_that_comes_back(calm: together.Shop) -> None:
    bought = [await calm.buy([{"product": 300, "quantity": 2}], tries=8)]
    key = bought[0][0]
    shelf = await calm.sql("select on_hand from inventory.stock where product = 300")
    url = f"http://127.0.0.1:{calm.ports['orders']}"
    headers = {"authorization": f"Bearer {calm.token(7)}"}
    calm.outside.mode = "error_after"
    answers = [
        await calm.http.post(f"{url}/orders/{key}/return", json={"reason": "too small"}, headers=headers)
        for _ in range(3)
    ]
    assert {a.status_code for a in answers} == {202}
    await asyncio.sleep(8)
    calm.outside.mode = "good"
    await calm.settled(240)
    assert await audit(calm, bought) == {"returned": 1}
    assert [r["amount"] for r in calm.outside.refunds if r["reference"] == key] == [bought[0][2]["amount"]]
    assert await calm.sql("select on_hand from inventory.stock where product = 300") == shelf + 2
    assert Counter(calm.relay.taken)[f"<{key}.orders.returned@market.example>"] == 1
    other = {"authorization": f"Bearer {calm.token(8)}"}
    assert (await calm.http.get(f"{url}/orders/{key}", headers=other)).status_code == 404


async def test_what_sellers_and_customers_see(calm: together.Shop) -> None:
    key, status, body = await calm.buy([{"product": 7, "quantity": 1}], tries=8)
    assert status in (200, 201)
    url = f"http://127.0.0.1:{calm.ports['orders']}"
    headers = {"authorization": f"Bearer {calm.token(7)}"}
    await calm.settled(240)
    seen = (await calm.http.get(f"{url}/track/{key}", headers=headers)).json()
    assert (seen["order"], seen["shipment"]["status"]) == (key, "shipped")
    newest = (await calm.http.get(f"{url}/orders?limit=3", headers=headers)).json()["orders"]
    assert newest[0]["id"] == key
    assert newest[0]["amount"] == body["amount"]
    import hashlib

    seller = await calm.sql("select seller from catalog.products where id = 7")
    api_key = "mk_live_" + hashlib.sha256(f"seller-{seller}".encode()).hexdigest()[:24]
    sold = await calm.http.get(f"{url}/seller/orders?since=2020-01-01T00:00:00Z", headers={"x-api-key": api_key})
    assert sold.status_code == 200
    assert sold.json()["orders"]
    assert (await calm.http.get(f"{url}/seller/orders", headers={"x-api-key": "wrong"})).status_code == 401
    assert (await calm.http.get(f"{url}/orders")).status_code == 401


@pytest.mark.parametrize("job", ["settlement", "cleanup", "sales-report"])
async def test_the_jobs_find_nothing_wrong(calm: together.Shop, job: str) -> None:
    await calm.settled(240)
    role = "reports" if job == "sales-report" else "settlement"
    url = f"postgresql://{role}@127.0.0.1:{calm.pg_port}/market"
    home = together.SHOP / "jobs"
    release = max((home / "releases").iterdir(), key=lambda path: together.version_key(path.name))
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{together.SHOP / 'lib'}:{release}", "DATABASE_URL": url,
           "READ_DATABASE_URL": url, "OPEN_FOR": "0", "ADMIN_TOKEN_FILE": str(calm.folder / "admin"),
           "ORDERS_URL": f"http://127.0.0.1:{calm.ports['orders']}"}  # fmt: skip
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(home / "src/main.py"), job, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    said = (await process.communicate())[0].decode()
    assert process.returncode == 0, said
    if job == "settlement":
        found = await calm.db.fetch("select * from settlement.differences")
        assert found == [], said


async def test_a_process_ends_when_it_is_told_to(calm: together.Shop) -> None:
    for name in ("orders-2", "payments-2"):
        process = calm.processes[name]
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, 12) in (0, -signal.SIGTERM)
        calm.start(name, name.removesuffix("-2"))
        await calm.is_ready(name)


def test_all_is_beside_this_file() -> None:
    assert Path(together.__file__).parent == Path(__file__).parent
