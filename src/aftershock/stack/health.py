"""Waiting for workloads without asking again and again: one watch a kind, for all that wait.

The API server tells each change once, here, and whoever waits looks again then. When a deadline
passes, the error names each workload that is not healthy, its component, since when, and why: what
its pods say, their latest events, the last lines that they printed.
"""

import asyncio
import contextlib
import time
from collections.abc import Iterable, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self

from aftershock.base.errors import AftershockError, ClusterError, DeadlinePassed
from aftershock.base.wait import patience
from aftershock.cluster.api import Api, Object, pod_ready, rollout_state

__all__ = ["Board", "state_of"]

WORKLOADS = ("Deployment", "StatefulSet", "DaemonSet", "Job")
SHOWN = 6
LINES = 6
Ref = tuple[str, str, str]


def state_of(obj: Object | None) -> str:
    """Empty when a workload does what it is there for, else what is missing.

    Raises:
        ClusterError: a Job has failed for good.
    """
    if obj is None or obj["kind"] != "Job":
        return rollout_state(obj)
    status = obj.get("status", {})
    for condition in status.get("conditions") or []:
        if condition["status"] == "True" and condition["type"] == "Complete":
            return ""
        if condition["status"] == "True" and condition["type"] == "Failed":
            raise ClusterError(f"the job {obj['metadata']['name']} failed: {condition.get('message', '')}")
    wanted = obj["spec"].get("completions") or 1
    return f"{status.get('succeeded', 0)} of {wanted} runs completed, {status.get('failed', 0)} failed"


