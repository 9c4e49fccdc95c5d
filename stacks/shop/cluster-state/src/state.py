"""The state of the cluster's objects as metrics, under the names that everybody's rules use."""

import calendar
import time
from collections.abc import Callable
from typing import Any

from text import Families, quantity

Object = dict[str, Any]


def _of(obj: Object) -> dict[str, str | None]:
    meta = obj["metadata"]
    return {"namespace": meta.get("namespace"), "app": (meta.get("labels") or {}).get("app.kubernetes.io/name")}


def _seconds(stamp: str | None) -> float | None:
    return float(calendar.timegm(time.strptime(stamp, "%Y-%m-%dT%H:%M:%SZ"))) if stamp else None


def deployment(obj: Object, out: Families) -> None:
    labels = {**_of(obj), "deployment": obj["metadata"]["name"]}
    status = obj.get("status", {})
    out.add("kube_deployment_spec_replicas", obj["spec"].get("replicas", 1), **labels)
    out.add("kube_deployment_status_replicas_available", status.get("availableReplicas", 0), **labels)
    out.add("kube_deployment_status_replicas_updated", status.get("updatedReplicas", 0), **labels)
    out.add("kube_deployment_status_replicas_unavailable", status.get("unavailableReplicas", 0), **labels)
    out.add("kube_deployment_metadata_generation", obj["metadata"].get("generation"), **labels)
    out.add("kube_deployment_status_observed_generation", status.get("observedGeneration"), **labels)


def stateful_set(obj: Object, out: Families) -> None:
    labels = {**_of(obj), "statefulset": obj["metadata"]["name"]}
    out.add("kube_statefulset_replicas", obj["spec"].get("replicas", 1), **labels)
    out.add("kube_statefulset_status_replicas_ready", obj.get("status", {}).get("readyReplicas", 0), **labels)


def daemon_set(obj: Object, out: Families) -> None:
    labels = {**_of(obj), "daemonset": obj["metadata"]["name"]}
    status = obj.get("status", {})
    out.add("kube_daemonset_status_desired_number_scheduled", status.get("desiredNumberScheduled", 0), **labels)
    out.add("kube_daemonset_status_number_ready", status.get("numberReady", 0), **labels)


def pod(obj: Object, out: Families) -> None:
    labels = {**_of(obj), "pod": obj["metadata"]["name"], "node": obj["spec"].get("nodeName")}
    status = obj.get("status", {})
    phase = status.get("phase", "Unknown")
    out.add("kube_pod_status_phase", 1, phase=phase, **labels)
    if phase not in ("Succeeded", "Failed"):
        ready = any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions") or [])
        out.add("kube_pod_status_ready", int(ready), condition="true", **labels)
    out.add("kube_pod_start_time_seconds", _seconds(status.get("startTime")), **labels)
    if obj["metadata"].get("deletionTimestamp"):
        out.add("kube_pod_deletion_timestamp_seconds", _seconds(obj["metadata"]["deletionTimestamp"]), **labels)
    for container in obj["spec"].get("containers", []):
        resources = container.get("resources") or {}
        for which in ("requests", "limits"):
            for resource, text in (resources.get(which) or {}).items():
                if resource in ("cpu", "memory"):
                    out.add(f"kube_pod_container_resource_{which}", quantity(text), container=container["name"],
                            resource=resource, **labels)  # fmt: skip
    for state in status.get("containerStatuses") or []:
        _container(state, labels, out)


def _container(state: Object, labels: dict[str, str | None], out: Families) -> None:
    of = {**labels, "container": state["name"]}
    out.add("kube_pod_container_status_restarts_total", state.get("restartCount", 0), "counter", **of)
    if waiting := (state.get("state") or {}).get("waiting"):
        out.add("kube_pod_container_status_waiting_reason", 1, reason=waiting.get("reason", "Unknown"), **of)
    if ended := (state.get("lastState") or {}).get("terminated"):
        out.add("kube_pod_container_status_last_terminated_reason", 1, reason=ended.get("reason", "Unknown"), **of)


