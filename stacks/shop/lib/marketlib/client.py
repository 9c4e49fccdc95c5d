"""Calling another service over HTTP.

    inventory = Client("http://inventory:8000", "inventory", timeout=1.0, retries=1)
    answer = await inventory.get("/stock/7")

An Answer has a status below 500. All else is Unavailable: no connection, no answer in time, 5xx, a circuit
that is open. Calls that may be repeated are, after a random pause, as far as the retry budget and the
deadline of the request under way allow.
"""

import asyncio
import json
import random
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import httpcore

from marketlib import context, tracing
from marketlib.breaker import Breaker, Budget
from marketlib.errors import Unavailable
from marketlib.logs import log
from marketlib.metrics import BUCKETS, Counter, Gauge, Histogram

__all__ = ["Answer", "Client", "Unavailable"]

NOT_SENT = (httpcore.ConnectError, httpcore.ConnectTimeout, httpcore.PoolTimeout)
FAILED = (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError)
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
CONNECT_SECONDS = 1.0
IDLE_SECONDS = 60.0  # less than servers wait for the next request

requests = Counter("http_client_requests", "Calls of other services.", ["target", "status"])
durations = Histogram("http_client_duration_seconds", "Time of a call, each try alone.", ["target"], buckets=BUCKETS)
retried = Counter("http_client_retries", "Calls made again.", ["target"])
refused = Counter("http_client_retries_refused", "Calls not made again for want of budget.", ["target"])
circuit = Gauge("circuit_state", "0 closed, 1 half open, 2 open.", ["target"])


@dataclass(frozen=True, slots=True)
class Answer:
    """`data` is what the JSON body holds, or the body's text if it is none. Header names are in small letters."""

    status: int
    data: Any
    headers: Mapping[str, str]

    @property
    def ok(self) -> bool:
        return self.status < 400


