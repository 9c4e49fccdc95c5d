"""Keeps the namespace of the shop as the repository declares it: every 30 s, and at once after a push.

The same process serves the repository by git:// (port 9418, market.git): clone it, change a manifest, push.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from declared import ManifestError, kept_documents, parse
from kube.client import Cluster, Object, Refused
from marketlib.errors import Unavailable
from marketlib.logs import log
from marketlib.metrics import Gauge
from marketlib.settings import Settings
from marketlib.worker import run, wait
from reconcile import Reconciler
from repository import GitError, Repository, daemon

VERSION = "2.1.0"
FIRST = Path("/usr/share/market/shop")
README = """\
# market

What runs in the namespace of the shop. The reconciler applies `main` every 30 seconds, and after each push.
To change something by hand for a while, annotate the object first:

    kubectl -n shop annotate deployment NAME reconciler.market.example/pause=true
"""
WORKLOADS = ("Deployment", "StatefulSet", "CronJob", "HorizontalPodAutoscaler")

passed = Gauge("reconciler_last_success_timestamp_seconds", "When a pass last went through without a failure.")
revision_seen = Gauge("reconciler_revision_info", "1 for the revision that is applied.", ["revision"])


class Controller:
    """The repository, the cluster, and the loops over them."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._base = Path(settings.str("REPOSITORIES", "/srv/git"))
        self._repository = Repository(self._base / "market.git", settings.str("BRANCH", "main"))
        self._namespace = settings.str("NAMESPACE", "shop")
        self._home = settings.str("HOME_NAMESPACE", "platform")
        self._cluster: Cluster | None = None
        self._wanted: dict[str, Object] = {}
        self._revision = ""

    @contextlib.asynccontextmanager
    async def lifespan(self, app: Any) -> AsyncIterator[None]:
        async with Cluster.from_pod() as cluster:
            self._cluster = cluster
            yield

    async def ready(self) -> None:
        if not self._repository.exists():
            raise Unavailable("repository", "it is not made yet", sent=False)

    async def serve(self, stop: asyncio.Event) -> None:
        while not self._repository.exists():
            if await wait(stop, 0.5):
                return
        await daemon(self._base, stop)

    async def keep(self, stop: asyncio.Event) -> None:
        assert self._cluster
        if not self._repository.exists():
            await self._import()
        reconciler = Reconciler(self._cluster, self._namespace, self._home)
        while not stop.is_set():
            stamp = self._repository.stamp()
            try:
                await self._read()
                outcome = await reconciler.run_once(self._wanted, self._revision)
                if not outcome.failed:
                    passed.set_to_current_time()
            except (Refused, GitError) as error:
                log.error("pass failed", extra={"reason": str(error)})
            pause = self._settings.seconds("EVERY", 30)
            for _ in range(int(pause)):
                if await wait(stop, 1) or self._repository.stamp() != stamp:
                    break

    async def _read(self) -> None:
        """Take over the branch's newest revision, if it is another and can be read."""
        revision = await self._repository.revision()
        if revision == self._revision:
            return
        subject = await self._repository.subject(revision)
        try:
            self._wanted = parse(await self._repository.files(revision, self._namespace), self._namespace)
        except (ManifestError, GitError) as error:
            log.error(
                "revision cannot be used, the last good one stays",
                extra={"revision": revision, "subject": subject, "reason": str(error)},
            )
            if not self._revision:
                raise GitError(str(error)) from error
            return
        revision_seen.clear()
        revision_seen.labels(revision[:12]).set(1)
        self._revision = revision
        log.info("revision taken", extra={"revision": revision, "subject": subject, "objects": len(self._wanted)})

    async def _import(self) -> None:
        """Make the repository from the manifests of what runs in the namespace now."""
        assert self._cluster
        running = set()
        for version, kind in (("apps/v1", "Deployment"), ("apps/v1", "StatefulSet"), ("batch/v1", "CronJob")):
            running |= {
                (kind, obj["metadata"]["name"]) for obj in await self._cluster.list(version, kind, self._namespace)
            }
        scalers = await self._cluster.list("autoscaling/v2", "HorizontalPodAutoscaler", self._namespace)
        running |= {("HorizontalPodAutoscaler", obj["metadata"]["name"]) for obj in scalers}
        files = {}
        for path in sorted(FIRST.glob("*.yaml")):
            documents = list(kept_documents(path.read_text(), self._namespace))
            named = {(obj["kind"], obj["metadata"]["name"]) for _, obj in documents if obj["kind"] in WORKLOADS}
            if named & running:
                files[f"{self._namespace}/{path.name}"] = "---\n".join(text for text, _ in documents)
        if not files:
            raise Unavailable(self._namespace, "nothing runs there yet", sent=False)
        files["README.md"] = README
        await self._repository.make(files, "Import what runs in the namespace shop")
        log.info("repository made", extra={"files": len(files)})


if __name__ == "__main__":
    settings = Settings.load("reconciler")
    controller = Controller(settings)
    run(
        {"git": controller.serve, "reconcile": controller.keep},
        service="reconciler",
        version=VERSION,
        lifespan=controller.lifespan,
        ready=controller.ready,
        settings=settings,
    )
