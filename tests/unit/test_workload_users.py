"""The users' program against a small shop of its own, on the loopback."""

import asyncio
import json
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from aftershock.base.errors import ClusterError, UsageError
from aftershock.base.paths import source_root
from aftershock.base.wait import NotYet, until
from aftershock.workload.crowd import Users
from aftershock.workload.journeys import Ask, journey, module_of

JOURNEYS = source_root() / "stacks" / "orders" / "journeys.py"
Orders = module_of(JOURNEYS).Orders


class Shop:
    """Answers as told: `mood` is well, wrong (another amount is read back), stuck or broken."""

    def __init__(self) -> None:
        self.mood = "well"
        self.orders: dict[str, dict[str, Any]] = {}
        self.hosts: set[str] = set()

    async def handle(self, request: web.Request) -> web.Response:
        self.hosts.add(request.headers["Host"])
        if self.mood == "stuck":
            await asyncio.sleep(60)
        if self.mood == "broken":
            return web.json_response({"error": "no"}, status=503)
        if request.method == "POST":
            body = await request.json()
            order = {**body, "amount": 100 * body["quantity"], "status": "new"}
            self.orders[order["id"]] = order
            return web.json_response(order, status=201)
        if found := self.orders.get(request.path.rpartition("/")[2]):
            return web.json_response({**found, "amount": found["amount"] + (self.mood == "wrong")})
        return web.json_response([{"id": 1}])


@pytest.fixture
async def shop() -> AsyncIterator[tuple[Shop, str]]:
    shop = Shop()
    server = web.AppRunner(application := web.Application(), shutdown_timeout=0.1)
    application.router.add_route("*", "/{path:.*}", shop.handle)
    await server.setup()
    site = web.TCPSite(server, "127.0.0.1", 0)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
    yield shop, f"http://127.0.0.1:{port}"
    await server.cleanup()


def crowd(url: str, out: Path, **more: Any) -> Users:
    what = {"journey": "orders", "journeys": JOURNEYS, **more}
    return Users(None, front=url, host="shop.example", out=out, rate=50, seed=7, **what)


async def seconds_due(users: Users, seconds: float) -> None:
    since = users.now()

    async def probe() -> None:
        if users.now() < since + seconds:
            raise NotYet("time goes by")

    await until(probe, what="time goes by", seconds=seconds + 5)


async def test_users_are_served_and_their_ledger_is_kept(shop: tuple[Shop, str], tmp_path: Path) -> None:
    store, url = shop
    async with crowd(url, tmp_path) as users:
        await seconds_due(users, 2.5)
        window = users.window(users.begin, users.begin + 2)
    assert window.expected == 100  # 50 a second
    assert (window.recorded, window.ok, window.errors) == (100, 100, {})
    promises = users.promises()
    assert promises
    assert all(store.orders[id]["amount"] == fields["amount"] for id, fields in promises.items())
    # Whatever was acknowledged is in the ledger; the shop may know orders whose answer never arrived.
    assert set(promises) <= set(store.orders)
    assert store.hosts == {"shop.example"}
    kinds = {request.kind for request in users.requests(users.begin, users.begin + 2)}
    assert kinds == {"browse", "history", "read", "order"}


async def test_stuck_requests_do_not_hold_up_the_others(shop: tuple[Shop, str], tmp_path: Path) -> None:
    store, url = shop
    store.mood = "stuck"
    async with crowd(url, tmp_path) as users:
        await seconds_due(users, 1.2)
        stuck = users.window(users.begin, users.begin + 1)
        assert (stuck.expected, stuck.recorded, stuck.ok) == (50, 0, 0)
        store.mood = "well"
        since = users.now()
        await seconds_due(users, 1.5)
        assert users.window(since + 0.1, since + 1.1).success == 1.0
    last = (tmp_path / "requests.jsonl").read_text().splitlines()[-1]
    assert "finished" in json.loads(last)


async def test_refusals_and_wrong_answers_are_not_service(shop: tuple[Shop, str], tmp_path: Path) -> None:
    store, url = shop
    async with crowd(url, tmp_path) as users:
        await seconds_due(users, 1.0)
        store.mood = "wrong"
        await seconds_due(users, 1.0)
        store.mood = "broken"
        kept = None
        await seconds_due(users, 0.3)
        kept = len(users.promises())
        await seconds_due(users, 1.0)
        assert len(users.promises()) == kept
        requests = users.requests(users.begin, users.now() - 0.2)
    errors = {request.error for request in requests if not request.ok}
    assert "HTTP 503" in errors
    assert any(error.startswith("wrong: amount is") for error in errors)
    assert all(request.kind == "read" for request in requests if request.error.startswith("wrong"))


async def test_users_that_end_by_themselves_are_an_error(shop: tuple[Shop, str], tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="there is no journey"):
        async with crowd(shop[1], tmp_path, journey="nowhere"):
            pass


def test_the_same_seed_makes_the_same_users() -> None:
    def walk(seed: int) -> list[Ask]:
        rng, orders = random.Random(seed), Orders()
        return [orders.next(rng) for _ in range(50)]

    assert walk(3) == walk(3)
    assert walk(3) != walk(4)


def test_reads_ask_for_what_was_promised() -> None:
    orders, rng = Orders(), random.Random(1)
    assert "read" not in {orders.next(rng).kind for _ in range(100)}
    entry = {"id": "a", "customer": 1, "product": 2, "quantity": 3, "amount": 4}
    orders.remember(entry)
    read = next(ask for ask in (orders.next(rng) for _ in range(100)) if ask.kind == "read")
    assert read.path == "/orders/a"
    assert orders.judge(read, 200, {**entry, "status": "done"}) == ""
    assert orders.judge(read, 200, {**entry, "amount": 5}) == "wrong: amount is 5, was 4"
    assert orders.judge(read, 404, {"error": "no such order"}) == "HTTP 404"


def test_unknown_journeys_are_named() -> None:
    with pytest.raises(UsageError, match="nowhere"):
        journey("nowhere", JOURNEYS)
