"""A node is drained, a workload is rolled out again, a controller has its next turn."""

import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import Field, PrivateAttr, model_validator

from aftershock.base.errors import ClusterError
from aftershock.base.wait import NotYet
from aftershock.cluster.api import Object, pod_ready, rollout_state
from aftershock.fault.base import Ref
from aftershock.fault.eviction import emptied, pods_on
from aftershock.fault.scene import Scene, split_ref
from aftershock.oracle.move import Move, move

ROLLED = ("Deployment", "StatefulSet", "DaemonSet")


@move("drain_node")
class DrainNode(Move):
    """Cordon the node that runs a pod of `selector` (or `node`), and evict what runs there; uncordoned afterwards.

    Evictions respect budgets, as an administrator's would: a budget that allows none holds the drain up, and
    it does not land. Pods without a controller are evicted too. With `ready` others have taken over.
    """

    selector: str = Field(default="", pattern="^$|=")
    node: str = ""
    ready: bool = True
    namespace: str | None = None
    within: float = Field(default=90.0, gt=0, le=600)
    _cordoned: list[str] = PrivateAttr(default_factory=list)

    @model_validator(mode="after")
    def _one(self) -> "DrainNode":
        if bool(self.selector) == bool(self.node):
            raise ValueError("give either `selector` (the node that runs such a pod) or `node`")
        return self

    async def run(self, scene: Scene) -> dict[str, Any]:
        node = self.node or await self._node_of(scene)
        obj = await scene.api.get("Node", node)
        if obj is None:
            raise ClusterError(f"there is no node {node}", where=self.where)
        if not obj["spec"].get("unschedulable"):
            self._cordoned.append(node)
            await scene.tool("kubectl-cordon").patch("Node", node, None, {"spec": {"unschedulable": True}}, how="merge")
        return {"node": node, "pods": await pods_on(scene, node)}

    async def _node_of(self, scene: Scene) -> str:
        pods = await scene.api.list("Pod", self.namespace or scene.namespace, labels=self.selector)
        for pod in sorted(pods, key=lambda pod: str(pod["metadata"]["name"])):
            if pod["spec"].get("nodeName") and pod.get("status", {}).get("phase") == "Running":
                return str(pod["spec"]["nodeName"])
        raise ClusterError(f"no running pod matches {self.selector}", where=self.where, todo="nothing to be drained")

    async def landed(self, scene: Scene, done: Mapping[str, Any]) -> None:
        await emptied(scene, done["node"], done["pods"])
        if self.ready and self.selector:
            pods = await scene.api.list("Pod", self.namespace or scene.namespace, labels=self.selector)
            if not any(pod_ready(pod) for pod in pods):
                raise NotYet(f"no pod of {self.selector} has become ready elsewhere")

    async def give_back(self, scene: Scene) -> None:
        while self._cordoned:
            node = self._cordoned.pop()
            await scene.tool("kubectl-uncordon").patch(
                "Node", node, None, {"spec": {"unschedulable": None}}, how="merge"
            )


@move("roll_out_again")
class RollOutAgain(Move):
    """`kubectl rollout restart`: the same revision again, on new pods."""

    object: Ref
    namespace: str | None = None
    within: float = Field(default=90.0, gt=0, le=600)

    @model_validator(mode="after")
    def _workload(self) -> "RollOutAgain":
        if split_ref(self.object)[0] not in ROLLED:
            raise ValueError(f"`object` is one of {', '.join(ROLLED)}")
        return self

    async def run(self, scene: Scene) -> dict[str, Any]:
        kind, name = split_ref(self.object)
        at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        annotations = {"kubectl.kubernetes.io/restartedAt": at}
        patch = {"spec": {"template": {"metadata": {"annotations": annotations}}}}
        api = scene.tool("kubectl-rollout")
        made = await api.patch(kind, name, self.namespace or scene.namespace, patch, how="strategic")
        return {"object": self.object, "generation": made["metadata"]["generation"]}

    async def landed(self, scene: Scene, done: Mapping[str, Any]) -> None:
        obj = await scene.get(self.object, self.namespace)
        if why := rollout_state(obj):
            raise NotYet(f"{self.object}: {why}")


@move("next_turn")
class NextTurn(Move):
    """Wait until a reconciler has had its next turn, begun after this: a CronJob's run, or a line that it logs.

    What it does then comes after the repair. Without it a system that will be changed back within the
    minute passes.
    """

    object: Ref | None = None
    selector: str = Field(default="", pattern="^$|=")
    container: str = ""
    pattern: str = ""
    turns: int = Field(default=1, ge=1, le=10)
    ends: Literal["well", "anyhow"] = "well"
    namespace: str | None = None
    within: float = Field(default=90.0, gt=0, le=600)

    @model_validator(mode="after")
    def _one(self) -> "NextTurn":
        if (self.object is None) == (not self.selector):
            raise ValueError("give either `object: CronJob/...`, or `selector` with the `pattern` of a line")
        if self.object and split_ref(self.object)[0] != "CronJob":
            raise ValueError("`object` is a CronJob; of another reconciler give `selector` and `pattern`")
        if bool(self.selector) != bool(self.pattern):
            raise ValueError("`selector` and `pattern` go together")
        re.compile(self.pattern)
        return self

    async def run(self, scene: Scene) -> dict[str, Any]:
        if self.object:
            cron = await scene.get(self.object, self.namespace)
            if cron is None:
                raise ClusterError(f"{self.object} is gone", where=self.where)
            if cron["spec"].get("suspend"):
                raise ClusterError(f"{self.object} is suspended: its turn never comes", where=self.where)
        return {"since": time.time()}

    async def _lines(self, scene: Scene, seconds: int) -> int:
        """Lines that match, of the last so many seconds."""
        space = self.namespace or scene.namespace
        pods = await scene.api.list("Pod", space, labels=self.selector)
        if not pods:
            raise NotYet(f"no pod matches {self.selector}")
        count = 0
        for pod in pods:
            if pod.get("status", {}).get("phase") != "Running":
                continue
            text = await scene.api.logs(space, pod["metadata"]["name"], container=self.container, since=seconds)
            count += sum(bool(re.search(self.pattern, line)) for line in text.splitlines())
        return count

    async def landed(self, scene: Scene, done: Mapping[str, Any]) -> None:
        if not self.object:
            # In whole seconds, rounded down: rather miss a line of the first second than count an older one.
            seconds = int(time.time() - done["since"])
            new = await self._lines(scene, seconds) if seconds else 0
            if new < self.turns:
                raise NotYet(f"{new} of {self.turns} turns were logged")
            return
        _, name = split_ref(self.object)
        jobs = [
            job
            for job in await scene.api.list("Job", self.namespace or scene.namespace)
            if any(o["name"] == name and o["kind"] == "CronJob" for o in job["metadata"].get("ownerReferences") or [])
            and _epoch(job["metadata"]["creationTimestamp"]) >= int(done["since"])
        ]
        wanted = ("Complete",) if self.ends == "well" else ("Complete", "Failed")
        ended = [job for job in jobs if any(_ended(job, kind) for kind in wanted)]
        if len(ended) < self.turns:
            raise NotYet(f"{len(ended)} of {self.turns} runs of {self.object} have ended, {len(jobs)} have begun")


def _ended(job: Object, how: str) -> bool:
    conditions = job.get("status", {}).get("conditions") or []
    return any(c["type"] == how and c["status"] == "True" for c in conditions)


def _epoch(text: str) -> float:
    """
    >>> _epoch("1970-01-01T00:01:00Z")
    60.0
    """
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
