"""Snapshots: a box's state, saved once and restored many times.

Saved is what a cluster *is*: etcd, the volumes, the authority and the machines' identities. Thrown
away is what it merely runs: containers, logs, addresses. Saving ends every program in order
(containers first, so that databases close their files; then the API server, which takes its
endpoint back; then etcd), because a state that was cut off is a state that has to be repaired in
each of its copies. Every file has its hash, and one that does not fit is refused.
"""

import asyncio
import contextlib
import json
import os
import shutil
import time
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from aftershock.base.errors import BuildError, ClusterError, DeadlinePassed, UsageError
from aftershock.base.paths import cache_dir, state_dir
from aftershock.base.record import write_json
from aftershock.base.wait import NotYet, until
from aftershock.cluster import parts
from aftershock.cluster.api import Api, Object, pod_ready
from aftershock.cluster.box import box as boxes
from aftershock.cluster.box import lifecycle, node
from aftershock.cluster.box.box import Box
from aftershock.cluster.box.layout import Layout, Owner, check_name
from aftershock.cluster.host import require_room
from aftershock.cluster.parts import Progress, quiet
from aftershock.cluster.programs import node_root, programs

__all__ = ["Snapshot", "find", "listed", "remove", "restore", "save"]

FORMAT = "2"  # counts changes in what is saved and in which condition
KEPT = ("var/lib/etcd", "var/local-path-provisioner")
STATE_KEYS = ("ca.crt", "ca.key", "sa.key", "sa.pub")


@dataclass(frozen=True)
class Snapshot:
    """What is known of a snapshot. `key` is the hash of all that went into the state, where known."""

    name: str
    key: str
    nodes: int
    identity: str
    images: str
    stack: str
    memory: int
    created: float
    size: int = 0

    @property
    def folder(self) -> Path:
        return snapshots_dir() / self.name

    @property
    def unused(self) -> float:
        """Seconds since it was made or restored."""
        return time.time() - self.folder.stat().st_mtime


def made_of() -> str:
    """Hash of all that a box' own state depends on: programs, system, what every cluster has, how it is saved."""
    manifests = Path(str(files("aftershock.cluster.box") / "manifests"))
    return parts.digest(programs().key, node_root().key, manifests, FORMAT)


def snapshots_dir() -> Path:
    return state_dir() / "snapshots"


def listed() -> list[Snapshot]:
    """All snapshots of this machine, by name."""
    folder = snapshots_dir()
    found = []
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        with contextlib.suppress(OSError, ValueError, TypeError):
            found.append(Snapshot(**json.loads((path / "snapshot.json").read_text())))
    return found


def find(name: str) -> Snapshot:
    """A snapshot by name or key, checked against its hashes.

    Raises:
        UsageError: there is none.
        BuildError: it is damaged.
    """
    found = next((s for s in listed() if name in (s.name, s.key)), None)
    if found is None:
        names = ", ".join(s.name for s in listed()) or "none"
        if (snapshots_dir() / name).is_dir():
            raise BuildError(
                f"the snapshot {name} is damaged: its description cannot be read",
                where=str(snapshots_dir() / name),
                todo=f"`aftershock snapshot rm {name}`, then make it again",
            )
        raise UsageError(f"there is no snapshot {name}", todo=f"snapshots here: {names}")
    if why := parts.verify(found.folder):
        raise BuildError(
            f"the snapshot {found.name} is damaged: {why}",
            where=str(found.folder),
            todo=f"`aftershock snapshot rm {found.name}`, then make it again",
        )
    return found


def remove(name: str) -> None:
    """Delete a snapshot, damaged or not."""
    check_name(name)
    if not (snapshots_dir() / name).is_dir():
        find(name)
    shutil.rmtree(snapshots_dir() / name)


MANAGED = "endpointslice.kubernetes.io/managed-by=endpointslice-controller.k8s.io"
TASKS = "/run/containerd/io.containerd.runtime.v2.task/k8s.io/*/init.pid"


