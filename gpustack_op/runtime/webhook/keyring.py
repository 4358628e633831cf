"""What the replicas share: the authority, the serving pair it signed, and the authorities trusted besides.

Guarantees   `renewed` returns a keyring in which everything matches and nothing is about to end, and the very same one
             when nothing had to change. While the authority changes, the old one stays trusted as long as anybody may
             still serve a certificate of it.
Assumptions  Replicas may hold different generations of the Secret for a moment, never for longer than `OVERLAP`.
Recovery     Whatever cannot be read, does not match or has ended is made anew; what is still good is kept.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cryptography import x509

from gpustack_op.runtime.webhook.certificates import (
    AUTHORITY_LIFETIME,
    SERVING_LIFETIME,
    Pair,
    Time,
    hosts_of,
    new_authority,
    new_serving,
    pem,
    read_certificates,
    read_pair,
    signed_by,
)

OVERLAP = datetime.timedelta(hours=1)
"""How long an authority stays trusted after the last certificate of it was replaced in the Secret."""

AUTHORITY_MARGIN = AUTHORITY_LIFETIME / 10
"""An authority is followed by the next one this long before it ends; far longer than a serving certificate lives, so
that the next one is trusted everywhere before anything is signed by it."""

SERVING_MARGIN = SERVING_LIFETIME / 3
"""A serving certificate is renewed this long before it ends."""

AUTHORITY_NAME = "webhook-ca"


@dataclass(frozen=True, slots=True)
class Keyring:
    """`previous` are trusted until `previous_until`; both go together."""

    authority: Pair
    serving: Pair
    previous: tuple[x509.Certificate, ...] = ()
    previous_until: Time | None = None

    @property
    def trusted(self) -> tuple[x509.Certificate, ...]:
        return (self.authority.certificate, *self.previous)

    @property
    def bundle(self) -> bytes:
        """What a client must trust: the `caBundle`, as PEM."""
        return b"".join(map(pem, self.trusted))

    @property
    def chain(self) -> bytes:
        """What the server presents."""
        return self.serving.certificate_pem

    def due(self) -> Time:
        """When it wants to be looked at again."""
        times = [self.authority.ends - AUTHORITY_MARGIN, self.serving.ends - SERVING_MARGIN]
        return min(times + ([self.previous_until] if self.previous_until else []))

    def trusting(self, authorities: Sequence[x509.Certificate], until: Time) -> Keyring:
        """With these authorities trusted as well, at least until then."""
        added = tuple(authority for authority in authorities if authority not in self.trusted)
        if not added:
            return self
        latest = max(until, self.previous_until or until)
        return replace(self, previous=(*self.previous, *added), previous_until=latest)


def renewed(stored: Mapping[str, bytes], hosts: Sequence[str], now: Time) -> Keyring:
    """The keyring of a Secret's data, mended where needed."""
    authority = read_pair(stored.get("ca.crt", b""), stored.get("ca.key", b""))
    stale = tuple(a for a in read_certificates(stored.get("ca.crt", b"")) if a.not_valid_after_utc > now)
    if authority is None or not _lasts(authority, now, datetime.timedelta()):
        return _begun(hosts, now).trusting(stale, now + OVERLAP)
    serving = read_pair(stored.get("tls.crt", b""), stored.get("tls.key", b""))
    previous, until = _previous(stored, now)
    if serving is None or not _serves(serving, (authority.certificate, *previous), hosts, now):
        serving = new_serving(authority, hosts, now)
    keyring = Keyring(authority, serving, previous, until)
    return keyring if _lasts(authority, now, AUTHORITY_MARGIN) else _succeeded(keyring, now)


def stored_form(keyring: Keyring) -> dict[str, bytes]:
    """The Secret's data."""
    stored = {
        "ca.crt": keyring.authority.certificate_pem,
        "ca.key": keyring.authority.key_pem,
        "tls.crt": keyring.serving.certificate_pem,
        "tls.key": keyring.serving.key_pem,
    }
    if keyring.previous and keyring.previous_until:
        stored["previous.crt"] = b"".join(map(pem, keyring.previous))
        stored["previous-until"] = keyring.previous_until.isoformat().encode()
    return stored


def _begun(hosts: Sequence[str], now: Time) -> Keyring:
    authority = new_authority(AUTHORITY_NAME, now)
    return Keyring(authority, new_serving(authority, hosts, now))


def _succeeded(keyring: Keyring, now: Time) -> Keyring:
    """The next authority is trusted from now on and signs from the next serving certificate on."""
    until = keyring.serving.ends + OVERLAP
    following = replace(keyring, authority=new_authority(AUTHORITY_NAME, now))
    return following.trusting((keyring.authority.certificate,), until)


def _serves(serving: Pair, trusted: Sequence[x509.Certificate], hosts: Sequence[str], now: Time) -> bool:
    certificate = serving.certificate
    return (
        _lasts(serving, now, SERVING_MARGIN)
        and hosts_of(certificate) >= set(hosts)
        and signed_by(certificate, trusted) is not None
    )


def _lasts(pair: Pair, now: Time, margin: datetime.timedelta) -> bool:
    return pair.certificate.not_valid_before_utc <= now < pair.ends - margin


def _previous(stored: Mapping[str, bytes], now: Time) -> tuple[tuple[x509.Certificate, ...], Time | None]:
    try:
        until = datetime.datetime.fromisoformat(stored.get("previous-until", b"").decode())
        ended = until <= now
    except (ValueError, TypeError):
        return (), None
    previous = read_certificates(stored.get("previous.crt", b""))
    return ((), None) if ended or not previous else (previous, until)
