"""Innocent changes near the start: what goes on in any cluster while something else breaks.

They come at moments drawn from the trial's seed, beside the trial, and never touch the fault: each candidate
is held against everything that the fault and its trigger name, before anything is changed.
"""

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from aftershock.base.errors import AftershockError, ProblemError
from aftershock.base.run import run
from aftershock.cluster.api import Object
from aftershock.cluster.base import require
from aftershock.fault.base import Primitive, Ref, primitive
from aftershock.fault.innocent import clash
from aftershock.fault.machine import pods_of
from aftershock.fault.primitives.certificates import restart
from aftershock.fault.scene import Scene, split_ref

# In YAML a bare `off` is the value false.
Level = Annotated[Literal["off", "low", "high"], BeforeValidator(lambda given: "off" if given is False else given)]
SHARES = {"off": 0.0, "low": 0.34, "high": 1.0}


class Spike(BaseModel):
    """Requests of one more customer: `rate` a second of `path` for so many `seconds`, from outside."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    path: str = Field(pattern=r"^/[^\s\[\]{}]*$")
    host: str = ""
    rate: int = Field(default=20, ge=1, le=500)
    seconds: int = Field(default=20, ge=1, le=600)

    def argv(self, front: str) -> list[str]:
        """curl as it is on the machine. What differs between the requests is a fragment, which is never sent."""
        host = ["-H", f"Host: {self.host}"] if self.host else []
        count = self.rate * self.seconds
        where = f"{front}{self.path}#[1-{count}]"
        limits = ["--rate", f"{self.rate}/s", "-m", "10", "-A", "Mozilla/5.0"]
        return ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}\n", *limits, *host, where]


@primitive("traffic")
class Traffic(Primitive):
    """Requests from outside besides the users': a customer who does much at once, or a crawler. The step ends when
    the first has been answered; the others go on beside the trial."""

    needs = frozenset({"world"})
    outside = True
    spike: Spike

    async def run(self, scene: Scene) -> dict[str, Any]:
        return {"running": scene.start(f"{self.kind} at {self.where}", send(scene, self.spike))}

    async def landed(self, scene: Scene, done: Mapping[str, Any]) -> None:
        world = scene.cluster.world
        assert world is not None
        one = Spike(path=self.spike.path, host=self.spike.host, rate=1, seconds=1)
        said = await run(world.argv(one.argv(scene.cluster.front_url)), timeout=15, check=False)
        if said.out.strip() in ("", "000"):
            raise ProblemError(f"nothing answers at {self.spike.path}", where=self.where)

    async def undo(self, scene: Scene, done: Mapping[str, Any]) -> None:
        await scene.stop(done["running"])


async def send(scene: Scene, spike: Spike) -> None:
    """All requests of a spike, from the world outside."""
    require(scene.cluster, "world", "traffic from outside")
    world = scene.cluster.world
    assert world is not None
    await run(world.argv(spike.argv(scene.cluster.front_url)), timeout=spike.seconds * 2 + 30.0, check=False)


@primitive("noise")
class Noise(Primitive):
    """Innocent changes: workloads restarted or scaled by one, objects labelled anew, pods deleted, one more
    customer. `low` makes about a third of them, `high` all, `off` none; within `over` seconds from now.

    `avoid`: what they must not touch besides what the fault and the trigger name.
    """

    level: Level = "low"
    restart: list[Ref] = Field(default_factory=list)
    scale: list[Ref] = Field(default_factory=list)
    label: list[Ref] = Field(default_factory=list)
    pods: list[Ref] = Field(default_factory=list, description="workloads of which one pod is deleted")
    spikes: list[Spike] = Field(default_factory=list)
    avoid: list[str] = Field(default_factory=list)
    over: float = Field(default=20.0, ge=0, le=600)

    @model_validator(mode="after")
    def _something(self) -> "Noise":
        if not self.candidates():
            raise ValueError("give what may change: `restart`, `scale`, `label`, `pods` or `spikes`")
        return self

    def touches(self) -> frozenset[str]:
        """Nothing of the fault."""
        return frozenset()

    def candidates(self) -> list[tuple[str, str]]:
        """(what is done, to what) of all changes."""
        named = (("restart", self.restart), ("scale", self.scale), ("label", self.label), ("pod", self.pods))
        found = [(what, ref) for what, refs in named for ref in refs]
        return [*found, *(("spike", str(n)) for n in range(len(self.spikes)))]

    def chosen(self, scene: Scene) -> list[tuple[float, str, str]]:
        """(when, what is done, to what), in order: the same for the same seed and level."""
        candidates = self.candidates()
        chance = scene.random(f"noise {self.where}")
        chance.shuffle(candidates)
        share = SHARES[scene.noise or self.level]
        count = min(len(candidates), max(1, round(len(candidates) * share))) if share else 0
        return sorted((round(chance.uniform(0, self.over), 2), *one) for one in candidates[:count])

    async def run(self, scene: Scene) -> dict[str, Any]:
        plan = self.chosen(scene)
        for _, what, ref in plan:
            if what != "spike":
                await self._guard(scene, ref)
        if any(what == "spike" for _, what, _ in plan):
            require(scene.cluster, "world", "a noise of one more customer")
        name = scene.start(f"{self.kind} at {self.where}", self._follow(scene, plan)) if plan else ""
        return {"changes": [f"{what} {ref} after {when:g} s" for when, what, ref in plan], "running": name}

    async def _guard(self, scene: Scene, ref: str) -> None:
        """
        Raises:
            ProblemError: the change would touch the fault, or there is nothing to be changed.
        """
        obj = await scene.get(ref)
        if obj is None:
            raise ProblemError(f"noise wants to change {ref}, which is not there", where=self.where)
        fronts = await scene.api.list("Service", scene.namespace)
        obj = {**obj, "kind": split_ref(ref)[0]}
        if why := clash(obj, scene.blast | set(self.avoid), fronts):
            raise ProblemError(
                f"noise must not touch {ref}: {why}", where=self.where, todo="choose something that the fault leaves"
            )

    async def _follow(self, scene: Scene, plan: list[tuple[float, str, str]]) -> None:
        """A change that cannot be made is told, and nothing more: it was to distract, not to decide."""
        begin = asyncio.get_running_loop().time()
        async with asyncio.TaskGroup() as group:
            for when, what, ref in plan:
                await asyncio.sleep(max(0.0, begin + when - asyncio.get_running_loop().time()))
                if what == "spike":
                    group.create_task(send(scene, self.spikes[int(ref)]))
                    continue
                try:
                    await self._change(scene, what, ref)
                except AftershockError as error:
                    scene.tell("noise_failed", what=what, of=ref, error=error.what)
                else:
                    scene.tell("noise", what=what, of=ref)

    async def _change(self, scene: Scene, what: str, ref: str) -> None:
        kind, name = split_ref(ref)
        space, chance = scene.namespace, scene.random(f"noise {self.where} {ref}")
        if what == "restart":
            await restart(scene, ref, space)
        elif what == "scale":
            obj: Object = await scene.get(ref) or {}
            have = int(obj.get("spec", {}).get("replicas", 1))
            body = {"spec": {"replicas": have + 1 if have < 2 else have + chance.choice((1, -1))}}
            await scene.tool("kubectl-scale").patch(kind, name, space, body, how="merge", subresource="scale")
        elif what == "label":
            labels = {"metadata": {"labels": {"app.kubernetes.io/version": f"r{chance.randint(100, 999)}"}}}
            await scene.tool("kubectl-label").patch(kind, name, space, labels, how="merge")
        else:
            pods = await pods_of(scene, ref)
            if pods:
                await scene.api.delete("Pod", chance.choice(pods)["metadata"]["name"], space)

    async def landed(self, scene: Scene, done: Mapping[str, Any]) -> None:
        """The changes come when their time has come; each is told."""

    async def undo(self, scene: Scene, done: Mapping[str, Any]) -> None:
        if done["running"]:
            await scene.stop(done["running"])
