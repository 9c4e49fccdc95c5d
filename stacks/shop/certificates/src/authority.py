"""X.509: the company's internal authority, certificates issued by it, and whether one is still good."""

import datetime
from dataclasses import dataclass

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

__all__ = ["Pair", "issue", "new_authority", "not_after", "why_renew"]

# Clocks differ: what was issued now holds since a little before.
BACKDATE = datetime.timedelta(minutes=5)


@dataclass(frozen=True)
class Pair:
    """A certificate and its private key, as PEM."""

    certificate: bytes
    key: bytes


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _name(common: str) -> x509.Name:
    return x509.Name([
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Market"),
        x509.NameAttribute(NameOID.COMMON_NAME, common),
    ])  # fmt: skip


def new_authority(name: str, days: float) -> Pair:
    """A self-signed authority that may issue for servers and clients, and make no further authorities."""
    key = ec.generate_private_key(ec.SECP256R1())
    begin = now()
    usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(_name(name))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin - BACKDATE)
        .not_valid_after(begin + datetime.timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Pair(certificate.public_bytes(serialization.Encoding.PEM), _pem(key))


def issue(authority: Pair, names: list[str], days: float) -> Pair:
    """A certificate for DNS names, the first of which is its common name too.

    It never outlives its authority.
    """
    above = x509.load_pem_x509_certificate(authority.certificate)
    signer = serialization.load_pem_private_key(authority.key, None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    begin = now()
    usage = x509.KeyUsage(True, False, False, False, False, False, False, False, False)
    purposes = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(_name(names[0]))
        .issuer_name(above.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin - BACKDATE)
        .not_valid_after(min(begin + datetime.timedelta(days=days), above.not_valid_after_utc))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .sign(signer, hashes.SHA256())
    )
    return Pair(certificate.public_bytes(serialization.Encoding.PEM), _pem(key))


def not_after(certificate: bytes) -> datetime.datetime:
    """When a certificate ends. Raises ValueError if it is none."""
    return x509.load_pem_x509_certificate(certificate).not_valid_after_utc


def why_renew(pair: Pair, authority: Pair, names: list[str], renew_before_days: float) -> str:
    """Why a certificate has to be issued anew, in words; empty if it is good."""
    try:
        has = x509.load_pem_x509_certificate(pair.certificate)
        key = serialization.load_pem_private_key(pair.key, None)
    except (ValueError, TypeError):
        return "it cannot be read"
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != has.public_key():
        return "its key is another's"
    above = x509.load_pem_x509_certificate(authority.certificate)
    try:
        has.verify_directly_issued_by(above)
    except (ValueError, TypeError, InvalidSignature):
        return "the authority is another"
    try:
        alternatives = has.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        covers = set(alternatives.get_values_for_type(x509.DNSName))
    except x509.ExtensionNotFound:
        covers = set()
    if covers != set(names):
        return "its names have changed"
    left = has.not_valid_after_utc - now()
    if left < datetime.timedelta(days=renew_before_days):
        return f"it ends in {left.total_seconds() / 86400:.1f} days"
    return ""
