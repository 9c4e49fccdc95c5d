"""A slow way between pods and a Service, where the kernel cannot delay packets: a proxy in the path.

What pods `pods` send to the Service is turned, in their own network namespace, to a proxy in the world outside
of the cluster, which passes it on to the Service's pods, later. Nothing of it runs in the cluster. What can be
seen is that the Service's pods are called from the cluster's gateway instead of from the pods; a NetworkPolicy
of either side stops such connections, so this is for pairs without one.
"""

import asyncio
import contextlib
import importlib
import itertools
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from aftershock.base.errors import AftershockError, ClusterError, MissingCapability
from aftershock.base.run import kill_group, run
from aftershock.base.wait import NotYet, until
from aftershock.cluster.base import World, require
from aftershock.cluster.parts import ensure
from aftershock.fault.base import primitive
from aftershock.fault.machine import Place, Targets, entries_of, on_node
from aftershock.fault.scene import Scene

PORTS = range(20100, 24000)
_used = itertools.count()


async def program() -> Path:
    """The proxy, built if it is not there.

    Raises:
        MissingCapability: this checkout does not bring it.
    """
    try:
        tools = importlib.import_module("aftershock.cluster.tools")
        part = tools.tool("toxiproxy")
    except (ModuleNotFoundError, AftershockError) as error:
        raise MissingCapability(
            "there is no proxy that delays",
            where="tools/toxiproxy",
            todo="add the tool (toxiproxy v2.5.0) and the module aftershock.cluster.tools to this checkout",
        ) from error
    return Path(await ensure(part)) / "toxiproxy"


def ways(listeners: Sequence[tuple[str, int]], gateway: str, address: str, port: int) -> list[list[str]]:
    """Rules of the pod's nat table: connections to a Service's address, spread evenly over the listeners."""
    found = []
    for index, (_, listen) in enumerate(listeners):
        left = len(listeners) - index
        spread = ["-m", "statistic", "--mode", "nth", "--every", str(left), "--packet", "0"] if left > 1 else []
        match = ["-d", f"{address}/32", "-p", "tcp", "--dport", str(port)]
        found.append(["OUTPUT", *match, *spread, "-j", "DNAT", "--to-destination", f"{gateway}:{listen}"])
    return found


