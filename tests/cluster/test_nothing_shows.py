"""What a pod or a node can read of itself names nothing of the project or of the machine outside."""

import platform
import re
from pathlib import Path

from aftershock.base.paths import cache_dir, source_root, state_dir

from .conftest import Cluster

EVERYWHERE = " ".join(
    (
        "/proc/self/mountinfo /proc/1/mountinfo /proc/self/cgroup /proc/self/environ /proc/1/environ /proc/cmdline",
        "/proc/1/cmdline /proc/swaps /proc/sys/kernel/hostname /proc/sys/kernel/random/boot_id /etc/hosts",
        "/etc/resolv.conf /etc/hostname /sys/block/*/loop/backing_file /sys/class/dmi/id/* /sys/class/net/*/ifalias",
    )
)
SHOW = "{ echo \"== $f\"; cat $f 2>/dev/null | tr '\\0' '\\n'; }"
READ = f"for f in {EVERYWHERE}; do [ -f $f ] && {SHOW}; done; env; hostname; ps"


def words(box_name: str) -> list[str]:
    """What must not show up, and where it would come from."""
    paths = [cache_dir(), state_dir(), source_root(), Path.home() / ".cache"]
    return ["aftershock", "benchmark", box_name, platform.node(), *(str(p).strip("/") for p in paths)]


def leaks(text: str, box_name: str) -> list[str]:
    found = []
    for word in words(box_name):
        found += [line for line in text.splitlines() if word and re.search(rf"\b{re.escape(word)}\b", line)]
    return found


async def test_a_pod_sees_only_a_node(cluster: Cluster) -> None:
    from .conftest import claim, service, workload

    await cluster.apply(claim("data", "local-path"), claim("disk", "local-disk"))
    await cluster.apply(workload("curious", volumes=("data", "disk")), service("curious"))
    await cluster.api.rolled_out("Deployment", "curious", cluster.namespace, seconds=90)
    pod = (await cluster.api.list("Pod", cluster.namespace, labels="app=curious"))[0]["metadata"]["name"]
    seen = (await cluster.sh(pod, READ, check=False)).out
    assert "/proc/self/mountinfo" in seen
    assert leaks(seen, cluster.box.name) == []
    mounts = [line.split() for line in seen.splitlines() if re.match(r"\d+ \d+ \d+:\d+ ", line)]
    sources = {fields[4]: (fields[3], fields[fields.index("-") + 2]) for fields in mounts if "-" in fields}
    assert sources["/etc/hosts"][0].startswith("/var/lib/kubelet/pods/")
    assert sources["/etc/hosts"][1] == "/dev/sda1"
    assert sources["/data"][0].startswith("/var/local-path-provisioner/")


async def test_a_node_sees_only_itself(cluster: Cluster) -> None:
    for name in cluster.box.nodes:
        look = ["bash", "-c", READ + "; ps aux; mount; df; ip addr; dmesg"]
        seen = (await cluster.box.node_run(name, look, check=False)).out
        assert name in seen
        assert leaks(seen, cluster.box.name) == []
        assert (await cluster.box.node_run(name, ["ps", "-p", "1", "-o", "comm="])).out.strip() == "runsvdir"


async def test_the_objects_of_a_new_cluster_name_nothing(cluster: Cluster) -> None:
    kinds = "nodes,pods,services,configmaps,serviceaccounts,events,persistentvolumes,storageclasses,clusterroles,"
    kinds += "clusterrolebindings,deployments,replicasets,namespaces,leases,apiservices"
    everything = await cluster.kubectl("get", kinds, "-A", "-o", "json", "--show-managed-fields", timeout=120)
    text = everything.out
    assert len(text) > 100_000
    assert leaks(text, cluster.box.name) == []


async def test_not_even_a_privileged_pod_opens_the_machines_disk(cluster: Cluster) -> None:
    """The machine's disk by its number: the control group says no."""
    major_minor = (Path("/sys/dev/block") / _disk_of(Path("/")) / "dev").read_text().strip()
    major, minor = major_minor.split(":")
    await cluster.pod("privileged", "sleep 600", securityContext={"privileged": True})
    grab = f"/bin/busybox mknod /tmp/d b {major} {minor} && /bin/busybox dd if=/tmp/d of=/dev/null bs=512 count=1"
    refused = await cluster.sh("privileged", grab, check=False)
    assert refused.code != 0
    assert "not permitted" in refused.err


def _disk_of(path: Path) -> str:
    import os

    number = path.stat().st_dev
    return f"{os.major(number)}:{os.minor(number)}"
