"""Users for a while before a stack's state is saved, so that what is restored later has a past."""

import tempfile
import time
from pathlib import Path

from aftershock.base.wait import NotYet, until
from aftershock.cluster.box.box import Box
from aftershock.stack.model import Stack
from aftershock.workload.crowd import Users
from aftershock.workload.outside import Outside, world_of

__all__ = ["warm"]

GRACE = 60.0


async def warm(box: Box, stack: Stack, seconds: float) -> None:
    """Have users come for so many seconds, with the external parties there."""
    with tempfile.TemporaryDirectory(prefix="users-") as folder:
        out = Path(folder)
        async with (
            Outside(world_of(box, stack.parties), stack.parties, out / "parties"),
            Users(
                box.world,
                out=out / "users",
                host=stack.front.host,
                front=box.front_url,
                seed=2,
                journey=stack.journey,
                journeys=stack.journeys,
                components=stack.components,
            ) as users,
        ):
            end = time.monotonic() + seconds

            async def over() -> None:
                users.check()
                if time.monotonic() < end:
                    raise NotYet("users are coming")

            await until(over, what="the users have been there", seconds=seconds + GRACE, every=0.5)
