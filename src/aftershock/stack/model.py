"""What a stack is, resolved: plain frozen data that is ready to be deployed."""

from dataclasses import dataclass
from pathlib import Path

from aftershock.cluster.api import Object
from aftershock.cluster.image.spec import ImageSpec

__all__ = ["Front", "Link", "Objects", "Service", "Setup", "Stack"]

Objects = tuple[Object, ...]


@dataclass(frozen=True)
class Front:
    """Where users come in. A stack that nobody told about its users has no `service` here."""

    service: str
    port: int
    host: str
    path: str


@dataclass(frozen=True)
class Link:
    """A page that a person can open."""

    title: str
    service: str
    namespace: str
    port: str
    path: str


@dataclass(frozen=True)
class Service:
    """One folder of a stack (or a chart, or loose manifests): its objects and the images that it brings.

    `needs`: services that are healthy, and set up, before this one is deployed; `after`: those that are applied.
    """

    name: str
    objects: Objects
    images: tuple[ImageSpec, ...]
    needs: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    component: str = ""


@dataclass(frozen=True)
class Setup:
    """A command run once in a pod while the stack is deployed."""

    after: str
    pod: str
    argv: tuple[str, ...]
    stdin: Path | None
    namespace: str = ""


@dataclass(frozen=True)
class Stack:
    """A stack, resolved to one size and its components.

    `digest` covers everything that a trial on it depends on; `state` only what reaches the cluster, so
    that what is saved of a deployed stack outlives a change to its users. `memory`: what a box needs, in
    bytes, 0 when it does not say. `history`: seconds of users before its state is saved. `namespace` is
    where objects go that name none.
    """

    name: str
    folder: Path
    nodes: int
    namespace: str
    front: Front
    services: tuple[Service, ...]
    setup: tuple[Setup, ...]
    journey: str
    digest: str
    state: str = ""
    size: str = ""
    components: tuple[str, ...] = ()
    extras: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    parties: tuple[str, ...] = ()
    links: tuple[Link, ...] = ()
    memory: int = 0
    pulls: tuple[str, ...] = ()
    history: float = 0.0

    @property
    def label(self) -> str:
        """Which stack this is, for people: name, size and what was asked for besides."""
        return self.name + (f":{self.size}" if self.size else "") + "".join(f"+{name}" for name in self.extras)

    @property
    def journeys(self) -> Path:
        """The module of its users' journeys; it need not exist."""
        return self.folder / "journeys.py"

    def images(self) -> tuple[ImageSpec, ...]:
        """Every image of every version, also those that are not deployed at first."""
        return tuple(image for service in self.services for image in service.images)
