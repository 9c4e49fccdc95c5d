"""What the three releases take for an order, and what they answer to one that is sent again."""

import importlib.util
import uuid
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("asyncpg")

RELEASES = Path(__file__).parents[1] / "releases"
ID = "5a6f0f3e-2b1c-4d5e-8f90-0123456789ab"
GOOD = {"id": ID, "customer": 3, "product": 7, "quantity": 2}


def release(version: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"orders_{version}", RELEASES / version / "orders.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(params=["2.3.1", "2.4.0", "2.5.0"])
def orders(request: pytest.FixtureRequest) -> ModuleType:
    return release(request.param)


class Stored:
    """A connection to a database that has this order already, and no product 999."""

    async def fetchrow(self, query: str, *arguments: Any) -> dict[str, Any] | None:
        if query.startswith("insert") or arguments[0] != uuid.UUID(ID):
            return None
        return {"id": arguments[0], "amount": 500, "created_at": datetime(2025, 1, 2, tzinfo=UTC)}


def test_releases_say_which_they_are(orders: ModuleType) -> None:
    assert (RELEASES / orders.VERSION).is_dir()
    assert f"## {orders.VERSION}\n" in (RELEASES.parent / "RELEASES.md").read_text()


def test_a_good_order_is_taken(orders: ModuleType) -> None:
    wanted = orders.parse(GOOD)
    assert (str(wanted.id), wanted.customer, wanted.product, wanted.quantity) == (ID, 3, 7, 2)


@pytest.mark.parametrize(
    "change",
    [
        {"id": "7"},
        {"id": 7},
        {"customer": 0},
        {"quantity": -1},
        {"quantity": True},
        {"product": "7"},
        {"product": 2**31},
    ],
)
def test_bad_orders_are_told_why(orders: ModuleType, change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be"):
        orders.parse({**GOOD, **change})
    with pytest.raises(ValueError, match="object"):
        orders.parse([GOOD])


@pytest.mark.parametrize(("version", "status"), [("2.3.1", 409), ("2.4.0", 200), ("2.5.0", 200)])
async def test_an_order_sent_again(version: str, status: int) -> None:
    orders = release(version)
    got, body = await orders.create(Stored(), orders.parse(GOOD))
    assert got == status
    assert status == 409 or body == {"id": ID, "amount": 500, "created_at": "2025-01-02T00:00:00+00:00"}


async def test_an_unknown_product(orders: ModuleType) -> None:
    other = {**GOOD, "id": str(uuid.uuid4()), "product": 999}
    assert (await orders.create(Stored(), orders.parse(other)))[0] == 422


def test_only_the_new_release_knows_channels() -> None:
    orders = release("2.5.0")
    assert orders.parse(GOOD).channel == "web"
    assert orders.parse({**GOOD, "channel": "phone"}).channel == "phone"
    with pytest.raises(ValueError, match="web, app, phone"):
        orders.parse({**GOOD, "channel": "fax"})
