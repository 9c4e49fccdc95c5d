"""A small box for the tests of faults: a shop of one server, its clients, PostgreSQL and Redis."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aftershock.base.run import Completed, run
from aftershock.base.wait import NotYet, until
from aftershock.cluster.box.box import Box
from aftershock.cluster.image.spec import ImageSpec
from aftershock.fault.base import compile_steps, perform
from aftershock.fault.psql import Databases
from aftershock.fault.scene import Scene
from aftershock.problem.model import Database
from aftershock.problem.schema import read_steps
from aftershock.problem.source import Source

from .conftest import TOOLS, Cluster, claim, service, workload

NAMESPACE = "shop"
DATA = ImageSpec(
    name="registry.internal/test/data",
    tag="1.0",
    packages=("postgresql-15", "redis-server", "busybox-static", "coreutils", "bash"),
    env=(("PATH", "/usr/lib/postgresql/15/bin:/usr/bin:/bin:/usr/sbin:/sbin"), ("LC_ALL", "C")),
)
POSTGRES = """
mkdir -p /tmp/data; grep -q :101: /etc/passwd || echo postgres:x:101:101::/tmp:/bin/sh >>/etc/passwd
/bin/busybox chown 101:101 /tmp/data; /bin/busybox chmod 1777 /tmp; cd /tmp
/usr/sbin/chroot --userspec=101:101 / initdb -D /tmp/data -A trust -U postgres --no-instructions >/dev/null || exit 1
exec /usr/sbin/chroot --userspec=101:101 / postgres -D /tmp/data -k /tmp
"""


def pod(name: str, image: str, command: str, **container: Any) -> dict[str, Any]:
    main = {"name": "main", "image": image, "command": ["/bin/busybox", "sh", "-c", command], **container}
    spec = {"terminationGracePeriodSeconds": 0, "containers": [main]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}}, "spec": spec}


class Stage:
    """The box, its objects, and the scene in which steps act."""

    def __init__(self, box: Box, folder: Path) -> None:
        self.box = box
        self.cluster = Cluster(box, NAMESPACE)
        self.api = self.cluster.api
        shop = Database(pod="postgres", database="postgres", user="postgres", host="/tmp")
        databases = Databases(self.api, NAMESPACE, {"shop": shop})
        self.scene = Scene(box, self.api, NAMESPACE, folder, None, databases)  # type: ignore[arg-type]
        self.told: list[tuple[str, dict[str, Any]]] = []
        self.scene.tell = lambda kind, **data: self.told.append((kind, data))

    async def deploy(self) -> None:
        await self.cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        await self.api.wait_for("ServiceAccount", "default", NAMESPACE, lambda o: "" if o else "none", seconds=30)
        web = workload(
            "web", volumes=("disk", "second"), resources={"limits": {"memory": "64Mi", "cpu": "500m"}},
            command="/bin/busybox dd if=/dev/zero of=/www/big bs=1M count=2 2>/dev/null; "
            "exec /bin/busybox httpd -f -p 8080 -h /www",
        )  # fmt: skip
        web["spec"]["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": self.box.nodes[1]}
        web["spec"]["strategy"] = {"type": "Recreate"}
        front = service("front", "LoadBalancer")
        front["spec"].update(
            selector={"app": "web"}, loadBalancerIP="192.0.2.10", ports=[{"port": 80, "targetPort": 8080}]
        )
        await self.cluster.apply(
            claim("disk", "local-disk", "32Mi"), claim("second", "local-disk", "32Mi"), web, service("web"), front,
            workload("docs"), service("docs"),
            pod("postgres", DATA.reference, POSTGRES), pod("redis", DATA.reference, "exec redis-server --save ''"),
            pod("client", TOOLS, "sleep 100000"), pod("other", TOOLS, "sleep 100000"),
        )  # fmt: skip
        for name in ("web", "docs"):
            await self.api.rolled_out("Deployment", name, NAMESPACE, seconds=120)
        for name in ("client", "other", "postgres", "redis"):
            await self.cluster.running(name)
        await self.eventually(lambda: self.psql("select 1"))

    async def do(self, text: str) -> None:
        """Carry steps out, as a problem's file has them: one a line."""
        lines = "".join(f"- {line.strip()}\n" for line in text.strip().splitlines())
        source = Source(Path("problem.yaml"), lines)
        await perform(compile_steps(read_steps(source, source.data, ())), self.scene, self.scene.tell)

    async def undo(self) -> None:
        await self.scene.undo()

    async def web(self) -> str:
        """The pod of the server."""
        pods = await self.api.list("Pod", NAMESPACE, labels="app=web")
        return str(next(p for p in pods if not p["metadata"].get("deletionTimestamp"))["metadata"]["name"])

    async def sh(self, pod: str, command: str, timeout: float = 30) -> Completed:
        return await self.cluster.sh(pod, command, check=False, timeout=timeout)

    async def seconds(self, pod: str, command: str, timeout: float = 60) -> float:
        """How long a command takes in a pod; it must succeed."""
        done = await self.sh(pod, command, timeout=timeout)
        assert done.ok, done.tail()
        return done.seconds

    async def get(self, pod: str, path: str = "/index.html", to: str = "web:8080", wait: int = 2) -> Completed:
        return await self.sh(pod, f"/bin/busybox timeout {wait} /bin/busybox wget -q -O - http://{to}{path} | wc -c")

    async def reaches(self, pod: str, to: str = "web") -> bool:
        return await self.cluster.reaches(pod, to)

    async def psql(self, sql: str) -> str:
        argv = ["psql", "-h", "/tmp", "-U", "postgres", "-XqAt", "-c", sql]
        done = await self.api.exec(NAMESPACE, "postgres", argv, timeout=15)
        if not done.ok:
            raise NotYet(done.tail(200))
        return done.out.strip()

    async def redis(self, *command: str) -> str:
        return (await self.api.exec(NAMESPACE, "redis", ["redis-cli", *command])).out.strip()

    async def status(self, pod: str) -> dict[str, Any]:
        """The status of a pod's only container."""
        obj = await self.api.get("Pod", pod, NAMESPACE)
        found: dict[str, Any] = ((obj or {}).get("status", {}).get("containerStatuses") or [{}])[0]
        return found

    async def eventually(self, ask: Any, seconds: float = 30, what: str = "what a test waits for") -> Any:
        """What `ask` returns once that is neither None nor False."""

        async def probe() -> Any:
            if (value := await ask()) is None or value is False:
                raise NotYet("not yet")
            return value

        return await until(probe, what=what, seconds=seconds, every=0.3)

    async def kubectl(self, *argv: str, stdin: str | None = None, timeout: float = 30) -> Completed:
        return await self.cluster.kubectl(*argv, stdin=stdin, check=False, timeout=timeout)

    async def close(self) -> None:
        await self.scene.close()
        await self.scene.databases.close()
        await self.api.close()


async def in_world(box: Box, argv: Sequence[str]) -> Completed:
    """A program of the outside."""
    assert box.world is not None
    return await run(box.world.argv(argv), check=False, timeout=20)


async def settle(seconds: float) -> None:
    """Let something happen that must *not* show: there is no event to wait for."""
    await asyncio.sleep(seconds)
