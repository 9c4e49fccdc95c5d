"""The control plane: a webhook that does not answer, a quota, a store that is full, a node that cannot reach it.

A slow API server is `starve_daemon`, a scheduler or controller manager that is down is `stop_daemon`.
"""

import json
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from aftershock.base.errors import ClusterError
from aftershock.base.wait import NotYet
from aftershock.cluster.kinds import kind_path
from aftershock.fault.base import Primitive, primitive
from aftershock.fault.machine import look_on, on_node
from aftershock.fault.primitives.nodes import OnNode
from aftershock.fault.scene import Scene

HOOKS = "admissionregistration.k8s.io/v1"
Resource = Literal["pods", "configmaps", "services", "deployments", "jobs"]
GROUPS = {"pods": "", "configmaps": "", "services": "", "deployments": "apps", "jobs": "batch"}


def attempt(resource: str) -> dict[str, Any]:
    """An object of a resource that the API server would take, to be asked for without being made."""
    name = {"metadata": {"name": "check"}}
    pod = {"containers": [{"name": "main", "image": "pause"}], "restartPolicy": "Never"}
    template = {"metadata": {"labels": {"app": "check"}}, "spec": pod}
    running = {**template, "spec": {**pod, "restartPolicy": "Always"}}
    return {
        "pods": {"apiVersion": "v1", "kind": "Pod", **name, "spec": pod},
        "configmaps": {"apiVersion": "v1", "kind": "ConfigMap", **name},
        "services": {"apiVersion": "v1", "kind": "Service", **name, "spec": {"ports": [{"port": 80}]}},
        "deployments": {
            "apiVersion": "apps/v1", "kind": "Deployment", **name,
            "spec": {"selector": {"matchLabels": {"app": "check"}}, "template": running},
        },
        "jobs": {"apiVersion": "batch/v1", "kind": "Job", **name, "spec": {"template": template}},
    }[resource]  # fmt: skip


