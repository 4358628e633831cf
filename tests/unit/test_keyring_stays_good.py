"""The shared certificates: kept while good, renewed before they end, replaced when they no longer match."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from gpustack_op.runtime.webhook.certificates import hosts_of, new_authority, new_serving, signed_by
from gpustack_op.runtime.webhook.keyring import Keyring, renewed, stored_form
from gpustack_op.runtime.webhook.registration import ByService, ByUrl
from tests.runtime.webhook_stand import NOW

HOSTS = ["operator.system.svc", "10.0.0.7"]
FIRST = renewed({}, HOSTS, NOW)
STORED = stored_form(FIRST)
OTHER = stored_form(renewed({}, HOSTS, NOW))


def later(**passed: float) -> Keyring:
    return renewed(STORED, HOSTS, NOW + timedelta(**passed))


def verified(keyring: Keyring) -> bool:
    return signed_by(keyring.serving.certificate, keyring.trusted) is not None


def test_a_first_keyring_names_the_hosts_and_verifies() -> None:
    assert hosts_of(FIRST.serving.certificate) == {"operator.system.svc", "10.0.0.7"}
    assert verified(FIRST)


def test_a_good_keyring_is_kept_to_the_byte() -> None:
    assert stored_form(later(days=59)) == STORED


def test_a_serving_certificate_is_renewed_a_third_of_its_life_before_it_ends() -> None:
    keyring = later(days=61)

    assert keyring.serving.certificate != FIRST.serving.certificate
    assert keyring.authority.certificate == FIRST.authority.certificate
    assert verified(keyring)


def test_the_due_time_is_when_the_next_renewal_begins() -> None:
    assert FIRST.due() == NOW + timedelta(days=60)


def test_the_next_authority_is_trusted_before_it_signs() -> None:
    near = stored_form(renewed(STORED, HOSTS, NOW + timedelta(days=3270)))

    keyring = renewed(near, HOSTS, NOW + timedelta(days=3290))

    assert keyring.authority.certificate != FIRST.authority.certificate
    assert keyring.previous == (FIRST.authority.certificate,)
    assert stored_form(keyring)["tls.crt"] == near["tls.crt"]
    assert verified(keyring)


def test_the_old_authority_is_trusted_until_its_last_certificate_is_replaced_everywhere() -> None:
    near = stored_form(renewed(STORED, HOSTS, NOW + timedelta(days=3270)))
    changing = stored_form(renewed(near, HOSTS, NOW + timedelta(days=3290)))

    switched = renewed(changing, HOSTS, NOW + timedelta(days=3331))
    settled = renewed(stored_form(switched), HOSTS, NOW + timedelta(days=3361))

    assert signed_by(switched.serving.certificate, [switched.authority.certificate]) is not None
    assert FIRST.authority.certificate in switched.trusted
    assert FIRST.authority.certificate not in settled.trusted


def test_an_ended_authority_is_replaced_at_once() -> None:
    keyring = later(days=4000)

    assert keyring.authority.certificate != FIRST.authority.certificate
    assert keyring.trusted == (keyring.authority.certificate,)
    assert verified(keyring)


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param({}, id="nothing stored"),
        pytest.param({"ca.key": OTHER["ca.key"]}, id="the key of another authority"),
        pytest.param({"ca.crt": b"no PEM"}, id="an unreadable authority"),
        pytest.param({"ca.key": b"\xff\x00"}, id="an unreadable key"),
        pytest.param({"tls.key": OTHER["tls.key"]}, id="the key of another certificate"),
        pytest.param({"tls.crt": OTHER["tls.crt"], "tls.key": OTHER["tls.key"]}, id="signed by another authority"),
        pytest.param({"tls.crt": b""}, id="an empty certificate"),
        pytest.param({"ca.crt": OTHER["ca.crt"], "ca.key": OTHER["ca.key"]}, id="an authority that did not sign"),
        pytest.param({"previous.crt": b"?", "previous-until": b"soon"}, id="unreadable earlier authorities"),
    ],
)
def test_what_no_longer_matches_is_replaced(broken: dict[str, bytes]) -> None:
    keyring = renewed(STORED | broken if broken else {}, HOSTS, NOW)

    assert verified(keyring)
    assert keyring.serving.key.public_key() == keyring.serving.certificate.public_key()
    assert stored_form(renewed(stored_form(keyring), HOSTS, NOW)) == stored_form(keyring)


def test_an_authority_whose_key_is_lost_stays_trusted_for_the_overlap() -> None:
    keyring = renewed(STORED | {"ca.key": b""}, HOSTS, NOW)

    assert FIRST.authority.certificate in keyring.trusted
    assert FIRST.authority.certificate not in renewed(stored_form(keyring), HOSTS, NOW + timedelta(hours=2)).trusted


def test_another_host_needs_another_certificate_of_the_same_authority() -> None:
    keyring = renewed(STORED, ["elsewhere"], NOW)

    assert hosts_of(keyring.serving.certificate) == {"elsewhere"}
    assert keyring.authority.certificate == FIRST.authority.certificate


def test_a_certificate_of_an_earlier_authority_that_is_still_trusted_is_good() -> None:
    next_authority = replace(FIRST, authority=new_authority("next", NOW))
    changing = next_authority.trusting([FIRST.authority.certificate], NOW + timedelta(days=1))

    assert stored_form(renewed(stored_form(changing), HOSTS, NOW)) == stored_form(changing)


def test_a_serving_certificate_never_outlives_its_authority() -> None:
    late = FIRST.authority.ends - timedelta(days=2)

    assert new_serving(FIRST.authority, HOSTS, late).ends == FIRST.authority.ends


def test_no_private_key_is_shown() -> None:
    assert "PRIVATE" not in repr(FIRST)
    assert repr(FIRST.authority) == "Pair('CN=webhook-ca', ends=2036-02-27T12:00:00+00:00)"


def test_a_service_is_reached_under_its_dns_names() -> None:
    address = ByService("operator", "system")

    assert address.hosts == ("operator.system.svc", "operator.system.svc.cluster.local", "operator.system", "operator")
    assert address.client_config("/x") == {
        "service": {"name": "operator", "namespace": "system", "port": 443, "path": "/x"}
    }


@pytest.mark.parametrize(
    ("url", "host", "called"),
    [
        pytest.param("https://10.0.0.7:9443", "10.0.0.7", "https://10.0.0.7:9443/x", id="an address"),
        pytest.param("https://[FD00:0::1]:9443/", "fd00::1", "https://[FD00:0::1]:9443/x", id="an IPv6 address"),
        pytest.param("https://dev.example.com", "dev.example.com", "https://dev.example.com/x", id="a name"),
    ],
)
def test_a_url_is_reached_under_its_host(url: str, host: str, called: str) -> None:
    assert ByUrl(url).hosts == (host,)
    assert ByUrl(url).client_config("/x") == {"url": called}


@pytest.mark.parametrize("url", ["http://host:1", "host:9443", "https://", "https://host?x=1", "https://user@host"])
def test_a_url_the_api_server_would_refuse_is_refused_at_once(url: str) -> None:
    with pytest.raises(ValueError, match="must be https://host:port"):
        ByUrl(url)
