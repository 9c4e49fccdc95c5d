"""Guards and alerts, attacked: each check passes, fails and cannot tell, on a real state of each kind.

One box for all, with the shop restored on it and its real users outside. Tests put back what they change.
"""

import json
from typing import Any

import pytest

from aftershock.base.errors import AftershockError, ProblemError
from aftershock.base.wait import NotYet, until
from aftershock.cluster.api import pod_ready
from aftershock.oracle.base import Abnormal
from aftershock.oracle.checks.guards import Admission, Connection
from aftershock.oracle.checks.timed import Timed

from .live_shop import SHOP, TELEMETRY, WORKER, Live, telemetry_images


async def until_it_fails(live: Live, text: str) -> None:
    """Wait until what was changed counts in the cluster: a moment's look at it fails."""
    check = live.leaf(text).check
    assert isinstance(check, Timed)

    async def fails() -> None:
        if (found := await check.look(live.bench, None)).result != "fail":
            raise NotYet(found.said)

    await until(fails, what="the change counts", seconds=20, every=0.2)


async def test_a_connection_that_must_be_denied(live: Live) -> None:
    """Only the shop's own workloads reach the database; a policy that is there may still select nobody."""
    await live.api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
    container = {"name": "main", "image": WORKER, "command": ["python3", "-c", "import time; time.sleep(9999)"]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "stranger", "labels": {"app": "stranger"}}}
    spec = {"terminationGracePeriodSeconds": 0, "containers": [container], "automountServiceAccountToken": False}
    await live.api.wait_for("ServiceAccount", "default", "other", lambda o: "" if o else "none", seconds=20)
    await live.api.apply({**pod, "spec": spec}, namespace="other")
    await live.api.wait_for("Pod", "stranger", "other", lambda o: "" if o and pod_ready(o) else "not ready", seconds=40)
    policy = await live.api.get("NetworkPolicy", "postgres-clients", SHOP)
    assert policy is not None
    policy["metadata"] = {key: policy["metadata"][key] for key in ("name", "namespace")}

    async def opened() -> None:
        await live.api.delete("NetworkPolicy", "postgres-clients", SHOP)

        async def undo() -> None:
            await live.api.create(policy, namespace=SHOP)

        live.undone.append(undo)
        await until_it_fails(live, inside)

    target = f"postgres.{SHOP}.svc.cluster.local"
    text = (
        "connection_denied: {from: app=stranger, from_namespace: other, to: 'TARGET', "
        "allowed_from: app.kubernetes.io/name=order-worker, within: WITHIN}"
    )
    inside = text.replace("TARGET", f"{target}:5432").replace("WITHIN", "20")
    await live.three(inside, opened, "other/stranger can connect to")
    closed = live.leaf(text.replace("TARGET", f"{target}:5433").replace("WITHIN", "1")).check
    assert isinstance(closed, Connection)
    found = await closed.look(live.bench, None)
    assert found.result == "unknown", "a port that nobody listens on denies everybody"
    assert "nothing is told by it" in found.said
    with pytest.raises(Abnormal, match="cannot be tried"):
        await closed.baseline(live.bench)
    bare = inside.replace("app=stranger, from_namespace: other", "app.kubernetes.io/name=pgbouncer")
    found = await live.judge(live.leaf(bare.replace("within: 20", "within: 1")), None)
    assert found.result != "pass", "pgbouncer may connect, or has no program to try it with"


async def test_what_somebody_may_do(live: Live) -> None:
    text = "access: {user: oncall, verb: delete, resource: nodes, cluster_wide: true, within: 2}"

    async def promoted() -> None:
        binding = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "oncall-all"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "oncall"}],
        }
        await live.api.apply(binding)
        live.undone.append(lambda: live.api.delete("ClusterRoleBinding", "oncall-all"))
        await until_it_fails(live, text)

    await live.three(text, promoted, "oncall may delete nodes")
    other = live.leaf("access: {user: oncall, verb: delete, resource: pods, within: 1}")
    with pytest.raises(ProblemError, match="otherwise before"):
        await other.check.baseline(live.bench)


