"""Parts of the box that need no kernel: names, certificates, readiness, the record."""

import dataclasses
import datetime
import os
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from aftershock.base.errors import UsageError
from aftershock.cluster.api import rollout_state
from aftershock.cluster.box import daemons, lifecycle
from aftershock.cluster.box.layout import Layout, Owner, check_name, check_nodes, read_layout, start_time
from aftershock.cluster.box.pki import Authority
from aftershock.cluster.box.ready import stale
from aftershock.cluster.kinds import kind_path


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFTERSHOCK_STATE", str(tmp_path / "state"))


def layout(**changes: Any) -> Layout:
    made = Layout("b", 7, 3, "10.91.0.0/16", Owner.me(), identity="0" * 16)
    return dataclasses.replace(made, **changes)


def test_addresses_follow_from_the_slot() -> None:
    one, other = layout(), layout(slot=8)
    assert (one.gateway, one.address(0), one.address(2)) == ("10.91.7.1", "10.91.7.11", "10.91.7.13")
    assert (one.subnet, one.uplink) == ("10.91.7.0/25", ("10.91.7.253", "10.91.7.254"))
    assert len({one.link, other.link}) == 2
    assert len(layout(slot=249).link) <= 15, "a link's name has at most 15 bytes"


def test_a_record_comes_back_as_it_was(tmp_path: Path) -> None:
    made = layout(pids=(Owner(1, 2),))
    made.folder.mkdir(parents=True)
    made.save(phase="running")
    assert read_layout(made.folder) == dataclasses.replace(made, phase="running")
    (made.folder / "box.json").write_text('{"name": "b"}')
    assert read_layout(made.folder) is None
    assert read_layout(tmp_path) is None


def test_a_reused_process_id_is_not_the_owner() -> None:
    me = Owner.me()
    assert me.alive()
    assert not Owner(me.pid, me.started + 1).alive()
    assert start_time(2**22 + 1) == 0


@pytest.mark.parametrize(
    ("phase", "ephemeral", "owner_alive", "expected"),
    [
        ("running", False, False, False),
        ("running", True, False, True),
        ("running", True, True, False),
        ("starting", False, False, True),
        ("starting", False, True, False),
        ("ending", False, False, True),
        ("stopped", False, False, False),
    ],
)
def test_a_box_is_abandoned_when_nobody_will_finish_it(
    phase: str, ephemeral: bool, owner_alive: bool, expected: bool
) -> None:
    owner = Owner.me() if owner_alive else Owner(os.getpid(), 1)
    assert lifecycle.abandoned(layout(phase=phase, ephemeral=ephemeral, owner=owner)) is expected


def test_names_and_node_counts() -> None:
    for good in ("a", "box-1", "0x", "x" * 40):
        check_name(good)
    for bad in ("", "-a", "a-", "A", "a_b", "a/b", "..", "x" * 41, "ä"):
        with pytest.raises(UsageError):
            check_name(bad)
    for nodes in (0, 9, -1):
        with pytest.raises(UsageError):
            check_nodes(nodes)


def test_certificates_are_signed_by_the_authority_that_stays(tmp_path: Path) -> None:
    first = Authority(tmp_path)
    server = {"names": ["node-1"], "addresses": ["10.0.0.1"]}
    first.issue(tmp_path / "node", "system:node:node-1", organization="system:nodes", **server)
    again = Authority(tmp_path)
    again.issue(tmp_path / "admin", "admin", organization="system:masters")
    root = x509.load_pem_x509_certificate((tmp_path / "ca.crt").read_bytes())
    for name, common in (("node", "system:node:node-1"), ("admin", "admin")):
        leaf = x509.load_pem_x509_certificate((tmp_path / f"{name}.crt").read_bytes())
        leaf.verify_directly_issued_by(root)
        assert leaf.subject.rfc4514_string().startswith("CN=" + common)
        assert leaf.not_valid_before_utc < datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=1)
    leaf = x509.load_pem_x509_certificate((tmp_path / "node.crt").read_bytes())
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["node-1"]
    assert [str(a) for a in names.get_values_for_type(x509.IPAddress)] == ["10.0.0.1"]
    for key in ("ca.key", "sa.key", "node.key"):
        assert (tmp_path / key).stat().st_mode & 0o077 == 0, f"{key} can be read by others"


def test_only_the_control_plane_holds_its_daemons_and_keys() -> None:
    files = [{path: text for path, text, _ in daemons.node_files(layout(), n, restored=True)} for n in range(2)]
    assert "service/kube-apiserver/run" in files[0]
    assert "service/kube-apiserver/run" not in files[1]
    assert "kubernetes/controller-manager.conf" not in files[1]
    for found in files:
        assert {"service/kubelet/run", "service/containerd/run", "service/kube-proxy/run"} <= found.keys()
    assert '"10.244.1.0/24"' in files[1]["cni/net.d/10-pods.conflist"]


def test_a_kubelet_waits_for_the_packet_filter_only_when_pods_wait_for_it() -> None:
    for restored in (True, False):
        runs = {p: t for p, t, _ in daemons.node_files(layout(), 1, restored=restored)}["service/kubelet/run"]
        assert ("KUBE-SERVICES" in runs) is restored


def pod(**status: Any) -> dict[str, Any]:
    base = {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [{"containerID": "containerd://abc"}],
    }
    return {
        "metadata": {"name": "p", "namespace": "n", "labels": {"app": "p"}},
        "spec": {"containers": [{"name": "c"}]},
        "status": base | status,
    }


def test_a_pod_is_fresh_only_when_its_containers_run_now() -> None:
    assert stale(pod(), {"abc"}) == ""
    assert "not started since" in stale(pod(), {"def"})
    assert "not started since" in stale(pod(), set())
    assert "not ready" in stale(pod(conditions=[{"type": "Ready", "status": "False"}]), {"abc"})
    assert "Pending" in stale(pod(phase="Pending", containerStatuses=[]), {"abc"})
    assert stale(pod(phase="Succeeded"), set()) == ""
    ending = pod()
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert "ending" in stale(ending, {"abc"})
    half = pod()
    half["spec"]["containers"].append({"name": "second"})
    assert stale(half, {"abc"})


def workload(**status: int) -> dict[str, Any]:
    return {
        "kind": "Deployment",
        "metadata": {"generation": 2},
        "spec": {"replicas": 2},
        "status": {"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2} | status,
    }


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, ""),
        ({"observedGeneration": 1}, "not been observed"),
        ({"updatedReplicas": 1}, "1 of 2 replicas updated"),
        ({"availableReplicas": 1}, "1 of 2 replicas available"),
        ({"replicas": 3}, "1 old replicas remain"),
    ],
)
def test_a_rollout_is_done_when_only_new_replicas_run(change: dict[str, int], reason: str) -> None:
    said = rollout_state(workload(**change))
    assert (said == "") if not reason else (reason in said)


def test_a_workload_that_is_not_there_is_not_rolled_out() -> None:
    assert rollout_state(None) == "it does not exist"


def test_paths_of_kinds() -> None:
    assert kind_path("Node", None, "node-0") == "/api/v1/nodes/node-0"
    assert kind_path("Deployment", "shop", "web") == "/apis/apps/v1/namespaces/shop/deployments/web"
    assert kind_path("NetworkPolicy") == "/apis/networking.k8s.io/v1/networkpolicies"
    assert kind_path("Gateway", "shop", "", "x.io/v1") == "/apis/x.io/v1/namespaces/shop/gateways"
    assert kind_path("Policy", "shop", "", "x.io/v1") == "/apis/x.io/v1/namespaces/shop/policies"
