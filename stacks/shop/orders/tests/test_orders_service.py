"""What orders takes for a checkout, and what it says to one that comes again."""

import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

for needed in ("asyncpg", "starlette", "prometheus_client", "nats", "httpcore"):
    pytest.importorskip(needed)

HERE = Path(__file__).parents[1]
VERSIONS = ["3.6.0", "3.7.0", "3.7.1"]
KEY = uuid.UUID("5a6f0f3e-2b1c-4d5e-8f90-0123456789ab")


@pytest.mark.parametrize("version", VERSIONS)
def test_releases_say_which_they_are(release: Any, version: str) -> None:
    assert version == release("orders", version)("main").VERSION
    assert f"## {version}\n" in (HERE / "RELEASES.md").read_text()


def test_the_same_wish_in_another_order_is_the_same(release: Any) -> None:
    asked = release("orders", "3.7.1")("model").asked
    one = asked(KEY, 3, {"lines": [{"product": 1, "quantity": 2}, {"product": 9, "quantity": 1}], "address": "here"})
    two = asked(KEY, 3, {"lines": [{"product": 9, "quantity": 1}, {"product": 1, "quantity": 2}], "address": "here"})
    more = asked(KEY, 3, {"lines": [{"product": 9, "quantity": 2}, {"product": 1, "quantity": 2}], "address": "here"})
    assert one.fingerprint == two.fingerprint != more.fingerprint


@pytest.mark.parametrize("body", [{}, {"lines": []}, {"lines": [{"product": 1, "quantity": 0}]}, {"lines": [3]},
                                  {"lines": [{"product": "1", "quantity": 1}]},
                                  {"lines": [{"product": 1, "quantity": 1}], "channel": "fax"}])  # fmt: skip
def test_bad_checkouts_are_refused(release: Any, body: Any) -> None:
    load = release("orders", "3.7.1")
    with pytest.raises(load("marketlib.errors").HttpError) as refused:
        load("model").asked(KEY, 3, body)
    assert refused.value.status == 422


def order_of(load: Any, **more: Any) -> Any:
    line = load("model").Line(product=7, quantity=2, price=450, seller=3)
    fields = {"id": KEY, "customer": 3, "status": "new", "amount": 900, "channel": "web", "stock": "none"}
    fields |= {"reason": None, "created_at": datetime(2026, 1, 2, tzinfo=UTC), "lines": (line,), **more}
    return load("model").Order(**fields)


@pytest.mark.parametrize(("status", "code", "shown"), [
    ("paid", 200, "paid"), ("new", 202, "pending"), ("pending", 202, "pending"), ("declined", 402, "declined"),
    ("cancelled", 409, "cancelled"), ("returned", 200, "returned"),
])  # fmt: skip
def test_what_is_said_again(release: Any, status: str, code: int, shown: str) -> None:
    load = release("orders", "3.7.1")
    said = load("checkout").said(order_of(load, status=status, reason="why"))
    assert said[0] == code
    assert (said[1]["id"], said[1]["amount"], said[1]["status"]) == (str(KEY), 900, shown)
    assert said[1]["lines"] == [{"product": 7, "quantity": 2, "price": 450}]
    assert ("error" in said[1]) == (code in (402, 409))


class Payments:
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def post(self, *_: Any, **__: Any) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    ("status", "sent", "told"), [(None, False, 503), (503, True, 503), (504, True, 202), (None, True, 202)]
)
async def test_what_is_known_not_to_be_charged_is_no_pending_order(
    release: Any, monkeypatch: pytest.MonkeyPatch, status: int | None, sent: bool, told: int
) -> None:
    load = release("orders", "3.7.1")
    unavailable = load("marketlib.errors").Unavailable
    flow = load("checkout").Checkout(
        None, None, None, Payments(unavailable("payments", "why", status=status, sent=sent))
    )

    async def waits(order: Any, why: str) -> Any:
        return 202, {}

    monkeypatch.setattr(flow, "_wait", waits)
    if told == 503:
        with pytest.raises(unavailable):
            await flow.go_on(order_of(load, stock="held"))
    else:
        assert (await flow.go_on(order_of(load, stock="held")))[0] == told
