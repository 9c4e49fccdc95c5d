"""Nodes: their daemons stopped or starved, cordoned, drained, booted again, their disk full."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field

from aftershock.base.errors import ClusterError
from aftershock.base.wait import NotYet
from aftershock.cluster.api import Object
from aftershock.fault.base import Primitive, primitive
from aftershock.fault.eviction import emptied, pods_on
from aftershock.fault.machine import look_on, on_node, pods_of
from aftershock.fault.scene import Scene

MIB = 1 << 20
Daemon = Literal[
    "kubelet", "containerd", "kube-proxy", "kube-scheduler", "kube-controller-manager", "kube-apiserver", "etcd",
    "cloud-controller-manager", "network-policy-agent",
]  # fmt: skip


def condition(node: Object | None, kind: str) -> str:
    """The status of a node's condition: True, False or Unknown; empty where there is none."""
    found = (node or {}).get("status", {}).get("conditions") or []
    return next((str(c["status"]) for c in found if c["type"] == kind), "")


class OnNode(Primitive):
    """Base of what is done to one node, named or told by a pod or workload that runs on it (`StatefulSet/db`)."""

    needs: ClassVar[frozenset[str]] = frozenset({"node-run"})
    node: str = Field(min_length=1, description="a node's name, or `Kind/name` of what runs on it")

    async def chosen(self, scene: Scene) -> str:
        """The node's name: that of the first pod by name, where a workload was given.

        Raises:
            ClusterError: it runs nowhere.
        """
        if "/" not in self.node:
            return self.node
        nodes = [pod["spec"].get("nodeName", "") for pod in await pods_of(scene, self.node)]
        if not any(nodes):
            raise ClusterError(f"{self.node} runs on no node", where=self.where)
        return str(next(node for node in nodes if node))


@primitive("stop_daemon")
class StopDaemon(OnNode):
    """Stop a daemon of a node: kubelet (the node turns NotReady), the scheduler, the controller manager and so on.

    `until: felt` waits for what the cluster notices: a kubelet's node is no longer ready.
    """

    daemon: Daemon
    until: Literal["stopped", "felt"] = "stopped"

    async def run(self, scene: Scene) -> dict[str, Any]:
        node = await self.chosen(scene)
        # Killed, not asked: an API server that may say goodbye takes its endpoint back.
        await on_node(scene, node, 'sv -w 10 force-stop "$1" >/dev/null || :', self.daemon)
        return {"node": node, "daemon": self.daemon}

    async def landed(self, scene: Scene, done: Mapping[str, Any]) -> None:
        state = await look_on(scene, done["node"], 'sv status "$1" | head -n 1', self.daemon)
        if not state.startswith("down:"):
            raise NotYet(f"{self.daemon} of {done['node']}: {state}")
        if self.until == "felt" and self.daemon == "kubelet":
            node = await scene.api.get("Node", done["node"])
            if condition(node, "Ready") == "True":
                raise NotYet(f"{done['node']} still counts as ready")

    async def undo(self, scene: Scene, done: Mapping[str, Any]) -> None:
        await on_node(scene, done["node"], 'sv start "$1" >/dev/null', self.daemon)


@primitive("starve_daemon")
class StarveDaemon(OnNode):
    """Leave a node's daemon so little of a processor that all it does takes long (an API server that is slow)."""

    daemon: Daemon
    cores: float = Field(ge=0.01, le=4)

    async def run(self, scene: Scene) -> dict[str, Any]:
        node = await self.chosen(scene)
        await on_node(
            scene,
            node,
            """pid=$(sed -n 1p "/etc/service/$1/supervise/pid")
            if [ -e /sys/fs/cgroup/cgroup.controllers ]; then group=/sys/fs/cgroup/$1.service; mkdir -p "$group"
              echo "$2 100000" >"$group/cpu.max"
            else group=/sys/fs/cgroup/cpu/$1.service; mkdir -p "$group"; echo "$2" >"$group/cpu.cfs_quota_us"; fi
            echo "$pid" >"$group/cgroup.procs" """,
            self.daemon, str(int(self.cores * 100_000)),
        )  # fmt: skip
        return {"node": node, "daemon": self.daemon}

    async def landed(self, scene: Scene, done: Mapping[str, Any]) -> None:
        where = await look_on(
            scene, done["node"], 'cat "/proc/$(sed -n 1p "/etc/service/$1/supervise/pid")/cgroup"', self.daemon
        )
        if f"/{self.daemon}.service" not in where:
            raise NotYet(f"{self.daemon} of {done['node']} has all processors")

    async def undo(self, scene: Scene, done: Mapping[str, Any]) -> None:
        await on_node(
            scene,
            done["node"],
            """if [ -e /sys/fs/cgroup/cgroup.controllers ]; then echo max >"/sys/fs/cgroup/$1.service/cpu.max"
            else echo -1 >"/sys/fs/cgroup/cpu/$1.service/cpu.cfs_quota_us"; fi""",
            self.daemon,
        )


