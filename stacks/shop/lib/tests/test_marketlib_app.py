"""The application around the routes, and how the process ends."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("prometheus_client")

from marketlib import context, metrics
from marketlib.app import HttpError, JSONResponse, Request, Response, Route, Service, Unavailable, json_body, once

LIB = Path(__file__).parents[1]


async def echo(request: Request) -> Response:
    return JSONResponse({"id": request.path_params["id"], "body": await json_body(request)})


async def fail(request: Request) -> Response:
    kind = request.path_params["kind"]
    if kind == "http":
        raise HttpError(409, "out of stock", product=7)
    if kind == "busy":
        raise HttpError(429, "slowly", retry_after=3)
    if kind == "away":
        raise Unavailable("database", "gone")
    raise RuntimeError("a mistake")


async def slow(request: Request) -> Response:
    await asyncio.sleep(30)
    return JSONResponse({})


async def told(request: Request) -> Response:
    return JSONResponse({**context.headers(), "left": context.remaining()})


def service(**options: Any) -> Service:
    routes = [
        Route("/echo/{id}", echo, methods=["POST"]),
        Route("/fail/{kind}", fail),
        Route("/slow", slow),
        Route("/told", told),
    ]
    return Service(routes, service="test", version="1.0.0", **options)


def counted(route: str, method: str, status: str) -> float:
    return metrics.requests.labels("test", route, method, status)._value.get()


async def test_a_request_is_answered_and_counted_by_its_route(ask: Any) -> None:
    before = counted("/echo/{id}", "POST", "200")
    got = await ask(service(), "POST", "/echo/7", {"a": 1}, {"X-Request-Id": "abc"})
    assert (got.status, got.data) == (200, {"id": "7", "body": {"a": 1}})
    assert got.headers["x-request-id"] == "abc"
    assert counted("/echo/{id}", "POST", "200") == before + 1


@pytest.mark.parametrize(
    ("path", "status", "body", "retry"),
    [
        ("/fail/http", 409, {"error": "out of stock", "product": 7}, None),
        ("/fail/busy", 429, {"error": "slowly"}, "3"),
        ("/fail/away", 503, {"error": "database is unavailable"}, "2"),
        ("/fail/other", 500, {"error": "internal error"}, None),
        ("/nowhere", 404, {"error": "not found"}, None),
        ("/echo/1", 405, {"error": "method not allowed"}, None),
    ],
)
async def test_errors_are_json(ask: Any, path: str, status: int, body: Any, retry: str | None) -> None:
    got = await ask(service(), "GET", path)
    assert (got.status, got.data, got.headers.get("retry-after")) == (status, body, retry)


@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b"\xff"])
async def test_a_body_that_is_no_json_object_is_refused(ask: Any, body: bytes) -> None:
    assert (await ask(service(), "POST", "/echo/7", body)).status == 400


async def test_the_deadline_of_the_caller_ends_a_request(ask: Any) -> None:
    async with asyncio.timeout(5):
        got = await ask(service(), "GET", "/slow", None, {"X-Deadline-Ms": "50"})
    assert got.status == 504


async def test_ids_and_deadline_travel_on(ask: Any) -> None:
    parent = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
    got = await ask(service(), "GET", "/told", None, {"traceparent": parent, "X-Deadline-Ms": "900"})
    version, trace, span, flags = got.data["traceparent"].split("-")
    assert (version, trace, flags) == ("00", "a" * 32, "01")
    assert span not in ("b" * 16, "0" * 16)  # the span of this service
    assert 0 < int(got.data["x-deadline-ms"]) <= 900


async def test_more_requests_at_once_than_the_limit_are_turned_away(ask: Any) -> None:
    app = service(limit=1)
    first = asyncio.create_task(ask(app, "GET", "/slow"))
    await asyncio.sleep(0)
    got = await ask(app, "GET", "/told")
    assert (got.status, got.headers["retry-after"]) == (503, "1")
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    assert (await ask(app, "GET", "/told")).status == 200


async def test_readiness_follows_the_check_and_the_end(ask: Any) -> None:
    away = [True, False, True]

    async def check() -> None:
        if away.pop(0):
            raise Unavailable("database", "no answer")

    app = service(ready=check)
    assert [(await ask(app, "GET", "/readyz")).status for _ in range(2)] == [503, 200]
    lasting = service(ready=once(check))
    away[:] = [True, False, True]
    assert [(await ask(lasting, "GET", "/readyz")).status for _ in range(3)] == [503, 200, 200]
    lasting.draining = True
    assert (await ask(lasting, "GET", "/readyz")).status == 503
    assert (await ask(lasting, "GET", "/healthz")).status == 200


PROGRAM = """
import asyncio
from marketlib import worker
from marketlib.app import JSONResponse, Route
from marketlib.logs import log

async def slow(request):
    log.info("working")
    await asyncio.sleep(1)
    return JSONResponse({"done": True})

async def loop(stop):
    await stop.wait()
    await asyncio.sleep(0.2)
    log.info("piece finished")

worker.run({"pieces": loop}, service="drain", version="1", routes=[Route("/slow", slow)])
"""


async def read_until(stream: asyncio.StreamReader, message: str) -> list[dict[str, Any]]:
    lines = []
    async with asyncio.timeout(20):
        async for line in stream:
            lines.append(json.loads(line))
            if lines[-1]["msg"] == message:
                return lines
    raise AssertionError(f"it ended without {message!r}: {lines}")


async def test_a_process_told_to_end_finishes_what_it_has(tmp_path: Path, unused_tcp_port: int) -> None:
    (tmp_path / "main.py").write_text(PROGRAM)
    env = {**os.environ, "PYTHONPATH": str(LIB), "PORT": str(unused_tcp_port)}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "main.py", cwd=tmp_path, env=env, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout
        await read_until(process.stdout, "started")
        for _ in range(100):  # the port opens right after
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", unused_tcp_port)
                break
            except ConnectionRefusedError:
                await asyncio.sleep(0.02)
        writer.write(b"GET /slow HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        await read_until(process.stdout, "working")
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(10):
            answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        assert answer.startswith(b"HTTP/1.1 200")
        lines = await read_until(process.stdout, "stopped")
        said = [line["msg"] for line in lines]
        assert said.index("request") < said.index("piece finished") < said.index("stopped")
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest.fixture
def unused_tcp_port() -> int:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])
