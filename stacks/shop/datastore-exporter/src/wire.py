"""PostgreSQL's protocol, as far as asking simple questions needs it.

The usual drivers prepare their statements, which PgBouncer's console does not do; and this one costs a
few kilobytes. Values come as text.
"""

import asyncio
import base64
import hashlib
import hmac
import secrets
import struct
from typing import Self

__all__ = ["Connection", "Failed"]

Row = dict[str, str | None]


class Failed(Exception):
    """The server refused, or what it said is not the protocol."""


class Connection:
    """A connection; make it with `connect`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def connect(cls, host: str, port: int, user: str, password: str, database: str, name: str) -> Self:
        """Connect and authenticate. Raises Failed, OSError."""
        self = cls(*await asyncio.open_connection(host, port))
        try:
            pairs = {"user": user, "database": database, "application_name": name}
            body = struct.pack("!i", 196608) + b"".join(f"{k}\0{v}\0".encode() for k, v in pairs.items()) + b"\0"
            self._writer.write(struct.pack("!i", len(body) + 4) + body)
            await self._authenticate(user, password)
            while (await self._read())[0] != b"Z":
                pass
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        self._writer.close()

    def _send(self, kind: bytes, body: bytes) -> None:
        self._writer.write(kind + struct.pack("!i", len(body) + 4) + body)

    async def _read(self) -> tuple[bytes, bytes]:
        try:
            kind = await self._reader.readexactly(1)
            (size,) = struct.unpack("!i", await self._reader.readexactly(4))
            body = await self._reader.readexactly(size - 4)
        except asyncio.IncompleteReadError as error:
            raise Failed("the server closed the connection") from error
        if kind == b"E":
            fields = {part[:1]: part[1:].decode(errors="replace") for part in body.split(b"\0") if part}
            raise Failed(f"{fields.get(b'C', '')} {fields.get(b'M', 'error')}".strip())
        return kind, body

    async def _authenticate(self, user: str, password: str) -> None:
        code, rest = await self._request()
        if code == 0:
            return
        if code != 10 or b"SCRAM-SHA-256" not in rest.split(b"\0"):
            raise Failed(f"the server asks for a way of authentication ({code}) that is not spoken here")
        nonce = base64.b64encode(secrets.token_bytes(18)).decode()
        bare = f"n=,r={nonce}"
        first = f"n,,{bare}".encode()
        self._send(b"p", b"SCRAM-SHA-256\0" + struct.pack("!i", len(first)) + first)
        code, rest = await self._request()
        challenge = rest.decode()
        said = dict(part.split("=", 1) for part in challenge.split(","))
        if code != 11 or not said["r"].startswith(nonce):
            raise Failed("the server's challenge is not an answer to ours")
        salted = hashlib.pbkdf2_hmac("sha256", password.encode(), base64.b64decode(said["s"]), int(said["i"]))
        signed = f"{bare},{challenge},c=biws,r={said['r']}".encode()
        client = hmac.digest(salted, b"Client Key", "sha256")
        mask = hmac.digest(hashlib.sha256(client).digest(), signed, "sha256")
        proof = base64.b64encode(bytes(a ^ b for a, b in zip(client, mask, strict=True))).decode()
        self._send(b"p", f"c=biws,r={said['r']},p={proof}".encode())
        code, rest = await self._request()
        server = hmac.digest(hmac.digest(salted, b"Server Key", "sha256"), signed, "sha256")
        if code != 12 or rest.decode() != f"v={base64.b64encode(server).decode()}":
            raise Failed("the server does not know the password itself")
        code, _ = await self._request()
        if code != 0:
            raise Failed(f"authentication ended with {code}")

    async def _request(self) -> tuple[int, bytes]:
        kind, body = await self._read()
        if kind != b"R":
            raise Failed(f"expected authentication, got {kind!r}")
        return struct.unpack("!i", body[:4])[0], body[4:]

    async def query(self, sql: str) -> list[Row]:
        """The rows of a query, as text by column name."""
        self._send(b"Q", sql.encode() + b"\0")
        columns: list[str] = []
        rows: list[Row] = []
        failure: Failed | None = None
        while True:
            try:
                kind, body = await self._read()
            except Failed as error:
                if failure or self._reader.at_eof():
                    raise
                failure = error  # the server says when it is ready again
                continue
            if kind == b"T":
                columns = self._columns(body)
            elif kind == b"D":
                rows.append(dict(zip(columns, self._values(body), strict=True)))
            elif kind == b"Z":
                if failure:
                    raise failure
                return rows

    @staticmethod
    def _columns(body: bytes) -> list[str]:
        (count,) = struct.unpack("!h", body[:2])
        at, names = 2, []
        for _ in range(count):
            end = body.index(b"\0", at)
            names.append(body[at:end].decode())
            at = end + 19
        return names

    @staticmethod
    def _values(body: bytes) -> list[str | None]:
        (count,) = struct.unpack("!h", body[:2])
        at, found = 2, list[str | None]()
        for _ in range(count):
            (size,) = struct.unpack("!i", body[at : at + 4])
            at += 4
            found.append(None if size < 0 else body[at : at + size].decode(errors="replace"))
            at += max(size, 0)
        return found
