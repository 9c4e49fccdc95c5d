"""Mails as they are written and handed over, and the rules for trying again."""

import asyncio
import json
import uuid
from collections.abc import Sequence
from typing import Any

import pytest

for needed in ("asyncpg", "starlette", "prometheus_client", "nats"):
    pytest.importorskip(needed)

ORDER = "5a6f0f3e-2b1c-4d5e-8f90-0123456789ab"
DETAILS = {
    "order": ORDER, "amount": 1205, "carrier": "Northpost", "tracking": "MK1",
    "lines": [{"product": 1, "quantity": 2, "price": 500, "seller": 3},
              {"product": 2, "quantity": 1, "price": 205, "seller": 4}],
}  # fmt: skip


def row(event: str, **more: Any) -> dict[str, Any]:
    fields = {
        "order_id": uuid.UUID(ORDER),
        "event": event,
        "customer": 7,
        "details": json.dumps(DETAILS),
        "attempts": 1,
    }
    return {**fields, "email": "user7@mail.example", "name": "Ada Adler", **more}


@pytest.mark.parametrize("version", ["2.3.0", "2.4.0", "2.4.1"])
@pytest.mark.parametrize("event", ["orders.paid", "shipments.created", "orders.returned"])
def test_the_mails(release: Any, version: str, event: str) -> None:
    text = release("notify", version)("mails").message_of(row(event))
    head, _, body = text.partition("\n\n")
    assert f"Message-ID: <{ORDER}.{event}@market.example>" in head
    assert "To: Ada Adler <user7@mail.example>" in head
    assert ORDER in body
    assert ("12.05 EUR" in body) == (event != "shipments.created")
    assert ("3 pieces" in body) == (event == "orders.paid" and version != "2.3.0")


def test_sellers_see_their_own_lines(release: Any) -> None:
    found = release("notify", "2.4.1")("outgoing").by_seller(DETAILS["lines"])
    assert found == {3: [{"product": 1, "quantity": 2, "price": 500}], 4: [{"product": 2, "quantity": 1, "price": 205}]}


async def talk(release: Any, replies: Sequence[str | None]) -> tuple[list[str], Exception | None]:
    """What the relay got when it answered like that; None hangs up."""
    smtp = release("notify", "2.4.1")("smtp")
    got: list[str] = []

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for reply in replies:
            if reply is None:
                break
            writer.write(reply.encode() + b"\r\n")
            end = b"\r\n.\r\n" if reply.startswith("354") else b"\r\n"
            got.append((await reader.readuntil(end)).decode())
        writer.close()

    server = await asyncio.start_server(relay, "127.0.0.1", 0)
    error = None
    try:
        port = server.sockets[0].getsockname()[1]
        await smtp.send("127.0.0.1", port, "a@x", "b@y", "Subject: s\n\n.dot\nend\n", timeout=5, verdict=5, name="me")
    except smtp.SmtpError as raised:
        error = raised
    server.close()
    await server.wait_closed()
    return got, error


async def test_a_relay_that_takes_the_mail(release: Any) -> None:
    got, error = await talk(release, ["220 hi", "250-a\r\n250 b", "250 ok", "250 ok", "354 go", "250 taken"])
    assert error is None
    assert got[:5] == ["EHLO me\r\n", "MAIL FROM:<a@x>\r\n", "RCPT TO:<b@y>\r\n", "DATA\r\n",
                   "Subject: s\r\n\r\n..dot\r\nend\r\n.\r\n"]  # fmt: skip


async def test_a_relay_that_does_not(release: Any) -> None:
    smtp = release("notify", "2.4.1")("smtp")
    _, later = await talk(release, ["220 hi", "250 b", "250 ok", "250 ok", "354 go", None])
    assert isinstance(later, smtp.SmtpError)
    assert not isinstance(later, smtp.Refused)
    _, full = await talk(release, ["220 hi", "250 b", "451 later", None])
    assert "451" in str(full)
    _, never = await talk(release, ["220 hi", "250 b", "250 ok", "550 no such user", None])
    assert "550" in str(never)


@pytest.mark.parametrize(("version", "longest"), [("2.4.0", 600), ("2.4.1", 60)])
def test_pauses_grow_to_a_limit(release: Any, version: str, longest: float) -> None:
    pause_of = release("notify", version)("mails").pause_of
    assert 1 <= pause_of(1) <= 2
    assert longest / 2 <= pause_of(40) <= longest


def test_a_partner_can_tell_that_it_is_us(release: Any) -> None:
    signature = release("notify", "2.4.1")("hooks").signature
    # The HMAC-SHA256 test case 2 of RFC 4231.
    assert signature("Jefe", b"what do ya want for nothing?") == (
        "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
    )
