"""Certificate authorities and the serving certificates they sign.

Guarantees   A serving certificate names every host it was made for, as DNS name or IP address, and carries the key
             identifiers by which a verifier tells authorities of one name apart. What does not parse is no `Pair`.
Assumptions  Time is an argument. Certificates begin an hour before they are made, since clocks differ.
Recovery     None needed: pure functions.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_LIFETIME = datetime.timedelta(days=3650)
SERVING_LIFETIME = datetime.timedelta(days=90)
_CLOCK_SKEW = datetime.timedelta(hours=1)

Time = datetime.datetime
Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
"""We make the former; a pair that somebody put into the Secret may have the latter."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and the private key it belongs to. The key is never logged."""

    certificate: x509.Certificate
    key: Key

    @property
    def certificate_pem(self) -> bytes:
        return pem(self.certificate)

    @property
    def key_pem(self) -> bytes:
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    @property
    def ends(self) -> Time:
        return self.certificate.not_valid_after_utc

    def __repr__(self) -> str:
        return f"Pair({self.certificate.subject.rfc4514_string()!r}, ends={self.ends.isoformat()})"


def pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def read_pair(certificate_pem: bytes, key_pem: bytes) -> Pair | None:
    """None when either cannot be read or the key is another certificate's."""
    try:
        certificate = x509.load_pem_x509_certificate(certificate_pem)
        key = serialization.load_pem_private_key(key_pem, password=None)
    except (ValueError, TypeError):
        return None
    if not isinstance(key, Key) or certificate.public_key() != key.public_key():
        return None
    return Pair(certificate, key)


def read_certificates(text: bytes) -> tuple[x509.Certificate, ...]:
    """Every certificate of a bundle; none when it cannot be read."""
    try:
        return tuple(x509.load_pem_x509_certificates(text))
    except ValueError:
        return ()


def new_authority(name: str, now: Time) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(name)
    builder = _builder(subject, subject, key, now, now + AUTHORITY_LIFETIME)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(authority=True), critical=True)
    return Pair(builder.sign(key, hashes.SHA256()), key)


def new_serving(authority: Pair, hosts: Sequence[str], now: Time) -> Pair:
    """A certificate for these hosts, which never outlives its authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    ends = min(now + SERVING_LIFETIME, authority.ends)
    builder = _builder(_name("webhook"), authority.certificate.subject, key, now, ends)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(authority=False), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    builder = builder.add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    builder = builder.add_extension(issuer, critical=False)
    return Pair(builder.sign(authority.key, hashes.SHA256()), key)


def hosts_of(certificate: x509.Certificate) -> frozenset[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    return frozenset(str(name.value) for name in names)


def signed_by(certificate: x509.Certificate, authorities: Iterable[x509.Certificate]) -> x509.Certificate | None:
    """The one of the authorities that signed it."""
    return next((authority for authority in authorities if _is_signer(authority, certificate)), None)


def _is_signer(authority: x509.Certificate, certificate: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _builder(subject: x509.Name, issuer: x509.Name, key: Key, now: Time, ends: Time) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(ends)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
