"""The internal authority's issuer: certificates for the door and for the inside, renewed before they end."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from issuer import Issuer
from kube.client import Cluster, Refused
from marketlib.errors import Unavailable
from marketlib.logs import log
from marketlib.settings import Settings
from marketlib.worker import run

VERSION = "1.3.0"


class Controller:
    """The loop: a pass at the start, at each change of a Secret in the namespace watched, and every so often."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._cluster: Cluster | None = None
        self._done = False

    @contextlib.asynccontextmanager
    async def lifespan(self, app: Any) -> AsyncIterator[None]:
        async with Cluster.from_pod() as cluster:
            self._cluster = cluster
            yield

    async def ready(self) -> None:
        if not self._done:
            raise Unavailable("issuer", "no pass is done yet", sent=False)

    async def keep(self, stop: asyncio.Event) -> None:
        assert self._cluster
        issuer = Issuer(self._cluster, Path(self._settings.str("DECLARATIONS", "/etc/market/certificates.toml")))
        nudge = asyncio.Event()
        watching = asyncio.create_task(self._watch(nudge))
        try:
            while not stop.is_set():
                nudge.clear()
                try:
                    await issuer.run_once()
                    self._done = True
                except (Refused, ValueError) as error:
                    log.error("pass failed", extra={"reason": str(error)})
                waits = [asyncio.create_task(nudge.wait()), asyncio.create_task(stop.wait())]
                try:
                    pause = self._settings.seconds("EVERY", 30.0 if self._done else 2.0)
                    await asyncio.wait(waits, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for task in waits:
                        task.cancel()
        finally:
            watching.cancel()

    async def _watch(self, nudge: asyncio.Event) -> None:
        assert self._cluster
        async for _ in self._cluster.changes("v1", "Secret", self._settings.str("WATCH_NAMESPACE", "shop")):
            nudge.set()


if __name__ == "__main__":
    settings = Settings.load("certificates")
    controller = Controller(settings)
    run(
        {"issuer": controller.keep},
        service="certificates",
        version=VERSION,
        lifespan=controller.lifespan,
        ready=controller.ready,
        settings=settings,
    )
