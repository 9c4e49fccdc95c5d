"""A stack on a fresh cluster, in seconds: deployed once, saved, and restored for each attempt.

The saved state is keyed by everything that went into it: the stack's files, the cluster's programs,
the nodes' root file system. When any of these changes the state is made anew. Old ones go when nobody
has used them for a while: another checkout on this machine may be at work with them.
"""

import contextlib
import secrets
from collections.abc import AsyncIterator

from aftershock.base.errors import BuildError, UsageError
from aftershock.base.paths import state_dir
from aftershock.cluster.box import box as boxes
from aftershock.cluster.box import snapshot as snapshots
from aftershock.cluster.box.box import Box
from aftershock.cluster.box.snapshot import Snapshot
from aftershock.cluster.existing import Existing
from aftershock.cluster.parts import Progress, digest, lock, quiet
from aftershock.stack.deploy import deploy, front_answers
from aftershock.stack.load import Stack

__all__ = ["on_existing", "on_fresh_cluster", "saved"]


KEPT = 6 * 3600.0  # seconds for which a state that was not used is kept


def key_of(stack: Stack) -> str:
    """Hash of everything that goes into a stack's saved state."""
    return digest(stack.digest, snapshots.made_of())


async def saved(stack: Stack, progress: Progress = quiet) -> Snapshot:
    """The stack's saved state; deployed and saved now if it is not there, or is damaged."""
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
    async with lock(state_dir() / f"stack-{name}.lock", lambda: progress(f"{stack.name}: another process deploys it")):
        if found := present():
            return found
        progress(f"{stack.name}: deploying it once, to be restored from then on (about a minute)")
        box = await boxes.up(
            f"deploy-{secrets.token_hex(3)}",
            nodes=stack.nodes,
            images=stack.images(),
            ephemeral=True,
            stack=stack.name,
            progress=progress,
        )
        async with boxes.closing(box):
            await deploy(box, stack, tell=progress)
            made = await snapshots.save(box, name, key=key, again=False, progress=progress)
        for old in snapshots.listed():
            if old.stack == stack.name and old.key and old.key != key and old.unused > KEPT:
                progress(f"{stack.name}: removing the outdated state {old.name}")
                snapshots.remove(old.name)
        return made


@contextlib.asynccontextmanager
async def on_fresh_cluster(stack: Stack, *, name: str = "", progress: Progress = quiet) -> AsyncIterator[Box]:
    """A new box with the stack on it, users served; it ends with the block."""
    state = await saved(stack, progress)
    box = await snapshots.restore(
        state, name or f"trial-{secrets.token_hex(3)}", ephemeral=True, images=stack.images(), progress=progress
    )
    async with boxes.closing(box):
        await front_answers(box, stack)
        yield box


@contextlib.asynccontextmanager
async def on_existing(
    cluster: Existing, stack: Stack, *, front: str = "", progress: Progress = quiet
) -> AsyncIterator[Existing]:
    """The stack, deployed afresh on a cluster that is not ours; its namespace goes with the block."""
    progress(f"{stack.name}: resetting the namespace {stack.namespace} of {cluster.name}")
    await cluster.reset(stack.namespace)

    async def find_front() -> str:
        return front or await cluster.front(stack.front.service, stack.namespace)

    try:
        await deploy(cluster, stack, tell=progress, front=find_front)
        cluster.front_url = await find_front()
        yield cluster
    finally:
        await cluster.reset(stack.namespace)
