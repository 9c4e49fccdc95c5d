"""What a step is, how a list of them is read, and how it is carried out.

A step that ran is not yet a fault that landed: a patch can be undone by a controller, a job can
wait for a node. So each primitive has a probe of its own, which is asked until it agrees, and a
fault that did not land ends the trial before anybody is judged by it.
"""

import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from aftershock.base.errors import AftershockError, DeadlinePassed, MissingCapability
from aftershock.base.wait import until
from aftershock.cluster.base import Cluster
from aftershock.fault.registry import Registry
from aftershock.fault.scene import Scene
from aftershock.problem.model import StepSpec

__all__ = [
    "NotLanded",
    "Primitive",
    "Ref",
    "compile_steps",
    "perform",
    "primitive",
    "primitives_registry",
    "require_all",
]

Ref = Annotated[str, Field(pattern=r"^[A-Z][A-Za-z]+/[a-z0-9][a-z0-9.-]*$")]

primitives_registry: Registry["Primitive"] = Registry("step", "aftershock.fault.primitives")
primitive = primitives_registry.add


class NotLanded(AftershockError):
    """A step ran and its effect never showed."""


class Primitive(BaseModel):
    """One thing that can be done to a cluster. Fields are its parameters.

    `within`: seconds until its effect must show. `needs`: capabilities of the cluster that it uses.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    kind: ClassVar[str]
    needs: ClassVar[frozenset[str]] = frozenset()

    within: float = Field(default=30.0, gt=0, le=600)
    _where: str = PrivateAttr("")  # file and line, set when it is read

    @property
    def where(self) -> str:
        return self._where

    @abstractmethod
    async def run(self, scene: Scene) -> dict[str, Any]:
        """Do it; what is returned goes into the record and to `landed`."""

    @abstractmethod
    async def landed(self, scene: Scene, done: Mapping[str, Any]) -> None:
        """Return once the effect shows, raise NotYet while it does not."""

    def keeps(self) -> Sequence[str]:
        """References of objects to be remembered while all is well."""
        return ()


def compile_steps(specs: Sequence[StepSpec]) -> tuple[Primitive, ...]:
    """Look the steps up and check their parameters.

    Raises:
        ProblemError: with the line, and what would be right.
    """
    steps = []
    for spec in specs:
        cls = primitives_registry.find(spec.name, spec.source, spec.at)
        step = spec.source.model(cls, dict(spec.params), spec.at)
        step._where = spec.source.where(spec.at)
        steps.append(step)
    return tuple(steps)


def require_all(cluster: Cluster, steps: Sequence[Primitive]) -> None:
    """Raise MissingCapability, naming everything that these steps need and the cluster lacks."""
    lacking = [(step, need) for step in steps for need in sorted(step.needs - cluster.capabilities)]
    if lacking:
        words = ", ".join(dict.fromkeys(need for _, need in lacking))
        raise MissingCapability(
            f"the cluster {cluster.name} lacks: {words}",
            where=", ".join(f"{step.kind} at {step.where}" for step, _ in lacking),
            todo="run this problem on a box (without --kubeconfig), on a machine where `aftershock doctor` is content",
        )


async def perform(
    steps: Sequence[Primitive], scene: Scene, tell: Callable[..., None] = lambda kind, **data: None
) -> None:
    """Carry steps out in order, each landed before the next; `tell` gets an event for each.

    Raises:
        NotLanded: a step's effect did not show in time.
    """
    for step in steps:
        begin = time.monotonic()
        done = await step.run(scene)

        async def probe(step: Primitive = step, done: dict[str, Any] = done) -> None:
            await step.landed(scene, done)

        try:
            await until(probe, what=f"the step `{step.kind}` has landed", seconds=step.within, every=0.2)
        except DeadlinePassed as late:
            raise NotLanded(late.what, where=step.where, todo="see what the step changed, and what undid it") from late
        tell("step", step=step.kind, where=step.where, seconds=round(time.monotonic() - begin, 3), **done)
