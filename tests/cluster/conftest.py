"""The real box, for tests: one shared cluster of two nodes, and helpers to look into it.

Tests speak to it as its users do: kubectl for operators, a program in the world's namespace for
users outside. They share the box, so each test works in a namespace of its own.
"""

import asyncio
import contextlib
import json
import secrets
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Self

import pytest
import pytest_asyncio

from aftershock.base.run import Completed, run
from aftershock.base.wait import NotYet, patience, until
from aftershock.cluster import host
from aftershock.cluster.box import box as boxes
from aftershock.cluster.box import lifecycle, snapshot
from aftershock.cluster.box.box import Box
from aftershock.cluster.image.spec import ImageSpec

from .live_shop import Live, open_shop

TOOLS = "registry.internal/test/tools:1.0"
PROGRAM = [str(Path(sys.executable).with_name("aftershock"))]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in Path(item.fspath).parents:
            item.add_marker(pytest.mark.cluster)


@pytest.fixture(scope="session", autouse=True)
def _machine() -> None:
    """These tests do not pretend: where the machine cannot, they say what is missing."""
    missing = [f"{f.name} ({f.todo})" for f in host.findings() if f.needed and not f.ok]
    assert not missing, f"this machine cannot run a box: {missing}"


def tools_spec(folder: Path) -> ImageSpec:
    """A small image: busybox and a page to serve, which is written into the folder."""
    page = folder / "index.html"
    page.write_text("hello from a pod\n")
    return ImageSpec(
        name="registry.internal/test/tools",
        tag="1.0",
        packages=("busybox-static", "coreutils"),
        files=((page, "/www/index.html"),),
        entrypoint=("/bin/busybox",),
    )


@pytest.fixture(scope="session")
def tools_image(tmp_path_factory: pytest.TempPathFactory) -> ImageSpec:
    return tools_spec(tmp_path_factory.mktemp("image"))


class Cluster:
    """A box and a namespace in it."""

    def __init__(self, box: Box, namespace: str) -> None:
        self.box = box
        self.namespace = namespace
        self.api = box.api()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.api.close()

    async def kubectl(self, *argv: str, stdin: str | None = None, check: bool = True, timeout: float = 60) -> Completed:
        command = [*self.api.kubectl_argv(), "-n", self.namespace, *argv]
        return await run(command, stdin=stdin, check=check, timeout=timeout)

    async def apply(self, *objects: dict[str, Any]) -> None:
        for obj in objects:
            await self.api.apply(obj, namespace=self.namespace)

    async def pod(
        self, name: str, command: str, *, node: str = "", labels: dict[str, str] | None = None, **container: Any
    ) -> dict[str, Any]:
        """A running pod whose container runs a busybox shell command."""
        spec: dict[str, Any] = {
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": TOOLS, "args": ["sh", "-c", command]}],
        }
        spec["volumes"] = container.pop("volumes", [])
        spec["containers"][0].update(container)
        if node:
            spec["nodeName"] = node
        meta = {"name": name, "labels": labels or {"app": name}}
        obj = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
        await self.api.create(obj, namespace=self.namespace)
        return await self.running(name)

    async def running(self, name: str, seconds: float = 60) -> dict[str, Any]:
        def test(pod: dict[str, Any] | None) -> str:
            conditions = (pod or {}).get("status", {}).get("conditions") or []
            ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
            shown = (pod or {}).get("status", {}).get("containerStatuses", "no status")
            return "" if ready else json.dumps(shown)[:300]

        pod = await self.api.wait_for("Pod", name, self.namespace, test, seconds=seconds)
        assert pod is not None
        return pod

    async def sh(self, pod: str, command: str, *, timeout: float = 30, check: bool = True) -> Completed:
        """Run a busybox shell command in a pod."""
        argv = ["/bin/busybox", "sh", "-c", command]
        return await self.api.exec(self.namespace, pod, argv, timeout=timeout, check=check)

    async def reaches(self, pod: str, address: str, port: int = 8080) -> bool:
        """Whether a pod gets the page from an address; a refused or lost connection is a no."""
        ask = f"printf 'GET / HTTP/1.0\\r\\n\\r\\n' | /bin/busybox nc -w 2 {address} {port}"
        return "hello from a pod" in (await self.sh(pod, ask, check=False, timeout=15)).out

    async def until_reach(self, wanted: bool, pod: str, address: str, port: int = 8080, seconds: float = 20) -> None:
        async def probe() -> None:
            if await self.reaches(pod, address, port) != wanted:
                raise NotYet(f"{pod} {'does not reach' if wanted else 'reaches'} {address}")

        await until(probe, what=f"{pod} {'reaches' if wanted else 'no longer reaches'} {address}", seconds=seconds)


