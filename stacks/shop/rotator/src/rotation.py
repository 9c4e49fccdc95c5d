"""What is rotated, and how.

Signing keys: a new one is added, and the oldest beyond those that are kept goes; both verify meanwhile,
so nobody is signed out. Logins of the database: the role gets a new password, the Secret gets it too,
and the workloads that read it at their start are restarted one after the other. Sessions that are open
stay open.
"""

import datetime
import secrets
from typing import Any

import asyncpg

from kube.client import Cluster, Object, Refused
from kube.events import Recorder
from marketlib.logs import log
from marketlib.metrics import Counter, Gauge
from secret import MANAGER, asked, paused, rotated_at, values, write

__all__ = ["Rotator"]

rotations = Counter("rotations", "Credentials rotated, or not.", ["secret", "key", "result"])
ages = Gauge("credential_age_seconds", "Time since a credential was last rotated.", ["secret", "key"])
synced = Counter("secret_syncs", "Copies of a Secret brought up to date.", ["secret", "namespace"])
WORKLOADS = ("Deployment", "StatefulSet")


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


class Rotator:
    """One pass after another over the declared credentials.

    Args:
        plan: the declarations: `keys`, `logins` and `sync`, lists of tables.
        database: URL of the database without user and password.
    """

    def __init__(self, cluster: Cluster, plan: dict[str, Any], database: str) -> None:
        self._cluster = cluster
        self._plan = plan
        self._database = database
        self._events = Recorder(cluster, MANAGER)

    async def rotate(self) -> None:
        """Rotate what is due or asked for. Raises Refused if the API is away."""
        for declared in self._plan.get("keys", []):
            if secret := await self._read(declared):
                await self._keys(declared, secret)
        for declared in self._plan.get("logins", []):
            if secret := await self._read(declared):
                await self._logins(declared, secret)

    async def sync(self) -> None:
        """Bring every copy of a Secret to what its source holds; a missing copy is made."""
        for declared in self._plan.get("sync", []):
            source = await self._read(declared)
            for namespace in declared["into"] if source else ():
                assert source
                await self._copy(source, namespace)

    async def _read(self, declared: dict[str, Any]) -> Object | None:
        secret = await self._cluster.get("v1", "Secret", declared["secret"], declared["namespace"])
        if secret is None:
            log.warning("secret is missing", extra={"secret": declared["secret"], "namespace": declared["namespace"]})
        return secret

    async def _copy(self, source: Object, namespace: str) -> None:
        name = source["metadata"]["name"]
        copy = await self._cluster.get("v1", "Secret", name, namespace)
        if copy and paused(copy):
            return
        if copy and (copy.get("data") or {}) == (source.get("data") or {}):
            return
        if copy is None:
            meta = {"name": name, "namespace": namespace, "labels": source["metadata"].get("labels") or {}}
            await self._cluster.create({
                "apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": source.get("type", "Opaque"),
                "data": source.get("data") or {},
            })  # fmt: skip
        else:
            gone = {key: None for key in copy.get("data") or {} if key not in (source.get("data") or {})}
            patch = {"data": {**(source.get("data") or {}), **gone}}
            await self._cluster.merge("v1", "Secret", name, namespace, patch)
        synced.labels(name, namespace).inc()
        log.info("secret synced", extra={"secret": name, "namespace": namespace})

    def _due(self, secret: Object, declared: dict[str, Any], key: str) -> bool:
        """Whether a credential is due, by its age or because an operator asks."""
        name = secret["metadata"]["name"]
        last = rotated_at(secret, key)
        since = last or datetime.datetime.fromisoformat(secret["metadata"]["creationTimestamp"])
        age = (_now() - since).total_seconds()
        ages.labels(name, key).set(age)
        if paused(secret):
            return False
        return bool(asked(secret) & {key, "all"}) or age > declared["days"] * 86400

    async def _keys(self, declared: dict[str, Any], secret: Object) -> None:
        name = secret["metadata"]["name"]
        if not self._due(secret, declared, ""):
            return
        has = values(secret)
        kid = f"k{_now():%Y%m%d}"
        while kid in has:
            kid = f"{kid}b" if kid[-1].isdigit() else kid[:-1] + chr(ord(kid[-1]) + 1)
        kept = sorted([*has, kid])[-declared["keep"] :]
        new: dict[str, bytes | None] = {old: None for old in has if old not in kept}
        new[kid] = secrets.token_hex(24).encode()
        await write(self._cluster, secret, new, stamp="rotated-at", done=True)
        rotations.labels(name, "", "done").inc()
        ages.labels(name, "").set(0)
        log.info("signing key rotated", extra={"secret": name, "kid": kid, "kept": kept})
        await self._events.say(secret, "Normal", "Rotated", f"{kid} signs from now on; kept: {', '.join(kept)}")

    async def _logins(self, declared: dict[str, Any], secret: Object) -> None:
        name = secret["metadata"]["name"]
        wanted = asked(secret)
        for login in declared["roles"]:
            if not self._due(secret, declared, login):
                continue
            try:
                password = await self._change(declared, values(secret), login)
            except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError) as error:
                rotations.labels(name, login, "failed").inc()
                log.error("login not rotated", extra={"login": login, "reason": f"{type(error).__name__}: {error}"})
                continue
            try:
                await write(self._cluster, secret, {login: password}, stamp=f"rotated-at.{login}")
            except Refused:
                # Nobody would know the new one.
                await self._set(declared, values(secret), login, values(secret)[login].decode())
                raise
            rotations.labels(name, login, "done").inc()
            log.info("login rotated", extra={"login": login})
            await self._events.say(secret, "Normal", "Rotated", f"the login {login} has a new password")
            await self.sync()
            await self._restart(declared, name, login)
        if wanted:
            await write(self._cluster, secret, {}, done=True)

    async def _change(self, declared: dict[str, Any], has: dict[str, bytes], login: str) -> bytes:
        """Give a role a new password in the database."""
        password = secrets.token_urlsafe(18)
        await self._set(declared, has, login, password)
        return password.encode()

    async def _set(self, declared: dict[str, Any], has: dict[str, bytes], login: str, password: str) -> None:
        admin = declared["admin"]
        connection = await asyncpg.connect(
            self._database,
            user=admin,
            password=has[admin].decode(),
            timeout=5,
            command_timeout=10,
            statement_cache_size=0,
            server_settings={"application_name": "rotator"},
        )
        try:
            statement = await connection.fetchval(
                "select format('alter role %I password %L', $1::text, $2::text)", login, password
            )
            await connection.execute(statement)
        finally:
            await connection.close(timeout=5)

    async def _restart(self, declared: dict[str, Any], secret: str, login: str) -> None:
        """Restart the workloads whose containers take the login from the Secret at their start."""
        stamp = {"kubectl.kubernetes.io/restartedAt": _now().strftime("%Y-%m-%dT%H:%M:%SZ")}
        patch = {"spec": {"template": {"metadata": {"annotations": stamp}}}}
        for namespace in declared["restart_in"]:
            for kind in WORKLOADS:
                for workload in await self._cluster.list("apps/v1", kind, namespace):
                    if not reads(workload, secret, login):
                        continue
                    name = workload["metadata"]["name"]
                    try:
                        await self._cluster.merge("apps/v1", kind, name, namespace, patch)
                    except Refused as error:
                        log.error("workload not restarted", extra={"workload": name, "reason": str(error)})
                        continue
                    log.info("workload restarted", extra={"workload": name, "login": login})


def reads(workload: Object, secret: str, key: str) -> bool:
    """Whether a container of a workload has a key of a Secret in its environment."""
    pod = workload["spec"]["template"]["spec"]
    for container in [*pod.get("initContainers", []), *pod["containers"]]:
        for entry in container.get("env") or []:
            ref = (entry.get("valueFrom") or {}).get("secretKeyRef") or {}
            if (ref.get("name"), ref.get("key")) == (secret, key):
                return True
    return False