async def _withdraw(api: Api) -> None:
    """Report every pod as not ready, as machines that are shut down in order do, and wait for the Services.

    Otherwise restored Services lead to addresses of another day until their pods run: a name server's
    answer that never comes costs whoever asks five seconds.
    """
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    conditions = [{"type": t, "status": "False", "lastTransitionTime": now} for t in ("Ready", "ContainersReady")]
    await asyncio.gather(*(
        api.patch(
            "Pod", pod["metadata"]["name"], pod["metadata"]["namespace"], {"status": {"conditions": conditions}},
            subresource="status",
        )
        for pod in await api.list("Pod") if pod_ready(pod)
    ))  # fmt: skip

    async def withdrawn() -> None:
        always = {_key(s) for s in await api.list("Service") if s["spec"].get("publishNotReadyAddresses")}
        for group in await api.list("EndpointSlice", labels=MANAGED):
            service = (group["metadata"]["namespace"], group["metadata"]["labels"]["kubernetes.io/service-name"])
            ready = [e for e in group.get("endpoints") or [] if (e.get("conditions") or {}).get("ready", True)]
            if ready and service not in always:
                raise NotYet(f"Service {'/'.join(service)} still leads to {ready[0]['addresses']}")

    await until(withdrawn, what="Services lead nowhere", seconds=20, every=0.1)


def _key(obj: Object) -> tuple[str, str]:
    return obj["metadata"]["namespace"], obj["metadata"]["name"]


async def _quiesce(box: Box) -> None:
    """End a running box' programs in order, until nothing writes any more."""
    layout = box.layout

    async def everywhere(script: str) -> list[str]:
        runs = (node.node_run(layout, n, ["bash", "-c", script], timeout=40) for n in range(layout.nodes))
        return [done.out for done in await asyncio.gather(*runs)]

    async def ended() -> None:
        alive = (
            f'c=0; for t in {TASKS}; do [ -e "$t" ] && kill -0 "$(cat "$t")" 2>/dev/null && c=$((c+1)); done; echo $c'
        )
        if left := sum(int(out or 0) for out in await everywhere(alive)):
            raise NotYet(f"{left} containers still run")

    await everywhere(
        "cd /etc/service && sv stop kube-scheduler cloud-controller-manager >/dev/null 2>&1; "
        "sv stop kubelet local-path-provisioner >/dev/null"
    )
    async with box.api() as api:
        await _withdraw(api)
    await everywhere("cd /etc/service && sv stop kube-controller-manager >/dev/null 2>&1; :")
    # SIGTERM as the kubelet would send it; then SIGINT, at which a database no longer waits for its
    # clients and programs that do not listen to the first end too.
    for name, seconds in (("TERM", 3), ("INT", 8)):
        await everywhere(f'for t in {TASKS}; do [ -e "$t" ] && kill -{name} "$(cat "$t")" 2>/dev/null; done; :')
        with contextlib.suppress(DeadlinePassed):
            await until(ended, what="containers have ended", seconds=seconds, every=0.1)
    await everywhere("sv stop kube-proxy network-policy-agent containerd >/dev/null")
    # The API server takes its endpoint back at the start of its end; what follows is waiting for clients.
    await everywhere(
        "cd /etc/service && sv -w 5 force-stop kube-apiserver >/dev/null 2>&1; "
        "sv -w 10 stop etcd >/dev/null 2>&1; sync -f /var/lib/etcd"
    )


