"""The small shop on a box of its own, live: what the tests of checks use."""

import contextlib
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from aftershock.base.errors import AftershockError, ProblemError
from aftershock.base.paths import cache_dir
from aftershock.base.wait import NotYet, until
from aftershock.cluster.api import Api
from aftershock.cluster.box import box as boxes
from aftershock.cluster.box import snapshot as snapshots
from aftershock.cluster.box.box import Box
from aftershock.cluster.image.spec import ImageSpec
from aftershock.fault.psql import Databases
from aftershock.fault.scene import Scene
from aftershock.oracle.base import Bench, Finding
from aftershock.oracle.tree import Leaf, compile_nodes
from aftershock.problem.model import Database
from aftershock.problem.schema import read_node
from aftershock.problem.source import Source
from aftershock.stack.deploy import front_answers
from aftershock.stack.load import Stack
from aftershock.stack.load import load as load_stack
from aftershock.stack.provide import saved
from aftershock.workload.crowd import Users

TELEMETRY = ("victoria-metrics", "vmalert", "alertmanager")
WORKER = "registry.internal/shop/order-worker:1.8.2"
SHOP = "shop"


def telemetry_images() -> list[ImageSpec]:
    """The programs that the shop's telemetry is made of, where they were fetched for it before; else none."""
    found = [next(iter((cache_dir() / "parts").glob(f"tool-{name}-*/{name}")), None) for name in TELEMETRY]
    return [
        ImageSpec(
            name=f"registry.internal/test/{path.name}",
            tag="1.0",
            packages=("busybox-static", "coreutils"),
            files=((path, f"/usr/bin/{path.name}"),),
            entrypoint=(f"/usr/bin/{path.name}",),
        )
        for path in found
        if path is not None
    ]


@dataclass
class Live:
    """The shop, and what checks use of it."""

    box: Box
    api: Api
    stack: Stack
    bench: Bench
    folder: Path
    locked_out: Bench
    undone: list[Callable[[], Awaitable[Any]]] = field(default_factory=list)

    def leaf(self, text: str, family: str = "preservation") -> Leaf:
        source = Source(self.folder / "problem.yaml", f"id: it\nfamily: {family}\nwhy: because it matters\n{text}\n")
        made = compile_nodes(read_node(source, source.data, ()))
        assert isinstance(made, Leaf)
        return made

    async def judge(self, leaf: Leaf, before: Any, *, bench: Bench | None = None) -> Finding:
        """The finding, or "cannot tell" of an error, as the tree has it."""
        used = bench or self.bench
        used.began = used.scene.users.now()
        try:
            return await leaf.check.judge(used, before)
        except ProblemError:
            raise
        except AftershockError as error:
            return Finding("unknown", error.what)

    async def three(
        self, text: str, harm: Callable[[], Awaitable[Any]], said: str, *, family: str = "preservation"
    ) -> tuple[Finding, Finding, Finding]:
        """Passes at first, fails once `harm` was done, and cannot tell where the judge is locked out."""
        leaf = self.leaf(text, family)
        before = await leaf.check.baseline(self.bench)
        good = await self.judge(leaf, before)
        assert good.result == "pass", good
        blind = await self.judge(leaf, before, bench=self.locked_out)
        assert blind.result == "unknown", blind
        await harm()
        bad = await self.judge(leaf, before)
        assert bad.result == "fail", bad
        assert said in bad.said, bad.said
        return good, bad, blind

    async def patch(self, ref: str, patch: Any, back: Any, *, how: str = "merge", namespace: str = SHOP) -> None:
        kind, name = ref.split("/")
        space = None if kind == "Namespace" else namespace
        await self.api.patch(kind, name, space, patch, how=how)

        async def undo() -> None:
            await self.api.patch(kind, name, space, back, how=how)

        self.undone.append(undo)

    async def put_back(self) -> None:
        while self.undone:
            await self.undone.pop()()
        for space in (SHOP, "monitoring"):
            for deployment in await self.api.list("Deployment", space):
                await self.api.rolled_out("Deployment", deployment["metadata"]["name"], space, seconds=90)


