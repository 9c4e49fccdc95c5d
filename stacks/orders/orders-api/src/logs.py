"""One JSON object a line on standard output, each with the id that the gateway gave the request."""

import contextvars
import json
import logging
import sys
import time
import uuid
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

log = logging.getLogger("orders-api")
request_id: contextvars.ContextVar[str] = contextvars.ContextVar("request_id", default="")

Message = MutableMapping[str, Any]
App = Callable[[Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]]

KNOWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}
QUIET = ("/healthz", "/readyz")


class Line(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        if rid := request_id.get():
            line["request_id"] = rid
        line.update({k: v for k, v in vars(record).items() if k not in KNOWN})
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def set_up() -> None:
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(Line())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("uvicorn").setLevel(logging.WARNING)


class RequestLog:
    """Logs each request with its status and duration; leaves the probes out."""

    def __init__(self, app: App) -> None:
        self.app = app

    async def __call__(
        self, scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
    ) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        given = dict(scope["headers"]).get(b"x-request-id", b"").decode("latin-1")
        token = request_id.set(given or uuid.uuid4().hex)
        status = 0
        begin = time.monotonic()

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, noted)
        finally:
            if scope["path"] not in QUIET:
                took = round((time.monotonic() - begin) * 1000, 1)
                extra = {"method": scope["method"], "path": scope["path"], "status": status, "ms": took}
                log.info("request", extra=extra)
            request_id.reset(token)