def node(obj: Object, out: Families) -> None:
    name = obj["metadata"]["name"]
    for condition in obj.get("status", {}).get("conditions") or []:
        for status in ("True", "False", "Unknown"):
            out.add("kube_node_status_condition", int(condition["status"] == status), node=name,
                    condition=condition["type"], status=status.lower())  # fmt: skip
    out.add("kube_node_spec_unschedulable", int(obj["spec"].get("unschedulable", False)), node=name)
    for resource, text in (obj.get("status", {}).get("allocatable") or {}).items():
        if resource in ("cpu", "memory", "pods"):
            out.add("kube_node_status_allocatable", quantity(text), node=name, resource=resource)


def claim(obj: Object, out: Families) -> None:
    labels = {**_of(obj), "persistentvolumeclaim": obj["metadata"]["name"]}
    phase = obj.get("status", {}).get("phase", "Pending")
    out.add("kube_persistentvolumeclaim_status_phase", 1, phase=phase, **labels)
    size = obj["spec"].get("resources", {}).get("requests", {}).get("storage")
    out.add("kube_persistentvolumeclaim_resource_requests_storage_bytes", quantity(size) if size else None, **labels)


def job(obj: Object, out: Families) -> None:
    owner = next((o["name"] for o in obj["metadata"].get("ownerReferences") or [] if o["kind"] == "CronJob"), None)
    labels = {**_of(obj), "job_name": obj["metadata"]["name"], "owner_name": owner}
    status = obj.get("status", {})
    failed = any(c["type"] == "Failed" and c["status"] == "True" for c in status.get("conditions") or [])
    out.add("kube_job_status_active", status.get("active", 0), **labels)
    out.add("kube_job_status_succeeded", status.get("succeeded", 0), **labels)
    out.add("kube_job_status_failed", status.get("failed", 0), **labels)
    out.add("kube_job_failed", int(failed), **labels)
    out.add("kube_job_status_start_time", _seconds(status.get("startTime")), **labels)


def cron_job(obj: Object, out: Families) -> None:
    labels = {**_of(obj), "cronjob": obj["metadata"]["name"]}
    status = obj.get("status", {})
    out.add("kube_cronjob_spec_suspend", int(obj["spec"].get("suspend", False)), **labels)
    out.add("kube_cronjob_status_active", len(status.get("active") or []), **labels)
    out.add("kube_cronjob_status_last_schedule_time", _seconds(status.get("lastScheduleTime")), **labels)
    out.add("kube_cronjob_status_last_successful_time", _seconds(status.get("lastSuccessfulTime")), **labels)


def autoscaler(obj: Object, out: Families) -> None:
    labels = {**_of(obj), "horizontalpodautoscaler": obj["metadata"]["name"]}
    status = obj.get("status", {})
    prefix = "kube_horizontalpodautoscaler"
    out.add(f"{prefix}_spec_min_replicas", obj["spec"].get("minReplicas", 1), **labels)
    out.add(f"{prefix}_spec_max_replicas", obj["spec"]["maxReplicas"], **labels)
    out.add(f"{prefix}_status_current_replicas", status.get("currentReplicas", 0), **labels)
    out.add(f"{prefix}_status_desired_replicas", status.get("desiredReplicas", 0), **labels)
    for condition in status.get("conditions") or []:
        out.add(f"{prefix}_status_condition", int(condition["status"] == "True"), condition=condition["type"], **labels)


COLLECTIONS: dict[str, Callable[[Object, Families], None]] = {
    "/apis/apps/v1/deployments": deployment,
    "/apis/apps/v1/statefulsets": stateful_set,
    "/apis/apps/v1/daemonsets": daemon_set,
    "/api/v1/pods": pod,
    "/api/v1/nodes": node,
    "/api/v1/persistentvolumeclaims": claim,
    "/apis/batch/v1/jobs": job,
    "/apis/batch/v1/cronjobs": cron_job,
    "/apis/autoscaling/v2/horizontalpodautoscalers": autoscaler,
}


def collect(lists: Callable[[str], list[Object]]) -> Families:
    """Everything that is asked for, as it is now."""
    out = Families()
    for path, shown in COLLECTIONS.items():
        for obj in lists(path):
            shown(obj, out)
    return out
