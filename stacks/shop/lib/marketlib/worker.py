"""Loops that run until SIGTERM, beside the same /healthz, /readyz and /metrics as any service.

    async def ship(stop: asyncio.Event) -> None:
        while not stop.is_set(): ...

    run({"ship": ship, "sweep": every(30, sweep)}, service="shipping", version="1.2.0")

A loop that raises is started again after a pause, which grows. On SIGTERM `stop` is set; a loop then
finishes the piece it has in hands, for which it has as long as a request has.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

from starlette.routing import BaseRoute

from marketlib.app import GRACE_SECONDS, Lifespan, Ready, serve
from marketlib.errors import Unavailable
from marketlib.logs import log
from marketlib.metrics import Counter
from marketlib.settings import Settings

__all__ = ["Loop", "every", "run", "running", "wait"]

Loop = Callable[[asyncio.Event], Awaitable[None]]

failures = Counter("worker_loop_failures", "Times that a loop of the worker raised.", ["loop"])


async def wait(stop: asyncio.Event, seconds: float) -> bool:
    """Wait until it is time or `stop` is set; whether it is set."""
    try:
        await asyncio.wait_for(stop.wait(), seconds)
    except TimeoutError:
        return False
    return True


def every(seconds: float, work: Callable[[], Awaitable[Any]]) -> Loop:
    """A loop that does the work, pauses, and does it again."""

    async def loop(stop: asyncio.Event) -> None:
        while not stop.is_set():
            await work()
            await wait(stop, seconds)

    return loop


async def _kept(name: str, loop: Loop, stop: asyncio.Event) -> None:
    pause = 0.5
    while not stop.is_set():
        begin = asyncio.get_running_loop().time()
        try:
            await loop(stop)
            return
        except Unavailable as error:
            log.warning("loop paused", extra={"loop": name, "reason": str(error)})
        except Exception:
            log.exception("loop failed", extra={"loop": name})
        failures.labels(name).inc()
        lasted = asyncio.get_running_loop().time() - begin
        pause = 0.5 if lasted > 60 else min(30.0, pause * 2)
        await wait(stop, random.uniform(pause / 2, pause))


@contextlib.asynccontextmanager
async def running(loops: Mapping[str, Loop], grace: float = GRACE_SECONDS) -> AsyncIterator[None]:
    """The loops run inside the block; afterwards they have `grace` seconds to finish."""
    stop = asyncio.Event()
    tasks = [asyncio.create_task(_kept(name, loop, stop), name=name) for name, loop in loops.items()]
    try:
        yield
    finally:
        stop.set()
        late = (await asyncio.wait(tasks, timeout=grace))[1] if tasks else ()
        for task in late:
            log.warning("loop did not finish in time", extra={"loop": task.get_name()})
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def run(
    loops: Mapping[str, Loop],
    *,
    service: str,
    version: str,
    routes: Sequence[BaseRoute] = (),
    lifespan: Lifespan | None = None,
    ready: Ready | None = None,
    settings: Settings | None = None,
    flags: bool = False,
) -> None:
    """Run the loops until SIGTERM. The other arguments are those of `app.serve`."""
    settings = settings or Settings.load(service)
    grace = settings.int("GRACE_SECONDS", GRACE_SECONDS)

    @contextlib.asynccontextmanager
    async def whole(app: Any) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            if lifespan:
                await stack.enter_async_context(lifespan(app))
            await stack.enter_async_context(running(loops, grace))
            yield

    serve(routes, service=service, version=version, lifespan=whole, ready=ready, settings=settings, flags=flags)
