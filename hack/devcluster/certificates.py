"""Throw-away certificate authorities. A cluster makes its own at each start and nobody else trusts them."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey

LIFETIME = datetime.timedelta(days=365)
_CLOCK_SKEW = datetime.timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class KeyPair:
    """PEM texts of a certificate and its private key."""

    certificate: bytes
    key: bytes

    def write(self, folder: Path, name: str) -> KeyPairFiles:
        folder.mkdir(parents=True, exist_ok=True)
        files = KeyPairFiles(folder / f"{name}.crt", folder / f"{name}.key")
        files.certificate.write_bytes(self.certificate)
        write_private(files.key, self.key)
        return files


@dataclass(frozen=True, slots=True)
class KeyPairFiles:
    certificate: Path
    key: Path


def write_private(path: Path, content: bytes) -> None:
    """Only the owner can read the file, from the first byte on."""
    path.touch(mode=0o600)
    path.write_bytes(content)


class Authority:
    """Signs certificates. `name` is its subject and, for verifiers that look for one, its DNS name."""

    def __init__(self, name: str, *, key: Key | None = None) -> None:
        self._key = key or elliptic_key()
        self._subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        usage = x509.KeyUsage(
            digital_signature=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        builder = (
            _builder(self._subject, self._subject, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        )
        self.pair = _signed(builder, self._key, self._key)

    @property
    def certificate(self) -> bytes:
        return self.pair.certificate

    def server(self, *names: str) -> KeyPair:
        """For a server that is reached by these DNS names and addresses."""
        alternatives = x509.SubjectAlternativeName([_alternative(name) for name in names])
        return self._issue(names[0], [], ExtendedKeyUsageOID.SERVER_AUTH, alternatives)

    def client(self, user: str, *groups: str) -> KeyPair:
        """For a user as the API server sees one: the common name, and the groups as organizations."""
        return self._issue(user, groups, ExtendedKeyUsageOID.CLIENT_AUTH, None)

    def _issue(
        self,
        name: str,
        organizations: Sequence[str],
        usage: x509.ObjectIdentifier,
        alternatives: x509.SubjectAlternativeName | None,
    ) -> KeyPair:
        attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in organizations]
        subject = x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, name)])
        key = elliptic_key()
        builder = _builder(subject, self._subject, key).add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if alternatives is not None:
            builder = builder.add_extension(alternatives, critical=False)
        return _signed(builder, key, self._key)


def elliptic_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def rsa_key() -> rsa.RSAPrivateKey:
    """Slower to make; for readers that know no other kind."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def signing_keys() -> tuple[bytes, bytes]:
    """Private and public key (PEM) with which tokens of service accounts are signed and checked."""
    key = elliptic_key()
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return _private(key), public


def _private(key: Key) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())


def _builder(subject: x509.Name, issuer: x509.Name, key: Key) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + LIFETIME)
    )


def _signed(builder: x509.CertificateBuilder, key: Key, signer: Key) -> KeyPair:
    certificate = builder.sign(signer, hashes.SHA256())
    return KeyPair(certificate.public_bytes(Encoding.PEM), _private(key))


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