@primitive("cordon")
class Cordon(OnNode):
    """Mark a node as unschedulable, as `kubectl cordon` does."""

    needs: ClassVar[frozenset[str]] = frozenset()

    async def run(self, scene: Scene) -> dict[str, Any]:
        node = await self.chosen(scene)
        await scene.api.patch("Node", node, None, {"spec": {"unschedulable": True}}, how="strategic")
        return {"node": node}

    async def landed(self, scene: Scene, done: Mapping[str, Any]) -> None:
        node = await scene.api.get("Node", done["node"])
        taints = [taint["key"] for taint in (node or {}).get("spec", {}).get("taints") or []]
        if "node.kubernetes.io/unschedulable" not in taints:
            raise NotYet(f"pods are still scheduled to {done['node']}")

    async def undo(self, scene: Scene, done: Mapping[str, Any]) -> None:
        await scene.api.patch("Node", done["node"], None, {"spec": {"unschedulable": None}}, how="strategic")


@primitive("drain")
class Drain(Cordon):
    """Cordon a node and evict its pods, as `kubectl drain` does: budgets are kept, DaemonSets' pods stay.
    Undone by uncordoning; pods do not come back by themselves."""

    namespace: str | None = None

    async def run(self, scene: Scene) -> dict[str, Any]:
        done = await super().run(scene)
        return {**done, "pods": await pods_on(scene, done["node"], self.namespace)}

    async def landed(self, scene: Scene, done: Mapping[str, Any]) -> None:
        await super().landed(scene, done)
        await emptied(scene, done["node"], done["pods"])


@primitive("reboot_node")
class RebootNode(OnNode):
    """Have a node go down hard and come up again: all its containers and daemons end at once, start anew, and the
    node has another boot id. Not the first node, whose API server would go with it."""

    async def run(self, scene: Scene) -> dict[str, Any]:
        node = await self.chosen(scene)
        if scene.cluster.nodes and node == scene.cluster.nodes[0]:
            raise ClusterError(f"{node} runs the control plane", where=self.where, todo="reboot another node")
        before = (await scene.api.get("Node", node) or {}).get("status", {}).get("nodeInfo", {}).get("bootID")
        await on_node(
            scene,
            node,
            r"""cd /etc/service
            sv -w 10 force-stop * >/dev/null 2>&1 || :
            for task in /run/containerd/io.containerd.runtime.v2.task/k8s.io/*/init.pid; do
              kill -KILL "$(sed 's/.*) . \([0-9]*\) .*/\1/' /proc/"$(cat "$task")"/stat)"
            done 2>/dev/null || :
            find /sys/fs/cgroup -path '*kubepods*' -name cgroup.procs -exec cat {} + 2>/dev/null | sort -u |
              xargs -r kill -KILL 2>/dev/null || :
            cat /proc/sys/kernel/random/uuid >/run/boot_id
            sv start * >/dev/null""",
            timeout=60,
        )
        return {"node": node, "before": before}

    async def landed(self, scene: Scene, done: Mapping[str, Any]) -> None:
        node = await scene.api.get("Node", done["node"])
        if (node or {}).get("status", {}).get("nodeInfo", {}).get("bootID") == done["before"]:
            raise NotYet(f"{done['node']} has not reported that it was booted")
        if condition(node, "Ready") != "True":
            raise NotYet(f"{done['node']} is not ready again")


@primitive("fill_node_disk")
class FillNodeDisk(OnNode):
    """Fill a node's disk until `leave` bytes are free: by default below the kubelet's threshold, so that the node
    reports DiskPressure and evicts pods. `until: full` does not wait for that."""

    leave: int = Field(default=200 * MIB, ge=0)
    file: str = Field(default="/var/log/journal.1", pattern=r"^/var/[\w./-]+$")
    until: Literal["full", "pressure"] = "pressure"
    within: float = Field(default=60.0, gt=0, le=600)

    async def run(self, scene: Scene) -> dict[str, Any]:
        node = await self.chosen(scene)
        await on_node(
            scene,
            node,
            """at=0; step=$((1 << 30))
            while [ "$step" -ge $((1 << 20)) ]; do
              free=$(stat -f -c '%a %S' "${1%/*}" | awk -v keep="$2" '{printf "%d", $1 * $2 - keep}')
              if [ "$free" -ge "$step" ] && fallocate -o "$at" -l "$step" "$1" 2>/dev/null; then at=$((at + step))
              else step=$((step / 2)); fi
            done""",
            self.file, str(self.leave), timeout=60,
        )  # fmt: skip
        return {"node": node, "file": self.file}

    async def landed(self, scene: Scene, done: Mapping[str, Any]) -> None:
        shown = "stat -f -c '%a %S' \"${1%/*}\" | awk '{printf \"%d\", $1 * $2}'"
        free = int(await look_on(scene, done["node"], shown, self.file))
        if free > self.leave + 16 * MIB:
            raise NotYet(f"{done['node']} still has {free // MIB} MiB free")
        if self.until == "pressure":
            node = await scene.api.get("Node", done["node"])
            if condition(node, "DiskPressure") != "True":
                raise NotYet(f"{done['node']} reports no pressure yet")

    async def undo(self, scene: Scene, done: Mapping[str, Any]) -> None:
        await on_node(scene, done["node"], 'rm -f "$1"', self.file)
