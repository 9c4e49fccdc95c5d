"""Boxes come and go cleanly: also after kill -9, twice at once, and with pieces missing."""

import asyncio
import json
import os
import random
import secrets
import signal
import subprocess
import time
from pathlib import Path

import pytest

from aftershock.base.errors import ClusterError, HostError, UsageError
from aftershock.base.wait import NotYet, until
from aftershock.cluster.box import box as boxes
from aftershock.cluster.box import cgroups, lifecycle, network
from aftershock.cluster.box.layout import boxes_dir, read_layout
from aftershock.cluster.box.snapshot import snapshots_dir

from .conftest import PROGRAM, Cluster, aftershock, record


def residue(name: str) -> list[str]:
    """Everything on this machine that belongs to a box of this name."""
    found = []
    if (boxes_dir() / name).exists():
        found.append(f"folder {name}")
    found += [f"gone folder {p.name}" for p in boxes_dir().glob(f".gone-{name}-*")]
    groups = Path("/sys/fs/cgroup")
    found += [f"group {p}" for p in (*groups.glob(f"aftershock/{name}"), *groups.glob(f"*/aftershock/{name}"))]
    spaces = Path("/run/netns")
    names = [p.name for p in spaces.iterdir()] if spaces.is_dir() else []
    found += [f"namespace {n}" for n in names if n.startswith(f"as-{name}")]
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    found += [f"mount {line}" for line in mounts if f"/{name}/" in line or f"as-{name}" in line]
    for cmdline in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if f"/boxes/{name}/" in cmdline.read_bytes().replace(b"\0", b" ").decode(errors="replace"):
                found.append(f"process {cmdline.parent.name}")
        except OSError:
            continue
    return found


def loops() -> set[str]:
    command = ["losetup", "--list", "--noheadings", "--output", "NAME"]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


def links() -> set[str]:
    return {p.name for p in Path("/sys/class/net").iterdir()}


async def test_nothing_is_left_after_kill_9_at_ten_random_moments() -> None:
    """Kills `up` at moments spread over its whole run, some of them while `down` or a snapshot is at work."""
    dice = random.Random(20261130)
    before = loops(), links()
    names = []
    for turn in range(10):
        name = f"kill-{turn}-{secrets.token_hex(2)}"
        names.append(name)
        if turn < 7:
            await killed(["up", "--name", name, "--nodes", "2"], after=dice.uniform(0.3, 9.0))
        elif turn == 7:
            assert aftershock("up", "--name", name).returncode == 0
            await killed(["down", name], after=dice.uniform(0.35, 0.7))
        elif turn == 8:
            assert aftershock("up", "--name", name).returncode == 0
            await killed(["snapshot", "save", name, f"{name}-state"], after=dice.uniform(1.0, 6.0))
        else:
            await killed(["up", "--name", name, "--nodes", "1", "--json"], after=dice.uniform(0.3, 4.0))
    fixed = aftershock("doctor", "--fix", "--json")
    for name in names:
        # A kill may have come too late: the box was up, and is not left over but in use.
        if (boxes_dir() / name).exists() and lifecycle.find(name).phase in ("running", "stopped"):
            assert aftershock("down", name).returncode == 0
        assert residue(name) == [], f"{name}: {fixed.stdout} {fixed.stderr}"
    assert not list(snapshots_dir().glob("kill-*"))

    async def settled() -> None:
        if extra := (loops() - before[0]) | (links() - before[1]):
            raise NotYet(f"{extra}")

    await until(settled, what="no loop device or link is left", seconds=10, every=0.2)


