"""Calls of others: retries, their budget, the breaker, deadlines; against a server that misbehaves as told."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

pytest.importorskip("prometheus_client")

from marketlib import context
from marketlib.breaker import CLOSED, HALF_OPEN, OPEN, Breaker, Budget
from marketlib.client import Client
from marketlib.errors import Unavailable


class Server:
    """Answers each request with the next of its statuses; the last one stays. 0 hangs, -1 closes."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses)
        self.seen: list[dict[str, str]] = []
        self.connections = 0
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                first, *rest = head.decode().strip().split("\r\n")
                headers = {k.lower(): v for k, v in (line.split(": ", 1) for line in rest)}
                await reader.readexactly(int(headers.get("content-length", 0)))
                self.seen.append({**headers, ":line": first})
                status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
                if status == 0:
                    await asyncio.sleep(30)
                if status == -1:
                    break
                body = b'{"n":%d}' % len(self.seen)
                writer.write(
                    b"HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                    % (status, len(body))
                    + body
                )
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@contextlib.asynccontextmanager
async def serving(*statuses: int, **options: Any) -> AsyncIterator[tuple[Server, Client]]:
    server = Server(*statuses)
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    async with Client(url, "other", **options) as client:
        try:
            yield server, client
        finally:
            await client.close()
            listener.close()


async def test_connections_are_kept() -> None:
    async with serving(200) as (server, client):
        answers = [await client.get("/a?b=1") for _ in range(3)]
        assert [answer.data["n"] for answer in answers] == [1, 2, 3]
        assert server.connections == 1
        assert server.seen[0][":line"] == "GET /a?b=1 HTTP/1.1"


async def test_a_call_that_may_be_repeated_is_and_others_are_not() -> None:
    async with serving(503, 200) as (server, client):
        assert (await client.get("/")).status == 200
        assert len(server.seen) == 2
    async with serving(503, 200) as (server, client):
        with pytest.raises(Unavailable, match="answered 503") as caught:
            await client.post("/", {"a": 1})
        assert (len(server.seen), caught.value.status, caught.value.sent) == (1, 503, True)
    async with serving(-1, 201) as (server, client):
        assert (await client.post("/", {"a": 1}, idempotent=True)).status == 201


async def test_answers_below_500_are_answers() -> None:
    async with serving(404) as (server, client):
        answer = await client.get("/")
        assert (answer.status, answer.ok, len(server.seen)) == (404, False, 1)


async def test_an_answer_that_does_not_come_in_time() -> None:
    async with serving(0, timeout=0.2, retries=0) as (_, client):
        begin = time.monotonic()
        with pytest.raises(Unavailable) as caught:
            await client.get("/")
        assert 0.15 < time.monotonic() - begin < 2
        assert (caught.value.status, caught.value.sent) == (None, True)


async def test_nobody_listening_is_certain_not_to_have_got_it() -> None:
    async with serving(200) as (_, client):
        url = client.base_url
    async with Client(url, "other", retries=0) as client:
        with pytest.raises(Unavailable) as caught:
            await client.post("/")
    assert caught.value.sent is False


async def test_the_budget_bounds_retries() -> None:
    async with serving(503, retries=3, breaker=Breaker(minimum=10_000)) as (server, client):
        for _ in range(100):
            with pytest.raises(Unavailable):
                await client.get("/")
        # A full bucket of 10, and a tenth of 100 calls; without the budget it would be 300.
        assert 100 + 15 <= len(server.seen) <= 100 + 20


async def test_no_call_outlasts_the_deadline_of_the_request() -> None:
    async with serving(0, timeout=5, retries=3) as (server, client):
        token = context.enter(context.received("r", "", "150", False))
        begin = time.monotonic()
        try:
            with pytest.raises(Unavailable):
                await client.get("/")
        finally:
            context.leave(token)
        assert time.monotonic() - begin < 2
        assert server.seen[0]["x-request-id"] == "r"
        assert 0 < int(server.seen[0]["x-deadline-ms"]) <= 150


async def test_an_open_circuit_asks_nobody() -> None:
    async with serving(500, 500, 500, 200, retries=0, breaker=Breaker(minimum=3, pause=0.2)) as (server, client):
        for _ in range(3):
            with pytest.raises(Unavailable, match="answered 500"):
                await client.get("/")
        with pytest.raises(Unavailable, match="circuit open"):
            await client.get("/")
        assert len(server.seen) == 3
        await asyncio.sleep(0.3)
        assert (await client.get("/")).status == 200
        assert client.breaker.state == CLOSED


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_breaker_lets_one_call_see_whether_it_is_over() -> None:
    clock = Clock()
    breaker = Breaker(ratio=0.5, minimum=4, window=10, pause=5, clock=clock)
    for good in (True, True, False):
        assert breaker.allows()
        breaker.note(good)
    assert breaker.state == CLOSED
    breaker.note(False)  # 2 of 4
    assert breaker.state == OPEN
    assert not breaker.allows()
    clock.now += 6.1  # 5 s and a fifth more at most
    assert breaker.allows()
    assert breaker.state == HALF_OPEN
    assert not breaker.allows()
    breaker.note(False)
    assert breaker.state == OPEN
    clock.now += 6.1
    assert breaker.allows()
    breaker.forget()  # the caller went away: another one may try
    assert breaker.allows()
    breaker.note(True)
    assert breaker.state == CLOSED


def test_old_failures_are_forgotten() -> None:
    clock = Clock()
    breaker = Breaker(ratio=0.5, minimum=4, window=10, clock=clock)
    for _ in range(3):
        breaker.note(False)
    clock.now += 25
    breaker.note(False)
    assert breaker.state == CLOSED


def test_a_budget_fills_by_calls() -> None:
    budget = Budget(ratio=0.5, size=2)
    assert [budget.take() for _ in range(3)] == [True, True, False]
    budget.called()
    assert not budget.take()
    budget.called()
    assert budget.take()
