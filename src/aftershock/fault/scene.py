"""Where steps and checks act: one cluster, one namespace, one problem folder, its users.

What steps leave behind is remembered here: how to undo it, and what still runs beside the trial (a session
that is held open, a fault that waits for its trigger). Inside of a box everything dies with the box, so
closing a scene undoes only what lies outside of it; on a cluster that is not ours it undoes all.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import structlog
import yaml

from aftershock.base.errors import AftershockError, ProblemError
from aftershock.cluster.api import Api, Object
from aftershock.cluster.base import Cluster
from aftershock.fault.psql import Databases
from aftershock.workload.served import Request

__all__ = ["Scene", "Undo", "UsersView", "quiet", "split_ref"]

log = structlog.get_logger()


def quiet(kind: str, **data: Any) -> None:
    """Tells nobody."""


@dataclass(frozen=True)
class Undo:
    """How to undo a step. `outside`: what it left lies outside of the cluster, so that it outlives a box."""

    what: str
    outside: bool
    call: Callable[[], Awaitable[None]]


class UsersView(Protocol):
    """What can be known of the users from outside the cluster. Times are seconds on the users' clock."""

    @property
    def rate(self) -> float:
        """Requests due per second."""
        ...

    def now(self) -> float:
        """Seconds since the epoch, on a clock that never jumps."""
        ...

    def check(self) -> None:
        """Raise ClusterError when the users' program has ended by itself."""
        ...

    def requests(self, since: float, until: float) -> Sequence[Request]:
        """Every request due in [since, until), in order; one without an answer has no end."""
        ...

    def promises(self) -> Mapping[str, Mapping[str, Any]]:
        """The ledger now: id -> fields of everything that was acknowledged."""
        ...


@dataclass
class Scene:
    """What a step or check may use. `kept` holds copies of objects taken while all was well.

    Whoever changes an object leaves a name in its managed fields. `api` leaves that of `kubectl apply
    --server-side`; `tool` gives a client that leaves another command's, as it stands there in real life.
    """

    cluster: Cluster
    api: Api
    namespace: str
    folder: Path
    users: UsersView
    databases: Databases
    kept: dict[str, Object] = field(default_factory=dict)
    tools: dict[str, Api] = field(default_factory=dict)
    seed: int = 1
    blast: frozenset[str] = frozenset()
    noise: str | None = None
    tell: Callable[..., None] = quiet
    undoing: list[Undo] = field(default_factory=list)
    background: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    started: int = 0

    def random(self, what: str) -> random.Random:
        """Chance for one purpose: the same for the same seed, whatever else was drawn before."""
        return random.Random(f"{self.seed} {what}")

    def start(self, what: str, work: Coroutine[Any, Any, None]) -> str:
        """Have something run beside the trial until it ends by itself, is stopped by the name that is returned,
        or the scene is closed."""
        self.started += 1
        name = f"{what} #{self.started}"
        self.background[name] = asyncio.create_task(work, name=name)
        return name

    async def stop(self, name: str) -> None:
        """End what `start` gave this name, and wait until it has."""
        if (task := self.background.pop(name, None)) is None:
            return
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            return
        except AftershockError as error:
            log.warning("what ran beside the trial had failed", what=name, error=error.what)

    def check(self) -> None:
        """Raise what ended something that ran beside the trial, once."""
        for name, task in list(self.background.items()):
            if task.done():
                del self.background[name]
                if not task.cancelled() and (error := task.exception()):
                    raise error

    def tool(self, manager: str) -> Api:
        """The API as `kubectl-patch`, `kubectl-create` and so on."""
        if manager not in self.tools:
            own = self.api
            self.tools[manager] = Api(own.kubeconfig, context=own.context, manager=manager, kubectl=own.kubectl)
        return self.tools[manager]

    async def close(self) -> None:
        """End what runs beside, undo what outlives the cluster, close what `tool` opened; `api` is its giver's."""
        for name in list(self.background):
            await self.stop(name)
        await self.undo(everything="snapshot" not in self.cluster.capabilities)
        for api in self.tools.values():
            await api.close()
        self.tools.clear()

    async def undo(self, *, everything: bool = True) -> None:
        """Undo steps, the last one first: all of them, or those that outlive the cluster. One that cannot be
        undone stops none of the others."""
        for entry in reversed(self.undoing):
            if entry.outside or everything:
                try:
                    await entry.call()
                except AftershockError as error:
                    log.warning("a step could not be undone", step=entry.what, error=error.what)
        self.undoing.clear()

    def manifest(self, name: str, replace: Mapping[str, str] | None = None) -> list[Object]:
        """The objects of a manifest file of the problem folder, after replacing texts in it."""
        path = (self.folder / name).resolve()
        if not path.is_relative_to(self.folder.resolve()) or not path.is_file():
            raise ProblemError(f"there is no manifest {name}", where=str(self.folder), todo="give a path inside it")
        text = path.read_text()
        for old, new in (replace or {}).items():
            if old not in text:
                raise ProblemError(f"`{old}` does not occur in {name}", where=str(path), todo="see `replace:`")
            text = text.replace(old, new)
        objects = [obj for obj in yaml.safe_load_all(text) if obj]
        if not objects:
            raise ProblemError("a manifest without objects", where=str(path))
        return objects

    async def get(self, ref: str, namespace: str | None = None) -> Object | None:
        """The object `Kind/name`."""
        kind, name = split_ref(ref)
        return await self.api.get(kind, name, namespace or self.namespace)

    async def keep(self, ref: str) -> None:
        """Remember an object as it is now."""
        if (obj := await self.get(ref)) is not None:
            self.kept[ref] = obj


def split_ref(ref: str) -> tuple[str, str]:
    """
    >>> split_ref("Deployment/orders-api")
    ('Deployment', 'orders-api')
    """
    kind, _, name = ref.partition("/")
    return kind, name
