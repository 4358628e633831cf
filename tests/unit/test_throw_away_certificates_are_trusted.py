"""Certificates of a development cluster, checked the way their readers check them."""

from __future__ import annotations

import base64
import datetime
import json
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import NameOID

from devcluster.certificates import Authority, rsa_key
from devcluster.kubeconfig import write_kubeconfig


def read(pem: bytes) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pem)


@pytest.mark.parametrize("name", ["127.0.0.1", "kueue-webhook-service.kueue-system.svc"])
def test_a_server_is_verified_by_every_name_it_has(name: str) -> None:
    authority = Authority("an-authority")
    server = read(authority.server("kueue-webhook-service.kueue-system.svc", "127.0.0.1").certificate)
    alternatives = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    names = [str(each.value) for each in alternatives]
    assert name in names
    server.verify_directly_issued_by(read(authority.certificate))


def test_a_user_carries_name_and_groups() -> None:
    subject = read(Authority("an-authority").client("admin", "system:masters", "others").certificate).subject
    assert [each.value for each in subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == ["admin"]
    assert [each.value for each in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)] == [
        "system:masters",
        "others",
    ]


def test_a_user_of_another_authority_is_not_ours() -> None:
    ours, other = Authority("an-authority"), Authority("an-authority")
    stranger = read(other.client("admin").certificate)
    stranger.verify_directly_issued_by(read(other.certificate))
    with pytest.raises(InvalidSignature):
        stranger.verify_directly_issued_by(read(ours.certificate))


def test_certificates_outlive_any_test_run() -> None:
    certificate = read(Authority("an-authority").server("127.0.0.1").certificate)
    in_a_quarter = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=100)
    assert certificate.not_valid_before_utc < datetime.datetime.now(datetime.UTC)
    assert in_a_quarter < certificate.not_valid_after_utc


def test_an_rsa_authority_signs_as_well() -> None:
    authority = Authority("kueue-ca", key=rsa_key())
    assert authority.pair.key.startswith(b"-----BEGIN RSA PRIVATE KEY-----")
    read(authority.server("a").certificate).verify_directly_issued_by(read(authority.certificate))


def test_a_kubeconfig_holds_all_it_needs_and_is_private(tmp_path: Path) -> None:
    authority = Authority("an-authority")
    path = write_kubeconfig(
        tmp_path / "folder" / "kubeconfig",
        cluster="y",
        server="https://127.0.0.1:1",
        authority=authority.certificate,
        user="admin",
        pair=authority.client("admin"),
    )
    content = json.loads(path.read_text())
    user = content["users"][0]["user"]
    assert path.stat().st_mode & 0o077 == 0
    assert content["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:1"
    assert base64.b64decode(content["clusters"][0]["cluster"]["certificate-authority-data"]) == authority.certificate
    assert load_pem_private_key(base64.b64decode(user["client-key-data"]), None) is not None
