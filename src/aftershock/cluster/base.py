"""What a cluster is to everything above it.

A trial does not care whether its cluster is an embedded box or somebody's own: it talks to the
API, runs programs in nodes where it may, and asks for a capability before it relies on it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from aftershock.base.errors import MissingCapability
from aftershock.base.run import Completed
from aftershock.cluster.api import Api

__all__ = ["Cluster", "World", "require"]


@dataclass(frozen=True)
class World:
    """The world outside a box: the network namespace of its users and external parties.

    `front` is the address at which users find the front door; users may come from any address of
    `users` and external parties live on `parties` (both in CIDR notation). A process that writes its id
    into the files `groups` is counted to the box, and ends with it.
    """

    netns: str
    front: str
    users: str
    parties: str
    groups: tuple[str, ...] = ()

    def argv(self, argv: Sequence[str]) -> list[str]:
        """The same program, run in this network namespace."""
        return ["nsenter", f"--net=/run/netns/{self.netns}", "--", *argv]

    def argv_kept(self, argv: Sequence[str]) -> list[str]:
        """The same for what outlives this process: it belongs to the box from its first moment."""
        joined = "; ".join(f"echo $$ > {path}" for path in self.groups)
        return ["sh", "-c", f'{joined or ":"}; exec "$@"', "sh", *self.argv(argv)]


class Cluster(Protocol):
    """A running cluster. `capabilities` are words such as machine, snapshot, world."""

    @property
    def name(self) -> str: ...
    @property
    def kubeconfig(self) -> Path: ...
    @property
    def nodes(self) -> tuple[str, ...]: ...
    @property
    def capabilities(self) -> frozenset[str]: ...
    @property
    def world(self) -> World | None: ...

    @property
    def groups(self) -> tuple[Path, ...]:
        """The cluster's own control group, in each hierarchy; none where it does not run on this machine."""
        ...

    @property
    def front_url(self) -> str:
        """URL at which users reach the front door."""
        ...

    def api(self, user: str = "admin") -> Api:
        """A client with the rights of `admin` or `oncall`."""
        ...

    async def node_run(
        self,
        node: str,
        argv: Sequence[str],
        *,
        stdin: str | bytes | None = None,
        timeout: float = 30.0,
        check: bool = True,
    ) -> Completed:
        """Run a program in a node, as root of that node."""
        ...

    async def close(self) -> None: ...


def require(cluster: Cluster, capability: str, purpose: str) -> None:
    """Raise MissingCapability, saying what it would have been used for."""
    if capability not in cluster.capabilities:
        raise MissingCapability(
            f"the cluster {cluster.name} lacks the capability {capability}",
            where=purpose,
            todo="use a box (`aftershock up`), which has it",
        )