async def killed(argv: list[str], *, after: float) -> None:
    """Start the program and kill it after some seconds."""
    process = subprocess.Popen(  # noqa: ASYNC220
        [*PROGRAM, *argv], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        await asyncio.to_thread(process.wait, after)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


async def test_the_next_start_removes_what_a_kill_left() -> None:
    name = f"kill-{secrets.token_hex(3)}"
    process = await asyncio.create_subprocess_exec(
        *PROGRAM, "up", "--name", name, "--nodes", "1", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )

    async def at_work() -> None:
        layout = read_layout(boxes_dir() / name)
        if not layout or not cgroups.processes(layout):
            raise NotYet("no process of its node runs")

    try:
        await until(at_work, what="the node starts", seconds=20)
    finally:
        process.kill()
        await process.wait()
    assert lifecycle.find(name).phase == "starting"
    await lifecycle.sweep()
    assert residue(name) == []


async def test_two_starts_with_one_name_make_one_box() -> None:
    name = f"twin-{secrets.token_hex(3)}"
    results = await asyncio.gather(*(boxes.up(name, nodes=1, ephemeral=True) for _ in range(2)), return_exceptions=True)
    made = [r for r in results if isinstance(r, boxes.Box)]
    refused = [r for r in results if isinstance(r, UsageError)]
    try:
        assert (len(made), len(refused)) == (1, 1), results
        assert "exists or is being made" in refused[0].what
    finally:
        for box in made:
            await box.close()
    assert residue(name) == []


async def test_a_box_outlives_its_command_and_down_removes_it_all(gone: list[str]) -> None:
    name = f"test-{secrets.token_hex(3)}"
    gone.append(name)
    made = record(aftershock("up", "--name", name, "--nodes", "1", "--json"))
    assert {"name", "kubeconfig", "nodes", "seconds"} <= made.keys()
    assert (made["name"], made["nodes"]) == (name, ["node-0"])
    shown = aftershock("shell", name, "-c", "kubectl get nodes -o name")
    assert shown.stdout.strip() == "node/node-0"
    assert aftershock("shell", name, "--node", "node-0", "-c", "hostname").stdout.strip() == "node-0"
    listed = record(aftershock("list", "--json"))["boxes"]
    assert [b["state"] for b in listed if b["name"] == name] == ["running"]
    assert aftershock("down", name).returncode == 0
    assert residue(name) == []
    again = aftershock("down", name, "--json")
    assert again.returncode == 2
    assert "there is no box" in record(again)["error"]


async def test_a_node_killed_from_outside_is_told_and_cleaned() -> None:
    box = await boxes.up(f"test-{secrets.token_hex(3)}", nodes=2, ephemeral=True)
    try:
        os.kill(box.layout.pids[1].pid, signal.SIGKILL)

        async def noticed() -> None:
            if box.layout.pids[1].alive():
                raise NotYet("it is still there")

        await until(noticed, what="the node is dead", seconds=5)
        with pytest.raises(ClusterError, match="node-1 down"):
            boxes.open_box(box.name)
        with pytest.raises(ClusterError, match=r"node-1 .* is down"):
            await box.node_run("node-1", ["true"])
        shown = record(aftershock("list", "--json"))["boxes"]
        assert [b["state"] for b in shown if b["name"] == box.name] == ["damaged (node-1 down)"]
    finally:
        await box.close()
    assert residue(box.name) == []


async def test_four_boxes_at_once_are_healthy() -> None:
    names = [f"four-{n}-{secrets.token_hex(2)}" for n in range(4)]
    made = await asyncio.gather(*(boxes.up(name, nodes=1, ephemeral=True) for name in names))
    try:
        assert len({box.layout.slot for box in made}) == 4
        for box in made:
            async with box.api() as api:
                nodes = await api.list("Node")
                assert [n["metadata"]["name"] for n in nodes] == ["node-0"]
                address = next(a["address"] for a in nodes[0]["status"]["addresses"] if a["type"] == "InternalIP")
                assert address == box.layout.address(0)
                await api.rolled_out("Deployment", "coredns", "kube-system")
    finally:
        for box in made:
            await box.close()
    assert [r for name in names for r in residue(name)] == []


async def test_what_cannot_be_is_refused_with_the_next_step(monkeypatch: pytest.MonkeyPatch) -> None:
    for nodes in (0, 9):
        with pytest.raises(UsageError, match="1 to 8 nodes"):
            await boxes.up("refused", nodes=nodes)
    monkeypatch.setattr(lifecycle, "memory_available", lambda: 100 << 20)
    with pytest.raises(HostError, match="100 MiB of memory") as low:
        await boxes.up("refused")
    assert "aftershock list" in low.value.todo
    monkeypatch.undo()

    async def all_taken(net: str, slot: int) -> str:
        return "the machine has a route to 10.0.0.0/8"

    monkeypatch.setattr(network, "taken", all_taken)
    with pytest.raises(HostError, match=r"route to 10\.0\.0\.0/8") as range_taken:
        await boxes.up("refused")
    assert "AFTERSHOCK_NET" in range_taken.value.todo
    assert residue("refused") == []


async def test_a_damaged_record_is_told_and_swept(gone: list[str]) -> None:
    name = f"test-{secrets.token_hex(3)}"
    made = record(aftershock("up", "--name", name, "--json"))
    assert made["name"] == name
    path = boxes_dir() / name / "box.json"
    path.write_text("{")
    told = aftershock("down", name, "--json")
    assert told.returncode == 2
    assert "damaged" in record(told)["error"]
    aged = time.time() - 3600
    os.utime(boxes_dir() / name, (aged, aged))
    removed = json.loads(aftershock("doctor", "--fix", "--json").stdout.splitlines()[-1])["removed"]
    assert f"remains of {name}" in removed
    assert residue(name) == []


async def test_memory_and_processes_are_counted_and_limited(cluster: Cluster) -> None:
    used = cgroups.memory_used(cluster.box.layout)
    assert 100 << 20 < used < 4 << 30
    pids = cgroups.processes(cluster.box.layout)
    assert cluster.box.layout.pids[0].pid in pids
    assert os.getpid() not in pids
