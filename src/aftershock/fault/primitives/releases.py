"""Releases that go wrong without another image: a command, arguments or variables that are not right."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from aftershock.base.errors import ClusterError
from aftershock.base.wait import NotYet
from aftershock.cluster.api import Object, pod_ready
from aftershock.fault.base import Primitive, Ref, primitive
from aftershock.fault.primitives.objects import ROLLED
from aftershock.fault.scene import Scene, split_ref


@primitive("bad_release")
class BadRelease(Primitive):
    """Roll a workload out with another command, arguments, variables or image, and wait for what becomes of it:
    `crashing` (a container ends over and over), `not_ready` (it runs and never gets ready) or `running`."""

    object: Ref
    container: str
    command: list[str] | None = None
    args: list[str] | None = None
    env: dict[str, str] = Field(default_factory=dict)
    image: str = ""
    until: Literal["crashing", "not_ready", "running"] = "crashing"
    namespace: str | None = None
    within: float = Field(default=90.0, gt=0, le=600)

    @field_validator("object")
    @classmethod
    def _workload(cls, ref: str) -> str:
        if split_ref(ref)[0] not in ROLLED:
            raise ValueError(f"one of {', '.join(ROLLED)} belongs here")
        return ref

    @model_validator(mode="after")
    def _changes(self) -> "BadRelease":
        if self.command is None and self.args is None and not self.env and not self.image:
            raise ValueError("give what the release changes: `command`, `args`, `env` or `image`")
        return self

    def patched(self) -> dict[str, Any]:
        """The container's part of the patch."""
        found: dict[str, Any] = {"name": self.container}
        if self.command is not None:
            found["command"] = self.command
        if self.args is not None:
            found["args"] = self.args
        if self.image:
            found["image"] = self.image
        if self.env:
            found["env"] = [{"name": name, "value": value} for name, value in self.env.items()]
        return found

    async def _write(self, scene: Scene, template: dict[str, Any]) -> Object:
        kind, name = split_ref(self.object)
        body = {"spec": {"template": {"spec": template}}}
        return await scene.tool("kubectl-patch").patch(kind, name, self.namespace or scene.namespace, body)

    async def run(self, scene: Scene) -> dict[str, Any]:
        before = await scene.get(self.object, self.namespace)
        containers = (before or {}).get("spec", {}).get("template", {}).get("spec", {}).get("containers", [])
        if self.container not in [c["name"] for c in containers]:
            raise ClusterError(f"{self.object} has no container {self.container}", where=self.where)
        after = await self._write(scene, {"containers": [self.patched()]})
        kept = f"{self.object} before generation {after['metadata']['generation']}"
        scene.kept[kept] = before or {}
        return {"object": self.object, "before": kept}

    async def landed(self, scene: Scene, done: Mapping[str, Any]) -> None:
        obj = await scene.get(self.object, self.namespace)
        if obj is None:
            raise NotYet(f"{self.object} is gone")
        wanted = self.patched()
        labels = obj["spec"]["selector"]["matchLabels"]
        chosen = ",".join(f"{key}={value}" for key, value in labels.items())
        pods = await scene.api.list("Pod", self.namespace or scene.namespace, labels=chosen)
        states = [self._state(pod) for pod in pods if self._of_release(pod, wanted)]
        if self.until not in states:
            raise NotYet(f"pods of the release are {', '.join(states) or 'not there'}")

    def _of_release(self, pod: Object, wanted: Mapping[str, Any]) -> bool:
        main: dict[str, Any] = next((c for c in pod["spec"]["containers"] if c["name"] == self.container), {})
        env = {entry["name"]: entry.get("value") for entry in main.get("env") or []}
        same = all(main.get(key) == value for key, value in wanted.items() if key != "env")
        return same and all(env.get(name) == value for name, value in self.env.items())

    def _state(self, pod: Object) -> str:
        for status in pod.get("status", {}).get("containerStatuses") or []:
            if status["name"] == self.container:
                reason = status.get("state", {}).get("waiting", {}).get("reason", "")
                if status.get("restartCount") or reason in (
                    "CrashLoopBackOff",
                    "RunContainerError",
                    "CreateContainerError",
                ):
                    return "crashing"
                if status.get("state", {}).get("running"):
                    return "running" if pod_ready(pod) else "not_ready"
        return "starting"

    async def undo(self, scene: Scene, done: Mapping[str, Any]) -> None:
        """The containers as they were, in one more revision."""
        kind, name = split_ref(self.object)
        before = scene.kept[done["before"]]["spec"]["template"]["spec"]["containers"]
        operation = [{"op": "replace", "path": "/spec/template/spec/containers", "value": before}]
        api = scene.tool("kubectl-patch")
        await api.patch(kind, name, self.namespace or scene.namespace, operation, how="json")
