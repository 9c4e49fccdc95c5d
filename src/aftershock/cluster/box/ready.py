"""When a box may be relied on: everything in it is *freshly* ready.

After a restore the API server serves what was true when the state was saved: nodes Ready, pods
Running with addresses of another day. So nothing is believed until it is new. A node is fresh when
its lease has moved past the version that the first answer showed. A container is fresh when its id
is among those that run on its node now, read from the node itself; no clock is compared.
"""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from aftershock.base.errors import ClusterError
from aftershock.base.wait import NotYet, until
from aftershock.cluster.api import Api, Object, pod_ready
from aftershock.cluster.box import node
from aftershock.cluster.box.daemons import API_SERVICE
from aftershock.cluster.box.layout import Layout

__all__ = [
    "api_answers",
    "api_ready",
    "fresh_pods",
    "live_containers",
    "nodes_ready",
    "packets_filtered",
    "services_answer",
]

SKIP = "exclude=poststarthook/rbac/bootstrap-roles&exclude=poststarthook/scheduling/bootstrap-system-priority-classes"


async def api_answers(layout: Layout, api: Api, *, seconds: float = 60) -> str:
    """Wait for the API server's first answer; returns the version of the heartbeats it had by then.

    Kubelets start after the first answer too, so no heartbeat of this start can be older.
    """

    async def probe() -> str:
        _check_booting(layout)
        try:
            _, version = await api.list_with_version("Lease", "kube-node-lease", attempts=1)
        except ClusterError as error:
            raise NotYet(error.what[:200]) from error
        return version

    return await until(
        probe,
        what="the API server answers",
        seconds=seconds,
        every=0.03,
        where=layout.name,
        todo=f"look at {layout.node_folder(0)}/boot.log and the logs under /var/log in node-0",
    )


async def api_ready(layout: Layout, api: Api, *, seconds: float = 60) -> None:
    """Wait until the API server calls itself ready.

    Two start hooks are left out, since they only ask once a second whether there is something to do:
    the default roles, which nodes do not need to register, and the two priority classes.
    """

    async def probe() -> None:
        response = await api.request("GET", "/readyz?" + SKIP)
        if response.status_code != 200:
            raise NotYet(" ".join(x for x in response.text.split("\n") if x.startswith("[-]"))[:200])

    await until(probe, what="the API server is ready", seconds=seconds, every=0.2, where=layout.name)


def _check_booting(layout: Layout) -> None:
    for n, pid in enumerate(layout.pids):
        if not pid.alive():
            log = layout.node_folder(n) / "boot.log"
            raise ClusterError(
                f"{layout.node_name(n)} ended while starting: {log.read_text()[-600:].strip()}",
                where=str(log),
                todo="`aftershock doctor` shows what the machine lacks",
            )


async def nodes_ready(layout: Layout, api: Api, *, since: str, restored: bool, seconds: float = 60) -> None:
    """Wait until each node is Ready, on restored state with a lease renewed after version `since`.

    A new cluster has no stale nodes, and its first leases are late: their namespace is made last.
    """

    async def probe() -> None:
        leases, nodes = await asyncio.gather(api.list("Lease", "kube-node-lease"), api.list("Node"))
        renewed = {x["metadata"]["name"]: int(x["metadata"]["resourceVersion"]) for x in leases}
        states = {x["metadata"]["name"]: _condition(x, "Ready") for x in nodes}
        for name in layout.node_names:
            if restored and renewed.get(name, 0) <= int(since):
                raise NotYet(f"{name} has sent no heartbeat since the start")
            if states.get(name) != "True":
                raise NotYet(f"{name} is not Ready")

    await until(probe, what="all nodes are ready", seconds=seconds, every=0.15, where=layout.name)


def _condition(obj: Object, kind: str) -> str:
    return next((c["status"] for c in obj.get("status", {}).get("conditions") or [] if c["type"] == kind), "Unknown")


def live_containers(layout: Layout) -> set[str]:
    """Ids of all containers whose first process runs on the nodes now.

    The runtime's folder of a container outlives its process for a while, so the process itself is asked.
    """
    found: set[str] = set()
    for n in range(layout.nodes):
        root = node.node_root_path(layout, n)
        try:
            tasks = list((root / "run/containerd/io.containerd.runtime.v2.task/k8s.io").iterdir())
        except OSError:
            continue
        found |= {task.name for task in tasks if _runs(root, task)}
    return found


def _runs(root: Path, task: Path) -> bool:
    try:
        stat = (root / "proc" / (task / "init.pid").read_text().strip() / "stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")


