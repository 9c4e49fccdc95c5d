"""Proof that an answer acted: the namespace as the on-call sees it, before and after, and what became of it.

Two wrong fixes once looked rightly rejected and had never run. So every script of an audit is watched by an
agent around it, with the same rights: objects that were made, deleted, replaced or changed, and the pods that
programs were run in, as the script's trace tells.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from aftershock.agent.base import Agent, AgentContext, AgentResult
from aftershock.audit.dump import dump
from aftershock.base.errors import ClusterError
from aftershock.cluster.api import Api, Object

__all__ = ["Sight", "Witnessed", "differences", "entered", "state_of"]

KINDS = (
    "Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob", "Pod", "ConfigMap", "Secret", "Service",
    "PersistentVolumeClaim", "PodDisruptionBudget", "HorizontalPodAutoscaler", "NetworkPolicy",
)  # fmt: skip
# What controllers write by themselves.
UNTOLD = ("status", "metadata")
NOT_CHANGED = ("deployment.kubernetes.io/revision",)


@dataclass(frozen=True)
class Sight:
    """One object: its identity, and a hash of each of its parts."""

    uid: str
    parts: Mapping[str, str]


def state_of(objects: Sequence[Object]) -> dict[str, Sight]:
    """Objects by `Kind/name`. Pods count by their identity only: what happens inside them is not a change of theirs."""
    found = {}
    for obj in objects:
        meta = obj["metadata"]
        parts = {key: value for key, value in obj.items() if key not in (*UNTOLD, "apiVersion", "kind")}
        notes = {k: v for k, v in (meta.get("annotations") or {}).items() if k not in NOT_CHANGED}
        parts |= {"labels": meta.get("labels"), "annotations": notes}
        if obj["kind"] == "Pod":
            parts = {}
        hashes = {key: hashlib.sha256(json.dumps(parts[key], sort_keys=True).encode()).hexdigest() for key in parts}
        found[f"{obj['kind']}/{meta['name']}"] = Sight(meta["uid"], hashes)
    return found


def differences(before: Mapping[str, Sight], after: Mapping[str, Sight]) -> dict[str, str]:
    """What became of each object that is not as it was.

    >>> differences({"Pod/a": Sight("1", {})}, {"Pod/b": Sight("2", {})})
    {'Pod/a': 'deleted', 'Pod/b': 'made'}
    """
    found = {}
    for ref in sorted({*before, *after}):
        old, new = before.get(ref), after.get(ref)
        if old is None or new is None:
            found[ref] = "made" if old is None else "deleted"
        elif old.uid != new.uid:
            found[ref] = "replaced"
        elif changed := [key for key in {**old.parts, **new.parts} if old.parts.get(key) != new.parts.get(key)]:
            found[ref] = f"changed: {', '.join(sorted(changed))}"
    return found


EXEC = re.compile(r"^kubectl\b.*? exec (?:-\S+ )*(?:pods?/)?(?P<pod>[a-z0-9][a-z0-9./-]*)")


def entered(commands: Sequence[str]) -> list[str]:
    """The pods that programs were run in, as `exec/NAME`.

    >>> entered(["kubectl -n shop exec -i postgres-0 -c postgres -- psql", "kubectl get pods"])
    ['exec/postgres-0']
    """
    found = [f"exec/{match['pod']}" for command in commands if (match := EXEC.match(command))]
    return list(dict.fromkeys(found))


@dataclass(frozen=True)
class Witnessed:
    """An agent, watched; with `scan` everything is read first that an on-call could read, for the scan for leaks."""

    agent: Agent
    namespace: str
    scan: bool = False

    @property
    def name(self) -> str:
        return self.agent.name

    async def act(self, context: AgentContext) -> AgentResult:
        async with Api(context.kubeconfig, kubectl=context.kubectl / "kubectl") as api:
            details: dict[str, Any] = {}
            if self.scan:
                given = {"page": context.page, "kubeconfig": context.kubeconfig.read_text()}
                details["dump"] = str(await dump(api, context.out / "dump.jsonl", given))
            before = await self._look(api)
            result = await self.agent.act(context)
            after = await self._look(api)
        changed = differences(before, after)
        trace = Path(str(result.details.get("trace", context.out / "none")))
        commands = _commands(trace)
        details |= {"changed": changed, "entered": entered(commands)}
        return replace(result, details={**result.details, **details})

    async def _look(self, api: Api) -> dict[str, Sight]:
        objects: list[Object] = []
        for kind in KINDS:
            try:
                objects += await api.list(kind, self.namespace)
            except ClusterError as error:
                if "(403)" not in error.what:
                    raise
        return state_of(objects)


TRACED = re.compile(r"^\++ \d+[.,]\d+ (.*)$")


def _commands(trace: Path) -> list[str]:
    if not trace.exists():
        return []
    lines = trace.read_text(errors="replace").splitlines()
    return [match[1] for line in lines if (match := TRACED.match(line))]
