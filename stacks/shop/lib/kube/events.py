"""Events about objects, as `kubectl describe` and `kubectl get events` show them."""

import datetime
import secrets

from kube.client import Cluster, Object, Refused
from marketlib.logs import log

__all__ = ["Recorder"]


class Recorder:
    """Writes events in the name of one controller. The same one again only counts up."""

    def __init__(self, cluster: Cluster, component: str) -> None:
        self._cluster = cluster
        self._component = component
        self._said: dict[tuple[str, ...], tuple[str, int]] = {}

    async def say(self, about: Object, kind: str, reason: str, message: str) -> None:
        """Write an event. Not being able to is logged and nothing more.

        Args:
            kind: Normal or Warning.
        """
        meta = about["metadata"]
        namespace = meta.get("namespace", "default")
        key = (about["kind"], namespace, meta["name"], reason, message)
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        name, count = self._said.get(key, ("", 0))
        try:
            if name:
                try:
                    await self._cluster.merge(
                        "v1", "Event", name, namespace, {"count": count + 1, "lastTimestamp": now}
                    )
                    self._said[key] = (name, count + 1)
                    return
                except Refused as error:
                    if error.status != 404:
                        raise
            name = f"{meta['name']}.{secrets.token_hex(8)}"
            involved = {"apiVersion": about["apiVersion"], "kind": about["kind"], "name": meta["name"]}
            involved |= {"namespace": namespace, "uid": meta.get("uid", "")}
            await self._cluster.create({
                "apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": namespace},
                "involvedObject": involved, "type": kind, "reason": reason, "message": message[:1000], "count": 1,
                "firstTimestamp": now, "lastTimestamp": now,
                "source": {"component": self._component}, "reportingComponent": self._component,
            })  # fmt: skip
            self._said[key] = (name, 1)
            while len(self._said) > 500:
                self._said.pop(next(iter(self._said)))
        except Refused as error:
            log.warning("event not written", extra={"object": meta["name"], "reason": str(error)})
