"""Which innocent changes are innocent: they must touch nothing of the fault, neither its evidence nor its cure.

A change to a workload counts as touching what the workload is made of: a new pod reads its ConfigMaps and
Secrets again, so restarting one that uses a broken Secret would set a latent fault off, or mend it.
"""

from collections.abc import Iterable
from typing import Any

from aftershock.cluster.api import Object

__all__ = ["clash", "parts_of"]


def parts_of(obj: Object) -> set[str]:
    """References of everything that an object consists of: itself, and what its pods mount and read.

    >>> sorted(parts_of({"kind": "ConfigMap", "metadata": {"name": "a"}}))
    ['ConfigMap/a']
    """
    found = {f"{obj['kind']}/{obj['metadata']['name']}"}
    spec = obj.get("spec", {})
    pod = spec if obj["kind"] == "Pod" else spec.get("template", {}).get("spec", {})
    for volume in pod.get("volumes") or []:
        for kind, key, name in (
            ("ConfigMap", "configMap", "name"),
            ("Secret", "secret", "secretName"),
            ("PersistentVolumeClaim", "persistentVolumeClaim", "claimName"),
        ):
            if key in volume:
                found.add(f"{kind}/{volume[key].get(name)}")
        for source in volume.get("projected", {}).get("sources") or []:
            found |= {f"{kind}/{source[key]['name']}" for kind, key in KINDS.items() if key in source}
    for container in (*(pod.get("containers") or []), *(pod.get("initContainers") or [])):
        for entry in container.get("envFrom") or []:
            found |= {f"{k}/{entry[key]['name']}" for k, key in REFS.items() if key in entry}
        for entry in container.get("env") or []:
            origin = entry.get("valueFrom") or {}
            found |= {f"{k}/{origin[key]['name']}" for k, key in KEYS.items() if key in origin}
    for owner in obj["metadata"].get("ownerReferences") or []:
        found.add(f"{owner['kind']}/{owner['name']}")
    return found


KINDS = {"ConfigMap": "configMap", "Secret": "secret"}
REFS = {"ConfigMap": "configMapRef", "Secret": "secretRef"}
KEYS = {"ConfigMap": "configMapKeyRef", "Secret": "secretKeyRef"}


def labels_of(obj: Object) -> dict[str, str]:
    """The labels of an object's pods."""
    source: dict[str, Any] = obj if obj["kind"] == "Pod" else obj.get("spec", {}).get("template", {})
    return dict(source.get("metadata", {}).get("labels") or {})


def clash(obj: Object, blast: Iterable[str], fronts: Iterable[Object] = ()) -> str:
    """Why a change to this object would touch the fault; empty when it would not.

    Args:
        blast: references and label selectors of all that the fault touches.
        fronts: Services of the namespace: one in the blast makes the pods behind it part of it.
    """
    mine, labels = parts_of(obj), labels_of(obj)
    touched = set(blast)
    for ref in sorted(mine & touched):
        return f"it is, or uses, {ref}"
    name = obj["metadata"]["name"]
    for ref in sorted(touched):
        kind, _, other = ref.partition("/")
        if kind == "Pod" and obj["kind"] != "Pod" and other.startswith(f"{name}-"):
            return f"{ref} is one of its pods"
        if obj["kind"] == "Pod" and name.startswith(f"{other}-") and kind in ("Deployment", "StatefulSet", "DaemonSet"):
            return f"it belongs to {ref}"
        if "=" in ref and labels and _selects(dict(p.split("=", 1) for p in ref.split(",")), labels):
            return f"its pods match {ref}"
    for front in fronts:
        chosen = front.get("spec", {}).get("selector") or {}
        if f"Service/{front['metadata']['name']}" in touched and chosen and labels and _selects(chosen, labels):
            return f"its pods are behind Service/{front['metadata']['name']}"
    return ""


def _selects(chosen: dict[str, str], labels: dict[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in chosen.items())
