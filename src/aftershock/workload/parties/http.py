"""A small HTTP/1.1 server over asyncio's streams: JSON in, JSON out, connections kept alive.

It reads what is sent to the end before it answers, as the parties behind it do. A handler that raises
`Gone` breaks the connection off without an answer.
"""

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from aftershock.workload.parties.server import LARGEST, Gone, Server

__all__ = ["Gone", "HttpParty", "Request"]

REASONS = {
    200: "OK", 201: "Created", 202: "Accepted", 400: "Bad Request", 402: "Payment Required", 404: "Not Found",
    409: "Conflict", 500: "Internal Server Error", 503: "Service Unavailable",
}  # fmt: skip


@dataclass(frozen=True)
class Request:
    """A request, read to its end. Header names are in lower case; `data` is None where it is no JSON."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    data: Any


Handler = Callable[[Request], Awaitable[tuple[int, Any]]]


class HttpParty(Server):
    """A server that gives each request to `handle`."""

    def __init__(self, handle: Handler) -> None:
        super().__init__()
        self._handle = handle

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (request := await _read(reader)) is not None:
            status, data = await self._handle(request)
            body = json.dumps(data).encode()
            writer.write(
                f"HTTP/1.1 {status} {REASONS.get(status, 'Unknown')}\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\n\r\n".encode()
                + body
            )
            await writer.drain()
            if request.headers.get("connection", "").lower() == "close":
                break


async def _read(reader: asyncio.StreamReader) -> Request | None:
    """The next request; None when the other side has closed."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    method, target, _ = first.split(" ", 2)
    headers = {key.strip().lower(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    if headers.get("transfer-encoding", "").lower() == "chunked":
        body = await _chunks(reader)
    else:
        body = await reader.readexactly(min(int(headers.get("content-length") or 0), LARGEST))
    data = None
    if body:
        with contextlib.suppress(ValueError):
            data = json.loads(body)
    parts = urlsplit(target)
    return Request(method, parts.path, dict(parse_qsl(parts.query)), headers, data)


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while size := int((await reader.readline()).split(b";")[0] or b"0", 16):
        body += await reader.readexactly(min(size, LARGEST))
        await reader.readline()
    await reader.readline()
    return body
