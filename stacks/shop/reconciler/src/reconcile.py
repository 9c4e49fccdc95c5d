"""One pass: what runs is compared with what is declared, and what differs is applied again.

An object is asked about (by a dry run, so the server's defaults are in) only when it, or its declaration,
has changed since it was last found to be right; a quiet pass costs a list a kind. An object with the
annotation reconciler.market.example/pause: "true" is looked at and left alone. What was declared once and
is no longer is deleted.
"""

import hashlib
import json
from dataclasses import dataclass, field

from declared import differences, identity, plain, same_as, without_replicas
from kube.client import Cluster, Object, Refused
from kube.events import Recorder
from marketlib.logs import log
from marketlib.metrics import Counter, Gauge

__all__ = ["Outcome", "Reconciler"]

MANAGER = "reconciler"
PAUSE = "reconciler.market.example/pause"
INVENTORY = "reconciler-inventory"

applied = Counter("reconciler_applied", "Objects applied.", ["kind", "name", "reason"])
drifts = Counter("reconciler_drift", "Times that an object was found to differ from its declaration.", ["kind", "name"])
errors = Counter("reconciler_errors", "Objects that could not be applied.", ["kind", "name"])
objects = Gauge("reconciler_objects", "Declared objects by state.", ["state"])


@dataclass
class Outcome:
    """What became of a pass: identities by state."""

    right: list[str] = field(default_factory=list)
    made: list[str] = field(default_factory=list)
    corrected: list[str] = field(default_factory=list)
    paused: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    pruned: list[str] = field(default_factory=list)

    def show(self) -> None:
        for state in ("right", "made", "corrected", "paused", "failed"):
            objects.labels(state).set(len(getattr(self, state)))


def is_paused(obj: Object | None) -> bool:
    return bool(obj) and ((obj or {})["metadata"].get("annotations") or {}).get(PAUSE) == "true"


def digest(obj: Object) -> str:
    return hashlib.sha256(json.dumps(obj, sort_keys=True).encode()).hexdigest()


class Reconciler:
    """Keeps one namespace as declared.

    Args:
        home: the namespace of the inventory.
    """

    def __init__(self, cluster: Cluster, namespace: str, home: str) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._home = home
        self._events = Recorder(cluster, MANAGER)
        self._right: dict[str, tuple[str, str]] = {}
        self._told_paused: dict[str, str] = {}

    async def run_once(self, wanted: dict[str, Object], revision: str) -> Outcome:
        """One pass. Raises Refused if the API does not answer."""
        inventory = await self._inventory()
        live = await self._live({*wanted, *inventory})
        scaled = self._scaled(live)
        outcome = Outcome()
        for name, obj in wanted.items():
            try:
                await self._keep(name, without_replicas(obj, scaled), live.get(name), revision, outcome)
            except Refused as error:
                if not error.status:
                    raise
                await self._failed(obj, error, outcome)
        await self._prune(inventory - set(wanted), live, outcome)
        gone_now = {name for name in inventory - set(wanted) if name not in outcome.pruned and name in live}
        await self._remember({*wanted, *gone_now} - set(outcome.pruned), inventory)
        outcome.show()
        return outcome

    async def _live(self, names: set[str]) -> dict[str, Object]:
        """The objects there are of every kind that is named, and the autoscalers."""
        kinds = {tuple(name.rsplit("/", 2)[:2]) for name in names} | {("autoscaling/v2", "HorizontalPodAutoscaler")}
        found = {}
        for version, kind in sorted(kinds):
            try:
                listed = await self._cluster.list(version, kind, self._namespace)
            except Refused as error:
                if error.status in (0, 403):
                    raise
                continue
            found |= {identity(obj): obj for obj in listed}
        return found

    def _scaled(self, live: dict[str, Object]) -> set[str]:
        targets = [obj["spec"]["scaleTargetRef"] for obj in live.values() if obj["kind"] == "HorizontalPodAutoscaler"]
        return {f"{target['apiVersion']}/{target['kind']}/{target['name']}" for target in targets}

    async def _keep(self, name: str, obj: Object, live: Object | None, revision: str, outcome: Outcome) -> None:
        if is_paused(live) and not is_paused(obj):
            outcome.paused.append(name)
            if live and self._told_paused.get(name) != same_as(live):
                self._told_paused[name] = same_as(live)
                log.info("paused, left as it is", extra={"object": name})
            return
        self._told_paused.pop(name, None)
        if live is None:
            made = await self._apply(obj, "missing")
            outcome.made.append(name)
            log.info("applied", extra={"object": name, "reason": "missing", "revision": revision})
            await self._events.say({**obj, **made}, "Normal", "Applied", f"was missing; applied from {revision[:8]}")
            return
        if self._right.get(name) == (digest(obj), same_as(live)):
            outcome.right.append(name)
            return
        would = await self._cluster.apply(obj, manager=MANAGER, dry_run=True)
        found = list(differences(plain(live), plain(would)))
        if not found:
            self._right[name] = (digest(obj), same_as(live))
            outcome.right.append(name)
            return
        declared_anew = name in self._right and self._right[name][0] != digest(obj)
        reason = "declared anew" if declared_anew else "drift"
        if not declared_anew:
            drifts.labels(obj["kind"], obj["metadata"]["name"]).inc()
        made = await self._apply(obj, reason)
        self._right[name] = (digest(obj), "")
        outcome.corrected.append(name)
        shown = "; ".join(found[:5]) + (f"; {len(found) - 5} more" if len(found) > 5 else "")
        level = log.info if declared_anew else log.warning
        level("applied", extra={"object": name, "reason": reason, "changes": shown, "revision": revision})
        kind, why = ("Normal", "Applied") if declared_anew else ("Warning", "DriftCorrected")
        await self._events.say({**obj, **made}, kind, why, f"{shown} (from {revision[:8]})")

    async def _apply(self, obj: Object, reason: str) -> Object:
        made = await self._cluster.apply(obj, manager=MANAGER)
        applied.labels(obj["kind"], obj["metadata"]["name"], reason).inc()
        return made

    async def _failed(self, obj: Object, error: Refused, outcome: Outcome) -> None:
        outcome.failed.append(identity(obj))
        errors.labels(obj["kind"], obj["metadata"]["name"]).inc()
        log.error("not applied", extra={"object": identity(obj), "reason": str(error)})
        await self._events.say(obj, "Warning", "ApplyFailed", str(error))

    async def _prune(self, names: set[str], live: dict[str, Object], outcome: Outcome) -> None:
        for name in sorted(names):
            obj = live.get(name)
            if obj is None or is_paused(obj):
                continue
            version, kind, plain_name = name.rsplit("/", 2)
            try:
                await self._cluster.delete(version, kind, plain_name, self._namespace)
            except Refused as error:
                await self._failed(obj, error, outcome)
                continue
            outcome.pruned.append(name)
            self._right.pop(name, None)
            log.warning("deleted, it is no longer declared", extra={"object": name})

    async def _inventory(self) -> set[str]:
        """What earlier passes declared."""
        found = await self._cluster.get("v1", "ConfigMap", INVENTORY, self._home)
        return set(((found or {}).get("data") or {}).get("objects", "").split())

    async def _remember(self, names: set[str], before: set[str]) -> None:
        if names == before:
            return
        meta = {"name": INVENTORY, "namespace": self._home, "labels": {"app.kubernetes.io/managed-by": MANAGER}}
        obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"objects": "\n".join(sorted(names))}}
        await self._cluster.apply(obj, manager=MANAGER)
