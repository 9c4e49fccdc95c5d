"""Certificates of a cluster: one authority and a service-account key that live as long as its
state does, and leaves that are issued again at each start for the addresses of that start.

A restored cluster keeps the authority, because objects in etcd carry it (the root CA of every
namespace), and gets new leaves, because its addresses are new.
"""

import datetime
import ipaddress
from collections.abc import Iterable
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

__all__ = ["Authority"]

YEARS = datetime.timedelta(days=3650)
Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


def _pem(key: Key) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _write(path: Path, data: bytes, mode: int = 0o600) -> None:
    path.touch(mode=mode)
    path.write_bytes(data)


def _name(common: str, organization: str = "") -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization)] if organization else []
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, common)])


class Authority:
    """The certificate authority in a folder: `ca.crt`, `ca.key`, `sa.key`, `sa.pub`.

    Args:
        folder: where they are; made on first use.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        if not (folder / "ca.key").exists():
            self._make()
        self._cert = x509.load_pem_x509_certificate((folder / "ca.crt").read_bytes())
        key = serialization.load_pem_private_key((folder / "ca.key").read_bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        self._key = key

    def _make(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name("kubernetes")
        cert = (
            self._builder(name, name, key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(x509.KeyUsage(True, False, True, False, False, True, False, False, False), critical=True)
            .sign(key, hashes.SHA256())
        )
        account = rsa.generate_private_key(65537, 2048)
        public = account.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        _write(self.folder / "sa.key", _pem(account))
        _write(self.folder / "sa.pub", public)
        _write(self.folder / "ca.crt", cert.public_bytes(serialization.Encoding.PEM), 0o644)
        _write(self.folder / "ca.key", _pem(key))

    @staticmethod
    def _builder(subject: x509.Name, issuer: x509.Name, key: Key) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + YEARS)
        )

    def issue(
        self,
        file: Path,
        common: str,
        *,
        organization: str = "",
        names: Iterable[str] = (),
        addresses: Iterable[str] = (),
    ) -> None:
        """Write `file`.crt and `file`.key for client and server use.

        Args:
            common: common name: the user, for a client.
            organization: the group, for a client.
            names: DNS names of a server.
            addresses: its IP addresses.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            self._builder(_name(common, organization), self._cert.subject, key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
                critical=False,
            )
        )
        alternatives: list[x509.GeneralName] = [x509.DNSName(n) for n in names]
        alternatives += [x509.IPAddress(ipaddress.ip_address(a)) for a in addresses]
        if alternatives:
            builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        cert = builder.sign(self._key, hashes.SHA256())
        file.parent.mkdir(parents=True, exist_ok=True)
        _write(file.with_name(file.name + ".crt"), cert.public_bytes(serialization.Encoding.PEM), 0o644)
        _write(file.with_name(file.name + ".key"), _pem(key))
