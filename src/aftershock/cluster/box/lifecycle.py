"""Boxes come and go: claim a name and a slot, start the nodes, end everything.

The record of a box is written before anything of it is made and removed after everything is gone.
Between the two, whatever happens to the command, `end` finds the rest from the record alone.
"""

import asyncio
import contextlib
import errno
import os
import shutil
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from aftershock.base.errors import AftershockError, ClusterError, HostError, UsageError
from aftershock.base.paths import state_dir
from aftershock.base.run import run
from aftershock.cluster.box import cgroups, network, node
from aftershock.cluster.box.layout import SLOTS, Layout, Owner, boxes_dir, check_name, check_nodes, read_layout
from aftershock.cluster.box.node import Parts
from aftershock.cluster.host import allow_watches, memory_available, require_host, require_room
from aftershock.cluster.image.build import Image, Pulled, build_images, system_images
from aftershock.cluster.image.spec import ImageSpec
from aftershock.cluster.image.store import pull, seed, store_dir
from aftershock.cluster.parts import Progress, ensure, lock, quiet
from aftershock.cluster.programs import node_root, programs

__all__ = ["claim", "end", "find", "machine_lock", "make_parts", "start_nodes", "stop_nodes", "sweep"]

NET = "10.91.0.0/16"
MEMORY_FLOOR = 800 << 20


def machine_lock() -> contextlib.AbstractAsyncContextManager[None]:
    """Held while names and slots are given out or taken back."""
    return lock(state_dir() / "lock")


async def make_parts(
    specs: Sequence[ImageSpec] = (), progress: Progress = quiet, *, pulls: Sequence[str] = ()
) -> Parts:
    """Everything nodes are made of, built now where it is missing.

    Args:
        specs: images of our own that the nodes know besides the system's.
        pulls: images from registries, by their complete names.
    """
    require_host()
    require_room(state_dir(), 500, "a box")
    built = await asyncio.gather(ensure(programs(), progress), ensure(node_root(), progress))
    ours = [*await system_images(progress), *await build_images(specs, progress)]
    images: list[Image | Pulled] = [*ours, *await pull(pulls, progress)]
    return Parts(programs=built[0], system=built[1], store=store_dir() / "root", seed=await seed(images, progress))


def find(name: str) -> Layout:
    """The record of a box that exists.

    Raises:
        UsageError: there is none of that name, or its record is damaged.
    """
    layout = read_layout(boxes_dir() / name)
    if layout is None:
        names = sorted(p.name for p in boxes_dir().iterdir()) if boxes_dir().is_dir() else []
        if name in names:
            raise UsageError(
                f"the record of the box {name} is damaged",
                where=str(boxes_dir() / name / "box.json"),
                todo="`aftershock doctor --fix` removes what is left of it",
            )
        raise UsageError(f"there is no box {name}", todo=f"boxes here: {', '.join(names) or 'none'}")
    return layout


async def claim(
    name: str, nodes: int, *, ephemeral: bool = False, memory: int = 4 << 30, stack: str = "", identity: str = ""
) -> Layout:
    """Take a name and a slot: from here on the box is in the ledger.

    Raises:
        UsageError: the name is taken or malformed.
        HostError: no slot, address range or memory is left.
    """
    check_name(name)
    check_nodes(nodes)
    if memory_available() < MEMORY_FLOOR:
        raise HostError(
            f"only {memory_available() >> 20} MiB of memory are left, a box needs {MEMORY_FLOOR >> 20}",
            todo="end other boxes (`aftershock list`) or programs",
        )
    net = os.environ.get("AFTERSHOCK_NET", NET)
    await sweep()
    async with machine_lock():
        if (boxes_dir() / name).exists():
            raise UsageError(
                f"a box named {name} exists or is being made", todo=f"choose another name, or `aftershock down {name}`"
            )
        used = {x.slot for x in all_layouts()}
        reasons = []
        for slot in range(SLOTS):
            if slot in used:
                continue
            if why := await network.taken(net, slot):
                reasons.append(why)
                if len(reasons) > 20:
                    break
                continue
            folder = boxes_dir() / name
            folder.mkdir(parents=True, mode=0o700)
            layout = Layout(name, slot, nodes, net, Owner.me(), ephemeral=ephemeral, memory=memory, stack=stack)
            return layout.save(identity=identity or layout.identity)
    raise HostError(
        f"no free address range in {net}: {reasons[0] if reasons else 'all slots are used'}",
        todo="set AFTERSHOCK_NET to a free /16, or end boxes (`aftershock list`)",
    )


def all_layouts() -> list[Layout]:
    """The records of all boxes on this machine, by name."""
    if not boxes_dir().is_dir():
        return []
    found = (read_layout(p) for p in sorted(boxes_dir().iterdir()) if p.is_dir())
    return [x for x in found if x]


