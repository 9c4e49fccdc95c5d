"""Builds everything that boxes and the stacks are made of, with progress: what tests would build in silence."""

import asyncio
import sys
import time

from aftershock.base.errors import AftershockError
from aftershock.cluster import tools
from aftershock.cluster.box.lifecycle import make_parts
from aftershock.cluster.parts import ensure
from aftershock.stack import load as stacks

begin = time.monotonic()


def progress(text: str) -> None:
    print(f"{time.monotonic() - begin:6.1f}s  {text}", flush=True)


async def main() -> None:
    for name in tools.names():
        await ensure(tools.tool(name), progress)
    for name in stacks.find():
        await make_parts(stacks.load(name).images(), progress)


try:
    asyncio.run(main())
except AftershockError as error:
    sys.exit(str(error))
