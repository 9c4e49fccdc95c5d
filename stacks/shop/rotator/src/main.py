"""Rotates credentials on schedule, and keeps the copies of a Secret in other namespaces as their source."""

import contextlib
import tomllib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from kube.client import Cluster, Refused
from marketlib.logs import log
from marketlib.metrics import Gauge
from marketlib.settings import Settings
from marketlib.worker import every, run
from rotation import Rotator

VERSION = "0.8.2"

passed = Gauge("rotator_last_pass_timestamp_seconds", "When a loop last went through.", ["loop"])


class Controller:
    """The rotator's two loops; the declarations are read anew for each pass."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._cluster: Cluster | None = None

    @contextlib.asynccontextmanager
    async def lifespan(self, app: Any) -> AsyncIterator[None]:
        async with Cluster.from_pod() as cluster:
            self._cluster = cluster
            yield

    def _rotator(self) -> Rotator:
        assert self._cluster
        path = Path(self._settings.str("DECLARATIONS", "/etc/market/rotator.toml"))
        database = self._settings.str("DATABASE_URL", "postgresql://postgres.data:5432/market")
        return Rotator(self._cluster, tomllib.loads(path.read_text()), database)

    async def sync(self) -> None:
        await self._pass("sync")

    async def rotate(self) -> None:
        await self._pass("rotate")

    async def _pass(self, name: str) -> None:
        try:
            await getattr(self._rotator(), name)()
            passed.labels(name).set_to_current_time()
        except (Refused, KeyError, OSError, tomllib.TOMLDecodeError) as error:
            log.error("pass failed", extra={"loop": name, "reason": f"{type(error).__name__}: {error}"})


if __name__ == "__main__":
    settings = Settings.load("rotator")
    controller = Controller(settings)
    run(
        {
            "sync": every(settings.seconds("SYNC_EVERY", 60), controller.sync),
            "rotate": every(settings.seconds("ROTATE_EVERY", 60), controller.rotate),
        },
        service="rotator",
        version=VERSION,
        lifespan=controller.lifespan,
        settings=settings,
    )
