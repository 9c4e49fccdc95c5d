"""A stack on a fresh cluster, in seconds: deployed once, saved, and restored for each attempt.

The saved state is keyed by everything that went into it: the stack's files, the cluster's programs,
the nodes' root file system. When any of these changes the state is made anew. Old ones go when nobody
has used them for a while: another checkout on this machine may be at work with them.
"""

import asyncio
import contextlib
import secrets
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path

from aftershock.base.errors import BuildError, UsageError
from aftershock.base.paths import state_dir
from aftershock.cluster.box import box as boxes
from aftershock.cluster.box import snapshot as snapshots
from aftershock.cluster.box.box import Box
from aftershock.cluster.box.snapshot import Snapshot
from aftershock.cluster.existing import Existing
from aftershock.cluster.parts import Progress, digest, lock, quiet
from aftershock.stack import history
from aftershock.stack.deploy import deploy, front_answers, require_memory
from aftershock.stack.load import Stack

__all__ = ["Warm", "on_existing", "on_fresh_cluster", "saved"]


KEPT = 6 * 3600.0  # seconds for which a state that was not used is kept


PAST = "history"
Warm = Callable[[Box, Stack, float], Awaitable[None]]


def key_of(stack: Stack) -> str:
    """Hash of everything that goes into a stack's saved state."""
    return digest(stack.state or stack.digest, snapshots.made_of())


def box_memory(stack: Stack) -> int:
    """The limit of a box with this stack: twice what it is known to need, 4 GiB at least."""
    return max(4 << 30, 2 * stack.memory)


async def saved(stack: Stack, progress: Progress = quiet, *, warm: Warm | None = None) -> Snapshot:
    """The stack's saved state; deployed and saved now if it is not there, or is damaged.

    Args:
        warm: has users come to a stack that is to have a past, for so many seconds.
    """
    key = key_of(stack)
    name = f"{stack.name}-{key[:10]}"

    def present() -> Snapshot | None:
        try:
            return snapshots.find(name)
        except UsageError:
            return None
        except BuildError as error:
            progress(f"{error.what}; making it again")
            snapshots.remove(name)
            return None

    if found := present():
        return found
    async with lock(state_dir() / f"stack-{name}.lock", lambda: progress(f"{stack.label}: another process deploys it")):
        if found := present():
            return found
        require_memory(stack)
        progress(f"{stack.label}: deploying it once, to be restored from then on (about a minute)")
        box = await boxes.up(
            f"deploy-{secrets.token_hex(3)}",
            nodes=stack.nodes,
            images=stack.images(),
            pulls=stack.pulls,
            memory=box_memory(stack),
            ephemeral=True,
            stack=stack.label,
            progress=progress,
        )
        async with boxes.closing(box):
            await deploy(box, stack, tell=progress)
            with tempfile.TemporaryDirectory(prefix="history-") as folder:
                past = await _past(box, stack, Path(folder) / PAST, warm, progress)
                made = await snapshots.save(box, name, key=key, again=False, beside=past, progress=progress)
        for old in snapshots.listed():
            if old.stack == stack.label and old.key and old.key != key and old.unused > KEPT:
                progress(f"{stack.label}: removing the outdated state {old.name}")
                snapshots.remove(old.name)
        return made


async def _past(box: Box, stack: Stack, folder: Path, warm: Warm | None, progress: Progress) -> Path | None:
    """What the stack's telemetry recorded while users came for a while; None for a stack without a past."""
    if not stack.history or warm is None:
        return None
    progress(f"{stack.label}: users come for {stack.history:g} s, so that it has a past")
    await warm(box, stack, stack.history)
    await history.export(box, folder)
    return folder


@contextlib.asynccontextmanager
async def on_fresh_cluster(
    stack: Stack, *, name: str = "", keep: bool = False, progress: Progress = quiet
) -> AsyncIterator[Box]:
    """A new box with the stack on it, users served; it ends with the block, but for one to be kept."""
    state = await saved(stack, progress)
    box = await snapshots.restore(
        state, name or f"trial-{secrets.token_hex(3)}", ephemeral=not keep, images=stack.images(), progress=progress
    )
    async with contextlib.nullcontext() if keep else boxes.closing(box):
        began = time.time()
        await front_answers(box, stack)
        if history.present(state.folder / PAST):
            await history.restore(box, state.folder / PAST, began)
        yield box


@contextlib.asynccontextmanager
async def on_existing(
    cluster: Existing, stack: Stack, *, front: str = "", progress: Progress = quiet
) -> AsyncIterator[Existing]:
    """The stack, deployed afresh on a cluster that is not ours; its namespaces go with the block."""
    spaces = stack.namespaces or (stack.namespace,)
    progress(f"{stack.label}: resetting {', '.join(spaces)} of {cluster.name}")
    await _reset(cluster, spaces)

    async def find_front() -> str:
        return front or await cluster.front(stack.front.service, stack.namespace)

    try:
        await deploy(cluster, stack, tell=progress, front=find_front)
        cluster.front_url = await find_front()
        yield cluster
    finally:
        await _reset(cluster, spaces)


async def _reset(cluster: Existing, namespaces: Sequence[str]) -> None:
    await asyncio.gather(*(cluster.reset(namespace) for namespace in namespaces))