SERVE = "/bin/busybox httpd -f -p 8080 -h /www"


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def box(tools_image: ImageSpec) -> AsyncIterator[Box]:
    """The shared box."""
    made = await boxes.up(f"test-{secrets.token_hex(3)}", nodes=2, images=[tools_image], ephemeral=True)
    async with boxes.closing(made):
        yield made


@pytest_asyncio.fixture(loop_scope="session")
async def cluster(box: Box) -> AsyncIterator[Cluster]:
    """A fresh namespace in the shared box."""
    async with Cluster(box, f"t-{secrets.token_hex(3)}") as made:
        await made.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": made.namespace}})
        await made.api.wait_for(
            "ServiceAccount", "default", made.namespace, lambda obj: "" if obj else "not made yet", seconds=30
        )
        try:
            yield made
        finally:
            await made.api.delete("Namespace", made.namespace)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def saved(tools_image: ImageSpec) -> AsyncIterator[dict[str, Any]]:
    """A small stateful box, saved and ended: what there was in it, and the snapshot's name."""
    name = f"test-{secrets.token_hex(3)}"
    made = await boxes.up(name, nodes=2, images=[tools_image], ephemeral=True)
    about: dict[str, Any] = {"snapshot": f"{name}-state", "images": [tools_image], "addresses": made.layout.subnet}
    async with boxes.closing(made), Cluster(made, "default") as cluster:
        await cluster.api.wait_for("ServiceAccount", "default", "default", lambda o: "" if o else "none", seconds=30)
        await cluster.apply(
            *(claim(n, c) for n, c in (("files", "local-path"), ("disk", "local-disk"))),
            workload("store", volumes=("files", "disk")),
            service("store"),
        )
        await cluster.api.rolled_out("Deployment", "store", "default", seconds=90)
        pod = (await cluster.api.list("Pod", "default", labels="app=store"))[0]
        about["pod"] = pod
        fill = "head -c 3000000 /dev/urandom > /files/random; head -c 900000 /dev/urandom > /disk/random; "
        fill += "mkdir /files/deep; "
        fill += "echo kept > /files/deep/note; chmod 600 /files/deep/note; sync; sha256sum /files/random /disk/random"
        about["sums"] = (await cluster.sh(pod["metadata"]["name"], fill)).out
        await snapshot.save(made, about["snapshot"], again=False)
    try:
        yield about
    finally:
        with contextlib.suppress(Exception):
            snapshot.remove(about["snapshot"])


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shop(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Live]:
    """The small shop on a box of its own, with its users, for the tests of checks."""
    async with open_shop(tmp_path_factory.mktemp("problem")) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="session")
async def live(shop: Live) -> AsyncIterator[Live]:
    """The same; what a test changes and says how to undo is put back."""
    yield shop
    await shop.put_back()


def claim(name: str, storage_class: str, size: str = "64Mi") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": size}},
        },
    }


def workload(
    name: str, *, replicas: int = 1, command: str = SERVE, volumes: tuple[str, ...] = (), **container: Any
) -> dict[str, Any]:
    """A Deployment that serves the page and is ready when it does."""
    main = {
        "name": "main",
        "image": "registry.internal/test/tools:1.0",
        "args": ["sh", "-c", command],
        "readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1},
        "volumeMounts": [{"name": v, "mountPath": f"/{v}"} for v in volumes],
        **container,
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    "terminationGracePeriodSeconds": 1,
                    "containers": [main],
                    "volumes": [{"name": v, "persistentVolumeClaim": {"claimName": v}} for v in volumes],
                },
            },
        },
    }


def service(name: str, kind: str = "ClusterIP") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"type": kind, "selector": {"app": name}, "ports": [{"port": 8080}]},
    }


def aftershock(*argv: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
    """Run the program as a user does."""
    limit = timeout * patience()
    return subprocess.run([*PROGRAM, *argv], capture_output=True, text=True, timeout=limit, check=False)


def record(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The JSON record: the last line of standard output."""
    lines = done.stdout.strip().splitlines()
    assert lines, done.stderr
    found: dict[str, Any] = json.loads(lines[-1])
    return found


@pytest.fixture
def gone() -> Iterator[list[str]]:
    """Names of boxes that are ended after the test, whatever became of them."""
    names: list[str] = []
    yield names

    async def end() -> None:
        for name in names:
            with contextlib.suppress(Exception):
                await lifecycle.end(lifecycle.find(name))

    asyncio.run(end())
