"""One JSON object a line on standard output."""

import json
import logging
import sys
import time

from marketlib import context

__all__ = ["log", "set_up"]

log = logging.getLogger("market")

KNOWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


class Line(logging.Formatter):
    """Extra fields of a record become keys; the ids of the request under way are added."""

    def __init__(self, service: str) -> None:
        super().__init__()
        self.service = service

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "ts": f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "service": self.service,
            "msg": record.getMessage(),
        }
        now = context.current()
        if now.request_id:
            line["request_id"] = now.request_id
        if now.trace_id:
            line["trace_id"] = now.trace_id
        for key, value in vars(record).items():
            if key not in KNOWN:
                line[key] = value
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, separators=(",", ":"))


def set_up(service: str, level: str = "info") -> None:
    """Send all logging of the process there. Idempotent."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(Line(service))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for noisy in ("uvicorn", "uvicorn.error", "httpcore", "nats", "asyncio"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