class Board:
    """The state of all workloads of a cluster, kept up to date while this context is open."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._objects: dict[Ref, Object] = {}
        self._wanted: dict[Ref, int] = {}
        self._owners: dict[Ref, str] = {}
        self._changed = asyncio.Event()
        self._watches: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._watches = [asyncio.create_task(self._watch(kind)) for kind in WORKLOADS]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for watch in self._watches:
            watch.cancel()
        await asyncio.gather(*self._watches, return_exceptions=True)

    async def _watch(self, kind: str) -> None:
        try:
            async with contextlib.aclosing(self._api.watch(kind)) as events:  # type: ignore[type-var]
                async for what, obj in events:
                    ref = (kind, obj["metadata"]["namespace"], obj["metadata"]["name"])
                    if what == "DELETED":
                        self._objects.pop(ref, None)
                    else:
                        self._objects[ref] = {**obj, "kind": kind}
                    self._changed.set()
        finally:
            self._changed.set()

    def expect(self, applied: Object, component: str) -> None:
        """Remember an object as it was answered by the API server: older states of it do not count."""
        if applied["kind"] in WORKLOADS:
            meta = applied["metadata"]
            ref = (applied["kind"], meta["namespace"], meta["name"])
            self._wanted[ref] = meta.get("generation", 0)
            self._owners[ref] = component

    def missing(self, refs: Iterable[Ref]) -> dict[Ref, str]:
        """What each of these lacks; nothing for healthy ones."""
        found = {}
        for ref in refs:
            obj = self._objects.get(ref)
            if obj is not None and obj["metadata"].get("generation", 0) < self._wanted.get(ref, 0):
                found[ref] = "the newest revision has not been observed"
            elif why := state_of(obj):
                found[ref] = why
        return found

    async def healthy(self, objects: Iterable[Object], namespace: str, *, seconds: float, what: str) -> None:
        """Wait until all workloads among these objects are healthy.

        Raises:
            DeadlinePassed: with what each one lacks, and why.
            ClusterError: a job failed for good, or the API server is gone.
        """
        refs = [
            (obj["kind"], obj["metadata"].get("namespace", namespace), obj["metadata"]["name"])
            for obj in objects
            if obj["kind"] in WORKLOADS
        ]
        seconds *= patience()
        begin = time.monotonic()
        while missing := await self._missing(refs):
            left = begin + seconds - time.monotonic()
            try:
                async with asyncio.timeout(max(0.0, left)):
                    await self._changed.wait()
            except TimeoutError:
                raise DeadlinePassed(
                    f"not within {seconds:g} s: {what} is healthy; {await self._report(missing)}",
                    where=f"{len(missing)} of {len(refs)} workloads",
                    todo="look with `aftershock shell`, then kubectl describe and kubectl logs",
                ) from None

    async def _missing(self, refs: Sequence[Ref]) -> dict[Ref, str]:
        self._changed.clear()
        for watch in self._watches:
            if watch.done() and not watch.cancelled() and (error := watch.exception()):
                raise error
        try:
            return self.missing(refs)
        except ClusterError as error:
            failed = [ref for ref in refs if ref[0] == "Job" and ref[2] in error.what]
            report = await self._report(dict.fromkeys(failed, "failed"))
            raise ClusterError(f"{error.what}; {report}", where=error.where, todo=error.todo) from error

    async def _report(self, missing: dict[Ref, str]) -> str:
        """Why workloads are not healthy, in lines. What cannot be asked any more is left out."""
        said = []
        for ref, why in list(missing.items())[:SHOWN]:
            kind, namespace, name = ref
            component = f" (component {self._owners[ref]})" if ref in self._owners else ""
            said.append(f"\n- {kind} {namespace}/{name}{component}: {why}{since(self._objects.get(ref))}")
            try:
                said += [f"\n    {line}" for line in await self._reasons(ref)]
            except AftershockError as error:
                said.append(f"\n    nothing more can be read: {error.what}")
        more = len(missing) - SHOWN
        return "".join(said) + (f"\n- and {more} more" if more > 0 else "")

    async def _reasons(self, ref: Ref) -> list[str]:
        _, namespace, name = ref
        obj = self._objects.get(ref)
        if obj is None:
            return []
        chosen = obj["spec"].get("selector", {}).get("matchLabels") or {}
        labels = ",".join(f"{key}={value}" for key, value in chosen.items())
        pods = [p for p in await self._api.list("Pod", namespace, labels=labels) if not pod_ready(p)]
        pods = [p for p in pods if p.get("status", {}).get("phase") != "Succeeded"]
        lines = await self._events(namespace, {name, *(p["metadata"]["name"] for p in pods)}, name)
        for pod in pods[:2]:
            lines += pod_troubles(pod)
            lines += await self._printed(pod)
        return lines

    async def _events(self, namespace: str, names: set[str], prefix: str) -> list[str]:
        """The latest warnings about these objects, and about what they own."""
        found = [
            event
            for event in await self._api.list("Event", namespace)
            if event.get("type") == "Warning"
            and ((n := event["involvedObject"].get("name", "")) in names or n.startswith(f"{prefix}-"))
        ]
        found.sort(key=lambda e: e.get("lastTimestamp") or e.get("eventTime") or "")
        texts = dict.fromkeys(f"event {e.get('reason')}: {(e.get('message') or '').strip()[:300]}" for e in found)
        return list(texts)[-3:]

    async def _printed(self, pod: Object) -> list[str]:
        """The last lines of the container that is not ready; of its last run when the present one says nothing."""
        meta = pod["metadata"]
        for status in container_statuses(pod):
            if status.get("ready") or (status.get("state", {}).get("terminated") or {}).get("exitCode") == 0:
                continue
            for previous in (False, True):
                with contextlib.suppress(ClusterError):
                    text = await self._api.logs(
                        meta["namespace"], meta["name"], container=status["name"], tail=LINES, previous=previous
                    )
                    if text.strip():
                        return [f"log {status['name']}: {line[:300]}" for line in text.strip().splitlines()[-LINES:]]
        return []


def container_statuses(pod: Object) -> list[dict[str, Any]]:
    status = pod.get("status", {})
    return [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]


def pod_troubles(pod: Object) -> list[str]:
    """What a pod's own status says about why it is not ready."""
    name = pod["metadata"]["name"]
    found = []
    for condition in pod.get("status", {}).get("conditions") or []:
        if condition["status"] == "False" and condition["type"] == "PodScheduled":
            found.append(f"pod {name}: not scheduled: {condition.get('message', '')[:300]}")
    for status in container_statuses(pod):
        state, last = status.get("state", {}), status.get("lastState", {})
        if waiting := state.get("waiting"):
            found.append(
                f"pod {name}: {status['name']} waits: {waiting.get('reason')} {waiting.get('message', '')[:300]}"
            )
        elif state.get("running") and not status.get("ready"):
            found.append(f"pod {name}: {status['name']} runs and is not ready")
        ended = state.get("terminated") or last.get("terminated")
        if ended and ended.get("exitCode"):
            found.append(
                f"pod {name}: {status['name']} ended with {ended['exitCode']} ({ended.get('reason')}), "
                f"{status.get('restartCount', 0)} restarts"
            )
    return found


def since(obj: Object | None) -> str:
    """Since when a workload is not healthy, as far as it tells."""
    if obj is None:
        return ""
    stamp: str = obj["metadata"].get("creationTimestamp", "")
    for condition in obj.get("status", {}).get("conditions") or []:
        if condition["type"] in ("Available", "Ready") and condition["status"] == "False":
            stamp = condition.get("lastTransitionTime", stamp)
    if not stamp:
        return ""
    seconds = time.time() - datetime.fromisoformat(stamp).timestamp()
    return f", since {stamp} ({seconds:.0f} s)"
