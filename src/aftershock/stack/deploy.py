"""Bringing a stack up: its services in order, each running before the next, until users are served."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable

from aftershock.base.errors import ClusterError
from aftershock.base.run import run
from aftershock.base.wait import NotYet, until
from aftershock.cluster.api import Api, Object, rollout_state
from aftershock.cluster.base import Cluster
from aftershock.stack.load import Stack

__all__ = ["deploy", "front_answers", "served"]

WORKLOADS = ("Deployment", "StatefulSet", "DaemonSet")
Tell = Callable[[str], None]
Front = Callable[[], Awaitable[str]]


async def deploy(
    cluster: Cluster,
    stack: Stack,
    *,
    seconds: float = 180.0,
    tell: Tell = lambda text: None,
    front: Front | None = None,
) -> None:
    """Deploy a stack and wait until its users are served.

    A service is waited for only when something comes after it that needs it to run: one with a
    setup command of its own. All others start side by side, as in a real deployment.

    Args:
        seconds: deadline of each wait.
        tell: gets a line at each stage.
        front: finds the front door's URL once the stack is applied, on a cluster without a world.

    Raises:
        DeadlinePassed: naming the workload, and what is missing.
    """
    begin = time.monotonic()
    async with cluster.api() as api:
        await _apply(api, stack, seconds, tell)
    await served(cluster, stack, front=await front() if front else "", seconds=seconds)
    tell(f"users are served after {time.monotonic() - begin:.1f} s")


async def _apply(api: Api, stack: Stack, seconds: float, tell: Tell) -> None:
    for service in stack.services:
        tell(f"applying {service.name}")
        await api.apply_all(service.objects, namespace=stack.namespace)
        steps = [step for step in stack.setup if step.after == service.name]
        if not steps:
            continue
        await _running(api, service.objects, stack.namespace, seconds)
        for step in steps:
            tell(f"setting up {service.name}: {step.stdin.name if step.stdin else step.argv[0]}")
            data = step.stdin.read_bytes() if step.stdin else None
            done = await api.exec(stack.namespace, step.pod, step.argv, stdin=data, timeout=seconds)
            if not done.ok:
                raise ClusterError(
                    f"setting up {service.name} ended with {done.code}: {done.tail()}",
                    where=str(step.stdin or " ".join(step.argv)),
                )


async def served(cluster: Cluster, stack: Stack, *, front: str = "", seconds: float = 60.0) -> None:
    """Wait until every workload runs its newest revision and the front door answers from outside."""
    objects = [obj for service in stack.services for obj in service.objects]
    async with cluster.api() as api:
        await _running(api, objects, stack.namespace, seconds)
    await front_answers(cluster, stack, front=front, seconds=seconds)


async def _running(api: Api, objects: Iterable[Object], namespace: str, seconds: float) -> None:
    await asyncio.gather(
        *(
            api.wait_for(
                obj["kind"],
                obj["metadata"]["name"],
                obj["metadata"].get("namespace", namespace),
                rollout_state,
                seconds=seconds,
            )
            for obj in objects
            if obj["kind"] in WORKLOADS
        )
    )


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
