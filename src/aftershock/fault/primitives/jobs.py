"""Jobs: created from a manifest, or once more from one that ran before.

A second run of something must pass through whichever seam a fixer may have chosen, so it is made
from the live Job or CronJob where there is one, with its version replaced, and from the copy kept
at baseline or the manifest where the fixer removed it.
"""

import copy
import json
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, model_validator

from aftershock.base.errors import ClusterError, ProblemError
from aftershock.base.wait import NotYet
from aftershock.cluster.api import Object
from aftershock.fault.base import Primitive, Ref, primitive
from aftershock.fault.primitives.objects import manifest_refs
from aftershock.fault.scene import Scene, split_ref

OWNED = ("controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name")
SERVER = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "ownerReferences", "finalizers")


def fresh_job(origin: Object, name: str, replace: Mapping[str, str]) -> Object:
    """A Job to be created from a Job or CronJob: what the server added is left out, texts are replaced."""
    source = origin["spec"]["jobTemplate"] if origin["kind"] == "CronJob" else origin
    meta = {key: value for key, value in source.get("metadata", {}).items() if key not in (*SERVER, "name")}
    spec = copy.deepcopy(source["spec"])
    spec.pop("selector", None)
    spec.pop("manualSelector", None)
    for labels in (meta.get("labels", {}), spec["template"].get("metadata", {}).get("labels", {})):
        for key in OWNED:
            labels.pop(key, None)
    spec["template"].get("metadata", {}).pop("creationTimestamp", None)
    text = json.dumps({"metadata": meta, "spec": spec})
    for old, new in replace.items():
        text = text.replace(json.dumps(old)[1:-1], json.dumps(new)[1:-1])
    document = json.loads(text)
    document["metadata"].pop("annotations", None)
    document["metadata"]["name"] = name
    return {"apiVersion": "batch/v1", "kind": "Job", **document}


@primitive("create_job")
class CreateJob(Primitive):
    """Create a Job from `manifest`, or from the live `like` (a Job or CronJob) under `name`."""

    manifest: str = ""
    like: Ref | None = None
    name: str = Field(default="", pattern=r"^[a-z0-9.-]*$")
    replace: dict[str, str] = Field(default_factory=dict)
    until: Literal["created", "started", "complete"] = "started"

    @model_validator(mode="after")
    def _origin(self) -> "CreateJob":
        if not self.manifest and not self.like:
            raise ValueError("give `manifest`, `like`, or both (the manifest where `like` is gone)")
        if self.like and split_ref(self.like)[0] not in ("Job", "CronJob"):
            raise ValueError("`like` is a Job or a CronJob")
        if self.like and not self.name:
            raise ValueError("`like` needs the `name` of the new Job")
        return self

    def touches(self) -> frozenset[str]:
        named = {f"Job/{self.name}"} if self.name else set()
        return super().touches() | manifest_refs(self._folder, self.manifest) | named

    def keeps(self) -> tuple[str, ...]:
        return (self.like,) if self.like else ()

    async def run(self, scene: Scene) -> dict[str, Any]:
        job, origin = await self._job(scene)
        created = await scene.tool("kubectl-create").create(job, namespace=scene.namespace)
        return {"job": created["metadata"]["name"], "origin": origin}

    async def _job(self, scene: Scene) -> tuple[Object, str]:
        if self.like:
            if live := await scene.get(self.like):
                return fresh_job(live, self.name, self.replace), "live"
            if kept := scene.kept.get(self.like):
                return fresh_job(kept, self.name, self.replace), "kept"
            if not self.manifest:
                raise ClusterError(f"{self.like} is gone and no copy was kept", where=self.where)
        objects = scene.manifest(self.manifest, self.replace)
        if len(objects) != 1 or objects[0]["kind"] != "Job":
            raise ProblemError(f"{self.manifest} must hold one Job", where=self.where)
        job = objects[0]
        if self.name:
            job["metadata"]["name"] = self.name
        return job, "manifest"

    async def landed(self, scene: Scene, done: Mapping[str, Any]) -> None:
        job = await scene.api.get("Job", done["job"], scene.namespace)
        if job is None:
            raise NotYet(f"the job {done['job']} is not there")
        if self.until == "created":
            return
        status = job.get("status", {})
        if self.until == "complete":
            if not any(c["type"] == "Complete" and c["status"] == "True" for c in status.get("conditions") or []):
                raise NotYet(f"the job {done['job']} is not complete")
            return
        if status.get("succeeded") or status.get("failed"):
            return
        pods = await scene.api.list("Pod", scene.namespace, labels=f"batch.kubernetes.io/job-name={done['job']}")
        if not any(pod.get("status", {}).get("phase") in ("Running", "Succeeded", "Failed") for pod in pods):
            raise NotYet(f"no pod of the job {done['job']} has started")
