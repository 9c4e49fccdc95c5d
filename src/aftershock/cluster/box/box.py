"""The box as a cluster: start one, restore one, use it, end it."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from importlib.resources import files
from pathlib import Path

import yaml

from aftershock.base.errors import UsageError
from aftershock.base.paths import cache_dir
from aftershock.base.run import Completed
from aftershock.cluster.api import Api
from aftershock.cluster.base import World
from aftershock.cluster.box import cgroups, lifecycle, network, node, ready
from aftershock.cluster.box.layout import Layout, Owner, boxes_dir, read_layout
from aftershock.cluster.box.node import Parts
from aftershock.cluster.image.spec import ImageSpec
from aftershock.cluster.parts import Progress, ensure, quiet
from aftershock.cluster.programs import PROGRAMS_BIN, programs

__all__ = ["Box", "down", "open_box", "up"]

CAPABILITIES = frozenset({"machine", "snapshot", "world", "node-run", "load-balancer", "local-disk"})


class Box:
    """A running box. It satisfies `Cluster`.

    `seconds` is how long its start took until all nodes were ready, `usable_seconds` until its pods were.
    """

    def __init__(self, layout: Layout, seconds: float = 0.0, usable_seconds: float = 0.0) -> None:
        self.layout = layout
        self.seconds = seconds
        self.usable_seconds = usable_seconds

    @property
    def capabilities(self) -> frozenset[str]:
        return CAPABILITIES

    @property
    def name(self) -> str:
        return self.layout.name

    @property
    def kubeconfig(self) -> Path:
        return self.layout.admin_kubeconfig

    @property
    def nodes(self) -> tuple[str, ...]:
        return self.layout.node_names

    @property
    def world(self) -> World | None:
        return network.world(self.layout)

    @property
    def groups(self) -> tuple[Path, ...]:
        return tuple(cgroups.roots(self.layout))

    @property
    def front_url(self) -> str:
        return f"http://{network.FRONT}"

    def api(self, user: str = "admin") -> Api:
        return Api(self.layout.folder / f"{user}.kubeconfig", kubectl=kubectl())

    async def node_run(
        self,
        node_name: str,
        argv: Sequence[str],
        *,
        stdin: str | bytes | None = None,
        timeout: float = 30.0,
        check: bool = True,
    ) -> Completed:
        if node_name not in self.nodes:
            raise UsageError(f"the box {self.name} has no node {node_name}", todo=f"its nodes: {', '.join(self.nodes)}")
        return await node.node_run(
            self.layout, self.nodes.index(node_name), argv, stdin=stdin, timeout=timeout, check=check
        )

    async def close(self) -> None:
        """End the box."""
        await lifecycle.end(self.layout)


def kubectl() -> Path:
    """The kubectl that was built with the cluster."""
    return programs().path / PROGRAMS_BIN / "kubectl"


async def kubectl_ready(progress: Progress = quiet) -> Path:
    """The same, built if it is not there."""
    await ensure(programs(), progress)
    return kubectl()


def addons(*names: str) -> list[dict[str, object]]:
    """What every cluster has besides the control plane, in order."""
    folder = Path(str(files(__package__) / "manifests"))
    return [obj for name in names for obj in yaml.safe_load_all((folder / f"{name}.yaml").read_text()) if obj]


async def up(
    name: str,
    *,
    nodes: int = 1,
    images: Sequence[ImageSpec] = (),
    pulls: Sequence[str] = (),
    ephemeral: bool = False,
    memory: int = 4 << 30,
    stack: str = "",
    progress: Progress = quiet,
) -> Box:
    """A new box, or a stopped one of that name started again.

    Args:
        nodes: 1 to 8; the first also runs the control plane.
        images: what its nodes know besides the system's images.
        pulls: images from registries that they know too, by their complete names.
        ephemeral: it ends with this process.
        memory: limit of the whole box in bytes.

    Raises:
        HostError: the machine cannot.
        UsageError: the name is taken.
    """
    known = read_layout(boxes_dir() / name)
    if known and known.phase == "stopped":
        return await restart(known, progress=progress)
    parts = await lifecycle.make_parts(images, progress, pulls=pulls)
    begin = time.monotonic()
    layout = await lifecycle.claim(name, nodes, ephemeral=ephemeral, memory=memory, stack=stack)
    async with lifecycle.undone_on_error(layout):
        progress(f"{name}: starting {layout.nodes} nodes")
        layout, ready_at = await start(layout, parts, restored=False)
        layout = layout.save(phase="running")
    return Box(layout, ready_at - begin, time.monotonic() - begin)


async def restart(layout: Layout, *, progress: Progress = quiet) -> Box:
    """Start a box again from the disks it has. When it cannot be started it stays stopped."""
    made = await lifecycle.make_parts((), progress)
    parts = Parts(made.programs, made.system, made.store, cache_dir() / "parts" / layout.images)
    begin = time.monotonic()
    await lifecycle.stop_nodes(layout)
    layout = layout.save(phase="starting", owner=Owner.me(), pids=())
    try:
        progress(f"{layout.name}: starting {layout.nodes} nodes from their disks")
        layout, ready_at = await start(layout, parts, restored=True)
        box = Box(layout, ready_at - begin)
        await pods_ready(box)
        layout = layout.save(phase="running")
    except BaseException:
        await asyncio.shield(lifecycle.stop_nodes(lifecycle.find(layout.name)))
        layout.save(phase="stopped", pids=())
        raise
    return Box(layout, ready_at - begin, time.monotonic() - begin)


async def start(layout: Layout, parts: Parts, *, restored: bool, restore: Sequence[Path] = ()) -> tuple[Layout, float]:
    """Start the nodes and wait until the cluster is ready, its DNS included when it is new.

    Returns the record, and when (monotonic) the last node was ready.
    """
    layout = await lifecycle.start_nodes(layout, parts, restored=restored, restore=restore)
    api = Box(layout).api()
    try:
        since = await ready.api_answers(layout, api)
        work = [ready.nodes_ready(layout, api, since=since, restored=restored), ready.api_ready(layout, api)]
        if not restored:
            work += [api.apply_all(addons("access", "storage")), _roles(layout, api)]
        await asyncio.gather(*work)
        ready_at = time.monotonic()
        await ready.packets_filtered(layout)
        if not restored:
            await api.apply_all(addons("coredns", "metrics-server"))
            await api.rolled_out("Deployment", "coredns", "kube-system")
    finally:
        await api.close()
    return layout, ready_at


async def _roles(layout: Layout, api: Api) -> None:
    """Label nodes with their roles, as an installer does."""
    for n, name in enumerate(layout.node_names):
        await api.wait_for("Node", name, None, lambda obj: "" if obj else "not registered", seconds=60)
        role = "control-plane" if n == 0 else "worker"
        await api.patch(
            "Node", name, None, {"metadata": {"labels": {f"node-role.kubernetes.io/{role}": ""}}}, how="merge"
        )


async def pods_ready(box: Box, *, seconds: float = 120) -> None:
    """Wait until all pods were started here and are ready, and Services lead to them."""
    api = box.api()
    try:
        pods = await ready.fresh_pods(box.layout, api, seconds=seconds)
        await ready.services_answer(box.layout, api, pods)
    finally:
        await api.close()


def open_box(name: str) -> Box:
    """A box that runs.

    Raises:
        UsageError, ClusterError: there is none of that name, or it is damaged.
    """
    layout = lifecycle.find(name)
    if layout.phase != "running":
        raise UsageError(
            f"the box {name} is {layout.phase}", todo=f"`aftershock up --name {name}` starts a stopped box"
        )
    lifecycle.check_alive(layout)
    return Box(layout)


async def down(name: str, *, keep: bool = False) -> float:
    """End a box, or stop it and keep its disks; returns seconds."""
    begin = time.monotonic()
    layout = lifecycle.find(name)
    if layout.phase in ("starting", "ending") and layout.owner.alive() and layout.owner != Owner.me():
        raise UsageError(
            f"the box {name} is {layout.phase}: process {layout.owner.pid} works on it",
            todo="wait, or end that process",
        )
    if keep:
        await lifecycle.stop_nodes(layout)
        layout.save(phase="stopped", pids=())
    else:
        await lifecycle.end(layout)
    return time.monotonic() - begin


@contextlib.asynccontextmanager
async def closing(box: Box) -> AsyncIterator[Box]:
    """A box that ends with the block, also when it is cancelled."""
    try:
        yield box
    finally:
        await asyncio.shield(box.close())
