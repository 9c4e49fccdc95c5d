"""Serves the state of the cluster's objects as metrics, read anew for each scrape."""

import json
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from api import Api
from state import collect
from text import Families

PORT = 8000
# Two scrapers at once, or a hurried one, share a reading.
FRESH_SECONDS = 4.0


def say(level: str, message: str, **more: object) -> None:
    now = time.time()
    stamp = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now))}.{int(now % 1 * 1000):03d}Z"
    line = {"ts": stamp, "level": level, "service": "cluster-state-exporter", "msg": message, **more}
    sys.stdout.write(json.dumps(line) + "\n")


class Reading:
    """The last reading, and whether it came about."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.lock = threading.Lock()
        self.at = -FRESH_SECONDS
        self.text = ""
        self.failures = 0
        self.failed = False

    def get(self) -> str:
        """Metrics of now. A failed reading shows no state, rather than an old one as if it were new."""
        with self.lock:
            if time.monotonic() - self.at >= FRESH_SECONDS:
                self._read()
            return self.text

    def _read(self) -> None:
        begin = time.monotonic()
        try:
            out = collect(self.api.objects)
            if self.failed:
                say("info", "the API server answers again")
            self.failed = False
        except (OSError, ValueError, KeyError) as error:
            out = Families()
            self.failures += 1
            if not self.failed:
                say("error", "the API server could not be read", reason=f"{type(error).__name__}: {error}")
            self.failed = True
        out.add("cluster_state_up", int(not self.failed))
        out.add("cluster_state_failures_total", self.failures, "counter")
        out.add("cluster_state_read_seconds", round(time.monotonic() - begin, 4))
        self.text = str(out)
        self.at = time.monotonic()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    reading: Reading

    def do_GET(self) -> None:
        if self.path == "/metrics":
            self._answer(200, self.reading.get(), "text/plain; version=0.0.4; charset=utf-8")
        elif self.path in ("/healthz", "/readyz"):
            self._answer(200, "ok\n")
        else:
            self._answer(404, "not found\n")

    def _answer(self, status: int, text: str, kind: str = "text/plain; charset=utf-8") -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """A line for each scrape would be all that this program ever says."""


def main() -> None:
    Handler.reading = Reading(Api())
    server = ThreadingHTTPServer(("", PORT), Handler)
    server.daemon_threads = True

    def stop(*_: object) -> None:
        threading.Thread(target=server.shutdown).start()

    signal.signal(signal.SIGTERM, stop)
    say("info", "serving", port=PORT)
    server.serve_forever()
    say("info", "ended")


if __name__ == "__main__":
    main()
