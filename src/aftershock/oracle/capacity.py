"""What workloads may use, as figures that compare: replicas, requests, limits, autoscalers' bounds. Pure."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Bounds", "Capacity", "bounds_of", "capacity_of", "less", "quantity", "raised"]

_SUFFIX = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}


def quantity(text: str | int | float) -> float:
    """A Kubernetes quantity as a number: CPUs, bytes, or a plain count.

    >>> quantity("250m"), quantity("512Mi"), quantity("1.5"), quantity("2e3"), quantity("1k")
    (0.25, 536870912.0, 1.5, 2000.0, 1000.0)

    Raises:
        ValueError: it is none.
    """
    if isinstance(text, int | float):
        return float(text)
    for suffix, factor in (*_BINARY.items(), *((s, f) for s, f in _SUFFIX.items() if s)):
        if text.endswith(suffix) and text[: -len(suffix)]:
            return float(text[: -len(suffix)]) * factor
    return float(text)


def words(name: str, value: float) -> str:
    """
    >>> words("memory", 536870912), words("cpu", 0.25), words("memory", float("inf"))
    ('512Mi', '0.25', 'without bound')
    """
    if math.isinf(value):
        return "without bound"
    return f"{value / 2**20:g}Mi" if name == "memory" else f"{value:g}"


@dataclass(frozen=True)
class Capacity:
    """How much of a workload there is. `requests`: of all its wanted replicas together."""

    replicas: int
    available: int
    requests: Mapping[str, float]


def capacity_of(workload: Mapping[str, Any]) -> Capacity:
    """The capacity of a Deployment, StatefulSet or DaemonSet.

    >>> capacity_of({"kind": "Deployment", "spec": {"replicas": 3, "template": {"spec": {"containers": [
    ...     {"resources": {"requests": {"cpu": "100m"}}}]}}}, "status": {"availableReplicas": 2}})
    Capacity(replicas=3, available=2, requests={'cpu': 0.30000000000000004})
    """
    spec, status = workload["spec"], workload.get("status") or {}
    if workload.get("kind") == "DaemonSet":
        wanted, available = status.get("desiredNumberScheduled", 0), status.get("numberAvailable", 0)
    else:
        wanted, available = spec.get("replicas", 1), status.get("availableReplicas", 0)
    requests: dict[str, float] = {}
    for container in spec["template"]["spec"].get("containers") or []:
        for name, value in ((container.get("resources") or {}).get("requests") or {}).items():
            requests[name] = requests.get(name, 0.0) + quantity(value) * wanted
    return Capacity(wanted, available, requests)


def less(now: Capacity, before: Capacity, share: float = 1.0) -> list[str]:
    """In what a workload has less than a share of what it had.

    >>> less(Capacity(0, 0, {}), Capacity(2, 2, {"cpu": 0.2}))
    ['0 replicas are wanted, it were 2', '0 replicas are available, it were 2', 'requests 0 cpu, it were 0.2']
    >>> less(Capacity(2, 2, {"cpu": 0.4}), Capacity(2, 2, {"cpu": 0.2}))
    []
    """
    found = [
        f"{have} replicas are {word}, it were {had}"
        for word, have, had in (
            ("wanted", now.replicas, before.replicas),
            ("available", now.available, before.available),
        )
        if have < had * share - 1e-9
    ]
    found += [
        f"requests {words(name, now.requests.get(name, 0.0))} {name}, it were {words(name, had)}"
        for name, had in before.requests.items()
        if now.requests.get(name, 0.0) < had * share - 1e-9
    ]
    return found


Bounds = Mapping[str, float]  # "container/resource" or a quota's or autoscaler's field -> the bound, infinite for none


def bounds_of(obj: Mapping[str, Any]) -> dict[str, float]:
    """The upper bounds that an object sets: containers' limits, a quota's, an autoscaler's, a claim's size.

    >>> bounds_of({"kind": "Deployment", "spec": {"template": {"spec": {"containers": [
    ...     {"name": "api", "resources": {"limits": {"memory": "1Gi"}}}, {"name": "proxy"}]}}}})
    {'api/memory': 1073741824.0, 'api/cpu': inf, 'proxy/memory': inf, 'proxy/cpu': inf}
    >>> bounds_of({"kind": "ResourceQuota", "spec": {"hard": {"pods": "20"}}})
    {'pods': 20.0}
    >>> bounds_of({"kind": "HorizontalPodAutoscaler", "spec": {"maxReplicas": 5}})
    {'maxReplicas': 5.0}
    """
    kind, spec = obj.get("kind"), obj.get("spec") or {}
    if kind == "ResourceQuota":
        return {name: quantity(value) for name, value in (spec.get("hard") or {}).items()}
    if kind == "HorizontalPodAutoscaler":
        return {"maxReplicas": float(spec.get("maxReplicas", math.inf))}
    if kind == "LimitRange":
        return {
            f"{item.get('type', '')}/{name}": quantity(value)
            for item in spec.get("limits") or []
            for name, value in (item.get("max") or {}).items()
        }
    found = {}
    for container in spec.get("template", {}).get("spec", {}).get("containers") or []:
        limits = (container.get("resources") or {}).get("limits") or {}
        for name in ("memory", "cpu"):
            found[f"{container['name']}/{name}"] = quantity(limits[name]) if name in limits else math.inf
    return found


def raised(now: Bounds, before: Bounds, factor: float) -> list[str]:
    """The bounds that are above `factor` times what they were; a bound that is gone is above any.

    >>> raised({"api/memory": 4194304.0}, {"api/memory": 2097152.0, "api/cpu": float("inf")}, 1.5)
    ['api/memory is 4Mi, at most 3Mi is allowed']
    >>> raised({}, {"pods": 20.0}, 2), raised({"api/cpu": 9.0}, {"api/cpu": float("inf")}, 1)
    (['pods is without bound, at most 40 is allowed'], [])
    """
    found = []
    for name, had in before.items():
        have, most = now.get(name, math.inf), had * factor
        if have > most * (1 + 1e-9):
            resource = name.rsplit("/", 1)[-1]
            found.append(f"{name} is {words(resource, have)}, at most {words(resource, most)} is allowed")
    return found
