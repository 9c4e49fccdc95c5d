"""The mail relay: takes mail by SMTP and writes down what it took."""

import asyncio
import re
import time
from email.parser import BytesHeaderParser
from pathlib import Path

from aftershock.workload.journal import Journal
from aftershock.workload.parties.behaviour import Moods
from aftershock.workload.parties.server import Server

__all__ = ["MailRelay"]

NEVER = 3600.0


class MailRelay(Server):
    """SMTP (RFC 5321) as far as a client needs it. A mail is in the ledger before it is acknowledged.

    Moods: `refuse` (451: try again later), `reject` (550), `hang` (no answer to the mail, nothing taken),
    `drop-after` (the mail is taken, then the connection breaks without a word).
    """

    port = 25
    moods = ("refuse", "reject", "hang", "drop-after")

    def __init__(self, ledger: Path) -> None:
        super().__init__()
        self.told = Moods("mail", self.moods)
        self._ledger = Journal(ledger)

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def say(text: str) -> None:
            writer.write(text.encode() + b"\r\n")
            await writer.drain()

        await say("220 mail-relay.example ESMTP")
        sender, recipients = "", list[str]()
        while line := (await reader.readline()).decode("latin-1").rstrip("\r\n"):
            verb = line[:4].upper()
            if verb == "QUIT":
                await say("221 2.0.0 bye")
                return
            if verb == "EHLO":
                await say("250-mail-relay.example\r\n250-SIZE 4194304\r\n250 8BITMIME")
            elif verb in ("HELO", "NOOP"):
                await say("250 2.0.0 ok")
            elif verb == "RSET":
                sender, recipients = "", []
                await say("250 2.0.0 ok")
            elif verb == "MAIL":
                sender, recipients = _address(line), []
                await say("250 2.1.0 ok")
            elif verb == "RCPT":
                recipients.append(_address(line))
                await say("250 2.1.5 ok")
            elif verb == "DATA" and recipients:
                await say("354 end with a dot")
                if not await self._take(reader, sender, recipients, say):
                    return
                sender, recipients = "", []
            else:
                await say("503 5.5.1 not now" if verb == "DATA" else "502 5.5.2 what?")

    async def _take(self, reader: asyncio.StreamReader, sender: str, recipients: list[str], say: object) -> bool:
        """Read one mail and answer; False when the connection is to be broken off."""
        assert callable(say)
        data = (await reader.readuntil(b"\r\n.\r\n"))[:-3]
        if self.told.now.delay:
            await asyncio.sleep(self.told.now.delay)
        mood = self.told.meet()
        if mood == "refuse":
            await say("451 4.3.0 try again later")
            return True
        if mood == "reject":
            await say("550 5.7.1 not accepted")
            return True
        if mood == "hang":
            await asyncio.sleep(NEVER)
            return False
        head = BytesHeaderParser().parsebytes(data)
        self._ledger.write(
            {
                "at": time.time(),
                "from": sender,
                "to": recipients,
                "message_id": str(head.get("Message-ID", "")).strip("<> "),
                "subject": str(head.get("Subject", "")),
                "size": len(data),
            }
        )
        if mood == "drop-after":
            return False
        await say("250 2.0.0 taken")
        return True


def _address(line: str) -> str:
    found = re.search(r"<([^>]*)>", line)
    return found[1] if found else line.partition(":")[2].strip()
