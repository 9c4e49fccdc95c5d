"""Where steps and checks act: one cluster, one namespace, one problem folder, its users."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import yaml

from aftershock.base.errors import ProblemError
from aftershock.cluster.api import Api, Object
from aftershock.cluster.base import Cluster
from aftershock.fault.psql import Databases
from aftershock.workload.served import Request

__all__ = ["Scene", "UsersView", "split_ref"]


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

    def tool(self, manager: str) -> Api:
        """The API as `kubectl-patch`, `kubectl-create` and so on."""
        if manager not in self.tools:
            own = self.api
            self.tools[manager] = Api(own.kubeconfig, context=own.context, manager=manager, kubectl=own.kubectl)
        return self.tools[manager]

    async def close(self) -> None:
        """Close what `tool` opened; `api` is its giver's."""
        for api in self.tools.values():
            await api.close()
        self.tools.clear()

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