async def telemetry(api: Api) -> None:
    """Metrics of itself every second, two alerts, and somewhere to send them."""
    space = "monitoring"
    meta = {"namespace": space}
    scrape = "scrape_configs: [{job_name: self, scrape_interval: 1s, static_configs: [{targets: ['127.0.0.1:8428']}]}]"
    rules = {
        "groups": [
            {
                "name": "self",
                "interval": "2s",
                "rules": [
                    {
                        "alert": "MetricsDown",
                        "expr": 'up{job="self"} == 0',
                        "for": "5s",
                        "labels": {"severity": "page"},
                    },
                    {"alert": "NeverFed", "expr": 'up{job="nobody"} == 0'},
                ],
            }
        ]
    }
    receiver = "route: {receiver: nobody}\nreceivers: [{name: nobody}]\n"
    files = {"scrape.yaml": scrape, "rules.yaml": yaml.safe_dump(rules), "alertmanager.yaml": receiver}
    await api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}})
    await api.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**meta, "name": "files"}, "data": files})
    programs = {
        "metrics": (
            "victoria-metrics", 8428, ["-promscrape.config=/etc/files/scrape.yaml", "-storageDataPath=/tmp/data",
                                       "-search.latencyOffset=1s", "-memory.allowedBytes=32MB"],
        ),
        "rules": (
            "vmalert", 8880, ["-rule=/etc/files/rules.yaml", "-datasource.url=http://metrics:8428",
                              "-notifier.url=http://alertmanager:9093", "-evaluationInterval=2s",
                              "-configCheckInterval=2s"],
        ),
        "alertmanager": (
            "alertmanager", 9093, ["--config.file=/etc/files/alertmanager.yaml", "--storage.path=/tmp",
                                   "--cluster.listen-address="],
        ),
    }  # fmt: skip
    for name, (program, port, args) in programs.items():
        labels = {"app": name}
        ports = [{"port": port, "targetPort": port}]
        service = {"apiVersion": "v1", "kind": "Service", "metadata": {**meta, "name": name}}
        await api.apply({**service, "spec": {"selector": labels, "ports": ports}})
        container = {
            "name": "main",
            "image": f"registry.internal/test/{program}:1.0",
            "args": args,
            "readinessProbe": {"tcpSocket": {"port": port}, "periodSeconds": 1},
            "volumeMounts": [{"name": "files", "mountPath": "/etc/files"}, {"name": "tmp", "mountPath": "/tmp"}],
        }
        volumes = [{"name": "files", "configMap": {"name": "files"}}, {"name": "tmp", "emptyDir": {}}]
        spec = {"terminationGracePeriodSeconds": 1, "containers": [container], "volumes": volumes}
        template = {"metadata": {"labels": labels}, "spec": spec}
        deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {**meta, "name": name}}
        await api.apply({**deployment, "spec": {"selector": {"matchLabels": labels}, "template": template}})
    for name in programs:
        await api.rolled_out("Deployment", name, space, seconds=60)


@contextlib.asynccontextmanager
async def open_shop(folder: Path) -> AsyncIterator[Live]:
    """The small shop on a box of its own, its users, and a judge who has a session of his own."""
    stack = load_stack("orders")
    images = [*stack.images(), *telemetry_images()]
    state = await saved(stack)
    box = await snapshots.restore(state, f"test-{secrets.token_hex(3)}", ephemeral=True, images=images)
    async with contextlib.AsyncExitStack() as held:
        await held.enter_async_context(boxes.closing(box))
        await front_answers(box, stack)
        users = await held.enter_async_context(
            Users(
                box.world,
                out=folder / "users",
                host=stack.front.host,
                journey=stack.journey,
                journeys=stack.journeys,
                components=stack.components,
            )
        )
        api = await held.enter_async_context(box.api())
        declared = {"shop": Database(pod="postgres-0", database="shop")}
        databases = Databases(api, SHOP, declared)
        held.push_async_callback(databases.close)
        scene = Scene(box, api, SHOP, folder, users, databases)
        held.push_async_callback(scene.close)
        await databases.open_all()
        nowhere = await held.enter_async_context(dead_api(api, folder))
        gone = Databases(api, SHOP, {"shop": Database(pod="postgres-9", database="shop")})
        held.push_async_callback(gone.close)
        blind = Bench(replace(scene, api=nowhere, databases=gone), hasty=True)
        made = Live(box, api, stack, Bench(scene), folder, blind)
        if len(telemetry_images()) == len(TELEMETRY):
            await telemetry(api)
        yield made


def dead_api(api: Api, folder: Path) -> Api:
    """A client of an API server that is not there."""
    config = yaml.safe_load(api.kubeconfig.read_text())
    for entry in config["clusters"]:
        entry["cluster"]["server"] = "https://127.0.0.1:9"
    path = folder / "nowhere.yaml"
    path.write_text(yaml.safe_dump(config))
    return Api(path, kubectl=api.kubectl)


async def gone(live: Live, selector: str) -> None:
    """Wait until no pod of a selector is left."""

    async def none_left() -> None:
        if await live.api.list("Pod", SHOP, labels=selector):
            raise NotYet("there are pods")

    await until(none_left, what="they are gone", seconds=40, every=0.3)
