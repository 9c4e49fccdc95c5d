"""Whoever is told by HTTP: a seller's webhook, the on-call's pager. Each writes down what it was told."""

import asyncio
import time
from pathlib import Path
from typing import Any

from aftershock.workload.journal import Journal
from aftershock.workload.parties.behaviour import Moods
from aftershock.workload.parties.http import Gone, HttpParty, Request

__all__ = ["Pager", "PartnerHooks"]

NEVER = 3600.0


class Receiver(HttpParty):
    """Takes any POST. Moods: `fail` (500, nothing taken), `hang`, `fail-after`, `hang-after`, `drop-after`."""

    port = 80
    moods = ("fail", "hang", "fail-after", "hang-after", "drop-after")
    party = ""

    def __init__(self, ledger: Path) -> None:
        super().__init__(self._serve)
        self.told = Moods(self.party, self.moods)
        self._ledger = Journal(ledger)

    async def _serve(self, request: Request) -> tuple[int, Any]:
        if self.told.now.delay:
            await asyncio.sleep(self.told.now.delay)
        if request.method != "POST":
            return 200, {"status": "ok"}
        mood = self.told.meet()
        if mood == "fail":
            return 500, {"error": "internal error"}
        if mood != "hang":
            key = request.headers.get("idempotency-key", "")
            self._ledger.write({"at": time.time(), "path": request.path, "key": key, "body": request.data})
        if mood == "fail-after":
            return 500, {"error": "internal error"}
        if mood in ("hang", "hang-after"):
            await asyncio.sleep(NEVER)
        if mood != "well":
            raise Gone
        return 200, {"status": "ok"}


class PartnerHooks(Receiver):
    party = "hooks"


class Pager(Receiver):
    party = "pager"
