"""Somebody's own cluster: a box, used as if we knew no more than its kubeconfig."""

import asyncio
import secrets
from pathlib import Path

import pytest

from aftershock.base.errors import ClusterError, MissingCapability, UsageError
from aftershock.base.run import run
from aftershock.base.wait import NotYet, until
from aftershock.cluster.base import require
from aftershock.cluster.box import box as boxes
from aftershock.cluster.existing import open_existing
from aftershock.stack import load as stacks

from .conftest import Cluster, aftershock, record, service, workload


async def test_a_kubeconfig_is_enough_for_what_can_work_there(cluster: Cluster) -> None:
    existing = await open_existing(cluster.box.kubeconfig)
    try:
        assert existing.nodes == cluster.box.nodes
        assert existing.world is None
        with pytest.raises(MissingCapability, match="lacks the capability snapshot"):
            require(existing, "snapshot", "restoring the stack")
        with pytest.raises(MissingCapability, match="node-run"):
            await existing.node_run("node-0", ["true"])

        oncall = existing.api("oncall")
        who = await run([*oncall.kubectl_argv(), "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"])
        assert who.out == "oncall"
        refused = await run([*oncall.kubectl_argv(), "get", "nodes"], check=False)
        assert "forbidden" in refused.err

        await cluster.apply(workload("web"), service("web", "LoadBalancer"))
        await cluster.api.rolled_out("Deployment", "web", cluster.namespace)
        url = await existing.front("web", cluster.namespace)
        assert cluster.box.layout.address(0) in url

        async def answers() -> None:
            # Packet filters are written once a second, so a new node port takes a moment.
            done = await run(["curl", "-s", "--max-time", "5", url], timeout=10, check=False)
            if "hello from a pod" not in done.out:
                raise NotYet(done.tail(200) or f"curl ended with {done.code}")

        await until(answers, what="the node port answers", seconds=20, every=0.3)

        await existing.reset(cluster.namespace)
        async with existing.api() as api:
            assert await api.get("Namespace", cluster.namespace) is None
            left = await api.request("GET", "/apis/certificates.k8s.io/v1/certificatesigningrequests")
            assert left.json()["items"] == []
    finally:
        await existing.close()


async def test_what_is_no_cluster_is_told(tmp_path: Path, cluster: Cluster) -> None:
    broken = tmp_path / "kubeconfig"
    broken.write_text("contexts: 7")
    with pytest.raises(UsageError, match="not a kubeconfig"):
        await open_existing(broken)
    with pytest.raises(UsageError, match="no context elsewhere") as wrong:
        await open_existing(cluster.box.kubeconfig, "elsewhere")
    assert "default" in wrong.value.todo
    dead = cluster.box.kubeconfig.read_text().replace(":6443", ":6")
    (cluster.box.layout.folder / "dead.kubeconfig").write_text(dead)
    with pytest.raises(ClusterError, match="does not answer"):
        await open_existing(cluster.box.layout.folder / "dead.kubeconfig")


async def test_a_trial_on_an_existing_cluster(tmp_path: Path) -> None:
    """The stack is deployed there, users come by a node port, the verdict holds, the namespace goes."""
    stack = stacks.load("orders")
    box = await boxes.up(f"test-{secrets.token_hex(3)}", nodes=1, images=stack.images(), ephemeral=True)
    async with boxes.closing(box):
        command = (
            "trial",
            "amber-heron",
            "--kubeconfig",
            str(box.kubeconfig),
            "--json",
            "--record",
            str(tmp_path / "r"),
        )
        done = await asyncio.to_thread(aftershock, *command, timeout=600)
        found = record(done)
        assert found["verdict"] == "failed", done.stderr
        assert "users-served" in [c["id"] for c in found["checks"] if c["result"] == "fail"]
        async with box.api() as api:
            assert await api.get("Namespace", "shop") is None
