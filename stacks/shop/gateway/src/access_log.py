"""Metrics and traces of the gateway, made from its access log.

nginx sends each line as a datagram to a socket in a folder that both containers share. A lost datagram is a
request that is not counted; the requests themselves never wait.
"""

import asyncio
import contextlib
import json
import os
import socket
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from marketlib import metrics, tracing
from marketlib.app import serve
from marketlib.logs import log
from marketlib.metrics import Counter, Gauge
from marketlib.settings import Settings

VERSION = "1.3.0"
settings = Settings.load("gateway-exporter")

unread = Counter("access_log_lines_unread", "Lines that are not what was expected.")
upstream_failures = Counter("gateway_upstream_failures", "Requests that no service answered.", ["route", "status"])
limited = Counter("gateway_limited_requests", "Requests turned away by the rate limits.", ["route"])
connections = Gauge("nginx_connections", "Connections of clients.", ["state"])
reachable = Gauge("nginx_up", "Whether nginx answered when it was last asked.")


def take(line: str) -> None:
    """Count a line of the access log, and make the span of the request if it is traced."""
    try:
        entry = json.loads(line[line.index("{") :])
        route, method, status = entry["route"], entry["method"], str(entry["status"])
        seconds = float(entry["seconds"])
    except (ValueError, KeyError, TypeError):
        unread.inc()
        return
    metrics.requests.labels("gateway", route, method, status).inc()
    metrics.durations.labels("gateway", route, method).observe(seconds)
    if status == "429":
        limited.labels(route).inc()
    if status in ("502", "504") and entry.get("upstream_status", "") in ("", "-", status):
        upstream_failures.labels(route, status).inc()
    if entry.get("sampled") == "01":
        tracing.exporter.add(span_of(entry, seconds))


def span_of(entry: dict[str, Any], seconds: float) -> tracing.Span:
    """The span that nginx told the services to be their parent."""
    end = time.time_ns()
    status = int(entry["status"])
    return tracing.Span(
        name=f"{entry['method']} {entry['route']}",
        kind="server",
        trace_id=entry["trace_id"],
        span_id=entry["trace_id"][:16],
        parent="",
        begin=end - int(seconds * 1e9),
        attributes={
            "http.request.method": entry["method"],
            "url.path": entry.get("path", ""),
            "http.response.status_code": status,
            "client.address": entry.get("client", ""),
        },
        end=end,
        error=f"HTTP {status}" if status >= 500 else "",
    )


class Lines(asyncio.DatagramProtocol):
    def datagram_received(self, data: bytes, addr: Any) -> None:
        take(data.decode("utf-8", "replace"))


def states(text: str) -> dict[str, int]:
    """The figures of nginx's status page.

    >>> states("Active connections: 3 \\nserver accepts handled requests\\n 7 7 9 \\nReading: 0 Writing: 1 Waiting: 2 ")
    {'active': 3, 'reading': 0, 'writing': 1, 'waiting': 2}
    """
    words = text.split()
    last = dict(zip(words[-6::2], words[-5::2], strict=True))
    found = {"active": int(words[2])}
    return found | {name.rstrip(":").lower(): int(value) for name, value in last.items()}


async def status_page(port: int) -> str:
    async with asyncio.timeout(2):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /status HTTP/1.0\r\n\r\n")
        answer = await reader.read()
        writer.close()
    return answer.decode().partition("\r\n\r\n")[2]


async def watch_connections(port: int) -> None:
    while True:
        try:
            for state, count in states(await status_page(port)).items():
                connections.labels(state).set(count)
            reachable.set(1)
        except (OSError, TimeoutError, ValueError, IndexError):
            reachable.set(0)
        await asyncio.sleep(5)


@contextlib.asynccontextmanager
async def lifespan(app: Any) -> AsyncIterator[None]:
    path = Path(settings.str("ACCESS_SOCKET", "/run/gateway/access.sock"))
    path.unlink(missing_ok=True)
    tracing.exporter.describe("gateway", os.environ.get("GATEWAY_VERSION", VERSION))
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
        Lines, local_addr=str(path), family=socket.AF_UNIX
    )
    watching = asyncio.create_task(watch_connections(settings.int("STATUS_PORT", 8081)))
    log.info("reading the access log", extra={"socket": str(path)})
    try:
        yield
    finally:
        watching.cancel()
        transport.close()
        path.unlink(missing_ok=True)


if __name__ == "__main__":
    serve([], service="gateway-exporter", version=VERSION, lifespan=lifespan, settings=settings)
