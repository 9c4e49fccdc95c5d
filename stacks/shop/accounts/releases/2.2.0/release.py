"""Accounts as of release 2.2.0."""

import time
from collections import OrderedDict

from marketlib.errors import HttpError
from marketlib.metrics import Counter
from marketlib.settings import Settings

VERSION = "2.2.0"
SHORTEST = 6
ROOM = 10_000

locked = Counter("accounts_sessions_locked", "Attempts turned away after too many wrong passwords.")


class Guard:
    """After some wrong passwords an address has to wait. Kept in memory, for the newest 10,000 addresses."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def check(self, email: str) -> None:
        """HttpError 429 while the address has to wait."""
        count, last = self._failures.get(email, (0, 0.0))
        pause = self._settings.seconds("LOCK_FOR", 60.0)
        left = last + pause - time.monotonic()
        if count >= self._settings.int("LOCK_AFTER", 10) and left > 0:
            locked.inc()
            raise HttpError(429, "too many attempts, try again later", retry_after=int(left) + 1)
        if left <= 0:
            self._failures.pop(email, None)

    def failed(self, email: str) -> None:
        count, _ = self._failures.pop(email, (0, 0.0))
        self._failures[email] = (count + 1, time.monotonic())
        if len(self._failures) > ROOM:
            self._failures.popitem(last=False)

    def passed(self, email: str) -> None:
        self._failures.pop(email, None)


def check_new(email: str, password: str) -> None:
    name, _, domain = email.partition("@")
    if not name or "." not in domain:
        raise HttpError(422, "email must be an address")
    if len(password) < SHORTEST:
        raise HttpError(422, f"password must have {SHORTEST} characters")
