"""What kubectl shows and does, limits, and a handful of behaviours that Kubernetes documents."""

import asyncio
import json
import re
import socket

from aftershock.base.wait import NotYet, until

from .conftest import Cluster, service, workload


async def test_exec_logs_and_port_forward(cluster: Cluster) -> None:
    await cluster.pod("talker", "echo first line; echo second line; exec /bin/busybox httpd -f -p 8080 -h /www")
    assert (await cluster.kubectl("logs", "talker", "--tail=1")).out.strip() == "second line"
    piped = await cluster.api.exec(cluster.namespace, "talker", ["/bin/busybox", "wc", "-c"], stdin="x" * 200_000)
    assert piped.out.strip() == "200000"
    failed = await cluster.sh("talker", "exit 7", check=False)
    assert failed.code == 7

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    forward = await asyncio.create_subprocess_exec(
        *cluster.api.kubectl_argv(), "-n", cluster.namespace, "port-forward", "pod/talker", f"{port}:8080",
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        assert forward.stdout
        assert b"Forwarding" in await asyncio.wait_for(forward.stdout.readline(), 20)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.0\r\n\r\n")
        assert b"hello from a pod" in await asyncio.wait_for(reader.read(), 10)
        writer.close()
    finally:
        forward.kill()
        await forward.wait()


async def test_top_shows_nodes_and_pods(cluster: Cluster) -> None:
    await cluster.pod("busy", "while :; do :; done", resources={"limits": {"cpu": "100m"}})

    async def shown() -> str:
        top = await cluster.kubectl("top", "pod", "busy", "--no-headers", check=False)
        if not top.ok or not re.search(r"busy\s+\d+m\s+\d+Mi", top.out):
            raise NotYet(top.tail(200))
        return top.out

    out = await until(shown, what="kubectl top shows the pod", seconds=120, every=1)
    match = re.search(r"(\d+)m", out)
    assert match
    assert 20 <= int(match[1]) <= 200
    nodes = await cluster.kubectl("top", "nodes", "--no-headers")
    assert len(nodes.out.splitlines()) == len(cluster.box.nodes)


async def test_memory_over_the_limit_is_seen_as_oom_killed(cluster: Cluster) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "hungry"},
        "spec": {
            "restartPolicy": "Never",
            "containers": [
                {
                    "name": "main",
                    "image": "registry.internal/test/tools:1.0",
                    "args": ["tail", "/dev/zero"],
                    "resources": {"limits": {"memory": "32Mi"}},
                }
            ],
        },
    }
    await cluster.api.create(pod, namespace=cluster.namespace)

    def ended(obj: dict | None) -> str:  # type: ignore[type-arg]
        states = [s.get("state", {}) for s in (obj or {}).get("status", {}).get("containerStatuses") or [{}]]
        return "" if "terminated" in states[0] else json.dumps(states)

    found = await cluster.api.wait_for("Pod", "hungry", cluster.namespace, ended, seconds=60)
    assert found is not None
    state = found["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (state["reason"], state["exitCode"]) == ("OOMKilled", 137)


async def test_a_rollout_keeps_serving_and_can_be_undone(cluster: Cluster) -> None:
    web = workload("web", replicas=2)
    web["spec"]["strategy"] = {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
    await cluster.apply(web)
    await cluster.api.rolled_out("Deployment", "web", cluster.namespace)
    least = 2
    await cluster.kubectl("set", "env", "deployment/web", "RELEASE=2")

    async def done() -> None:
        nonlocal least
        obj = await cluster.api.get("Deployment", "web", cluster.namespace) or {}
        least = min(least, obj["status"].get("availableReplicas", 0))
        status = obj["status"]
        if status.get("observedGeneration") != obj["metadata"]["generation"] or status.get("updatedReplicas") != 2:
            raise NotYet("not updated")
        if status.get("replicas") != 2 or status.get("availableReplicas") != 2:
            raise NotYet("old replicas remain")

    await until(done, what="the rollout is done", seconds=60)
    assert least == 2, "fewer replicas were available than maxUnavailable allows"
    await cluster.kubectl("rollout", "undo", "deployment/web")
    await cluster.api.rolled_out("Deployment", "web", cluster.namespace)
    obj = await cluster.api.get("Deployment", "web", cluster.namespace) or {}
    assert not obj["spec"]["template"]["spec"]["containers"][0].get("env")
    assert obj["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "3"


async def test_the_autoscaler_follows_real_metrics(cluster: Cluster) -> None:
    burn = "/bin/busybox httpd -p 8080 -h /www; while :; do :; done"
    busy = workload("busy", command=burn, resources={"requests": {"cpu": "50m"}, "limits": {"cpu": "150m"}})
    target = {"type": "Utilization", "averageUtilization": 50}
    scaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "busy"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "busy"},
            "minReplicas": 1,
            "maxReplicas": 2,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
        },
    }
    await cluster.apply(busy, scaler)
    await cluster.api.wait_for(
        "Deployment",
        "busy",
        cluster.namespace,
        lambda d: "" if (d or {}).get("spec", {}).get("replicas") == 2 else "not scaled yet",
        seconds=180,
    )


