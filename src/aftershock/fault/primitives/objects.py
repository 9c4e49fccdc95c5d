"""Changes to Kubernetes objects, as an operator or a deploy tool makes them."""

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import Field, field_validator, model_validator

from aftershock.base.errors import ClusterError
from aftershock.base.wait import NotYet
from aftershock.cluster.api import Object, rollout_state
from aftershock.fault.base import Primitive, Ref, primitive
from aftershock.fault.fields import MISSING, covers, field_of, parse_path
from aftershock.fault.scene import Scene, split_ref

ROLLED = ("Deployment", "StatefulSet", "DaemonSet")


@primitive("apply")
class Apply(Primitive):
    """Apply the objects of a manifest file, or of `objects`; with `ready`, workloads are rolled out too."""

    manifest: str = ""
    objects: list[dict[str, Any]] = Field(default_factory=list)
    replace: dict[str, str] = Field(default_factory=dict)
    ready: bool = False

    @model_validator(mode="after")
    def _one(self) -> "Apply":
        if bool(self.manifest) == bool(self.objects):
            raise ValueError("give either `manifest` or `objects`")
        if self.replace and self.objects:
            raise ValueError("`replace` goes with `manifest`")
        return self

    def touches(self) -> frozenset[str]:
        return super().touches() | manifest_refs(self._folder, self.manifest)

    async def run(self, scene: Scene) -> dict[str, Any]:
        objects = self.objects or scene.manifest(self.manifest, self.replace)
        applied = [await scene.api.apply(obj, namespace=scene.namespace) for obj in objects]
        return {"objects": [_name(obj, before) for obj, before in zip(applied, objects, strict=True)]}

    async def landed(self, scene: Scene, done: Mapping[str, Any]) -> None:
        for kind, name, namespace in done["objects"]:
            obj = await scene.api.get(kind, name, namespace)
            if obj is None or obj["metadata"].get("deletionTimestamp"):
                raise NotYet(f"{kind}/{name} is not there")
            if self.ready and kind in ROLLED and (why := rollout_state(obj)):
                raise NotYet(f"{kind}/{name}: {why}")


def manifest_refs(folder: Path | None, name: str) -> frozenset[str]:
    """References of the objects of a manifest file; none where it cannot be read: whoever applies it will say so."""
    path = folder / name if folder and name else None
    if path is None or not path.is_file():
        return frozenset()
    objects = [obj for obj in yaml.safe_load_all(path.read_text()) if isinstance(obj, dict)]
    return frozenset(f"{obj.get('kind')}/{obj.get('metadata', {}).get('name')}" for obj in objects)


def _name(obj: Object, before: Object) -> tuple[str, str, str | None]:
    return before["kind"], obj["metadata"]["name"], obj["metadata"].get("namespace")


def as_kept(patch: dict[str, Any]) -> dict[str, Any]:
    """A patch as the API server keeps it: what a Secret is given in plain text is read back encoded."""
    if not isinstance(plain := patch.get("stringData"), dict):
        return patch
    encoded = {key: base64.b64encode(str(value).encode()).decode() for key, value in plain.items()}
    kept = {key: value for key, value in patch.items() if key != "stringData"}
    return {**kept, "data": {**kept.get("data", {}), **encoded}}


@primitive("patch")
class Patch(Primitive):
    """Patch one object. With `merge` and `strategic` the patch is a mapping, with `json` a list of operations."""

    object: Ref
    patch: dict[str, Any] | list[dict[str, Any]]
    how: Literal["merge", "strategic", "json"] = "merge"
    namespace: str | None = None

    @model_validator(mode="after")
    def _shape(self) -> "Patch":
        if (self.how == "json") != isinstance(self.patch, list):
            raise ValueError("a `json` patch is a list of operations, the others are mappings")
        return self

    async def run(self, scene: Scene) -> dict[str, Any]:
        kind, name = split_ref(self.object)
        api = scene.tool("kubectl-patch")
        await api.patch(kind, name, self.namespace or scene.namespace, self.patch, how=self.how)
        return {"object": self.object}

    async def landed(self, scene: Scene, done: Mapping[str, Any]) -> None:
        obj = await scene.get(self.object, self.namespace)
        if obj is None:
            raise NotYet(f"{self.object} is not there")
        if isinstance(self.patch, dict):
            if not covers(obj, as_kept(self.patch)):
                raise NotYet(f"{self.object} does not hold what the patch says")
            return
        for operation in self.patch:
            if why := _pointer_state(obj, operation):
                raise NotYet(f"{self.object}: {why}")


def _pointer_state(obj: Any, operation: Mapping[str, Any]) -> str:
    """Why an operation of a JSON patch has no effect on this object; empty when it has, or cannot be told."""
    parts = [part.replace("~1", "/").replace("~0", "~") for part in str(operation.get("path", "")).split("/")[1:]]
    value: Any = obj
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        if isinstance(value, list):
            if last and (part == "-" or operation["op"] in ("add", "remove")):
                return ""
            value = value[int(part)] if part.isdigit() and int(part) < len(value) else MISSING
        else:
            value = value.get(part, MISSING) if isinstance(value, dict) else MISSING
    if operation["op"] == "remove":
        return "" if value is MISSING else f"{operation['path']} is still there"
    if operation["op"] in ("add", "replace"):
        return "" if covers(value, operation["value"]) else f"{operation['path']} is {value!r}"
    return ""