async def save(
    box: Box, name: str, *, key: str = "", again: bool = True, beside: Path | None = None, progress: Progress = quiet
) -> Snapshot:
    """Save a running box under a name.

    Args:
        key: hash of what the state was made from.
        again: start the box again afterwards; else it is ended.
        beside: a folder that goes with the state, under its own name.
    """
    check_name(name)
    layout = box.layout
    target = snapshots_dir() / name
    if target.exists():
        raise UsageError(
            f"a snapshot named {name} exists", todo=f"choose another name, or `aftershock snapshot rm {name}`"
        )
    require_room(state_dir(), 1000, "a snapshot")
    making = snapshots_dir() / f".saving-{name}"
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir(parents=True, mode=0o700)
    layout = layout.save(phase="ending", owner=Owner.me())
    try:
        progress(f"{name}: ending the programs of {layout.name} in order")
        await _quiesce(box)
        progress(f"{name}: saving")
        await asyncio.gather(*(_archive(layout, n, making / f"{layout.node_name(n)}.tar") for n in range(layout.nodes)))
        (making / "pki").mkdir()
        for file in STATE_KEYS:
            shutil.copy(layout.folder / "pki" / file, making / "pki" / file)
        if beside is not None:
            shutil.copytree(beside, making / beside.name)
        size = sum(p.stat().st_size for p in making.rglob("*") if p.is_file())
        snapshot = Snapshot(
            name, key, layout.nodes, layout.identity, layout.images, layout.stack, layout.memory, time.time(), size
        )
        write_json(making / "snapshot.json", asdict(snapshot), mode=0o600)
        parts.seal(making)
        making.rename(target)
    except OSError as error:
        raise ClusterError(
            f"the snapshot could not be saved: {error.strerror}",
            where=str(error.filename or making),
            todo="free some space and try again",
        ) from error
    finally:
        shutil.rmtree(making, ignore_errors=True)
        if again:
            await boxes.restart(layout)
        else:
            await lifecycle.end(layout)
    return snapshot


async def _archive(layout: Layout, n: int, target: Path) -> None:
    """Write a node's kept folders into an archive; mounted volumes are in as the files behind them."""
    argv = node.node_argv(layout, n, ["tar", "-cSf", "-", "--one-file-system", "--numeric-owner", "-C", "/", *KEPT])
    with target.open("wb") as out:
        process = await asyncio.create_subprocess_exec(
            *argv, stdout=out, stderr=asyncio.subprocess.PIPE, stdin=asyncio.subprocess.DEVNULL
        )
        _, err = await process.communicate()
    if process.returncode not in (0, 1):
        raise ClusterError(f"the state of {layout.node_name(n)} could not be read: {err.decode()[-300:]}")


async def restore(
    snapshot: Snapshot, name: str, *, ephemeral: bool = False, images: Any = (), progress: Progress = quiet
) -> Box:
    """A new box with the snapshot's state, under another name and other addresses.

    Args:
        images: specifications of the images that its pods use; system images come by themselves.

    Returns when every pod was started here and is ready, and Services lead to the pods' new addresses.
    """
    made = await lifecycle.make_parts(images, progress)
    if snapshot.images and made.seed.name != snapshot.images and not images:
        kept = cache_dir() / "parts" / snapshot.images
        if not kept.is_dir() or parts.verify(kept):
            raise BuildError(
                f"the images of the snapshot {snapshot.name} are not in the cache",
                where=str(kept),
                todo="make the snapshot again from its stack",
            )
        made = node.Parts(made.programs, made.system, made.store, kept)
    begin = time.monotonic()
    layout = await lifecycle.claim(
        name,
        snapshot.nodes,
        ephemeral=ephemeral,
        memory=snapshot.memory,
        stack=snapshot.stack,
        identity=snapshot.identity,
    )
    async with lifecycle.undone_on_error(layout):
        progress(f"{name}: restoring {snapshot.name}")
        os.utime(snapshot.folder)
        shutil.copytree(snapshot.folder / "pki", layout.folder / "pki")
        archives = [snapshot.folder / f"{node_name}.tar" for node_name in layout.node_names]
        layout, ready_at = await boxes.start(layout, made, restored=True, restore=archives)
        box = Box(layout, ready_at - begin)
        await boxes.pods_ready(box)
        layout = layout.save(phase="running")
    return Box(layout, ready_at - begin, time.monotonic() - begin)
