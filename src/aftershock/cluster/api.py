"""The one way to talk to a Kubernetes API server.

Objects are plain dictionaries, as the server sends them; kr8s brings kubeconfig handling, TLS and
re-authentication, and this file adds what incidents need: server-side apply under an operator's
name, watches that go on after a break, and running a program in a pod. The last is done by
`kubectl exec`: its streams survive large inputs, and it is what an operator would use.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Self

import httpx
import kr8s
import kr8s.asyncio

from aftershock.base.errors import ClusterError
from aftershock.base.run import Completed, run
from aftershock.base.wait import NotYet, patience, until
from aftershock.cluster.kinds import KINDS, kind_path

__all__ = ["Api", "Object", "pod_ready", "rollout_state"]

Object = dict[str, Any]
Objects = list[Object]
Argv = list[str]

PATCH_TYPES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}


class Api:
    """A client of one cluster; create it inside the event loop that uses it.

    Args:
        kubeconfig: file with the address and credentials.
        context: a context of that file; its current one by default.
        manager: field manager written into objects: what an operator's tool would write.
    """

    def __init__(
        self, kubeconfig: Path, *, context: str | None = None, manager: str = "kubectl", kubectl: Path | str = "kubectl"
    ) -> None:
        self.kubeconfig = kubeconfig
        self.context = context
        self.manager = manager
        self.kubectl = str(kubectl)
        self._api: Any = None
        self._connecting = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        if self._api is not None and self._api._session is not None:
            await self._api._session.aclose()
        self._api = None

    async def _connect(self) -> Any:
        """A client of our own: kr8s' factory shares one for all that name the same kubeconfig, also
        after the cluster behind that file is another, and asks for a version that nobody needs."""
        async with self._connecting:  # requests side by side would open a session each
            if self._api is None:
                made = kr8s.asyncio.Api(kubeconfig=str(self.kubeconfig), context=self.context, bypass_factory=True)
                await made.auth
                await made._create_session()
                self._api = made
        return self._api

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        content: str = "application/json",
        timeout: float = 10.0,
        attempts: int = 3,
        **query: Any,
    ) -> httpx.Response:
        """One HTTP request; connection breaks are tried again, but for POST.

        Raises:
            ClusterError: the API server refused (with its words), or cannot be reached.
        """
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        attempts = 1 if method == "POST" else attempts
        # kr8s puts a slash after `base`, which a program behind a proxy may take for another path.
        base, _, last = path.rpartition("/")
        base, last = (base, last) if base else (path, "")
        for attempt in range(attempts):
            try:
                client = self._api or await self._connect()
                async with client.call_api(
                    method,
                    version="",
                    base=base,
                    url=last,
                    params={k: v for k, v in query.items() if v not in (None, "")},
                    content=data,
                    headers={"Content-Type": content} if data is not None else None,
                    timeout=timeout * patience(),
                    raise_for_status=False,
                ) as response:
                    if response.status_code == 429 and attempt + 1 < attempts:
                        await asyncio.sleep(min(float(response.headers.get("Retry-After", "1")), 2.0))
                        continue
                    return response  # type: ignore[no-any-return]
            except (httpx.TransportError, kr8s.APITimeoutError, kr8s.ServerError) as error:
                if attempt + 1 == attempts:
                    raise ClusterError(
                        f"the API server does not answer: {error or type(error).__name__}",
                        where=f"{method} {path}",
                        todo="check that the cluster runs (`aftershock list`)",
                    ) from error
        raise AssertionError("unreachable")

    async def _json(self, method: str, path: str, **kwargs: Any) -> Object:
        response = await self.request(method, path, **kwargs)
        if response.is_error:
            try:
                said = response.json().get("message", response.text)
            except ValueError:
                said = response.text
            raise ClusterError(f"the API server refused ({response.status_code}): {said}", where=f"{method} {path}")
        document: Object = response.json()
        return document

    async def get(self, kind: str, name: str, namespace: str | None = None) -> Object | None:
        """One object, or None where there is none."""
        response = await self.request("GET", path := kind_path(kind, namespace, name))
        if response.status_code == 404:
            return None
        if response.is_error:
            raise ClusterError(
                f"the API server refused ({response.status_code}): {response.text[:300]}", where=f"GET {path}"
            )
        document: Object = response.json()
        return document

    async def list(self, kind: str, namespace: str | None = None, *, labels: str = "", fields: str = "") -> Objects:
        """All objects of a kind, in one namespace or everywhere."""
        items, _ = await self.list_with_version(kind, namespace, labels=labels, fields=fields)
        return items

    async def list_with_version(
        self, kind: str, namespace: str | None = None, *, labels: str = "", fields: str = "", attempts: int = 3
    ) -> tuple[Objects, str]:
        """All objects of a kind and the collection's resource version."""
        document = await self._json(
            "GET", kind_path(kind, namespace), labelSelector=labels, fieldSelector=fields, attempts=attempts
        )
        version = KINDS[kind][0]
        items = [{"apiVersion": version, "kind": kind, **item} for item in document.get("items") or []]
        return items, document["metadata"]["resourceVersion"]

    async def apply(self, obj: Object, *, namespace: str | None = None) -> Object:
        """Server-side apply, taking over fields that others hold."""
        meta = obj.get("metadata", {})
        kind = obj["kind"]
        namespaced = KINDS.get(kind, ("", "", True))[2]
        space = (meta.get("namespace") or namespace or "default") if namespaced else None
        path = kind_path(kind, space, meta["name"], obj.get("apiVersion", ""))
        return await self._json(
            "PATCH", path, body=obj, content=PATCH_TYPES["apply"], fieldManager=self.manager, force="true"
        )

    async def apply_all(self, objects: Iterable[Object], *, namespace: str | None = None) -> None:
        """Apply objects in order."""
        for obj in objects:
            await self.apply(obj, namespace=namespace)

    async def create(self, obj: Object, *, namespace: str | None = None) -> Object:
        kind, meta = obj["kind"], obj.get("metadata", {})
        space = (meta.get("namespace") or namespace or "default") if KINDS.get(kind, ("", "", True))[2] else None
        return await self._json(
            "POST", kind_path(kind, space, "", obj.get("apiVersion", "")), body=obj, fieldManager=self.manager
        )

    async def patch(
        self, kind: str, name: str, namespace: str | None, patch: Any, *, how: str = "strategic", subresource: str = ""
    ) -> Object:
        """Patch one object; `how` is merge, json or strategic."""
        path = kind_path(kind, namespace, name) + (f"/{subresource}" if subresource else "")
        return await self._json("PATCH", path, body=patch, content=PATCH_TYPES[how], fieldManager=self.manager)

    async def delete(self, kind: str, name: str, namespace: str | None = None, *, grace: int | None = None) -> bool:
        """Delete one object in the background; False where there was none."""
        body: Object = {"propagationPolicy": "Background"}
        if grace is not None:
            body["gracePeriodSeconds"] = grace
        response = await self.request("DELETE", path := kind_path(kind, namespace, name), body=body)
        if response.status_code == 404:
            return False
        if response.is_error:
            raise ClusterError(
                f"the API server refused ({response.status_code}): {response.text[:300]}", where=f"DELETE {path}"
            )
        return True

    async def watch(
        self, kind: str, namespace: str | None = None, *, labels: str = ""
    ) -> AsyncIterator[tuple[str, Object]]:
        """Changes as (type, object), first ADDED for all there is; goes on after a break."""
        version = ""
        while True:
            if not version:
                items, version = await self.list_with_version(kind, namespace, labels=labels)
                for item in items:
                    yield "ADDED", item
            try:
                async with self._api.call_api(
                    "GET",
                    version="",
                    base=kind_path(kind, namespace),
                    stream=True,
                    timeout=None,
                    params={
                        "watch": "1",
                        "resourceVersion": version,
                        "allowWatchBookmarks": "true",
                        "labelSelector": labels,
                    },
                ) as response:
                    async for line in response.aiter_lines():
                        event = json.loads(line)
                        if event["type"] == "ERROR":
                            version = ""
                            break
                        version = event["object"]["metadata"]["resourceVersion"]
                        if event["type"] != "BOOKMARK":
                            yield event["type"], event["object"]
            except (httpx.TransportError, kr8s.ServerError):
                version = ""

    async def exec(
        self,
        namespace: str,
        pod: str,
        argv: Sequence[str],
        *,
        container: str = "",
        stdin: str | bytes | None = None,
        timeout: float = 30.0,
        check: bool = False,
    ) -> Completed:
        """Run a program in a pod ("deploy/web" names any pod of it)."""
        return await run(
            [
                *self.kubectl_argv(),
                "-n",
                namespace,
                "exec",
                *(["-i"] if stdin is not None else []),
                pod,
                *(["-c", container] if container else []),
                "--",
                *argv,
            ],
            stdin=stdin,
            timeout=timeout,
            check=check,
            where=f"pod {namespace}/{pod}",
        )

    def kubectl_argv(self) -> Argv:
        """How to call kubectl with this client's rights."""
        return [
            self.kubectl,
            f"--kubeconfig={self.kubeconfig}",
            *([f"--context={self.context}"] if self.context else []),
        ]

    async def logs(
        self, namespace: str, pod: str, *, container: str = "", since: int = 0, tail: int = 0, previous: bool = False
    ) -> str:
        """What a container printed; `since` in seconds, `tail` in lines, 0 for all."""
        response = await self.request(
            "GET",
            kind_path("Pod", namespace, pod) + "/log",
            container=container,
            sinceSeconds=since or None,
            tailLines=tail or None,
            previous="true" if previous else None,
        )
        if response.is_error:
            raise ClusterError(
                f"no log ({response.status_code}): {response.text[:300]}", where=f"pod {namespace}/{pod}"
            )
        return response.text

    async def wait_for(
        self, kind: str, name: str, namespace: str | None, test: Callable[[Object | None], str], *, seconds: float
    ) -> Object | None:
        """Wait until `test(object or None)` returns an empty string; what it returns is the reason."""

        async def probe() -> Object | None:
            obj = await self.get(kind, name, namespace)
            if why := test(obj):
                raise NotYet(why)
            return obj

        return await until(probe, what=f"{kind} {namespace or ''}/{name}", seconds=seconds, every=0.2)

    async def rolled_out(self, kind: str, name: str, namespace: str, *, seconds: float = 60.0) -> None:
        """Wait until a Deployment, StatefulSet or DaemonSet runs its newest revision everywhere."""
        await self.wait_for(kind, name, namespace, rollout_state, seconds=seconds)


def rollout_state(obj: Object | None) -> str:
    """Empty when a workload's newest revision is fully available, else what is missing."""
    if obj is None:
        return "it does not exist"
    status = obj.get("status", {})
    if status.get("observedGeneration", 0) < obj["metadata"]["generation"]:
        return "the newest revision has not been observed"
    if obj["kind"] == "DaemonSet":
        wanted = status.get("desiredNumberScheduled", 0)
        ready, updated = status.get("numberAvailable", 0), status.get("updatedNumberScheduled", 0)
    else:
        wanted = obj["spec"].get("replicas", 1)
        ready, updated = (
            status.get("availableReplicas", status.get("readyReplicas", 0)),
            status.get("updatedReplicas", 0),
        )
        if status.get("replicas", 0) > wanted:
            return f"{status['replicas'] - wanted} old replicas remain"
    if updated < wanted:
        return f"{updated} of {wanted} replicas updated"
    return "" if ready >= wanted else f"{ready} of {wanted} replicas available"


def pod_ready(pod: Object) -> bool:
    """Whether the Ready condition of a pod is true."""
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod.get("status", {}).get("conditions") or [])
