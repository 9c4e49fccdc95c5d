"""Sending the mails that wait.

A relay that takes a mail and drops the connection before it says so leaves open whether it has it. Such a mail is
sent again under the same Message-ID: one that the relay has already it throws away by that, one that it has not
must not be lost.
"""

import asyncio
import json
import random
from collections.abc import Mapping
from email.utils import formatdate
from typing import Any

import outgoing
import smtp
from marketlib.db import Database
from marketlib.logs import log
from marketlib.metrics import Counter, Gauge
from release import LONGEST_PAUSE, MOST_ATTEMPTS, text_of

TOGETHER = 4  # mails under way at once
SENDER = "orders@market.example"

results = Counter("notify_mails", "Mails by what became of an attempt.", ["event", "result"])
waiting = Gauge("notify_mails_waiting", "Mails that are not sent yet.")


def message_of(row: Mapping[str, Any]) -> str:
    """The whole mail. Its Message-ID is the same however often it is sent."""
    subject, body = text_of(row["event"], json.loads(row["details"]))
    headers = {
        "From": f"Market <{SENDER}>",
        "To": f"{row['name']} <{row['email']}>",
        "Subject": subject,
        "Message-ID": f"<{row['order_id']}.{row['event']}@market.example>",
        "Date": formatdate(),
        "MIME-Version": "1.0",
        "Content-Type": "text/plain; charset=utf-8",
    }
    head = "\n".join(f"{name}: {value}" for name, value in headers.items())
    return f"{head}\n\nHello {row['name']},\n\n{body}\n\nYour Market\n"


def pause_of(attempts: int) -> float:
    """Seconds until the next attempt: doubled each time, and not all at the same moment."""
    return random.uniform(0.5, 1.0) * min(LONGEST_PAUSE, 2.0 ** min(attempts, 12))


class Mails:
    def __init__(self, database: Database, *, host: str, port: int, timeout: float, verdict: float) -> None:
        self._database = database
        self._host = host
        self._port = port
        self._timeout = timeout
        self._verdict = verdict

    async def look(self) -> None:
        """Send what is due, until nothing is."""
        rows: list[Any] = []
        while not rows or len(rows) == TOGETHER:
            async with self._database.transaction() as connection:
                rows = list(await outgoing.due_mails(connection, TOGETHER))
                waiting.set(await connection.fetchval("select count(*) from notify.sent where status = 'queued'"))
            if not rows:
                return
            await asyncio.gather(*(self._send(row) for row in rows))

    async def _send(self, row: Mapping[str, Any]) -> None:
        status, error = await self._sent(row)
        pause = pause_of(row["attempts"]) if status == "queued" else 0
        result = "again" if status == "queued" else status
        results.labels(row["event"], result).inc()
        if error:
            about = {"order": str(row["order_id"]), "event": row["event"], "attempt": row["attempts"], "reason": error}
            (log.error if status == "failed" else log.warning)("mail not sent", extra=about)
        async with self._database.transaction() as connection:
            await outgoing.note_mail(connection, row["order_id"], row["event"], status, error, pause)

    async def _sent(self, row: Mapping[str, Any]) -> tuple[str, str]:
        """The mail's next status, and what was wrong."""
        if not row["email"]:
            return "failed", f"no customer {row['customer']}"
        try:
            await smtp.send(
                self._host,
                self._port,
                SENDER,
                row["email"],
                message_of(row),
                timeout=self._timeout,
                verdict=self._verdict,
                name="notify.market.example",
            )
        except smtp.Refused as error:
            return "failed", str(error)
        except smtp.SmtpError as error:
            return ("failed" if row["attempts"] >= MOST_ATTEMPTS else "queued"), str(error)
        return "sent", ""