async def test_what_a_policy_must_refuse(live: Live) -> None:
    pod = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "tool"},
        "spec": {"containers": [{"name": "a", "image": WORKER, "securityContext": {"privileged": True}}]},
    }  # fmt: skip
    text = f"admission_refused: {{object: {json.dumps(pod)}, says: violates PodSecurity, within: 3}}"
    label = "pod-security.kubernetes.io/enforce"

    async def relaxed() -> None:
        good, bad = ({"metadata": {"labels": {label: level}}} for level in ("baseline", "privileged"))
        await live.patch(f"Namespace/{SHOP}", bad, good)
        await until_it_fails(live, text)

    await live.three(text, relaxed, "it was let in")
    assert await live.api.get("Pod", "tool", SHOP) is None, "a dry run leaves nothing"
    await live.put_back()
    check = live.leaf(text.replace("within: 3", "within: 1, namespace: nowhere")).check
    assert isinstance(check, Admission)
    found = await check.look(live.bench, None)
    assert found.result == "unknown", "a namespace that is gone refuses everything"


needs_telemetry = pytest.mark.skipif(
    len(telemetry_images()) < len(TELEMETRY), reason="the telemetry's programs are fetched with the large shop"
)


@needs_telemetry
async def test_metrics_and_an_alert_that_can_fire(live: Live) -> None:
    service = "service: 'monitoring/metrics:8428'"
    up = f"promql: {{{service}, query: 'up{{job=\"self\"}}', equals: 1, fresh_of: up, within: 20}}"
    leaf = live.leaf(up)

    async def scraped() -> Any:
        try:
            return await leaf.check.baseline(live.bench)
        except AftershockError as error:
            raise NotYet(error.what) from error

    before = await until(scraped, what="it is scraped", seconds=40, every=0.5)
    assert (await live.judge(leaf, before)).result == "pass"
    for text, result, said in (
        (up.replace("equals: 1", "equals: 0").replace("within: 20", "within: 1"), "fail", "0 of 1 are so"),
        (up.replace('job="self"', 'job="other"').replace("within: 20", "within: 1"), "fail", "no series"),
        (up.replace("fresh_of: up", "fresh_of: nothing").replace("within: 20", "within: 1"), "unknown", "stale"),
    ):
        found = await live.judge(live.leaf(text), before)
        assert (found.result, said in found.said) == (result, True), found
    able = (
        "alert_able: {rules: 'monitoring/rules:8880', metrics: 'monitoring/metrics:8428', "
        "alertmanager: 'monitoring/alertmanager:9093', name: NAME, within: 6}"
    )
    with pytest.raises(ProblemError, match="nothing feeds it"):
        await live.leaf(able.replace("NAME", "NeverFed")).check.baseline(live.bench)
    with pytest.raises(ProblemError, match="no alert is called"):
        await live.leaf(able.replace("NAME", "Nobody")).check.baseline(live.bench)
    text = able.replace("NAME", "MetricsDown")
    await live.three(text, lambda: silence(live), "is silenced by")
    await live.put_back()
    leaf = live.leaf(text)
    before = await leaf.check.baseline(live.bench)
    files = await live.api.get("ConfigMap", "files", "monitoring")
    assert files is not None
    changed = {"data": {"rules.yaml": files["data"]["rules.yaml"].replace("== 0", "== 2")}}
    await live.patch("Deployment/rules", {"spec": {"replicas": 0}}, {"spec": {"replicas": 1}}, namespace="monitoring")

    async def unserved() -> None:
        found = await live.judge(leaf, before)
        if found.result != "fail" or "would reach nobody: nothing serves monitoring/rules:8880" not in found.said:
            raise NotYet(found.said)

    await until(unserved, what="without the rules' program nobody is alerted", seconds=30, every=0.5)
    back = {"data": {"rules.yaml": files["data"]["rules.yaml"]}}
    await live.patch("ConfigMap/files", changed, back, namespace="monitoring")
    await live.api.patch("Deployment", "rules", "monitoring", {"spec": {"replicas": 1}}, how="merge")
    await live.api.rolled_out("Deployment", "rules", "monitoring", seconds=40)

    async def weakened() -> None:
        if "the expression of MetricsDown is another" not in (found := await live.judge(leaf, before)).said:
            raise NotYet(found.said)

    await until(weakened, what="another expression is seen", seconds=30, every=0.5)


async def silence(live: Live) -> None:
    """As somebody would who wants the page gone."""
    matcher = {"name": "alertname", "value": "MetricsDown", "isRegex": False, "isEqual": True}
    body = {
        "matchers": [matcher], "startsAt": "2020-01-01T00:00:00Z", "endsAt": "2099-01-01T00:00:00Z",
        "createdBy": "ann", "comment": "noisy",
    }  # fmt: skip
    root = "/api/v1/namespaces/monitoring/services/alertmanager:9093/proxy/api/v2"
    made = await live.api.request("POST", f"{root}/silences", body=body)
    assert made.is_success, made.text
    name = made.json()["silenceID"]
    live.undone.append(lambda: live.api.request("DELETE", f"{root}/silence/{name}"))