@primitive("delete_pod")
class DeletePod(Primitive):
    """Delete pods by label selector: one of them (the first by name that runs), or all."""

    selector: str = Field(pattern="=")
    which: Literal["one", "all"] = "one"
    namespace: str | None = None

    async def run(self, scene: Scene) -> dict[str, Any]:
        space = self.namespace or scene.namespace
        pods = [
            pod
            for pod in sorted(
                await scene.api.list("Pod", space, labels=self.selector), key=lambda pod: str(pod["metadata"]["name"])
            )
            if not pod["metadata"].get("deletionTimestamp") and pod.get("status", {}).get("phase") == "Running"
        ]
        if not pods:
            raise ClusterError(f"no running pod matches {self.selector}", where=self.where)
        chosen = pods[:1] if self.which == "one" else pods
        for pod in chosen:
            await scene.api.delete("Pod", pod["metadata"]["name"], space)
        return {"pods": {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in chosen}}

    async def landed(self, scene: Scene, done: Mapping[str, Any]) -> None:
        for name, uid in done["pods"].items():
            pod = await scene.api.get("Pod", name, self.namespace or scene.namespace)
            if pod and pod["metadata"]["uid"] == uid and not pod["metadata"].get("deletionTimestamp"):
                raise NotYet(f"the pod {name} is still there")


@primitive("scale")
class Scale(Primitive):
    """Set the number of replicas of a workload."""

    object: Ref
    replicas: int = Field(ge=0, le=50)
    namespace: str | None = None

    async def run(self, scene: Scene) -> dict[str, Any]:
        obj = await scene.get(self.object, self.namespace)
        if obj is None:
            raise ClusterError(f"there is no {self.object}", where=self.where)
        await self._set(scene, self.replicas)
        return {"object": self.object, "replicas": self.replicas, "before": obj["spec"].get("replicas", 1)}

    async def _set(self, scene: Scene, replicas: int) -> None:
        kind, name = split_ref(self.object)
        body = {"spec": {"replicas": replicas}}
        await scene.api.patch(kind, name, self.namespace or scene.namespace, body, how="merge", subresource="scale")

    async def undo(self, scene: Scene, done: Mapping[str, Any]) -> None:
        await self._set(scene, done["before"])

    async def landed(self, scene: Scene, done: Mapping[str, Any]) -> None:
        obj = await scene.get(self.object, self.namespace)
        have = (obj or {}).get("status", {}).get("replicas", 0)
        if obj is None or obj["spec"].get("replicas") != self.replicas or have != self.replicas:
            raise NotYet(f"{self.object} has {have} replicas")


@primitive("set_image")
class SetImage(Primitive):
    """Roll a workload out to another image version, the way a release does; bad ones need not become ready."""

    object: Ref
    container: str
    image: str
    until: Literal["started", "complete"] = "complete"
    namespace: str | None = None

    @field_validator("object")
    @classmethod
    def _workload(cls, ref: str) -> str:
        if split_ref(ref)[0] not in ROLLED:
            raise ValueError(f"one of {', '.join(ROLLED)} belongs here")
        return ref

    async def run(self, scene: Scene) -> dict[str, Any]:
        before = field_of(await scene.get(self.object, self.namespace), self._path())
        if before is MISSING:
            raise ClusterError(f"{self.object} has no container {self.container}", where=self.where)
        await self._set(scene, self.image)
        return {"object": self.object, "image": self.image, "before": before}

    def _path(self) -> str:
        return f"spec.template.spec.containers[name={self.container}].image"

    async def _set(self, scene: Scene, image: str) -> None:
        kind, name = split_ref(self.object)
        patch = {"spec": {"template": {"spec": {"containers": [{"name": self.container, "image": image}]}}}}
        api = scene.tool("kubectl-set")
        await api.patch(kind, name, self.namespace or scene.namespace, patch, how="strategic")

    async def undo(self, scene: Scene, done: Mapping[str, Any]) -> None:
        """As `kubectl rollout undo` would: one more revision with the image that was there."""
        await self._set(scene, done["before"])

    async def landed(self, scene: Scene, done: Mapping[str, Any]) -> None:
        obj = await scene.get(self.object, self.namespace)
        if obj is None or field_of(obj, self._path()) != self.image:
            raise NotYet(f"{self.object} does not have the image {self.image}")
        status = obj.get("status", {})
        if status.get("observedGeneration", 0) < obj["metadata"]["generation"]:
            raise NotYet("the newest revision has not been observed")
        if self.until == "started":
            updated = status.get("updatedReplicas", status.get("updatedNumberScheduled", 0))
            if not updated and obj["spec"].get("replicas", 1):
                raise NotYet("no pod of the new revision is there")
        elif why := rollout_state(obj):
            raise NotYet(why)


def check_path(path: str) -> str:
    """A pydantic validator for field paths."""
    parse_path(path)
    return path
