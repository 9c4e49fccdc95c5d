"""Reaching a pod's processes, network and control groups from the machine, through its node.

A fault that is made this way leaves no object, no event and no program in the pod. The node's own runtime
says which process is the first of a container; from there its root, its network namespace and its control
groups (v1 and v2) are at hand. Scripts travel by standard input, so that a list of processes shows a shell
and nothing of what it does.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal

from pydantic import Field

from aftershock.base.errors import AftershockError, ClusterError
from aftershock.base.wait import NotYet
from aftershock.cluster.api import Object
from aftershock.fault.base import Primitive
from aftershock.fault.scene import Scene, split_ref

__all__ = ["TARGET", "OnPods", "Place", "Targets", "entries_of", "look_on", "on_node", "pods_of", "script"]

# `Kind/name` of a pod or workload, or a label selector.
TARGET = r"^([A-Z][A-Za-z]+/[a-z0-9][a-z0-9.-]*|[A-Za-z0-9./_-]+=[A-Za-z0-9._-]+(,[A-Za-z0-9./_-]+=[A-Za-z0-9._-]+)*)$"
WORKLOADS = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job")

# What scripts in a container's place may use: $P its first process as the node counts, $ROOT its files,
# `group NAME` the folder of its control group, `inside COMMAND` the pod's network namespace.
PRELUDE = r"""
P=$(cat "/run/containerd/io.containerd.runtime.v2.task/k8s.io/$1/init.pid"); shift
ROOT=/proc/$P/root
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then V=2; else V=1; fi
group() {
  if [ $V = 2 ]; then echo "/sys/fs/cgroup$(sed -n 's/^0:://p' "/proc/$P/cgroup")"
  else echo "/sys/fs/cgroup/$1$(sed -n "s/^[0-9]*:$1://p" "/proc/$P/cgroup")"; fi
}
inside() { nsenter -t "$P" -n -- "$@"; }
"""


def script(text: str, *, prelude: str = "") -> str:
    """A shell script that is read wholly before it runs, so that its programs cannot read from it."""
    return f'main() {{\nset -eu\n{prelude}\n{text}\n}}\nmain "$@" </dev/null\n'


async def on_node(scene: Scene, node: str, text: str, *args: str, timeout: float = 30.0) -> str:
    """Run a script in a node, as its root; what it printed, without the last line's end.

    Raises:
        ClusterError: it ended with an error.
    """
    return await _bash(scene, node, script(text), args, timeout)


async def look_on(scene: Scene, node: str, text: str, *args: str, timeout: float = 30.0) -> str:
    """The same for a probe: what cannot be read is not so yet."""
    try:
        return await on_node(scene, node, text, *args, timeout=timeout)
    except ClusterError as error:
        raise NotYet(error.what) from error


async def _bash(scene: Scene, node: str, text: str, args: Sequence[str], timeout: float) -> str:
    done = await scene.cluster.node_run(node, ["bash", "-s", "--", *args], stdin=text, timeout=timeout, check=False)
    if not done.ok:
        raise ClusterError(f"a script in the node {node} ended with {done.code}: {done.tail(300)}", where=node)
    return done.out.rstrip("\n")


@dataclass(frozen=True)
class Place:
    """A running container: `id` is the runtime's, `address` its pod's."""

    node: str
    pod: str
    container: str
    id: str
    address: str

    def entry(self, kept: str = "") -> dict[str, Any]:
        """As it is written into a record, with what an undo needs."""
        return {**asdict(self), "kept": kept}

    async def run(self, scene: Scene, text: str, *args: str, timeout: float = 30.0) -> str:
        """Run a script beside the container, in its node; see `PRELUDE` for what it may use.

        Raises:
            ClusterError: it ended with an error, or the container is gone.
        """
        return await _bash(scene, self.node, script(text, prelude=PRELUDE), (self.id, *args), timeout)

    async def look(self, scene: Scene, text: str, *args: str, timeout: float = 30.0) -> str:
        """The same for a probe: what cannot be read is not so yet."""
        try:
            return await self.run(scene, text, *args, timeout=timeout)
        except ClusterError as error:
            raise NotYet(f"{self.pod}: {error.what}") from error


def entries_of(done: Mapping[str, Any]) -> list[tuple[Place, str]]:
    """The places of a step that was done, each with what its undo needs."""
    return [(Place(**{k: v for k, v in entry.items() if k != "kept"}), entry["kept"]) for entry in done["places"]]


def _place(pod: Object, container: str) -> Place | None:
    """The place of a pod's container (its first one when not named), None while it does not run."""
    wanted = container or pod["spec"]["containers"][0]["name"]
    for status in pod.get("status", {}).get("containerStatuses") or []:
        if status["name"] == wanted and status.get("state", {}).get("running"):
            identity = status["containerID"].partition("://")[2]
            node, address = pod["spec"]["nodeName"], pod["status"].get("podIP", "")
            return Place(node, pod["metadata"]["name"], wanted, identity, address)
    return None


