"""The external parties, as services meet them: over their sockets, on the loopback."""

import asyncio
import contextlib
import json
import smtplib
from collections.abc import AsyncIterator
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from aftershock.base.errors import ClusterError, UsageError
from aftershock.workload.outside import Outside


@pytest.fixture
async def outside(tmp_path: Path) -> AsyncIterator[Outside]:
    names = ("payments", "mail", "hooks", "pager")
    async with Outside(None, names, tmp_path / "parties", listen=dict.fromkeys(names, "127.0.0.1:0")) as running:
        yield running


def port(outside: Outside, party: str) -> int:
    found: int = json.loads((outside.out / "parties.json").read_text())["ports"][party]
    return found


async def charge(outside: Outside, key: str, amount: int = 500, seconds: float = 2.0) -> tuple[int, Any]:
    url = f"http://127.0.0.1:{port(outside, 'payments')}/v1/charges"
    timeout = aiohttp.ClientTimeout(total=seconds)
    async with (
        aiohttp.ClientSession(timeout=timeout) as session,
        session.post(url, json={"amount": amount, "reference": key}, headers={"Idempotency-Key": key}) as answer,
    ):
        return answer.status, await answer.json()


async def test_a_key_is_charged_once(outside: Outside) -> None:
    first, again = await charge(outside, "a"), await charge(outside, "a")
    assert first == again
    assert first[0] == 201
    assert [line["amount"] for line in outside.ledger("payments")] == [500]
    await outside.tell("payments", keys=False)
    await charge(outside, "a")
    assert len(outside.ledger("payments")) == 2


async def test_a_provider_may_charge_and_not_say_so(outside: Outside) -> None:
    await outside.tell("payments", mood="hang-after", count=1)
    with pytest.raises(TimeoutError):
        await charge(outside, "b", seconds=0.3)
    assert [line["reference"] for line in outside.ledger("payments")] == ["b"]
    assert (await charge(outside, "b"))[0] == 201, "the mood was for one request"
    assert len(outside.ledger("payments")) == 1
    await outside.tell("payments", mood="drop-after")
    with pytest.raises(aiohttp.ClientError):
        await charge(outside, "c")
    await outside.tell("payments", mood="decline")
    assert (await charge(outside, "d"))[0] == 402
    await outside.tell("payments", mood="fail")
    assert (await charge(outside, "e"))[0] == 500
    await outside.tell("payments")
    assert (await charge(outside, "d"))[0] == 402, "what was declined under a key stays so"
    assert [line["reference"] for line in outside.ledger("payments")] == ["b", "c", "d"]


async def test_charges_are_found_by_their_reference_and_paid_back(outside: Outside) -> None:
    await charge(outside, "f", 700)
    base = f"http://127.0.0.1:{port(outside, 'payments')}/v1"
    async with aiohttp.ClientSession() as session:
        async with session.get(f"{base}/charges?reference=f") as answer:
            found = (await answer.json())["charges"]
        async with session.post(f"{base}/refunds", json={"amount": 700, "reference": "f"}) as answer:
            assert answer.status == 201
        async with session.post(f"{base}/charges", data=b"{") as answer:
            assert answer.status == 400
    assert [(c["amount"], c["status"]) for c in found] == [(700, "captured")]
    assert [line["kind"] for line in outside.ledger("payments")] == ["charge", "refund"]


def send(number: int, to: str = "user1@mail.example") -> None:
    mail = EmailMessage()
    mail["Message-ID"], mail["Subject"], mail["From"], mail["To"] = "<1.paid@market.example>", "Thanks", "a@b", to
    mail.set_content("line\n.dot\n")
    with smtplib.SMTP("127.0.0.1", number, timeout=3) as client:
        client.send_message(mail)


async def test_the_relay_takes_mail_and_may_be_gone_after_taking_it(outside: Outside) -> None:
    number = port(outside, "mail")
    await asyncio.to_thread(send, number)
    assert [(m["message_id"], m["to"]) for m in outside.ledger("mail")] == [
        ("1.paid@market.example", ["user1@mail.example"])
    ]
    await outside.tell("mail", mood="drop-after")
    with pytest.raises(smtplib.SMTPServerDisconnected):
        await asyncio.to_thread(send, number)
    assert len(outside.ledger("mail")) == 2
    await outside.tell("mail", mood="refuse")
    with pytest.raises(smtplib.SMTPDataError):
        await asyncio.to_thread(send, number)
    assert len(outside.ledger("mail")) == 2


async def test_receivers_write_down_what_they_are_told(outside: Outside) -> None:
    async with aiohttp.ClientSession() as session:
        for party in ("hooks", "pager"):
            async with session.post(f"http://127.0.0.1:{port(outside, party)}/x", json={"alert": party}) as answer:
                assert answer.status == 200
    assert outside.ledger("pager")[0]["body"] == {"alert": "pager"}
    assert outside.ledger("hooks")[0]["path"] == "/x"


async def test_unknown_parties_and_moods_are_named(outside: Outside) -> None:
    with pytest.raises(UsageError, match="no mood `sleepy`"):
        await outside.tell("mail", mood="sleepy")
    with pytest.raises(UsageError, match="no party `bank`"):
        await outside.tell("bank")
    with pytest.raises(UsageError, match="there is no party `bank`"):
        Outside(None, ["bank"], outside.out)


async def test_they_end_with_their_context_and_know_their_books_again(tmp_path: Path) -> None:
    out = tmp_path / "parties"
    for _ in range(2):
        async with Outside(None, ["payments"], out, listen={"payments": "127.0.0.1:0"}) as running:
            assert (await charge(running, "same"))[0] == 201
    assert len(running.ledger("payments")) == 1
    with pytest.raises(ClusterError, match="do not answer"):
        await running.tell("payments")
    with contextlib.suppress(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port(running, "payments"))
        pytest.fail("the provider still listens")