class Client:
    """A keep-alive pool of connections to one service, with its own breaker and budget.

    Args:
        base_url: scheme, host and port; a path is put before all others.
        name: of the target, in metrics and errors.
        timeout: seconds for a try; less where the request's deadline is nearer.
        retries: how often a call that may be repeated is made again.
        budget: shares a retry budget between clients; 10 % of the calls otherwise.
        connections: most connections; calls beyond them wait within their time.
        ca_file: certificate authorities to trust (PEM) instead of the system's.
    """

    def __init__(
        self,
        base_url: str,
        name: str,
        timeout: float = 2.0,
        retries: int = 1,
        budget: Budget | None = None,
        *,
        breaker: Breaker | None = None,
        connections: int = 20,
        headers: Mapping[str, str] | None = None,
        ca_file: str | Path | None = None,
    ) -> None:
        self.base_url = base_url.rstrip("/")
        self.name = name
        self.timeout = timeout
        self.retries = retries
        self.budget = budget or Budget()
        self.breaker = breaker or Breaker()
        self._headers = dict(headers or {})
        self._connections = connections
        self._tls = ssl.create_default_context(cafile=str(ca_file)) if ca_file else None
        self._pool: httpcore.AsyncConnectionPool | None = None
        circuit.labels(name).set_function(lambda: self.breaker.state)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        if self._pool:
            await self._pool.aclose()
            self._pool = None

    async def get(self, path: str, **options: Any) -> Answer:
        return await self.call("GET", path, idempotent=True, **options)

    async def delete(self, path: str, **options: Any) -> Answer:
        return await self.call("DELETE", path, idempotent=True, **options)

    async def put(self, path: str, data: Any = None, **options: Any) -> Answer:
        return await self.call("PUT", path, data, idempotent=True, **options)

    async def post(self, path: str, data: Any = None, *, idempotent: bool = False, **options: Any) -> Answer:
        """`idempotent`: whether the target takes the same call twice for one."""
        return await self.call("POST", path, data, idempotent=idempotent, **options)

    async def call(
        self,
        method: str,
        path: str,
        data: Any = None,
        *,
        idempotent: bool,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Answer:
        """One call, with its retries.

        Args:
            data: sent as JSON, unless it is bytes.
            timeout: seconds for a try, instead of the client's.
        """
        self.budget.called()
        attempt = 0
        while True:
            try:
                return await self._once(method, path, data, headers or {}, timeout or self.timeout)
            except Unavailable as error:
                again = attempt < self.retries and (idempotent or not error.sent) and error.why != "circuit open"
                if not again:
                    raise
                pause = random.uniform(0, min(LONGEST_PAUSE, FIRST_PAUSE * 2**attempt))
                left = context.remaining()
                if left is not None and left <= pause:
                    raise
                if not self.budget.take():
                    refused.labels(self.name).inc()
                    raise
                retried.labels(self.name).inc()
                attempt += 1
                log.info("trying again", extra={"target": self.name, "path": path, "reason": error.why})
                await asyncio.sleep(pause)

    async def _once(self, method: str, path: str, data: Any, headers: Mapping[str, str], limit: float) -> Answer:
        left = context.remaining()
        if left is not None and left <= 0:
            raise Unavailable(self.name, "no time left for the call", sent=False)
        if not self.breaker.allows():
            requests.labels(self.name, "circuit_open").inc()
            raise Unavailable(self.name, "circuit open", sent=False)
        begin = time.perf_counter()
        noted = False
        seen = "cancelled"
        try:
            with tracing.span(f"{method} {self.name}", "client", **{"peer.service": self.name, "url.path": path}):
                status, answered, body = await self._send(
                    method, path, data, headers, limit if left is None else min(limit, left)
                )
            seen = str(status)
            self.breaker.note(status < 500)
            noted = True
        except FAILED as error:
            seen = "timeout" if isinstance(error, httpcore.TimeoutException) else "connection"
            self.breaker.note(False)
            noted = True
            why = f"{type(error).__name__}{f': {error}' if str(error) else f' after {limit:g} s'}"
            raise Unavailable(self.name, why, sent=not isinstance(error, NOT_SENT)) from error
        finally:
            if not noted:
                self.breaker.forget()
            requests.labels(self.name, seen).inc()
            durations.labels(self.name).observe(time.perf_counter() - begin)
        if status >= 500:
            raise Unavailable(self.name, f"answered {status}", status=status)
        return Answer(status, decoded(body, answered.get("content-type", "")), answered)

    async def _send(
        self, method: str, path: str, data: Any, headers: Mapping[str, str], limit: float
    ) -> tuple[int, dict[str, str], bytes]:
        if self._pool is None:
            self._pool = httpcore.AsyncConnectionPool(
                ssl_context=self._tls, max_connections=self._connections, keepalive_expiry=IDLE_SECONDS
            )
        sent = {"accept": "application/json", **self._headers, **context.headers(), **headers}
        if "x-deadline-ms" not in sent or int(sent["x-deadline-ms"]) > limit * 1000:
            sent["x-deadline-ms"] = str(int(limit * 1000))  # nobody reads an answer that comes later
        content = data if isinstance(data, bytes) or data is None else json.dumps(data, separators=(",", ":")).encode()
        if content is not None:
            sent.setdefault("content-type", "application/json")
        times = {"connect": min(CONNECT_SECONDS, limit), "read": limit, "write": limit, "pool": limit}
        try:
            async with asyncio.timeout(limit):
                answer = await self._pool.request(
                    method, self.base_url + path, headers=sent, content=content, extensions={"timeout": times}
                )
        except TimeoutError:
            raise httpcore.ReadTimeout(f"no whole answer within {limit:g} s") from None
        answered = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in answer.headers}
        return answer.status, answered, answer.content


def decoded(body: bytes, kind: str) -> Any:
    if kind.startswith("application/json"):
        try:
            return json.loads(body) if body else None
        except ValueError:
            pass
    return body.decode("utf-8", "replace")