@primitive("webhook")
class Webhook(Primitive):
    """Register an admission webhook that has to agree, and whose Service does not answer: what it is asked about
    cannot be created any more (`failurePolicy: Fail`)."""

    name: str = Field(pattern=r"^[a-z0-9-]+(\.[a-z0-9-]+)+$", description="for example policy.example.com")
    service: str = Field(min_length=1)
    path: str = "/validate"
    resources: list[Resource] = Field(min_length=1)
    timeout: int = Field(default=10, ge=1, le=30)
    everywhere: bool = Field(default=False, description="in all namespaces, not only in the problem's")
    within: float = Field(default=60.0, gt=0, le=600)

    def object(self, namespace: str) -> dict[str, Any]:
        """The configuration, as an installer of such a policy writes it."""
        where = {} if self.everywhere else {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
        groups = sorted({GROUPS[resource] for resource in self.resources})
        rule = {
            "apiGroups": groups, "apiVersions": ["v1"], "operations": ["CREATE"], "resources": list(self.resources),
            "scope": "Namespaced",
        }  # fmt: skip
        hook = {
            "name": self.name,
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "timeoutSeconds": self.timeout,
            "clientConfig": {"service": {"name": self.service, "namespace": namespace, "path": self.path}},
            "rules": [rule],
            "namespaceSelector": where,
        }
        kind = "ValidatingWebhookConfiguration"
        return {"apiVersion": HOOKS, "kind": kind, "metadata": {"name": self.name}, "webhooks": [hook]}

    async def run(self, scene: Scene) -> dict[str, Any]:
        await scene.api.apply(self.object(scene.namespace))
        return {"webhook": self.name}

    async def landed(self, scene: Scene, done: Mapping[str, Any]) -> None:
        """Each of the resources is asked for in a dry run, which goes through admission as the real thing does."""
        for resource in self.resources:
            obj = attempt(resource)
            path = kind_path(obj["kind"], scene.namespace)
            limit = self.timeout + 5.0
            answer = await scene.api.request("POST", path, body=obj, timeout=limit, dryRun="All")
            if not answer.is_error or self.name not in answer.text:
                raise NotYet(f"{resource} are still taken ({answer.status_code})")

    async def undo(self, scene: Scene, done: Mapping[str, Any]) -> None:
        path = kind_path("ValidatingWebhookConfiguration", None, self.name, HOOKS)
        answer = await scene.api.request("DELETE", path)
        if answer.is_error and answer.status_code != 404:
            raise ClusterError(f"the webhook cannot be removed: {answer.text[:200]}", where=path)


@primitive("quota")
class Quota(Primitive):
    """Put a ResourceQuota onto the namespace: `hard` as in its specification (`pods`, `limits.memory` and so on).

    `reached`: the resources of which nothing must be left for it to have landed.
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    hard: dict[str, str] = Field(min_length=1)
    reached: list[str] = Field(default_factory=list)
    namespace: str | None = None

    async def run(self, scene: Scene) -> dict[str, Any]:
        spec = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": self.name}}
        await scene.api.apply({**spec, "spec": {"hard": self.hard}}, namespace=self.namespace or scene.namespace)
        return {"quota": self.name}

    async def landed(self, scene: Scene, done: Mapping[str, Any]) -> None:
        status = (await scene.get(f"ResourceQuota/{self.name}", self.namespace) or {}).get("status", {})
        used, hard = status.get("used", {}), status.get("hard", {})
        if set(self.hard) - set(used):
            raise NotYet(f"the quota {self.name} is not counted yet")
        for resource in self.reached:
            if resource not in used or quantity(used[resource]) < quantity(hard[resource]):
                raise NotYet(f"{used.get(resource, 'nothing')} of {hard.get(resource)} {resource} are used")

    async def undo(self, scene: Scene, done: Mapping[str, Any]) -> None:
        await scene.api.delete("ResourceQuota", self.name, self.namespace or scene.namespace)


def quantity(text: str) -> float:
    """A Kubernetes quantity as a number.

    >>> quantity("500m"), quantity("2Ki"), quantity("3")
    (0.5, 2048.0, 3.0)
    """
    for number, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi"), 1):
        if text.endswith(unit):
            return float(text[:-2]) * float(1024**number)
    for unit, factor in {"m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}.items():
        if text.endswith(unit):
            return float(text[:-1]) * factor
    return float(text)


@primitive("etcd_full")
class EtcdFull(OnNode):
    """Raise etcd's alarm of no space, as it does itself at its quota: everything can be read, nothing written.
    Who takes it back has to reach etcd on the control plane's node."""

    async def _alarm(self, scene: Scene, node: str, action: str) -> list[str]:
        body = json.dumps({"action": action, "memberID": "0", "alarm": "NOSPACE" if action != "GET" else "NONE"})
        ask = 'curl -sS -m 5 -X POST -d "$1" http://127.0.0.1:2379/v3/maintenance/alarm'
        run = look_on if action == "GET" else on_node
        try:
            answer = json.loads(await run(scene, node, ask, body))
        except ValueError as error:
            raise ClusterError("etcd did not answer", where=node) from error
        return [str(entry.get("alarm")) for entry in answer.get("alarms") or []]

    async def run(self, scene: Scene) -> dict[str, Any]:
        node = await self.chosen(scene)
        await self._alarm(scene, node, "ACTIVATE")
        return {"node": node}

    async def landed(self, scene: Scene, done: Mapping[str, Any]) -> None:
        if "NOSPACE" not in await self._alarm(scene, done["node"], "GET"):
            raise NotYet("etcd has no alarm")

    async def undo(self, scene: Scene, done: Mapping[str, Any]) -> None:
        await self._alarm(scene, done["node"], "DEACTIVATE")


@primitive("isolate_node")
class IsolateNode(OnNode):
    """Cut a node off from the API server: its pods go on and serve, it turns NotReady, nobody can change it."""

    port: int = Field(default=6443, ge=1, le=65535)
    until: Literal["cut", "felt"] = "felt"
    within: float = Field(default=60.0, gt=0, le=600)

    async def run(self, scene: Scene) -> dict[str, Any]:
        node = await self.chosen(scene)
        if scene.cluster.nodes and node == scene.cluster.nodes[0]:
            raise ClusterError(f"{node} runs the control plane", where=self.where, todo="cut another node off")
        await on_node(scene, node, 'iptables -w 5 -I OUTPUT -p tcp --dport "$1" -j DROP', str(self.port))
        return {"node": node}

    async def landed(self, scene: Scene, done: Mapping[str, Any]) -> None:
        await look_on(scene, done["node"], 'iptables -w 5 -C OUTPUT -p tcp --dport "$1" -j DROP', str(self.port))
        if self.until == "felt":
            node = await scene.api.get("Node", done["node"])
            ready = [c["status"] for c in (node or {}).get("status", {}).get("conditions", []) if c["type"] == "Ready"]
            if ready != ["Unknown"]:
                raise NotYet(f"{done['node']} still counts as ready")

    async def undo(self, scene: Scene, done: Mapping[str, Any]) -> None:
        await on_node(scene, done["node"], 'iptables -w 5 -D OUTPUT -p tcp --dport "$1" -j DROP', str(self.port))
