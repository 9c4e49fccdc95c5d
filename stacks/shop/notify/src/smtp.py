"""Handing a mail to a relay: the few commands of RFC 5321 that it takes."""

import asyncio

__all__ = ["Refused", "SmtpError", "send"]


class SmtpError(Exception):
    """The relay did not take the mail, or did not say so. It may be tried again."""


class Refused(SmtpError):
    """The relay will not take this mail, now or later (5xx)."""


async def send(
    host: str, port: int, sender: str, to: str, message: str, *, timeout: float, verdict: float, name: str
) -> None:
    """Hand over one mail; returns once the relay has said that it takes it.

    Args:
        message: headers and body, lines ended by a line feed.
        timeout: seconds for all up to the mail itself.
        verdict: seconds in which the relay has to say whether it takes the mail. Longer, for who gives up here
            does not know, and sends it twice (RFC 5321, 4.5.3.2.6).
        name: how this host introduces itself.
    """
    try:
        async with asyncio.timeout(timeout) as limit:
            reader, writer = await asyncio.open_connection(host, port)
            try:
                await _expect(reader, "220")
                await _say(reader, writer, f"EHLO {name}", "250")
                await _say(reader, writer, f"MAIL FROM:<{sender}>", "250")
                await _say(reader, writer, f"RCPT TO:<{to}>", "25")
                await _say(reader, writer, "DATA", "354")
                lines = message.replace("\r\n", "\n").split("\n")
                body = "\r\n".join("." + line if line.startswith(".") else line for line in lines)
                limit.reschedule(asyncio.get_running_loop().time() + verdict)
                await _say(reader, writer, body.rstrip("\r\n") + "\r\n.", "250")
                writer.write(b"QUIT\r\n")  # its answer changes nothing any more
                await writer.drain()
            finally:
                writer.close()
    except TimeoutError:
        raise SmtpError("no answer in time") from None
    except OSError as error:
        raise SmtpError(f"{type(error).__name__}: {error}") from error


async def _say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, line: str, expected: str) -> None:
    writer.write(line.encode() + b"\r\n")
    await writer.drain()
    await _expect(reader, expected)


async def _expect(reader: asyncio.StreamReader, expected: str) -> None:
    """Read a reply, which may have several lines."""
    while True:
        line = (await reader.readline()).decode("latin-1")
        if not line:
            raise SmtpError("the relay closed the connection")
        if line[3:4] != "-":
            break
    if not line.startswith(expected):
        raise (Refused if line.startswith("5") else SmtpError)(f"the relay answered {line.strip()}")
