"""Signed tokens: `kid.payload.signature`, by HMAC-SHA256 with one of several keys.

The keys are files, /etc/market/token-keys/<kid>, from a Secret. The newest (the last by name) signs, all
verify: so keys are changed without signing anybody out. The folder is read again every few seconds.
"""

import base64
import binascii
import hashlib
import hmac
import json
import os
import time
from pathlib import Path
from typing import Any

from starlette.requests import Request

from marketlib.errors import HttpError, Unavailable

__all__ = ["Keys", "customer_of", "keys"]

FOLDER = Path(os.environ.get("TOKEN_KEYS", "/etc/market/token-keys"))
READ_EVERY = 5.0


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


class Keys:
    """The signing keys in a folder."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self.folder = folder
        self._keys: dict[str, bytes] = {}
        self._read_at = -READ_EVERY

    def _current(self) -> dict[str, bytes]:
        if time.monotonic() - self._read_at >= READ_EVERY:
            try:
                found = {p.name: p.read_bytes().strip() for p in self.folder.iterdir() if p.name[0] != "."}
            except OSError:
                found = {}
            self._keys = {name: key for name, key in found.items() if key} or self._keys
            self._read_at = time.monotonic()
        if not self._keys:
            raise Unavailable("token keys", f"no key in {self.folder}", sent=False)
        return self._keys

    def check(self) -> None:
        """Raise Unavailable if there is no key."""
        self._current()

    def sign(self, claims: dict[str, Any], seconds: float) -> str:
        """A token that holds for so many seconds."""
        known = self._current()
        kid = max(known)
        body = encoded(json.dumps({**claims, "exp": int(time.time() + seconds)}, separators=(",", ":")).encode())
        return f"{kid}.{body}.{self._signature(known[kid], kid, body)}"

    def verify(self, token: str) -> dict[str, Any]:
        """The claims of a token; HttpError 401 if it is not ours, or too old."""
        kid, _, rest = token.partition(".")
        body, _, signature = rest.partition(".")
        key = self._current().get(kid)
        if not key or not hmac.compare_digest(signature.encode(), self._signature(key, kid, body).encode()):
            raise HttpError(401, "the token is not valid")
        try:
            claims: dict[str, Any] = json.loads(decoded(body))
        except (ValueError, binascii.Error):
            raise HttpError(401, "the token is not valid") from None
        if claims.get("exp", 0) < time.time():
            raise HttpError(401, "the token has expired")
        return claims

    @staticmethod
    def _signature(key: bytes, kid: str, body: str) -> str:
        return encoded(hmac.new(key, f"{kid}.{body}".encode(), hashlib.sha256).digest())


keys = Keys()


def customer_of(request: Request) -> int:
    """The customer whose token the request carries; HttpError 401 without a valid one."""
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    if kind.lower() != "bearer" or not token:
        raise HttpError(401, "a bearer token is required")
    return int(keys.verify(token.strip())["customer"])
