"""Metrics of the stores: asked every 10 seconds, shown at /metrics.

Each store is asked on its own, with a deadline, so one that hangs keeps no other from being seen.
"""

import asyncio
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prometheus_client.core import REGISTRY, CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from marketlib.logs import log
from marketlib.settings import Settings
from marketlib.worker import every, run
from targets import Sample, Store
from wire import Failed

VERSION = "1.1.0"
TROUBLE = (Failed, OSError, TimeoutError, ValueError, KeyError)


class Shown(Collector):
    """The newest samples, in the form that prometheus_client wants them."""

    def __init__(self) -> None:
        self.samples: dict[str, list[Sample]] = {}

    def collect(self) -> Iterator[Any]:
        families: dict[str, Any] = {}
        for instance, samples in sorted(self.samples.items()):
            for metric, labels, value in samples:
                names = ["instance", *sorted(labels)]
                if metric not in families:
                    make = CounterMetricFamily if metric.endswith("_total") else GaugeMetricFamily
                    families[metric] = make(metric.removesuffix("_total"), "", labels=names)
                families[metric].add_metric([instance, *(labels[name] for name in names[1:])], value)
        yield from families.values()


class Exporter:
    """All stores. A headless name stands for each address behind it."""

    def __init__(self, settings: Settings, shown: Shown) -> None:
        self._settings = settings
        self._shown = shown
        self._stores: dict[str, Store] = {}
        self._down: set[str] = set()

    def _login(self) -> tuple[str, str]:
        path = Path(self._settings.str("LOGINS", "/etc/database-logins")) / "monitoring"
        return "monitoring", path.read_text().strip()

    async def _found(self, kind: str, host: str, port: int) -> list[Store]:
        """The stores behind a name; none where there is no such name."""
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(host, port, family=socket.AF_INET, type=socket.SOCK_STREAM)
        except socket.gaierror:
            return []
        addresses = sorted({str(entry[4][0]) for entry in found})
        short = host.split(".")[0]
        names = [short] if len(addresses) == 1 and not short.endswith(("-pods", "-nodes")) else [
            f"{short.removesuffix('s').removesuffix('-pod')}@{address}" for address in addresses
        ]  # fmt: skip
        login = self._login() if kind in ("postgres", "pgbouncer") else ("", "")
        stores = []
        for name, address in zip(names, addresses, strict=True):
            label = f"sentinel-{name}" if kind == "sentinel" else name
            has = self._stores.get(label)
            if has is None or (has.host, has.login) != (address, login):
                if has:
                    has.close()
                self._stores[label] = Store(kind, address, port, label, login)
            stores.append(self._stores[label])
        return stores

    async def pass_over(self) -> None:
        """Ask all stores once."""
        listed = [entry.rsplit(":", 2) for entry in self._settings.str("STORES").split()]
        wanted = await asyncio.gather(*(self._found(kind, host, int(port)) for kind, host, port in listed))
        stores = [store for found in wanted for store in found]
        results = await asyncio.gather(*(self._ask(store) for store in stores))
        self._shown.samples = {store.name: samples for store, samples in zip(stores, results, strict=True)}
        for gone in self._stores.keys() - {store.name for store in stores}:
            self._stores.pop(gone).close()

    async def _ask(self, store: Store) -> list[Sample]:
        begin = time.monotonic()
        labels = {"kind": store.kind}
        try:
            samples = await asyncio.wait_for(store.samples(), self._settings.seconds("TIMEOUT", 4))
        except TROUBLE as error:
            if store.name not in self._down:
                self._down.add(store.name)
                log.warning("store does not answer", extra={"store": store.name, "reason": str(error) or "timeout"})
            return [("datastore_up", labels, 0.0)]
        if store.name in self._down:
            self._down.discard(store.name)
            log.info("store answers again", extra={"store": store.name})
        took = time.monotonic() - begin
        return [*samples, ("datastore_up", labels, 1.0), ("datastore_probe_seconds", labels, took)]


if __name__ == "__main__":
    settings = Settings.load("datastore-exporter")
    shown = Shown()
    REGISTRY.register(shown)
    exporter = Exporter(settings, shown)
    run(
        {"stores": every(settings.seconds("EVERY", 10), exporter.pass_over)},
        service="datastore-exporter",
        version=VERSION,
        settings=settings,
    )