async def pods_of(scene: Scene, target: str, namespace: str | None = None) -> list[Object]:
    """The pods of `Kind/name` or of a label selector that are not being deleted, by name.

    Raises:
        ClusterError: there is no such workload, or it selects by expressions.
    """
    space = namespace or scene.namespace
    labels = target
    if "=" not in target:
        kind, _ = split_ref(target)
        obj = await scene.get(target, space)
        if obj is None:
            raise ClusterError(f"there is no {target}", where=space)
        if kind == "Pod":
            return [obj]
        chosen = obj["spec"].get("selector") or {}
        chosen = chosen.get("matchLabels", {}) if kind in WORKLOADS else chosen
        if not chosen:
            raise ClusterError(f"the pods of {target} cannot be told by labels", where=space)
        labels = ",".join(f"{key}={value}" for key, value in sorted(chosen.items()))
    pods = await scene.api.list("Pod", space, labels=labels)
    alive = [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]
    return sorted(alive, key=lambda pod: str(pod["metadata"]["name"]))


class Targets(Primitive):
    """Base of what is aimed at the containers of pods from the machine.

    `pods`: a pod or workload (`Deployment/web`), or a label selector. `which`: all that run, or one by chance.
    `container`: the pod's first one by default.
    """

    needs: ClassVar[frozenset[str]] = frozenset({"node-run"})

    pods: str = Field(pattern=TARGET)
    which: Literal["all", "one"] = "all"
    container: str = ""
    namespace: str | None = None

    async def places(self, scene: Scene) -> list[Place]:
        """
        Raises:
            ClusterError: nothing that matches runs.
        """
        pods = await pods_of(scene, self.pods, self.namespace)
        found = [place for pod in pods if (place := _place(pod, self.container))]
        if not found:
            raise ClusterError(f"no running container matches {self.pods} {self.container}".rstrip(), where=self.where)
        return found if self.which == "all" else [scene.random(self.where or self.kind).choice(found)]


class OnPods(Targets):
    """Base of what is done in one place after another. What was done is taken back when it fails half-way."""

    async def run(self, scene: Scene) -> dict[str, Any]:
        entries: list[dict[str, Any]] = []
        try:
            for place in await self.places(scene):
                entries.append(place.entry(await self.act(scene, place)))
        except AftershockError:
            await self.undo(scene, {"places": entries})
            raise
        return {"places": entries}

    async def landed(self, scene: Scene, done: Mapping[str, Any]) -> None:
        for place, kept in entries_of(done):
            await self.probe(scene, place, kept)

    async def undo(self, scene: Scene, done: Mapping[str, Any]) -> None:
        """Each place by itself: one whose container is gone has nothing left to undo."""
        failed = []
        for place, kept in entries_of(done):
            try:
                await self.revert(scene, place, kept)
            except AftershockError as error:
                failed.append(f"{place.pod}: {error.what}")
        if failed:
            raise ClusterError("; ".join(failed), where=self.where)

    @abstractmethod
    async def act(self, scene: Scene, place: Place) -> str:
        """Do it in one place; what is returned is what `revert` needs."""

    @abstractmethod
    async def probe(self, scene: Scene, place: Place, kept: str) -> None:
        """Return once it shows there, raise NotYet while it does not."""

    @abstractmethod
    async def revert(self, scene: Scene, place: Place, kept: str) -> None:
        """Put that place back as it was."""
