"""Spans, sent as OTLP over HTTP in batches.

The caller decides whether a request is traced; the first one decides by chance (`TRACE_SAMPLE`).
A span that cannot be sent is dropped and counted: nothing waits for the trace store.
"""

import asyncio
import contextlib
import dataclasses
import json
import os
import random
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

from marketlib import context
from marketlib.metrics import Counter

__all__ = ["Exporter", "Span", "exporter", "sample", "span"]

KINDS = {"internal": 1, "server": 2, "client": 3, "producer": 4, "consumer": 5}
URL = os.environ.get("TRACES_URL", "http://traces.monitoring:4318/v1/traces")
SAMPLE = float(os.environ.get("TRACE_SAMPLE", "0.1"))

dropped = Counter("trace_spans_dropped", "Spans that were not sent.", ["reason"])
exported = Counter("trace_spans_exported", "Spans that the trace store took.")


def sample() -> bool:
    """Whether a request that nobody decided about is traced."""
    return random.random() < SAMPLE


@dataclasses.dataclass(slots=True)
class Span:
    """Times are nanoseconds of the wall clock."""

    name: str
    kind: str
    trace_id: str
    span_id: str
    parent: str
    begin: int
    attributes: dict[str, Any]
    end: int = 0
    error: str = ""

    def encoded(self) -> dict[str, Any]:
        about: dict[str, Any] = {
            "traceId": self.trace_id,
            "spanId": self.span_id,
            "name": self.name,
            "kind": KINDS[self.kind],
            "startTimeUnixNano": str(self.begin),
            "endTimeUnixNano": str(self.end),
            "attributes": attributes(self.attributes),
        }
        if self.parent:
            about["parentSpanId"] = self.parent
        if self.error:
            about["status"] = {"code": 2, "message": self.error}
        return about


def attributes(values: dict[str, Any]) -> list[dict[str, Any]]:
    found = []
    for key, value in values.items():
        kind = "boolValue" if isinstance(value, bool) else "intValue" if isinstance(value, int) else "stringValue"
        found.append({"key": key, "value": {kind: value if kind == "boolValue" else str(value)}})
    return found


class Exporter:
    """Keeps ended spans until the next batch; `room` spans at most."""

    def __init__(self, url: str = URL, *, room: int = 2000, every: float = 2.0) -> None:
        self.url = url
        self.every = every
        self.room = room
        self.resource: dict[str, Any] = {}
        self._ended: deque[Span] = deque()
        self._pool: Any = None

    def describe(self, service: str, version: str) -> None:
        """Say who sends."""
        pod = os.environ.get("HOSTNAME", "")
        self.resource = {"service.name": service, "service.version": version, "k8s.pod.name": pod}

    def add(self, ended: Span) -> None:
        if len(self._ended) >= self.room:
            dropped.labels("full").inc()
            return
        self._ended.append(ended)

    async def run(self) -> None:
        """Send until cancelled, then once more. Asks less often while the store does not answer."""
        pause = self.every
        try:
            while True:
                await asyncio.sleep(pause)
                good = await self.flush()
                pause = self.every if good else min(30.0, pause * 2)
        finally:
            with contextlib.suppress(TimeoutError, asyncio.CancelledError):
                await asyncio.wait_for(self.flush(), 0.5)

    async def flush(self) -> bool:
        """Send what there is, once; False if it was not taken."""
        if not self._ended:
            return True
        import httpcore  # a service that never traces does not pay for it

        batch = [self._ended.popleft() for _ in range(min(len(self._ended), 512))]
        body = {
            "resourceSpans": [{
                "resource": {"attributes": attributes(self.resource)},
                "scopeSpans": [{"scope": {"name": "marketlib"}, "spans": [one.encoded() for one in batch]}],
            }]
        }  # fmt: skip
        try:
            if self._pool is None:
                self._pool = httpcore.AsyncConnectionPool(max_connections=1, keepalive_expiry=30)
            limits = {"connect": 1.0, "read": 2.0, "write": 2.0, "pool": 1.0}
            answer = await self._pool.request(
                "POST",
                self.url,
                headers={"content-type": "application/json"},
                content=json.dumps(body, separators=(",", ":")).encode(),
                extensions={"timeout": limits},
            )
        except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError, OSError):
            dropped.labels("unreachable").inc(len(batch))
            return False
        if answer.status >= 300:
            dropped.labels("refused").inc(len(batch))
            return False
        exported.inc(len(batch))
        return True


exporter = Exporter()


@contextlib.contextmanager
def span(name: str, kind: str = "internal", **about: Any) -> Iterator[Span | None]:
    """A span around what is done inside; None, and nearly free, where the request is not traced."""
    now = context.current()
    if not now.trace_id:
        yield None
        return
    if not now.sampled:
        yield None
        return
    inner = Span(name, kind, now.trace_id, os.urandom(8).hex(), now.span_id, time.time_ns(), about)
    token = context.enter(dataclasses.replace(now, span_id=inner.span_id))
    try:
        yield inner
    except BaseException as error:
        inner.error = inner.error or f"{type(error).__name__}: {error}"
        raise
    finally:
        context.leave(token)
        inner.end = time.time_ns()
        exporter.add(inner)
