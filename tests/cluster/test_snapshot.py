"""State that is saved and restored: byte for byte, under other names and addresses, never stale."""

import asyncio
import secrets
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from aftershock.base.errors import BuildError, DeadlinePassed, UsageError
from aftershock.cluster.box import box as boxes
from aftershock.cluster.box import ready, snapshot
from aftershock.cluster.box.box import Box

from .conftest import Cluster


async def restored(saved: dict[str, Any], name: str) -> Box:
    return await snapshot.restore(snapshot.find(saved["snapshot"]), name, ephemeral=True, images=saved["images"])


async def test_two_boxes_from_one_state_side_by_side(saved: dict[str, Any]) -> None:
    names = [f"test-{secrets.token_hex(3)}" for _ in range(2)]
    first, second = await asyncio.gather(*(restored(saved, name) for name in names))
    async with boxes.closing(first), boxes.closing(second):
        subnets = {saved["addresses"], first.layout.subnet, second.layout.subnet}
        assert len({first.layout.slot, second.layout.slot}) == 2
        assert len(subnets) >= 2
        for box in (first, second):
            async with Cluster(box, "default") as cluster:
                pod = (await cluster.api.list("Pod", "default", labels="app=store"))[0]
                name = pod["metadata"]["name"]
                sums = await cluster.sh(name, "sha256sum /files/random /disk/random")
                assert sums.out == saved["sums"], "data is not byte for byte what was saved"
                note = await cluster.sh(name, "cat /files/deep/note; /bin/busybox stat -c %a /files/deep/note")
                assert note.out.split() == ["kept", "600"]
                size = await cluster.sh(name, "df -k /disk | tail -n 1")
                assert int(size.out.split()[1]) < 70_000, "the small file system is not mounted"
                # Same pod, new container: nothing of the old start is believed.
                assert pod["metadata"]["uid"] == saved["pod"]["metadata"]["uid"]
                old, new = (p["status"]["containerStatuses"][0] for p in (saved["pod"], pod))
                assert new["containerID"] != old["containerID"]
                assert new["restartCount"] == 0
                assert pod["status"]["podIP"] in str(await cluster.api.list("EndpointSlice", "default"))
                endpoint = await cluster.api.get("Endpoints", "kubernetes", "default") or {}
                assert [a["ip"] for s in endpoint["subsets"] for a in s["addresses"]] == [box.layout.address(0)]
                assert await cluster.reaches(name, "store.default.svc.cluster.local")
        await write_in(first, "only here")
        assert await read_in(second) == "kept"


async def write_in(box: Box, text: str) -> None:
    async with Cluster(box, "default") as cluster:
        pod = (await cluster.api.list("Pod", "default", labels="app=store"))[0]["metadata"]["name"]
        await cluster.sh(pod, f"echo {text} > /files/deep/note; sync")


async def read_in(box: Box) -> str:
    async with Cluster(box, "default") as cluster:
        pod = (await cluster.api.list("Pod", "default", labels="app=store"))[0]["metadata"]["name"]
        return (await cluster.sh(pod, "cat /files/deep/note")).out.strip()


async def test_ready_is_not_believed_from_the_api_alone(saved: dict[str, Any]) -> None:
    """A node whose containers are gone while its kubelet is silent still looks Ready in the API."""
    box = await restored(saved, f"test-{secrets.token_hex(3)}")
    async with boxes.closing(box), Cluster(box, "default") as cluster:
        pod = (await cluster.api.list("Pod", "default", labels="app=store"))[0]
        await box.node_run(pod["spec"]["nodeName"], ["sv", "stop", "kubelet"])
        kill = "for t in /run/containerd/io.containerd.runtime.v2.task/k8s.io/*/init.pid; do kill -9 $(cat $t); done"
        await box.node_run(pod["spec"]["nodeName"], ["bash", "-c", kill])
        shown = (await cluster.api.list("Pod", "default", labels="app=store"))[0]
        assert any(c["type"] == "Ready" and c["status"] == "True" for c in shown["status"]["conditions"])
        with pytest.raises(DeadlinePassed, match="has not started since"):
            await ready.fresh_pods(box.layout, cluster.api, seconds=3)


async def test_a_stopped_box_goes_on_where_it_was(saved: dict[str, Any]) -> None:
    name = f"test-{secrets.token_hex(3)}"
    box = await restored(saved, name)
    try:
        await write_in(box, "after the stop")
        await boxes.down(name, keep=True)
        with pytest.raises(UsageError, match="stopped"):
            boxes.open_box(name)
        again = await boxes.up(name)
        assert await read_in(again) == "after the stop"
    finally:
        await boxes.down(name)


async def test_a_damaged_snapshot_is_refused(saved: dict[str, Any]) -> None:
    copy = f"{saved['snapshot']}-copy"
    shutil.copytree(snapshot.find(saved["snapshot"]).folder, snapshot.snapshots_dir() / copy)
    folder = snapshot.snapshots_dir() / copy
    try:
        about = (folder / "snapshot.json").read_text().replace(saved["snapshot"], copy)
        (folder / "snapshot.json").write_text(about)
        with pytest.raises(BuildError, match=r"snapshot\.json has changed"):
            snapshot.find(copy)
        from aftershock.cluster import parts

        parts.seal(folder)
        assert snapshot.find(copy).name == copy
        flip(folder / "node-1.tar")
        with pytest.raises(BuildError, match=r"damaged: node-1\.tar has changed"):
            snapshot.find(copy)
        (folder / "snapshot.json").write_text("{")
        with pytest.raises(BuildError, match="cannot be read"):
            snapshot.find(copy)
    finally:
        snapshot.remove(copy)
    with pytest.raises(UsageError, match="no snapshot"):
        snapshot.find(copy)


def flip(path: Path) -> None:
    """Change one byte in the middle of a file."""
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        byte = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte[0] ^ 1]))


async def test_names_are_checked_before_anything_is_done(saved: dict[str, Any]) -> None:
    begin = time.monotonic()
    for bad in ("", "UPPER", "a b", "../x", "x" * 41):
        with pytest.raises(UsageError, match="cannot be a box's name"):
            await restored(saved, bad)
    assert time.monotonic() - begin < 30
