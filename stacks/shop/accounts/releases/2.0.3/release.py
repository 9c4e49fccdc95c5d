"""Accounts as of release 2.0.3."""

from marketlib.errors import HttpError
from marketlib.settings import Settings

VERSION = "2.0.3"


class Guard:
    """Nothing is done about guessing yet."""

    def __init__(self, settings: Settings) -> None: ...

    def check(self, email: str) -> None: ...

    def failed(self, email: str) -> None: ...

    def passed(self, email: str) -> None: ...


def check_new(email: str, password: str) -> None:
    if "@" not in email:
        raise HttpError(422, "email must be an address")
