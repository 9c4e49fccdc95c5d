"""The metrics that every service has, and how they are shown.

Those of a part (pool, client, queue) are made in its module, so that a service shows only what it uses.
"""

import asyncio
import contextlib
import time

from prometheus_client import (
    GC_COLLECTOR,
    REGISTRY,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

__all__ = ["BUCKETS", "Counter", "Gauge", "Histogram", "render", "watch_loop"]

disable_created_metrics()  # a series more for each that nobody looks at
with contextlib.suppress(KeyError):
    REGISTRY.unregister(GC_COLLECTOR)

# Fine around the latency objectives (250 ms for pages, 1 s for a checkout).
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

requests = Counter("http_requests", "Requests answered.", ["service", "route", "method", "status"])
durations = Histogram(
    "http_request_duration_seconds", "Time until the answer was sent.", ["service", "route", "method"], buckets=BUCKETS
)
in_flight = Gauge("http_requests_in_flight", "Requests being worked on.", ["service"])
build = Gauge("build_info", "1, with the release as labels.", ["service", "version"])
loop_lag = Gauge("event_loop_lag_seconds", "By how much a timer of the event loop came late, in the last second.")


def render() -> bytes:
    """All metrics of the process as Prometheus text."""
    return generate_latest(REGISTRY)


async def watch_loop() -> None:
    """Measures how late timers come: an event loop that is blocked shows here before anywhere else."""
    while True:
        begin = time.monotonic()
        await asyncio.sleep(1)
        loop_lag.set(max(0.0, time.monotonic() - begin - 1))
