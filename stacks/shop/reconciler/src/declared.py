"""Manifests as the reconciler takes them: objects of one namespace, without what others keep."""

import copy
import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any

import yaml

from kube.client import Object

__all__ = ["ManifestError", "differences", "identity", "kept_documents", "parse", "same_as", "without_replicas"]

# Secrets are the rotator's and the issuer's, Jobs are of one run, rights are an administrator's.
LEFT_OUT = ("Secret", "Job", "Namespace", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
SERVERS_OWN = ("managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink")


class ManifestError(Exception):
    """A manifest that cannot be applied; the text names the file."""


def identity(obj: Object) -> str:
    """kind, apiVersion and name, as one word."""
    return f"{obj['apiVersion']}/{obj['kind']}/{obj['metadata']['name']}"


def parse(files: dict[str, str], namespace: str) -> dict[str, Object]:
    """All declared objects by identity. Raises ManifestError for a broken file and for two of one name."""
    found: dict[str, Object] = {}
    for path, text in sorted(files.items()):
        try:
            documents = [document for document in yaml.safe_load_all(text) if document]
        except yaml.YAMLError as error:
            raise ManifestError(f"{path}: {error}") from error
        for obj in documents:
            if (
                not isinstance(obj, dict)
                or not isinstance(obj.get("metadata"), dict)
                or not obj["metadata"].get("name")
            ):
                raise ManifestError(f"{path}: an object without a name")
            if not obj.get("kind") or not obj.get("apiVersion"):
                raise ManifestError(f"{path}: {obj['metadata']['name']} has no kind or no apiVersion")
            if obj["metadata"].setdefault("namespace", namespace) != namespace:
                raise ManifestError(f"{path}: {obj['metadata']['name']} is not of the namespace {namespace}")
            if obj["kind"] in LEFT_OUT:
                continue
            if identity(obj) in found:
                raise ManifestError(f"{path}: {identity(obj)} is declared twice")
            found[identity(obj)] = obj
    return found


def kept_documents(text: str, namespace: str) -> Iterator[tuple[str, Object]]:
    """The documents of a manifest that the reconciler would apply, as they are written, and as objects."""
    for chunk in text.split("\n---"):
        obj = yaml.safe_load(chunk)
        if not isinstance(obj, dict) or obj.get("kind") in LEFT_OUT:
            continue
        if obj["metadata"].get("namespace", namespace) == namespace:
            yield chunk.strip("\n") + "\n", obj


def without_replicas(obj: Object, scaled: Iterable[str]) -> Object:
    """The object without a number of replicas where an autoscaler sets it."""
    if identity(obj) not in scaled or "replicas" not in obj.get("spec", {}):
        return obj
    made = copy.deepcopy(obj)
    del made["spec"]["replicas"]
    return made


def plain(obj: Object) -> Object:
    """An object without what only the API server writes."""
    made = {key: value for key, value in obj.items() if key != "status"}
    made["metadata"] = {key: value for key, value in obj["metadata"].items() if key not in SERVERS_OWN}
    return made


def same_as(obj: Object) -> str:
    """Changes whenever what is declared of an object may have; a new status alone does not change it."""
    meta = obj["metadata"]
    if "generation" not in meta:
        return str(meta["resourceVersion"])
    notes = json.dumps([meta.get("labels"), meta.get("annotations")], sort_keys=True)
    return f"{meta['generation']}-{hashlib.sha256(notes.encode()).hexdigest()[:12]}"


def differences(live: Any, wanted: Any, at: str = "") -> Iterator[str]:
    """Where two objects differ, as `path: is -> should be`.

    >>> list(differences({"spec": {"replicas": 3}}, {"spec": {"replicas": 2}}))
    ['spec.replicas: 3 -> 2']
    """
    if isinstance(live, dict) and isinstance(wanted, dict):
        for key in sorted({*live, *wanted}):
            yield from differences(live.get(key), wanted.get(key), f"{at}.{key}" if at else key)
    elif isinstance(live, list) and isinstance(wanted, list) and len(live) == len(wanted):
        for n, (left, right) in enumerate(zip(live, wanted, strict=True)):
            name = right.get("name", n) if isinstance(right, dict) else n
            yield from differences(left, right, f"{at}[{name}]")
    elif live != wanted:
        yield f"{at}: {_short(live)} -> {_short(wanted)}"


def _short(value: Any) -> str:
    text = "absent" if value is None else json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
