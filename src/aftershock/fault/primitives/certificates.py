"""Certificates in Secrets that are expired, name somebody else, or were signed by somebody else.

They are real: the same subject and names as before but for what is wrong, signed by the authority's key where
the cluster keeps it. Who has loaded the old one goes on with it until it reads the new one: name its workloads
in `restart`, or leave the fault latent until somebody restarts them.
"""

import base64
import datetime
import ipaddress
from collections.abc import Mapping
from typing import Any, Literal

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import NameOID
from pydantic import Field, model_validator

from aftershock.base.errors import ClusterError
from aftershock.base.wait import NotYet
from aftershock.cluster.api import Object, rollout_state
from aftershock.fault.base import Primitive, Ref, primitive
from aftershock.fault.scene import Scene, split_ref

State = Literal["expired", "not_yet_valid", "wrong_name", "other_authority", "renewed"]
Signer = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey
TERM = datetime.timedelta(days=90)
DAY = datetime.timedelta(days=1)


def validity(
    state: State, now: datetime.datetime, by: datetime.timedelta
) -> tuple[datetime.datetime, datetime.datetime]:
    """From when to when a certificate of that state is valid; `by` is how far it is off."""
    if state == "expired":
        return now - by - TERM, now - by
    if state == "not_yet_valid":
        return now + by, now + by + TERM
    return now - DAY, now - DAY + TERM


def names_of(certificate: x509.Certificate) -> list[str]:
    """The names and addresses that a certificate is for."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [str(name.value) for name in found]


def issue(
    old: x509.Certificate,
    state: State,
    by: datetime.timedelta,
    names: list[str],
    issuer: tuple[x509.Name, Signer] | None,
) -> tuple[bytes, bytes]:
    """A certificate in place of another one, and its key, in PEM; signed by itself where there is no issuer."""
    key = ec.generate_private_key(ec.SECP256R1())
    begin, end = validity(state, datetime.datetime.now(datetime.UTC), by)
    subject = old.subject
    if state == "wrong_name" and subject.get_attributes_for_oid(NameOID.COMMON_NAME):
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
    name, signer = issuer if issuer else (subject, key)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(end)
        .add_extension(x509.SubjectAlternativeName([_general(one) for one in names]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )
    for extension in old.extensions:
        if isinstance(extension.value, x509.BasicConstraints | x509.KeyUsage | x509.ExtendedKeyUsage):
            builder = builder.add_extension(extension.value, critical=extension.critical)
    algorithm = None if isinstance(signer, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    made = builder.sign(signer, algorithm)
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return made.public_bytes(serialization.Encoding.PEM), secret


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def new_authority(subject: x509.Name) -> tuple[x509.Name, Signer]:
    """An authority of the same name as another one, with a key of its own."""
    return subject, ec.generate_private_key(ec.SECP256R1())


@primitive("certificate")
class CertificateFault(Primitive):
    """Replace the certificate of a TLS Secret by one that is expired, not valid yet, for other `names`, of another
    authority, or simply renewed (with another key).

    `authority`: the Secret with the signing key; without it the certificate must have signed itself.
    `restart`: workloads that are to take it up at once.
    """

    secret: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]*$")
    state: State
    names: list[str] = Field(default_factory=list)
    days: float = Field(default=1.0, gt=0, le=3650, description="how long ago it expired, or until it is valid")
    authority: str = ""
    certificate: str = "tls.crt"
    key: str = "tls.key"
    restart: list[Ref] = Field(default_factory=list)
    namespace: str | None = None

    @model_validator(mode="after")
    def _named(self) -> "CertificateFault":
        if (self.state == "wrong_name") != bool(self.names):
            raise ValueError("`names` goes with the state wrong_name, and is needed there")
        return self

    def touches(self) -> frozenset[str]:
        return frozenset({f"Secret/{self.secret}", *self.restart})

    async def run(self, scene: Scene) -> dict[str, Any]:
        space = self.namespace or scene.namespace
        secret = await scene.api.get("Secret", self.secret, space)
        if secret is None or self.certificate not in secret.get("data", {}):
            raise ClusterError(f"Secret/{self.secret} holds no {self.certificate}", where=space)
        old = x509.load_pem_x509_certificate(base64.b64decode(secret["data"][self.certificate]))
        issuer = await self._issuer(scene, old, space)
        by = datetime.timedelta(days=self.days)
        made, key = issue(old, self.state, by, self.names or names_of(old), issuer)
        data = {self.certificate: base64.b64encode(made).decode(), self.key: base64.b64encode(key).decode()}
        await scene.tool("kubectl-create").patch("Secret", self.secret, space, {"data": data}, how="merge")
        for ref in self.restart:
            await restart(scene, ref, space)
        fingerprint = x509.load_pem_x509_certificate(made).fingerprint(hashes.SHA256()).hex()
        kept = f"{space}/Secret/{self.secret} before {fingerprint}"  # a key does not belong into a record
        scene.kept[kept] = secret
        return {"secret": self.secret, "fingerprint": fingerprint, "space": space, "before": kept}

    async def _issuer(self, scene: Scene, old: x509.Certificate, space: str) -> tuple[x509.Name, Signer] | None:
        if self.state == "other_authority":
            return new_authority(old.issuer)
        if not self.authority:
            if old.issuer != old.subject:
                raise ClusterError(
                    f"the certificate in Secret/{self.secret} was signed by {old.issuer.rfc4514_string()}",
                    where=self.where,
                    todo="name the Secret with that key as `authority`",
                )
            return None
        found = (await scene.api.get("Secret", self.authority, space) or {}).get("data", {})
        if self.key not in found or self.certificate not in found:
            raise ClusterError(f"Secret/{self.authority} holds no authority", where=space)
        signer = serialization.load_pem_private_key(base64.b64decode(found[self.key]), None)
        if not isinstance(signer, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey):
            raise ClusterError(f"the key in Secret/{self.authority} is of a kind that is not known here", where=space)
        return x509.load_pem_x509_certificate(base64.b64decode(found[self.certificate])).subject, signer

    async def landed(self, scene: Scene, done: Mapping[str, Any]) -> None:
        secret = await scene.api.get("Secret", self.secret, done["space"])
        now = x509.load_pem_x509_certificate(base64.b64decode((secret or {})["data"][self.certificate]))
        if now.fingerprint(hashes.SHA256()).hex() != done["fingerprint"]:
            raise NotYet(f"Secret/{self.secret} holds another certificate")
        for ref in self.restart:
            if why := rollout_state(await scene.get(ref, done["space"])):
                raise NotYet(f"{ref}: {why}")

    async def undo(self, scene: Scene, done: Mapping[str, Any]) -> None:
        before = scene.kept[done["before"]]["data"]
        data = {key: before.get(key) for key in (self.certificate, self.key)}
        await scene.tool("kubectl-create").patch("Secret", self.secret, done["space"], {"data": data}, how="merge")
        for ref in self.restart:
            await restart(scene, ref, done["space"])


async def restart(scene: Scene, ref: str, namespace: str) -> Object:
    """As `kubectl rollout restart` does it."""
    kind, name = split_ref(ref)
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    note = {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": now}}}
    api = scene.tool("kubectl-rollout")
    return await api.patch(kind, name, namespace, {"spec": {"template": note}}, how="strategic")
