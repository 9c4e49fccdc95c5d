"""Accounts as of release 2.1.0."""

from marketlib.errors import HttpError
from marketlib.settings import Settings

VERSION = "2.1.0"
SHORTEST = 6


class Guard:
    """Nothing is done about guessing yet."""

    def __init__(self, settings: Settings) -> None: ...

    def check(self, email: str) -> None: ...

    def failed(self, email: str) -> None: ...

    def passed(self, email: str) -> None: ...


def check_new(email: str, password: str) -> None:
    name, _, domain = email.partition("@")
    if not name or "." not in domain:
        raise HttpError(422, "email must be an address")
    if len(password) < SHORTEST:
        raise HttpError(422, f"password must have {SHORTEST} characters")
