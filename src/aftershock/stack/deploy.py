"""Bringing a stack up: its services as early as what they need allows, until users are served."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from aftershock.base.errors import ClusterError, HostError
from aftershock.base.run import run
from aftershock.base.wait import NotYet, until
from aftershock.cluster.api import Api
from aftershock.cluster.base import Cluster
from aftershock.cluster.host import memory_available
from aftershock.stack.health import Board
from aftershock.stack.load import Stack
from aftershock.stack.model import Service

__all__ = ["deploy", "front_answers", "require_memory", "served"]

MIB = 1 << 20
Tell = Callable[[str], None]
Front = Callable[[], Awaitable[str]]


def require_memory(stack: Stack, limit: int = 0, *, available: int | None = None) -> None:
    """Refuse before anything starts what this machine, or the box's own limit, has no memory for.

    Args:
        limit: of the box, in bytes; 0 for none.
        available: bytes that the machine can still give; asked of it when None.
    """
    free = memory_available() if available is None else available
    if stack.memory > free:
        raise HostError(
            f"{stack.label} needs {stack.memory // MIB} MiB of memory, and {free // MIB} MiB are left",
            todo="ask for a smaller size, or end other boxes (`aftershock list`) or programs",
        )
    if limit and stack.memory > limit:
        raise HostError(
            f"{stack.label} needs {stack.memory // MIB} MiB of memory, and the box may use {limit // MIB} MiB",
            todo=f"give it more: `--memory {stack.memory // MIB}`, or ask for a smaller size",
        )


async def deploy(
    cluster: Cluster,
    stack: Stack,
    *,
    seconds: float = 180.0,
    tell: Tell = lambda text: None,
    front: Front | None = None,
) -> None:
    """Deploy a stack and wait until its users are served.

    Each service is applied as soon as those that it needs are healthy, side by side with all others
    of which that is true.

    Args:
        seconds: deadline of each wait.
        tell: gets a line at each stage.
        front: finds the front door's URL once the stack is applied, on a cluster without a world.

    Raises:
        DeadlinePassed: naming each workload that is not healthy, since when, and why.
    """
    begin = time.monotonic()
    async with cluster.api() as api, Board(api) as board:
        await _Deployment(api, board, stack, seconds, tell).run()
    if stack.front.service:
        await front_answers(cluster, stack, front=await front() if front else "", seconds=seconds)
        tell(f"users are served after {time.monotonic() - begin:.1f} s")
    else:
        tell(f"everything is healthy after {time.monotonic() - begin:.1f} s")


class _Deployment:
    """One run of a deployment: who is applied, and who is healthy."""

    def __init__(self, api: Api, board: Board, stack: Stack, seconds: float, tell: Tell) -> None:
        self._api = api
        self._board = board
        self._stack = stack
        self._seconds = seconds
        self._tell = tell
        self._applied = {service.name: asyncio.Event() for service in stack.services}
        self._ready = {service.name: asyncio.Event() for service in stack.services}
        self._needed = {name for service in stack.services for name in service.needs}
        self._needed |= {step.after for step in stack.setup}

    async def run(self) -> None:
        """Deploy everything; the first failure ends it all."""
        tasks = [asyncio.create_task(self._bring(service)) for service in self._stack.services]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        objects = [obj for service in self._stack.services for obj in service.objects]
        await self._board.healthy(
            objects, self._stack.namespace, seconds=self._seconds, what=f"the stack {self._stack.label}"
        )

    async def _bring(self, service: Service) -> None:
        for name in service.after:
            await self._applied[name].wait()
        for name in service.needs:
            await self._ready[name].wait()
        self._tell(f"applying {service.name}")
        for obj in service.objects:
            self._board.expect(await self._api.apply(obj, namespace=self._stack.namespace), service.component)
        self._applied[service.name].set()
        if service.name in self._needed:
            await self._board.healthy(
                service.objects, self._stack.namespace, seconds=self._seconds, what=f"the component {service.component}"
            )
            await self._set_up(service)
        self._ready[service.name].set()

    async def _set_up(self, service: Service) -> None:
        for step in self._stack.setup:
            if step.after != service.name:
                continue
            self._tell(f"setting up {service.name}: {step.stdin.name if step.stdin else step.argv[0]}")
            data = step.stdin.read_bytes() if step.stdin else None
            space = step.namespace or self._stack.namespace
            done = await self._api.exec(space, step.pod, step.argv, stdin=data, timeout=self._seconds)
            if not done.ok:
                raise ClusterError(
                    f"setting up {service.name} ended with {done.code}: {done.tail()}",
                    where=str(step.stdin or " ".join(step.argv)),
                )


async def served(cluster: Cluster, stack: Stack, *, front: str = "", seconds: float = 60.0) -> None:
    """Wait until every workload runs its newest revision and the front door answers from outside."""
    objects = [obj for service in stack.services for obj in service.objects]
    async with cluster.api() as api, Board(api) as board:
        await board.healthy(objects, stack.namespace, seconds=seconds, what=f"the stack {stack.label}")
    if stack.front.service:
        await front_answers(cluster, stack, front=front, seconds=seconds)


async def front_answers(cluster: Cluster, stack: Stack, *, front: str = "", seconds: float = 60.0) -> None:
    """Wait until the front door answers 200 to a user outside.

    Args:
        front: URL of the front door, for a cluster without a world of its own.
    """
    world = cluster.world
    base = front or (f"http://{world.front}:{stack.front.port}" if world else "")
    if not base:
        raise ClusterError(f"how do users reach {stack.name}?", where=cluster.name, todo="give the front door's URL")
    url = f"{base}{stack.front.path}"
    ask = ["curl", "-s", "-o", "/dev/null", "-m", "3", "-w", "%{http_code}", "-H", f"Host: {stack.front.host}", url]
    argv = world.argv(ask) if world else ask

    async def probe() -> None:
        done = await run(argv, timeout=5, check=False)
        if done.out.strip() != "200":
            raise NotYet(f"{url} answers {done.out.strip() or done.tail(100)}")

    await until(probe, what="the front door answers", seconds=seconds, every=0.2, where=f"stack {stack.name}")
