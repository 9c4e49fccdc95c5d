"""Telling partners about their orders. Signed, so that they know who speaks; each event has an id to take it once."""

import asyncio
import hashlib
import hmac
from collections.abc import Mapping
from typing import Any, Self
from urllib.parse import urlsplit

import outgoing
from mails import pause_of
from marketlib.client import Client
from marketlib.db import Database
from marketlib.errors import Unavailable
from marketlib.logs import log
from marketlib.metrics import Counter, Gauge
from release import HOOK_ATTEMPTS

BATCH, TOGETHER = 20, 4

results = Counter("notify_hooks", "Webhooks by what became of an attempt.", ["result"])
waiting = Gauge("notify_hooks_waiting", "Webhooks that are not delivered yet.")


def signature(secret: str, body: bytes) -> str:
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


class Hooks:
    def __init__(self, database: Database, *, timeout: float) -> None:
        self._database = database
        self._timeout = timeout
        self._clients: dict[str, Client] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for client in self._clients.values():
            await client.close()

    def _client(self, base: str) -> Client:
        if base not in self._clients:
            self._clients[base] = Client(base, "partner-hooks", timeout=self._timeout, retries=0)
        return self._clients[base]

    async def look(self) -> None:
        """Deliver what is due."""
        async with self._database.transaction() as connection:
            rows = await outgoing.due_hooks(connection, BATCH)
            waiting.set(await connection.fetchval("select count(*) from notify.hooks where status = 'queued'"))
        gate = asyncio.Semaphore(TOGETHER)
        await asyncio.gather(*(self._deliver(row, gate) for row in rows))

    async def _deliver(self, row: Mapping[str, Any], gate: asyncio.Semaphore) -> None:
        async with gate:
            error = await self._posted(row)
        status = "sent" if not error else "failed" if row["attempts"] >= HOOK_ATTEMPTS else "queued"
        results.labels("again" if status == "queued" else status).inc()
        if error:
            about = {"order": str(row["order_id"]), "seller": row["seller"], "attempt": row["attempts"]}
            log.warning("webhook not delivered", extra={**about, "reason": error})
        pause = pause_of(row["attempts"]) if status == "queued" else 0
        async with self._database.transaction() as connection:
            await outgoing.note_hook(connection, row["order_id"], row["event"], row["seller"], status, error, pause)

    async def _posted(self, row: Mapping[str, Any]) -> str:
        """What was wrong; nothing if the partner took it."""
        url = urlsplit(row["url"])
        body = row["payload"].encode()
        headers = {
            "X-Event-Id": f"{row['order_id']}.{row['event']}.{row['seller']}",
            "X-Signature": signature(row["secret"], body),
        }
        try:
            answer = await self._client(f"{url.scheme}://{url.netloc}").post(url.path or "/", body, headers=headers)
        except Unavailable as error:
            return str(error)
        return "" if answer.ok else f"answered {answer.status}"