async def test_an_eviction_that_breaks_the_budget_is_refused(cluster: Cluster) -> None:
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    }
    await cluster.apply(workload("web"), budget)
    await cluster.api.rolled_out("Deployment", "web", cluster.namespace)
    await cluster.api.wait_for(
        "PodDisruptionBudget",
        "web",
        cluster.namespace,
        lambda b: "" if (b or {}).get("status", {}).get("currentHealthy") == 1 else "not counted yet",
        seconds=30,
    )
    pod = (await cluster.api.list("Pod", cluster.namespace, labels="app=web"))[0]["metadata"]["name"]
    path = f"/api/v1/namespaces/{cluster.namespace}/pods/{pod}/eviction"
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
    refused = await cluster.api.request("POST", path, body=body)
    assert refused.status_code == 429
    assert "disruption budget" in refused.text


async def test_jobs_complete_and_cron_jobs_start_them(cluster: Cluster) -> None:
    template = {
        "spec": {
            "restartPolicy": "Never",
            "containers": [
                {"name": "main", "image": "registry.internal/test/tools:1.0", "args": ["sh", "-c", "echo done"]}
            ],
        }
    }
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "once"},
        "spec": {"completions": 2, "parallelism": 2, "template": template},
    }
    cron = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "minutely"},
        "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": template}}},
    }
    await cluster.apply(job, cron)
    await cluster.api.wait_for(
        "Job",
        "once",
        cluster.namespace,
        lambda j: "" if (j or {}).get("status", {}).get("succeeded") == 2 else "not complete",
        seconds=60,
    )

    async def started() -> None:
        jobs = await cluster.api.list("Job", cluster.namespace)
        owned = [j for j in jobs if (j["metadata"].get("ownerReferences") or [{}])[0].get("kind") == "CronJob"]
        if not any(j.get("status", {}).get("succeeded") for j in owned):
            raise NotYet("no Job of the CronJob has completed")

    await until(started, what="the CronJob has run", seconds=100, every=1)


async def test_a_small_disk_fills_up(cluster: Cluster) -> None:
    from .conftest import claim

    await cluster.apply(claim("disk", "local-disk", "32Mi"), workload("filler", volumes=("disk",)), service("filler"))
    await cluster.api.rolled_out("Deployment", "filler", cluster.namespace, seconds=90)
    pod = (await cluster.api.list("Pod", cluster.namespace, labels="app=filler"))[0]["metadata"]["name"]
    full = await cluster.sh(pod, "/bin/busybox dd if=/dev/zero of=/disk/fill bs=1M count=64", check=False)
    assert full.code != 0
    assert "No space left on device" in full.err
    assert (await cluster.sh(pod, "rm /disk/fill; echo again > /disk/note; cat /disk/note")).out.strip() == "again"
