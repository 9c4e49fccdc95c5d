"""The payment provider: charges cards, once for each idempotency key, and keeps its own books."""

import asyncio
import secrets
import time
from pathlib import Path
from typing import Any

from aftershock.base.record import read_lines
from aftershock.workload.journal import Journal
from aftershock.workload.parties.behaviour import Moods
from aftershock.workload.parties.http import Gone, HttpParty, Request

__all__ = ["PaymentProvider"]

NEVER = 3600.0


class PaymentProvider(HttpParty):
    """`POST /v1/charges` and `/v1/refunds` with an Idempotency-Key, `GET /v1/charges?reference=`.

    Moods: `decline` (402), `fail` (500, nothing done), `hang` (no answer, nothing done), `fail-after` and
    `hang-after` (the same after having charged), `drop-after` (charged, then the connection breaks).
    Without `keys` it honours no idempotency key: each request is a charge of its own.
    """

    port = 80
    moods = ("decline", "fail", "hang", "fail-after", "hang-after", "drop-after")

    def __init__(self, ledger: Path) -> None:
        super().__init__(self._serve)
        self.told = Moods("payments", self.moods)
        self._by_key: dict[str, dict[str, Any]] = {}
        self._by_reference: dict[str, list[dict[str, Any]]] = {}
        for line in read_lines(ledger):
            self._enter(line)
        self._ledger = Journal(ledger)

    def _enter(self, line: dict[str, Any]) -> None:
        if line.get("key"):
            self._by_key[line["key"]] = line
        self._by_reference.setdefault(line.get("reference", ""), []).append(line)

    async def _serve(self, request: Request) -> tuple[int, Any]:
        if self.told.now.delay:
            await asyncio.sleep(self.told.now.delay)
        if request.path == "/healthz":
            return 200, {"status": "ok"}
        if request.path not in ("/v1/charges", "/v1/refunds"):
            return 404, {"error": "no such resource"}
        kind = "charge" if request.path == "/v1/charges" else "refund"
        if request.method == "GET":
            found = self._by_reference.get(request.query.get("reference", ""), [])
            shown = [_shown(line) for line in found if line["kind"] == kind]
            return 200, {"data": shown, "charges": shown}
        data = request.data
        if request.method != "POST" or not isinstance(data, dict) or not isinstance(data.get("amount"), int):
            return 400, {"error": "an amount in cents and a reference are needed"}
        return await self._book(kind, data, request.headers.get("idempotency-key", ""))

    async def _book(self, kind: str, data: dict[str, Any], key: str) -> tuple[int, Any]:
        mood = self.told.meet()
        if mood == "fail":
            return 500, {"error": "internal error"}
        if mood == "hang":
            await asyncio.sleep(NEVER)
            raise Gone
        known = self._by_key.get(f"{kind} {key}") if key and self.told.now.keys else None
        if known is None:
            status = "declined" if mood == "decline" else "captured" if kind == "charge" else "refunded"
            known = {
                "id": f"{kind[:2]}_{secrets.token_hex(10)}",
                "kind": kind,
                "status": status,
                "reference": str(data.get("reference", "")),
                "amount": data["amount"],
                "key": f"{kind} {key}" if key else "",
                "at": time.time(),
            }
            self._ledger.write(known)
            self._enter(known)
        if mood == "fail-after":
            return 500, {"error": "internal error"}
        if mood == "hang-after":
            await asyncio.sleep(NEVER)
        if mood in ("hang-after", "drop-after"):
            raise Gone
        return 402 if known["status"] == "declined" else 201, _shown(known)


def _shown(line: dict[str, Any]) -> dict[str, Any]:
    return {key: line[key] for key in ("id", "status", "reference", "amount")}
