"""Bringing a stack up: its services in order, each running before the next, until users are served."""

import asyncio
import time
from collections.abc import Callable, Iterable

from aftershock.base.errors import ClusterError
from aftershock.base.run import run
from aftershock.base.wait import NotYet, until
from aftershock.cluster.api import Api, Object, rollout_state
from aftershock.cluster.base import Cluster, World
from aftershock.stack.load import Service, Stack

__all__ = ["deploy", "front_answers", "served"]

WORKLOADS = ("Deployment", "StatefulSet", "DaemonSet")
Tell = Callable[[str], None]


async def deploy(cluster: Cluster, stack: Stack, *, seconds: float = 180.0, tell: Tell = lambda text: None) -> None:
    """Deploy a stack and wait until its users are served.

    A service is waited for only when something comes after it that needs it to run: one with a
    setup command of its own. All others start side by side, as in a real deployment.

    Args:
        seconds: deadline of each wait.
        tell: gets a line at each stage.

    Raises:
        DeadlinePassed: naming the workload, and what is missing.
    """
    api = cluster.api()
    begin = time.monotonic()
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
    await served(cluster, stack, seconds=seconds)
    tell(f"users are served after {time.monotonic() - begin:.1f} s")


async def served(cluster: Cluster, stack: Stack, *, seconds: float = 60.0) -> None:
    """Wait until every workload runs its newest revision and the front door answers from outside."""
    api = cluster.api()
    objects = [obj for service in stack.services for obj in service.objects]
    await _running(api, objects, stack.namespace, seconds)
    await front_answers(cluster, stack, seconds=seconds)


def workloads(services: Iterable[Service]) -> list[tuple[str, str]]:
    """Kind and name of all workloads."""
    return [(obj["kind"], obj["metadata"]["name"]) for s in services for obj in s.objects if obj["kind"] in WORKLOADS]


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


async def front_answers(cluster: Cluster, stack: Stack, *, seconds: float = 60.0) -> None:
    """Wait until the front door answers 200 to a user outside. Without a world outside, from this machine."""
    address = await _address(cluster.api(), cluster.world, stack)
    url = f"http://{address}:{stack.front.port}{stack.front.path}"
    ask = ["curl", "-s", "-o", "/dev/null", "-m", "3", "-w", "%{http_code}", "-H", f"Host: {stack.front.host}", url]
    argv = cluster.world.argv(ask) if cluster.world else ask

    async def probe() -> None:
        done = await run(argv, timeout=5, check=False)
        if done.out.strip() != "200":
            raise NotYet(f"{url} answers {done.out.strip() or done.tail(100)}")

    await until(probe, what="the front door answers", seconds=seconds, every=0.2, where=f"stack {stack.name}")


async def _address(api: Api, world: World | None, stack: Stack) -> str:
    """The address that users know: the world's, else the one that the Service got."""
    if world:
        return world.front
    service = await api.get("Service", stack.front.service, stack.namespace)
    points = (service or {}).get("status", {}).get("loadBalancer", {}).get("ingress") or []
    for point in points:
        if address := point.get("ip") or point.get("hostname"):
            return str(address)
    raise ClusterError(
        f"the Service {stack.front.service} has no address", todo="a load balancer must give it one; see its events"
    )
