"""Somebody's own cluster, by its kubeconfig: for what can work there.

It has no snapshot, no outside world and no nodes that we may enter, so what needs those says so
as a missing capability. A trial's namespace is reset instead of a cluster restored.
"""

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import yaml

from aftershock.base.errors import ClusterError, MissingCapability, UsageError
from aftershock.base.run import Completed
from aftershock.base.wait import NotYet, until
from aftershock.cluster.api import Api
from aftershock.cluster.base import World
from aftershock.cluster.box.box import kubectl_ready
from aftershock.cluster.oncall import oncall_kubeconfig

__all__ = ["Existing", "open_existing"]


class Existing:
    """A cluster that we did not make. It satisfies `Cluster`."""

    def __init__(
        self, kubeconfig: Path, context: str | None, kubectl: Path, nodes: tuple[str, ...], oncall: Path
    ) -> None:
        self._oncall = oncall
        self.front_url = ""
        self._kubeconfig = kubeconfig
        self._context = context
        self._kubectl = kubectl
        self._nodes = nodes

    @property
    def name(self) -> str:
        return self._context or self._kubeconfig.stem

    @property
    def kubeconfig(self) -> Path:
        return self._kubeconfig

    @property
    def nodes(self) -> tuple[str, ...]:
        return self._nodes

    @property
    def capabilities(self) -> frozenset[str]:
        return frozenset()

    @property
    def world(self) -> World | None:
        return None

    @property
    def groups(self) -> tuple[Path, ...]:
        return ()

    def api(self, user: str = "admin") -> Api:
        if user == "oncall":
            return Api(self._oncall, kubectl=self._kubectl)
        return Api(self._kubeconfig, context=self._context, kubectl=self._kubectl)

    async def front(self, service: str, namespace: str) -> str:
        """URL of a Service's node port on a node: how users on this machine reach it.

        Raises:
            ClusterError: the Service has no node port.
        """
        async with self.api() as api:
            found = await api.get("Service", service, namespace)
            nodes = await api.list("Node")
        ports = [p["nodePort"] for p in (found or {}).get("spec", {}).get("ports", []) if p.get("nodePort")]
        addresses = [a["address"] for n in nodes for a in n["status"]["addresses"] if a["type"] == "InternalIP"]
        if not ports or not addresses:
            raise ClusterError(
                f"the Service {service} has no node port",
                where=f"{namespace} of {self.name}",
                todo="give its URL with --front",
            )
        return f"http://{addresses[0]}:{ports[0]}"

    async def node_run(
        self,
        node: str,
        argv: Sequence[str],
        *,
        stdin: str | bytes | None = None,
        timeout: float = 30.0,
        check: bool = True,
    ) -> Completed:
        raise MissingCapability(
            f"programs cannot be run in the node {node} of an existing cluster",
            where=self.name,
            todo="use a box (`aftershock up`), which has the capability node-run",
        )

    async def reset(self, namespace: str, *, seconds: float = 120) -> None:
        """Delete a namespace and wait until it is gone: what stands for a restore here."""
        api = self.api()
        try:
            await api.delete("Namespace", namespace)

            async def gone() -> None:
                if await api.get("Namespace", namespace):
                    raise NotYet("its objects are still being deleted")

            await until(gone, what=f"the namespace {namespace} is gone", seconds=seconds, every=0.3, where=self.name)
        finally:
            await api.close()

    async def close(self) -> None:
        """Leave the cluster as it is and forget the on-call's credentials."""
        shutil.rmtree(self._oncall.parent, ignore_errors=True)


async def open_existing(kubeconfig: Path, context: str | None = None) -> Existing:
    """A cluster by its kubeconfig, after it has answered.

    Raises:
        UsageError: no such file or context.
        ClusterError: it does not answer.
    """
    try:
        document = yaml.safe_load(kubeconfig.read_text())
        contexts = [c["name"] for c in document["contexts"]]
    except (OSError, yaml.YAMLError, KeyError, TypeError) as error:
        raise UsageError(
            f"not a kubeconfig: {error}", where=str(kubeconfig), todo="give the path of a kubeconfig file"
        ) from error
    if context and context not in contexts:
        raise UsageError(
            f"the kubeconfig has no context {context}",
            where=str(kubeconfig),
            todo=f"its contexts: {', '.join(contexts)}",
        )
    kubectl = await kubectl_ready()
    api = Api(kubeconfig, context=context, kubectl=kubectl)
    try:
        nodes = tuple(sorted(n["metadata"]["name"] for n in await api.list("Node")))
        oncall = await oncall_kubeconfig(api, Path(tempfile.mkdtemp(prefix="oncall-")) / "kubeconfig")
    finally:
        await api.close()
    return Existing(kubeconfig, context, kubectl, nodes, oncall)
