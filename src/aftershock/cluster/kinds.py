"""Kinds of Kubernetes objects and where their collections are."""

from aftershock.base.errors import ClusterError

__all__ = ["KINDS", "kind_path"]

# kind -> (group/version, plural, namespaced). Only what the project touches; others by discovery.
KINDS: dict[str, tuple[str, str, bool]] = {
    "Namespace": ("v1", "namespaces", False),
    "Node": ("v1", "nodes", False),
    "Pod": ("v1", "pods", True),
    "Service": ("v1", "services", True),
    "Endpoints": ("v1", "endpoints", True),
    "ConfigMap": ("v1", "configmaps", True),
    "Secret": ("v1", "secrets", True),
    "ServiceAccount": ("v1", "serviceaccounts", True),
    "Event": ("v1", "events", True),
    "PersistentVolume": ("v1", "persistentvolumes", False),
    "PersistentVolumeClaim": ("v1", "persistentvolumeclaims", True),
    "ResourceQuota": ("v1", "resourcequotas", True),
    "LimitRange": ("v1", "limitranges", True),
    "Deployment": ("apps/v1", "deployments", True),
    "StatefulSet": ("apps/v1", "statefulsets", True),
    "DaemonSet": ("apps/v1", "daemonsets", True),
    "ReplicaSet": ("apps/v1", "replicasets", True),
    "Job": ("batch/v1", "jobs", True),
    "CronJob": ("batch/v1", "cronjobs", True),
    "HorizontalPodAutoscaler": ("autoscaling/v2", "horizontalpodautoscalers", True),
    "PodDisruptionBudget": ("policy/v1", "poddisruptionbudgets", True),
    "NetworkPolicy": ("networking.k8s.io/v1", "networkpolicies", True),
    "StorageClass": ("storage.k8s.io/v1", "storageclasses", False),
    "Lease": ("coordination.k8s.io/v1", "leases", True),
    "EndpointSlice": ("discovery.k8s.io/v1", "endpointslices", True),
    "Role": ("rbac.authorization.k8s.io/v1", "roles", True),
    "RoleBinding": ("rbac.authorization.k8s.io/v1", "rolebindings", True),
    "ClusterRole": ("rbac.authorization.k8s.io/v1", "clusterroles", False),
    "ClusterRoleBinding": ("rbac.authorization.k8s.io/v1", "clusterrolebindings", False),
    "PriorityClass": ("scheduling.k8s.io/v1", "priorityclasses", False),
    "ValidatingAdmissionPolicy": ("admissionregistration.k8s.io/v1", "validatingadmissionpolicies", False),
    "ValidatingAdmissionPolicyBinding": ("admissionregistration.k8s.io/v1", "validatingadmissionpolicybindings", False),
    "ValidatingWebhookConfiguration": (
        "admissionregistration.k8s.io/v1",
        "validatingwebhookconfigurations",
        False,
    ),
    "APIService": ("apiregistration.k8s.io/v1", "apiservices", False),
}


def kind_path(kind: str, namespace: str | None = None, name: str = "", api_version: str = "") -> str:
    """The URL path of a kind's collection or of one object.

    >>> kind_path("Pod", "shop", "web-0")
    '/api/v1/namespaces/shop/pods/web-0'
    >>> kind_path("Deployment")
    '/apis/apps/v1/deployments'
    """
    if kind in KINDS:
        version, plural, namespaced = KINDS[kind]
    elif api_version:
        plural = _plural(kind.lower())
        version, namespaced = api_version, namespace is not None
    else:
        raise ClusterError(f"the kind {kind} is not known here", todo="give its apiVersion")
    root = "/api" if "/" not in version else "/apis"
    middle = f"/namespaces/{namespace}" if namespaced and namespace else ""
    return f"{root}/{version}{middle}/{plural}" + (f"/{name}" if name else "")


def _plural(word: str) -> str:
    """A kind's collection, as Kubernetes' own conventions form it."""
    if word.endswith(("s", "x", "ch", "sh")):
        return word + "es"
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return word[:-1] + "ies"
    return word + "s"
