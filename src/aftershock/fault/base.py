"""What a step is, how a list of them is read, and how it is carried out.

A step that ran is not yet a fault that landed: a patch can be undone by a controller, a job can
wait for a node. So each primitive has a probe of its own, which is asked until it agrees, and a
fault that did not land ends the trial before anybody is judged by it.

Most steps can be undone. Inside of a box nobody has to, since everything dies with it; what lies outside of
it (`outside`) and what was done to a cluster that is not ours is undone when the scene is closed.
"""

import re
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from aftershock.base.errors import AftershockError, DeadlinePassed, MissingCapability
from aftershock.base.wait import until
from aftershock.cluster.base import Cluster
from aftershock.fault.registry import Registry
from aftershock.fault.scene import Scene, Undo, quiet
from aftershock.problem.model import StepSpec

__all__ = [
    "NotLanded",
    "Primitive",
    "Ref",
    "all_steps",
    "blast_of",
    "compile_steps",
    "perform",
    "primitive",
    "primitives_registry",
    "require_all",
]

REF = r"^[A-Z][A-Za-z]+/[a-z0-9][a-z0-9.-]*$"
_REF = re.compile(REF)
SELECTOR = r"^[A-Za-z0-9./_-]+=[A-Za-z0-9._-]+(,[A-Za-z0-9./_-]+=[A-Za-z0-9._-]+)*$"
_SELECTOR = re.compile(SELECTOR)
Ref = Annotated[str, Field(pattern=REF)]

primitives_registry: Registry["Primitive"] = Registry("step", "aftershock.fault.primitives")
primitive = primitives_registry.add


class NotLanded(AftershockError):
    """A step ran and its effect never showed."""


class Primitive(BaseModel):
    """One thing that can be done to a cluster. Fields are its parameters.

    `within`: seconds until its effect must show. `needs`: capabilities of the cluster that it uses.
    `outside`: what it leaves outlives the cluster, so that it has to be undone.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    kind: ClassVar[str]
    needs: ClassVar[frozenset[str]] = frozenset()
    outside: ClassVar[bool] = False

    within: float = Field(default=30.0, gt=0, le=600)
    _where: str = PrivateAttr("")  # file and line, set when it is read
    _folder: Path | None = PrivateAttr(None)  # where its manifests lie

    @property
    def where(self) -> str:
        return self._where

    @abstractmethod
    async def run(self, scene: Scene) -> dict[str, Any]:
        """Do it; what is returned goes into the record and to `landed`."""

    @abstractmethod
    async def landed(self, scene: Scene, done: Mapping[str, Any]) -> None:
        """Return once the effect shows, raise NotYet while it does not."""

    async def undo(self, scene: Scene, done: Mapping[str, Any]) -> None:
        """Put things back as they were before `run` returned `done`. By default there is nothing to put back."""

    def keeps(self) -> Sequence[str]:
        """References of objects to be remembered while all is well."""
        return ()

    def touches(self) -> frozenset[str]:
        """References and label selectors of what it touches: all those in its parameters, by default."""
        return frozenset(_refs(self.model_dump()))

    def bind(self, spec: StepSpec) -> None:
        """Read what the step holds besides plain parameters, with the lines of the file at hand."""

    def nested(self) -> Sequence["Primitive"]:
        """The steps inside of this one."""
        return ()


def _refs(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("kind"), str) and isinstance(value.get("metadata"), dict):
            yield f"{value['kind']}/{value['metadata'].get('name', '')}"
        for below in value.values():
            yield from _refs(below)
    elif isinstance(value, list | tuple):
        for below in value:
            yield from _refs(below)
    elif isinstance(value, str) and (_REF.match(value) or _SELECTOR.match(value)):
        yield value


def all_steps(steps: Sequence[Primitive]) -> Iterator[Primitive]:
    """These steps and those inside of them."""
    for step in steps:
        yield step
        yield from all_steps(step.nested())


def blast_of(steps: Sequence[Primitive]) -> frozenset[str]:
    """References of everything that steps touch by name."""
    return frozenset(ref for step in all_steps(steps) for ref in step.touches())


def compile_steps(specs: Sequence[StepSpec]) -> tuple[Primitive, ...]:
    """Look the steps up and check their parameters.

    Raises:
        ProblemError: with the line, and what would be right.
    """
    steps = []
    for spec in specs:
        cls = primitives_registry.find(spec.name, spec.source, spec.at)
        step = spec.source.model(cls, dict(spec.params), spec.at)
        step._where, step._folder = spec.source.where(spec.at), spec.source.path.parent
        step.bind(spec)
        steps.append(step)
    return tuple(steps)


def require_all(cluster: Cluster, steps: Sequence[Primitive]) -> None:
    """Raise MissingCapability, naming everything that these steps need and the cluster lacks."""
    lacking = [(step, need) for step in all_steps(steps) for need in sorted(step.needs - cluster.capabilities)]
    if lacking:
        words = ", ".join(dict.fromkeys(need for _, need in lacking))
        raise MissingCapability(
            f"the cluster {cluster.name} lacks: {words}",
            where=", ".join(f"{step.kind} at {step.where}" for step, _ in lacking),
            todo="run this problem on a box (without --kubeconfig), on a machine where `aftershock doctor` is content",
        )


async def perform(steps: Sequence[Primitive], scene: Scene, tell: Callable[..., None] = quiet) -> None:
    """Carry steps out in order, each landed before the next; `tell` gets an event for each.

    Raises:
        NotLanded: a step's effect did not show in time.
    """
    for step in steps:
        begin = time.monotonic()
        done = await step.run(scene)
        _remember(step, scene, done)

        async def probe(step: Primitive = step, done: dict[str, Any] = done) -> None:
            await step.landed(scene, done)

        try:
            await until(probe, what=f"the step `{step.kind}` has landed", seconds=step.within, every=0.2)
        except DeadlinePassed as late:
            raise NotLanded(late.what, where=step.where, todo="see what the step changed, and what undid it") from late
        tell("step", step=step.kind, where=step.where, seconds=round(time.monotonic() - begin, 3), **done)


def _remember(step: Primitive, scene: Scene, done: Mapping[str, Any]) -> None:
    if type(step).undo is Primitive.undo:
        return

    async def undo() -> None:
        await step.undo(scene, done)

    scene.undoing.append(Undo(f"{step.kind} at {step.where}", step.outside, undo))
