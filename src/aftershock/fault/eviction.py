"""Evicting pods from a node, as `kubectl drain` does: budgets are kept, DaemonSets' pods stay."""

from collections.abc import Collection

from aftershock.base.errors import ClusterError
from aftershock.base.wait import NotYet
from aftershock.cluster.api import Object
from aftershock.cluster.kinds import kind_path
from aftershock.fault.scene import Scene

__all__ = ["emptied", "evictable", "pods_on"]


def evictable(pod: Object) -> bool:
    """Whether `kubectl drain --ignore-daemonsets --delete-emptydir-data` would evict a pod.

    >>> evictable({"metadata": {"ownerReferences": [{"kind": "DaemonSet"}]}})
    False
    >>> evictable({"metadata": {"ownerReferences": [{"kind": "ReplicaSet"}]}, "status": {"phase": "Running"}})
    True
    """
    meta = pod["metadata"]
    owners = [owner["kind"] for owner in meta.get("ownerReferences") or []]
    mirror = "kubernetes.io/config.mirror" in (meta.get("annotations") or {})
    ended = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
    return not (mirror or ended or "DaemonSet" in owners)


async def pods_on(scene: Scene, node: str, namespace: str | None = None) -> dict[str, tuple[str, str]]:
    """The pods of a node that can be evicted: uid, and (namespace, name)."""
    return {
        pod["metadata"]["uid"]: (pod["metadata"]["namespace"], pod["metadata"]["name"])
        for pod in await scene.api.list("Pod", namespace, fields=f"spec.nodeName={node}")
        if evictable(pod)
    }


async def emptied(scene: Scene, node: str, pods: Collection[str]) -> None:
    """Ask for the eviction of those of these pods (uids) that are still on a node.

    Raises:
        NotYet: some are still there; a budget may forbid it for now.
        ClusterError: an eviction is refused for good.
    """
    left = {uid: where for uid, where in (await pods_on(scene, node)).items() if uid in pods}
    for namespace, name in left.values():
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
        }
        path = kind_path("Pod", namespace, name) + "/eviction"
        answer = await scene.tool("kubectl-drain").request("POST", path, body=body)
        if answer.is_error and answer.status_code not in (404, 409, 429):
            raise ClusterError(f"a pod cannot be evicted ({answer.status_code}): {answer.text[:200]}", where=path)
    if left:
        raise NotYet(f"{len(left)} pods are still on {node}: {', '.join(name for _, name in list(left.values())[:5])}")
