"""The on-call's own credentials on a cluster that is not ours.

Asked for as anybody would: a certificate signing request for the user `oncall`, approved with the
rights of the kubeconfig that we were given. The cluster's own RBAC then says what that user may do.
"""

import base64
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from aftershock.base.errors import ClusterError
from aftershock.base.wait import NotYet, until
from aftershock.cluster.api import Api, Object

__all__ = ["oncall_kubeconfig"]

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
USER = "oncall"
HOURS = 12


async def oncall_kubeconfig(api: Api, target: Path) -> Path:
    """Write a kubeconfig of the user `oncall` for the cluster that `api` talks to.

    Raises:
        ClusterError: the cluster does not sign client certificates for us.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, USER)])
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    pem = request.public_bytes(serialization.Encoding.PEM)
    body: Object = {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"generateName": f"{USER}-"},
        "spec": {
            "request": base64.b64encode(pem).decode(),
            "signerName": "kubernetes.io/kube-apiserver-client",
            "expirationSeconds": HOURS * 3600,
            "usages": ["client auth"],
        },
    }
    made = (await api.request("POST", REQUESTS, body=body)).json()
    if "name" not in made.get("metadata", {}):
        raise ClusterError(
            f"no certificate for the user {USER}: {made.get('message', made)}",
            where=str(api.kubeconfig),
            todo="use a kubeconfig that may create and approve certificate signing requests",
        )
    name = made["metadata"]["name"]
    made["status"] = {
        "conditions": [{"type": "Approved", "status": "True", "reason": "Requested", "message": "by the operator"}]
    }
    await api.request("PUT", f"{REQUESTS}/{name}/approval", body=made)
    try:
        certificate = await _issued(api, name)
    finally:
        await api.request("DELETE", f"{REQUESTS}/{name}")
    given = yaml.safe_load(api.kubeconfig.read_text())
    context = next(c["context"] for c in given["contexts"] if c["name"] == (api.context or given["current-context"]))
    cluster = next(c for c in given["clusters"] if c["name"] == context["cluster"])
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [cluster],
        "users": [
            {
                "name": USER,
                "user": {
                    "client-certificate-data": certificate,
                    "client-key-data": base64.b64encode(private).decode(),
                },
            }
        ],
        "contexts": [{"name": USER, "context": {"cluster": cluster["name"], "user": USER}}],
        "current-context": USER,
    }
    target.touch(mode=0o600)
    target.write_text(yaml.safe_dump(document))
    return target


async def _issued(api: Api, name: str) -> str:
    async def probe() -> str:
        found = (await api.request("GET", f"{REQUESTS}/{name}")).json()
        if not (certificate := found.get("status", {}).get("certificate")):
            raise NotYet("the request is not signed")
        return str(certificate)

    return await until(probe, what=f"a certificate for the user {USER}", seconds=30, every=0.2)
