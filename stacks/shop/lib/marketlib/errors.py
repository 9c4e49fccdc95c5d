"""The two ways in which a request ends early on purpose."""

from typing import Any

__all__ = ["HttpError", "Unavailable"]


class HttpError(Exception):
    """An answer other than the good one, in words for the client.

    Args:
        status: HTTP status.
        retry_after: seconds, sent as Retry-After.
        extra: further keys of the JSON body.
    """

    def __init__(self, status: int, message: str, retry_after: int | None = None, **extra: Any) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry_after = retry_after
        self.extra = extra


class Unavailable(Exception):
    """Something that this service needs did not do its work.

    Args:
        target: its name ("database", "inventory").
        why: what was seen.
        status: the HTTP status that it answered with, where it answered.
        sent: whether the request may have reached it. False only where that is certain.
    """

    def __init__(self, target: str, why: str, *, status: int | None = None, sent: bool = True) -> None:
        super().__init__(f"{target}: {why}")
        self.target = target
        self.why = why
        self.status = status
        self.sent = sent
