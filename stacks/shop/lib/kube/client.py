"""A client of the Kubernetes API, as light as a controller of one process needs it.

    async with Cluster.from_pod() as cluster:
        secret = await cluster.get("v1", "Secret", "gateway-tls", "shop")
        await cluster.apply({...}, manager="certificates")

Objects are plain dictionaries. Which path a kind has is asked of the API once and remembered.
"""

import asyncio
import contextlib
import json
import os
import ssl
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, urlencode

import httpcore

from marketlib.metrics import Counter

__all__ = ["Cluster", "Object", "Refused"]

Object = dict[str, Any]
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
PATCHES = {"apply": "application/apply-patch+yaml", "merge": "application/merge-patch+json"}
TROUBLE = (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError, OSError)

requests = Counter("kubernetes_requests", "Requests to the cluster's API.", ["method", "status"])


class Refused(Exception):
    """The API did not do what it was asked; `status` is 0 where it did not answer."""

    def __init__(self, status: int, reason: str, what: str) -> None:
        super().__init__(f"{what}: {reason}" + (f" ({status})" if status else ""))
        self.status = status
        self.reason = reason


class Cluster:
    """A client; use it as a context manager.

    Args:
        server: the API's URL.
        authority: file with the CA's certificate.
        token: file with the bearer token; it is read again as it is replaced while the pod runs.
    """

    def __init__(self, server: str, authority: Path, token: Path) -> None:
        self._server = server
        self._token_file = token
        self._token = ("", 0.0)
        context = ssl.create_default_context(cafile=str(authority))
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=context, max_connections=8, max_keepalive_connections=2, keepalive_expiry=60, retries=1
        )
        self._plurals: dict[tuple[str, str], tuple[str, bool]] = {}

    @classmethod
    def from_pod(cls) -> Self:
        """A client with the service account of this pod."""
        host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
        return cls(f"https://{host}:{port}", ACCOUNT / "ca.crt", ACCOUNT / "token")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._pool.aclose()

    def _bearer(self) -> str:
        token, read_at = self._token
        if not token or time.monotonic() - read_at > 60:
            token = self._token_file.read_text().strip()
            self._token = (token, time.monotonic())
        return f"Bearer {token}"

    def _headers(self, content: str = "") -> list[tuple[str, str]]:
        found = [("Authorization", self._bearer()), ("Accept", "application/json")]
        return [*found, ("Content-Type", content)] if content else found

    async def request(
        self, method: str, path: str, *, body: Any = None, content: str = "application/json", **query: str
    ) -> Object:
        """One request; the answer's object. Raises Refused."""
        url = self._server + path + (f"?{urlencode(query)}" if query else "")
        data = None if body is None else json.dumps(body).encode()
        limits = {"connect": 5.0, "read": 20.0, "write": 10.0, "pool": 10.0}
        try:
            answer = await self._pool.request(
                method,
                url,
                headers=self._headers(content if data is not None else ""),
                content=data,
                extensions={"timeout": limits},
            )
        except TROUBLE as error:
            requests.labels(method, "none").inc()
            raise Refused(0, f"{type(error).__name__}: {error}", f"{method} {path}") from error
        requests.labels(method, str(answer.status)).inc()
        try:
            found: Object = json.loads(answer.content)
        except ValueError:
            found = {"message": answer.content.decode(errors="replace")[:200]}
        if answer.status >= 400:
            raise Refused(answer.status, str(found.get("message", "")), f"{method} {path}")
        return found

    async def path(self, version: str, kind: str, namespace: str = "", name: str = "") -> str:
        """The URL path of a kind's collection, or of one object. Raises Refused for an unknown kind."""
        root = f"/api/{version}" if "/" not in version else f"/apis/{version}"
        if (version, kind) not in self._plurals:
            for resource in (await self.request("GET", root))["resources"]:
                if "/" not in resource["name"]:
                    self._plurals[version, resource["kind"]] = (resource["name"], resource["namespaced"])
        if (version, kind) not in self._plurals:
            raise Refused(404, f"the cluster has no {kind} of {version}", kind)
        plural, namespaced = self._plurals[version, kind]
        middle = f"/namespaces/{quote(namespace)}" if namespaced and namespace else ""
        return f"{root}{middle}/{plural}" + (f"/{quote(name)}" if name else "")

    async def get(self, version: str, kind: str, name: str, namespace: str = "") -> Object | None:
        """One object, or None where there is none."""
        try:
            return await self.request("GET", await self.path(version, kind, namespace, name))
        except Refused as error:
            if error.status == 404:
                return None
            raise

    async def list(self, version: str, kind: str, namespace: str = "", labels: str = "") -> list[Object]:
        """All objects of a kind, with apiVersion and kind, which the API leaves out of lists."""
        query = {"labelSelector": labels} if labels else {}
        found = await self.request("GET", await self.path(version, kind, namespace), **query)
        return [{"apiVersion": version, "kind": kind, **item} for item in found["items"]]

    async def apply(self, obj: Object, *, manager: str, dry_run: bool = False) -> Object:
        """Server-side apply: the fields named become ours, whoever had them."""
        meta = obj["metadata"]
        path = await self.path(obj["apiVersion"], obj["kind"], meta.get("namespace", ""), meta["name"])
        query = {"fieldManager": manager, "force": "true", **({"dryRun": "All"} if dry_run else {})}
        return await self.request("PATCH", path, body=obj, content=PATCHES["apply"], **query)

    async def merge(self, version: str, kind: str, name: str, namespace: str, patch: Object) -> Object:
        """A merge patch to one object."""
        path = await self.path(version, kind, namespace, name)
        return await self.request("PATCH", path, body=patch, content=PATCHES["merge"])

    async def create(self, obj: Object) -> Object:
        path = await self.path(obj["apiVersion"], obj["kind"], obj["metadata"].get("namespace", ""))
        return await self.request("POST", path, body=obj)

    async def delete(self, version: str, kind: str, name: str, namespace: str = "") -> bool:
        """Delete one object, and in the background what it owns; False where there was none."""
        path = await self.path(version, kind, namespace, name)
        try:
            await self.request("DELETE", path, body={"propagationPolicy": "Background"})
        except Refused as error:
            if error.status == 404:
                return False
            raise
        return True

    async def changes(self, version: str, kind: str, namespace: str = "") -> AsyncIterator[None]:
        """Yields once for what there is, and again whenever an object of the kind changes.

        What changed is not said: a controller that compares everything anyway only needs to know when.
        """
        path = await self.path(version, kind, namespace)
        since = ""
        while True:
            try:
                if not since:
                    since = (await self.request("GET", path, limit="1"))["metadata"]["resourceVersion"]
                    yield
                query = urlencode({"watch": "1", "resourceVersion": since, "allowWatchBookmarks": "true"})
                async for event in self._lines(f"{self._server}{path}?{query}"):
                    if event["type"] == "ERROR":
                        since = ""
                        break
                    since = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] != "BOOKMARK":
                        yield
            except (Refused, *TROUBLE):
                since = ""
                await asyncio.sleep(2)

    async def _lines(self, url: str) -> AsyncIterator[Object]:
        limits = {"connect": 5.0, "read": 400.0, "write": 10.0, "pool": 10.0}
        rest = b""
        async with self._pool.stream("GET", url, headers=self._headers(), extensions={"timeout": limits}) as answer:
            if answer.status >= 400:
                raise Refused(answer.status, "the watch was refused", url)
            async with contextlib.aclosing(answer.aiter_stream()) as chunks:
                async for chunk in chunks:
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        if line.strip():
                            yield json.loads(line)
