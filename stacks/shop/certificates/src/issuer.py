"""Keeps the declared certificates issued: a Secret each, renewed before it ends.

A pass compares all that is declared with what the Secrets hold; it runs when a Secret changes, and
every so often. A Secret that carries the annotation certificates.market.example/renewal: paused is
left as it is.
"""

import base64
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from authority import Pair, issue, new_authority, not_after, now, why_renew
from kube.client import Cluster, Object, Refused
from kube.events import Recorder
from marketlib.logs import log
from marketlib.metrics import Counter, Gauge

__all__ = ["Declared", "Issuer", "read"]

MANAGER = "certificates"
PREFIX = "certificates.market.example"
LABELS = {"app.kubernetes.io/managed-by": MANAGER, "app.kubernetes.io/part-of": "market"}

expiry = Gauge("certificate_expiry_timestamp_seconds", "When a certificate ends.", ["namespace", "name"])
issued = Counter("certificate_issues", "Certificates issued, or not.", ["result"])
passed = Gauge("certificate_last_pass_timestamp_seconds", "When all certificates were last looked at.")


@dataclass(frozen=True)
class Declared:
    """One certificate that there should be. `restart` names a workload that reads it only at its start."""

    name: str
    namespace: str
    names: list[str]
    days: float
    renew_before_days: float
    restart: str = ""


@dataclass(frozen=True)
class Plan:
    """The declaration file."""

    authority: str
    authority_namespace: str
    authority_name: str
    authority_days: float
    bundles: list[str]
    certificates: list[Declared]


def read(path: Path) -> Plan:
    """Read the declarations. Raises ValueError for what cannot be used."""
    data = tomllib.loads(path.read_text())
    try:
        above: dict[str, Any] = data["authority"]
        listed = [Declared(**entry) for entry in data.get("certificate", [])]
        plan = Plan(above["secret"], above["namespace"], above["name"], above["days"], data["bundles"], listed)
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from error
    for one in plan.certificates:
        if not one.names or one.renew_before_days >= one.days:
            raise ValueError(f"{path}: {one.name} needs names, and renew_before_days below days")
    return plan


def pair_of(secret: Object | None) -> Pair | None:
    data = (secret or {}).get("data") or {}
    if "tls.crt" not in data or "tls.key" not in data:
        return None
    return Pair(base64.b64decode(data["tls.crt"]), base64.b64decode(data["tls.key"]))


class Issuer:
    """One pass after another over everything that is declared."""

    def __init__(self, cluster: Cluster, declarations: Path) -> None:
        self._cluster = cluster
        self._declarations = declarations
        self._events = Recorder(cluster, MANAGER)

    async def run_once(self) -> None:
        """Look at all certificates, and issue those that have to be. Raises Refused if the API is away."""
        try:
            plan = read(self._declarations)
        except (ValueError, OSError) as error:
            log.error("declarations cannot be used", extra={"reason": str(error)})
            issued.labels("failed").inc()
            return
        authority = await self._authority(plan)
        await self._bundles(plan, authority)
        for declared in plan.certificates:
            try:
                await self._keep(declared, authority)
            except Refused as error:
                if not error.status:
                    raise
                issued.labels("failed").inc()
                log.error("certificate not kept", extra={"certificate": declared.name, "reason": str(error)})
        passed.set_to_current_time()

    async def _write(self, name: str, namespace: str, pair: Pair, authority: bytes) -> Object:
        encoded = {
            "tls.crt": base64.b64encode(pair.certificate).decode(),
            "tls.key": base64.b64encode(pair.key).decode(),
            "ca.crt": base64.b64encode(authority).decode(),
        }
        until = not_after(pair.certificate).strftime("%Y-%m-%dT%H:%M:%SZ")
        meta = {"name": name, "namespace": namespace, "labels": LABELS, "annotations": {f"{PREFIX}/not-after": until}}
        obj = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": "kubernetes.io/tls", "data": encoded}
        return await self._cluster.apply(obj, manager=MANAGER)

    async def _authority(self, plan: Plan) -> Pair:
        """The authority of the Secret; a new one only where there is no Secret at all."""
        secret = await self._cluster.get("v1", "Secret", plan.authority, plan.authority_namespace)
        pair = pair_of(secret)
        if secret and not pair:
            raise ValueError(f"the Secret {plan.authority} holds no authority; put the old one back")
        if pair is None:
            pair = new_authority(plan.authority_name, plan.authority_days)
            await self._write(plan.authority, plan.authority_namespace, pair, pair.certificate)
            log.info("authority made", extra={"until": not_after(pair.certificate).isoformat()})
        expiry.labels(plan.authority_namespace, plan.authority).set(not_after(pair.certificate).timestamp())
        return pair

    async def _bundles(self, plan: Plan, authority: Pair) -> None:
        """The authority's certificate, for all who have to trust it."""
        wanted = {"ca.crt": authority.certificate.decode()}
        for namespace in plan.bundles:
            has = await self._cluster.get("v1", "ConfigMap", plan.authority, namespace)
            if has and has.get("data") == wanted:
                continue
            meta = {"name": plan.authority, "namespace": namespace, "labels": LABELS}
            obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": wanted}
            await self._cluster.apply(obj, manager=MANAGER)
            log.info("bundle written", extra={"namespace": namespace})

    async def _keep(self, declared: Declared, authority: Pair) -> None:
        secret = await self._cluster.get("v1", "Secret", declared.name, declared.namespace)
        pair = pair_of(secret)
        if pair is None:
            why = "there is none"
        else:
            why = why_renew(pair, authority, declared.names, declared.renew_before_days)
            if why != "it cannot be read":
                expiry.labels(declared.namespace, declared.name).set(not_after(pair.certificate).timestamp())
        if not why:
            return
        if secret and (secret["metadata"].get("annotations") or {}).get(f"{PREFIX}/renewal") == "paused":
            await self._events.say(secret, "Warning", "RenewalPaused", f"not renewed although {why}: renewal is paused")
            log.warning("renewal is paused", extra={"certificate": declared.name, "reason": why})
            return
        made = issue(authority, declared.names, declared.days)
        written = await self._write(declared.name, declared.namespace, made, authority.certificate)
        until = not_after(made.certificate)
        expiry.labels(declared.namespace, declared.name).set(until.timestamp())
        issued.labels("issued").inc()
        log.info("certificate issued", extra={"certificate": declared.name, "reason": why, "until": until.isoformat()})
        await self._events.say(written, "Normal", "Issued", f"certificate issued until {until:%Y-%m-%d}: {why}")
        if declared.restart and pair is not None:
            await self._restart(declared)

    async def _restart(self, declared: Declared) -> None:
        kind, _, name = declared.restart.partition("/")
        annotations = {f"{PREFIX}/restarted-for": f"{declared.name} {now():%Y-%m-%dT%H:%M:%SZ}"}
        patch = {"spec": {"template": {"metadata": {"annotations": annotations}}}}
        await self._cluster.merge("apps/v1", kind, name, declared.namespace, patch)
        log.info("restarted for its new certificate", extra={"workload": declared.restart})
