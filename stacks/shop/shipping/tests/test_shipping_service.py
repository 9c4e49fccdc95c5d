"""Labels and carriers; the worker itself is tested with PostgreSQL and NATS in orders/tests."""

import uuid
from typing import Any

import pytest

for needed in ("asyncpg", "starlette", "prometheus_client", "nats"):
    pytest.importorskip(needed)


@pytest.mark.parametrize(("version", "carriers"), [("1.8.0", 1), ("1.9.0", 3), ("1.9.1", 3)])
def test_a_label_follows_from_the_order(release: Any, version: str, carriers: int) -> None:
    load = release("shipping", version)
    order = uuid.UUID("5a6f0f3e-2b1c-4d5e-8f90-0123456789ab")
    assert load("shipments").tracking_of(order) == "MK5A6F0F3E2B1C"
    assert len({load("release").carrier_of(customer) for customer in range(9)}) == carriers
    assert version == load("release").VERSION


async def test_a_message_that_comes_twice(release: Any, answers: Any) -> None:
    load = release("shipping", "1.9.1")
    assert await load("shipments").create(answers(True), uuid.uuid4(), 4, 10.0) is True
    assert await load("shipments").create(answers(None), uuid.uuid4(), 4, 10.0) is False
