"""What belongs to the request under way: its ids, whether it is traced, until when it is worth answering."""

import contextvars
import os
import re
import time
from dataclasses import dataclass

__all__ = ["Context", "current", "enter", "headers", "leave", "remaining"]

TRACEPARENT = re.compile(r"^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$")


@dataclass(frozen=True, slots=True)
class Context:
    """`deadline` is on the monotonic clock; `span_id` is the span that is open now."""

    request_id: str = ""
    trace_id: str = ""
    span_id: str = ""
    sampled: bool = False
    deadline: float | None = None


_current: contextvars.ContextVar[Context] = contextvars.ContextVar("context", default=Context())  # noqa: B039


def current() -> Context:
    return _current.get()


def enter(context: Context) -> contextvars.Token[Context]:
    return _current.set(context)


def leave(token: contextvars.Token[Context]) -> None:
    _current.reset(token)


def remaining() -> float | None:
    """Seconds that are left for the request, None where nobody waits for a given time."""
    deadline = _current.get().deadline
    return None if deadline is None else deadline - time.monotonic()


def received(request_id: str, traceparent: str, deadline_ms: str, sampled: bool) -> Context:
    """The context of a request as its headers give it. `sampled` decides where no caller did."""
    match = TRACEPARENT.match(traceparent)
    try:
        deadline = time.monotonic() + max(0, int(deadline_ms)) / 1000 if deadline_ms else None
    except ValueError:
        deadline = None
    return Context(
        request_id=request_id[:64] or os.urandom(16).hex(),
        trace_id=match[1] if match else os.urandom(16).hex(),
        span_id=match[2] if match else "",
        sampled=bool(int(match[3], 16) & 1) if match else sampled,
        deadline=deadline,
    )


def headers() -> dict[str, str]:
    """What the next service has to be told. The deadline travels as milliseconds left: clocks differ."""
    now = _current.get()
    told = {}
    if now.request_id:
        told["x-request-id"] = now.request_id
    if now.trace_id and now.span_id:
        told["traceparent"] = f"00-{now.trace_id}-{now.span_id}-{'01' if now.sampled else '00'}"
    if (left := remaining()) is not None:
        told["x-deadline-ms"] = str(max(0, int(left * 1000)))
    return told