@primitive("delay_connections")
class DelayConnections(Targets):
    """Delay what the pods get from a Service by `latency` seconds, give or take `jitter`, or let it through at no
    more than `bytes_per_second`. New connections only; pods that come later are not hit."""

    needs: ClassVar[frozenset[str]] = frozenset({"node-run", "world"})
    outside: ClassVar[bool] = True
    service: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    port: int = Field(ge=1, le=65535)
    latency: float = Field(default=0.0, ge=0, le=120)
    jitter: float = Field(default=0.0, ge=0, le=60)
    bytes_per_second: int | None = Field(default=None, ge=1000)

    def toxics(self) -> list[dict[str, Any]]:
        """As the proxy's own API takes them; its units are milliseconds and kilobytes a second."""
        found: list[dict[str, Any]] = []
        if self.latency or self.jitter:
            attributes = {"latency": int(self.latency * 1000), "jitter": int(self.jitter * 1000)}
            found.append({"type": "latency", "stream": "downstream", "attributes": attributes})
        if self.bytes_per_second:
            rate = {"rate": max(1, self.bytes_per_second // 1000)}
            found.append({"type": "bandwidth", "stream": "downstream", "attributes": rate})
        return found

    def model_post_init(self, context: object) -> None:
        if not self.toxics():
            raise ValueError("give `latency`, `jitter` or `bytes_per_second`")

    async def run(self, scene: Scene) -> dict[str, Any]:
        require(scene.cluster, "world", "a proxy in the path")
        world = scene.cluster.world
        assert world is not None
        binary = await program()
        address, backends = await self._service(scene)
        places = await self.places(scene)
        gateway = await on_node(scene, places[0].node, "ip -4 route show default | awk '{print $3; exit}'")
        start = PORTS.start + 64 * (next(_used) % 60)
        listeners = [(backend, start + 1 + n) for n, backend in enumerate(backends)]
        await self._routes(scene, world, backends)
        running = scene.start(f"{self.kind} at {self.where}", _serve(world, binary, start))
        rules = ways(listeners, gateway, address, self.port)
        done: dict[str, Any] = {"running": running, "control": start, "places": [], "rules": rules}
        try:
            await self._arrange(world, start, listeners, gateway)
            for place in places:
                await _nat(scene, place, "-I", rules[::-1])  # the first is to be first
                done["places"].append(place.entry())
        except BaseException:
            await scene.stop(running)
            raise
        return done

    async def _service(self, scene: Scene) -> tuple[str, list[str]]:
        """The Service's address, and `address:port` of the pods behind it."""
        space = self.namespace or scene.namespace
        service = await scene.api.get("Service", self.service, space)
        if service is None or service["spec"].get("clusterIP") in (None, "None"):
            raise ClusterError(f"Service/{self.service} has no address of its own", where=space)
        name = next((p.get("name", "") for p in service["spec"]["ports"] if p["port"] == self.port), None)
        if name is None:
            raise ClusterError(f"Service/{self.service} has no port {self.port}", where=space)
        slices = await scene.api.list("EndpointSlice", space, labels=f"kubernetes.io/service-name={self.service}")
        found = []
        for part in slices:
            port = next((p["port"] for p in part.get("ports") or [] if (p.get("name") or "") == name), None)
            for endpoint in part.get("endpoints") or []:
                if port and endpoint.get("conditions", {}).get("ready", True):
                    found.append(f"{endpoint['addresses'][0]}:{port}")
        if not found or len(found) > 60:
            raise ClusterError(f"Service/{self.service} has {len(found)} ready endpoints", where=space)
        return str(service["spec"]["clusterIP"]), sorted(found)

    async def _routes(self, scene: Scene, world: World, backends: Sequence[str]) -> None:
        """The world reaches nodes; to reach pods it is told which node each is behind."""
        nodes = {n["metadata"]["name"]: n["status"]["addresses"] for n in await scene.api.list("Node")}
        hosts = {
            str(pod["status"].get("podIP")): pod["spec"].get("nodeName", "")
            for pod in await scene.api.list("Pod", self.namespace or scene.namespace)
        }
        for backend in backends:
            ip = backend.rpartition(":")[0]
            via = next((a["address"] for a in nodes.get(hosts.get(ip, ""), []) if a["type"] == "InternalIP"), "")
            if not via:
                raise ClusterError(f"no node has the pod {ip}", where=f"Service/{self.service}")
            await run(world.argv(["ip", "route", "replace", f"{ip}/32", "via", via]), timeout=10)

    async def _arrange(self, world: World, start: int, listeners: Sequence[tuple[str, int]], gateway: str) -> None:
        await until(lambda: _ask(world, start, "GET", "/version"), what="the proxy answers", seconds=10)
        for backend, port in listeners:
            name = f"p{port}"
            made = {"name": name, "listen": f"{gateway}:{port}", "upstream": backend, "enabled": True}
            await _ask(world, start, "POST", "/proxies", made)
            for toxic in self.toxics():
                await _ask(world, start, "POST", f"/proxies/{name}/toxics", toxic)

    async def landed(self, scene: Scene, done: Mapping[str, Any]) -> None:
        world = scene.cluster.world
        assert world is not None
        proxies = json.loads(await _ask(world, done["control"], "GET", "/proxies"))
        if not proxies or any(len(p["toxics"]) != len(self.toxics()) or not p["enabled"] for p in proxies.values()):
            raise NotYet("the proxy does not delay")
        for place, _ in entries_of(done):
            shown = await place.look(scene, "inside iptables -w 5 -t nat -S OUTPUT")
            if len(re.findall(r"--to-destination \S+", shown)) < len(done["rules"]):
                raise NotYet(f"{place.pod} still goes the direct way")

    async def undo(self, scene: Scene, done: Mapping[str, Any]) -> None:
        for place, _ in entries_of(done):
            with contextlib.suppress(AftershockError):  # the pod, or the whole cluster, may be gone
                await _nat(scene, place, "-D", done["rules"])
        await scene.stop(done["running"])


async def _nat(scene: Scene, place: Place, how: str, rules: Sequence[Sequence[str]]) -> None:
    await place.run(scene, "\n".join(f"inside iptables -w 5 -t nat {how} {' '.join(rule)}" for rule in rules))


async def _ask(world: World, port: int, method: str, path: str, body: Any = None) -> str:
    """One request to the proxy's API, which listens in the world only."""
    data = ["-d", json.dumps(body), "-H", "Content-Type: application/json"] if body is not None else []
    url = f"http://127.0.0.1:{port}{path}"
    done = await run(world.argv(["curl", "-sS", "-f", "-m", "5", "-X", method, *data, url]), timeout=10, check=False)
    if not done.ok:
        raise NotYet(done.tail(200))
    return done.out


async def _serve(world: World, binary: Path, port: int) -> None:
    """The proxy, until it is stopped. The kernel ends it when this program dies."""
    argv = ["setpriv", "--pdeathsig", "KILL", str(binary), "-host", "127.0.0.1", "-port", str(port)]
    process = await asyncio.create_subprocess_exec(
        *world.argv(argv),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        await process.wait()
        raise ClusterError("the proxy in the path has ended", where=binary.name)
    finally:
        if process.returncode is None:
            kill_group(process.pid)
            await process.wait()