def stale(pod: Object, live: set[str]) -> str:
    """Why a pod is not freshly ready; empty when it is, or has ended for good.

    metrics-server is never waited for: it is ready when it has seen two samples of every node, half
    a minute after all else, and no user depends on it.
    """
    if (pod["metadata"].get("labels") or {}).get("k8s-app") == "metrics-server":
        return ""
    name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    status = pod.get("status", {})
    if status.get("phase") in ("Succeeded", "Failed"):
        return ""
    if "deletionTimestamp" in pod["metadata"]:
        return f"{name} is ending"
    statuses: list[dict[str, Any]] = status.get("containerStatuses") or []
    if len(statuses) < len(pod["spec"]["containers"]):
        return f"{name} is {status.get('phase', 'Pending')}"
    for container in statuses:
        if container.get("containerID", "").rpartition("/")[2] not in live:
            return f"{name} has not started since"
    return "" if pod_ready(pod) else f"{name} is not ready"


async def fresh_pods(layout: Layout, api: Api, *, seconds: float = 90) -> list[Object]:
    """Wait until every pod that should run was started here and is ready; returns all pods."""

    async def probe() -> list[Object]:
        pods = await api.list("Pod")
        live = live_containers(layout)
        reasons = [why for pod in pods if (why := stale(pod, live))]
        if reasons:
            raise NotYet(f"{len(reasons)} of {len(pods)} pods: {reasons[0]}")
        for kind in ("Deployment", "StatefulSet", "DaemonSet"):
            for obj in await api.list(kind):
                wanted = (
                    obj["spec"].get("replicas", 1)
                    if kind != "DaemonSet"
                    else obj["status"].get("desiredNumberScheduled", 0)
                )
                owned = [
                    p
                    for p in pods
                    if _selected(p, obj["spec"]["selector"].get("matchLabels") or {}, obj["metadata"]["namespace"])
                ]
                if len(owned) < wanted:
                    raise NotYet(f"{kind} {obj['metadata']['name']} has {len(owned)} of {wanted} pods")
        return pods

    return await until(probe, what="all pods are freshly ready", seconds=seconds, every=0.3, where=layout.name)


def _selected(obj: Object, labels: dict[str, str], namespace: str) -> bool:
    has = obj["metadata"].get("labels") or {}
    return obj["metadata"]["namespace"] == namespace and all(has.get(k) == v for k, v in labels.items())


async def services_answer(layout: Layout, api: Api, pods: Iterable[Object], *, seconds: float = 30) -> None:
    """Wait until each Service that selects ready pods leads to the addresses they have now."""
    listed = [p for p in pods if p.get("status", {}).get("phase") == "Running"]

    async def probe() -> None:
        services, slices = await asyncio.gather(api.list("Service"), api.list("EndpointSlice"))
        for service in services:
            selector, meta = service["spec"].get("selector"), service["metadata"]
            if not selector:
                continue
            wanted = {
                p["status"].get("podIP") for p in listed if _selected(p, selector, meta["namespace"]) and pod_ready(p)
            }
            has = {
                address
                for x in slices
                if x["metadata"]["namespace"] == meta["namespace"]
                and (x["metadata"].get("labels") or {}).get("kubernetes.io/service-name") == meta["name"]
                for e in x.get("endpoints") or []
                if (e.get("conditions") or {}).get("ready", True)
                for address in e["addresses"]
            }
            if wanted != has:
                where = f"Service {meta['namespace']}/{meta['name']}"
                raise NotYet(f"{where} leads to {sorted(has)}, not to {sorted(map(str, wanted))}")

    await until(probe, what="Services lead to the pods' addresses", seconds=seconds, every=0.2, where=layout.name)


async def packets_filtered(layout: Layout, *, seconds: float = 30) -> None:
    """Wait until each node's packet filter leads to the API server and consults network policies.

    A pod that starts before the first cannot reach the API server for seconds; a box where the second
    never comes would leak, and is not ready.
    """

    async def one(n: int) -> None:
        async def probe() -> None:
            rules = (await node.node_run(layout, n, ["iptables-save"], timeout=10)).out
            if f"-d {API_SERVICE}/32" not in rules:
                raise NotYet("it has no rule for the API server's service address")
            if "-A FORWARD" not in rules or "KUBE-ROUTER-FORWARD" not in rules:
                raise NotYet("it has no chain for network policies")

        await until(
            probe,
            what=f"the packet filter of {layout.node_name(n)} is set up",
            seconds=seconds,
            every=0.2,
            where=layout.name,
            todo="see /var/log/network-policy-agent and kube-proxy on that node",
        )

    await asyncio.gather(*(one(n) for n in range(layout.nodes)))