async def start_nodes(layout: Layout, parts: Parts, *, restored: bool, restore: Sequence[Path] = ()) -> Layout:
    """Start all nodes of a box that has no running ones."""
    try:
        allow_watches()
        node.prepare(layout, parts, restored=restored, restore=restore)
        _admin_kubeconfig(layout)
        cgroups.make(layout)
        await network.raise_network(layout)
        pids = await asyncio.gather(*(node.launch(layout, n) for n in range(layout.nodes)))
        layout = layout.save(pids=tuple(pids), images=parts.seed.name)
        cgroups.deny_disks(layout)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise HostError(
                "the disk is full", where=str(layout.folder), todo="free some space and try again"
            ) from error
        raise
    return layout


def _admin_kubeconfig(layout: Layout) -> None:
    """Kubeconfigs for outside the box, with the certificates inside the file's folder."""
    from aftershock.cluster.box.daemons import kubeconfig
    from aftershock.cluster.box.pki import Authority

    pki = layout.folder / "pki"
    authority = Authority(pki)
    server = f"https://{layout.address(0)}:6443"
    for user, group in (("admin", "system:masters"), ("oncall", "")):
        authority.issue(pki / user, user, organization=group)
        path = layout.folder / f"{user}.kubeconfig"
        path.touch(mode=0o600)
        path.write_text(kubeconfig(server, str(pki / "ca.crt"), str(pki / user), user))


async def stop_nodes(layout: Layout) -> None:
    """End all processes of a box and take its network and groups away; its disks stay."""
    await cgroups.end_processes(layout)
    await network.lower(layout)
    await cgroups.remove(layout)
    for device in await node.loops_of(layout):
        await run(["losetup", "--detach", device], check=False, timeout=10)


async def end(layout: Layout) -> None:
    """Remove a box and everything that belongs to it. Safe to call again after a kill."""
    if layout.folder.exists():
        with contextlib.suppress(HostError):
            layout = layout.save(phase="ending", owner=Owner.me())
    await stop_nodes(layout)
    # The record goes last: the disks first, then everything else.
    for disk in layout.folder.glob("node-*/disk.*"):
        disk.unlink(missing_ok=True)
    aside = layout.folder.with_name(f".gone-{layout.name}-{os.getpid()}-{time.monotonic_ns()}")
    try:
        layout.folder.rename(aside)
    except FileNotFoundError:
        return
    shutil.rmtree(aside, ignore_errors=True)


def abandoned(layout: Layout) -> bool:
    """Whether a box has nobody who will finish or end it."""
    unfinished = layout.phase in ("starting", "ending") or layout.ephemeral
    return unfinished and not layout.owner.alive()


async def sweep() -> list[str]:
    """Remove what killed commands left; returns what was removed."""
    removed = []
    async with machine_lock():
        left = [x for x in all_layouts() if abandoned(x)]
        for layout in left:
            await end(layout)
            removed.append(f"box {layout.name}")
        removed += await _orphans()
    return removed


async def _orphans() -> list[str]:
    """Things with our names that no record knows: the record was removed by hand, or is damaged."""
    removed = []
    known = {x.name for x in all_layouts()}
    names: dict[str, int] = {}
    for folder in boxes_dir().iterdir() if boxes_dir().is_dir() else ():
        if folder.name.startswith(".gone-"):
            shutil.rmtree(folder, ignore_errors=True)
        elif folder.name not in known and time.time() - folder.stat().st_mtime > 60:
            names[folder.name] = 8
    for root in {r.parent for r in cgroups.roots(Layout("x", 0, 1, NET, Owner(0, 0)))}:
        if root.is_dir():
            for group in root.iterdir():
                if group.is_dir() and group.name not in known:
                    names[group.name] = 8
    spaces = Path("/run/netns")
    for space in spaces.iterdir() if spaces.is_dir() else ():
        if space.name.startswith("as-"):
            name = space.name.removeprefix("as-")
            if name not in known and not any(name == f"{k}-{n}" for k in known for n in range(8)):
                names.setdefault(name, 0)
    for name, nodes in names.items():
        lost = Layout(name, SLOTS, nodes, NET, Owner(0, 0))
        await end(lost)
        removed.append(f"remains of {name}")
    return removed


@contextlib.asynccontextmanager
async def undone_on_error(layout: Layout) -> AsyncIterator[None]:
    """Remove a box whose start fails or is interrupted."""
    try:
        yield
    except BaseException as error:
        try:
            await asyncio.shield(end(find(layout.name)))
        except AftershockError as second:
            error.add_note(f"and the box could not be removed: {second}")
        raise


def check_alive(layout: Layout) -> None:
    """Raise where a node has died."""
    dead = [layout.node_name(n) for n, pid in enumerate(layout.pids) if not pid.alive()]
    if dead or not layout.pids:
        raise ClusterError(
            f"the box {layout.name} is damaged: {', '.join(dead) or 'no node'} down",
            where=str(layout.folder),
            todo=f"`aftershock down {layout.name}` and start it again",
        )
