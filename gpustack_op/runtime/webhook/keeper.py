"""Keeps the serving certificate good and the API server's trust in it.

Guarantees   All replicas serve the pair in one Secret: of two that start at once, one creates it and the other reads
             it. The pair is renewed before it ends, and replaced when key, hosts or authority no longer match. Every
             pass compares the `caBundle` and the address in each configuration with what is served, and mends them;
             they are mended before a new pair is served, so that trust comes first. During a change of authority the
             old and the new one are trusted. A settled cluster sees no write.
Assumptions  The configurations are the operator's own. Somebody calls `wake` when the Secret or a configuration has
             changed; without that, a pass comes every `SAFETY_SECONDS`.
Recovery     A failed pass is repeated with growing delays, told once when it begins to fail and once when it works
             again; meanwhile the loaded pair is served. A conflict means that another replica was first: read again.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from gpustack_op.api.meta import KubeObject, Resource
from gpustack_op.runtime.backoff import Backoff
from gpustack_op.runtime.clock import WallClock, wall_clock
from gpustack_op.runtime.errors import NETWORK_ERRORS, ApiError, Conflict, NotFound
from gpustack_op.runtime.logging import logger
from gpustack_op.runtime.selector import Selector
from gpustack_op.runtime.webhook.certificates import signed_by
from gpustack_op.runtime.webhook.key_material import load
from gpustack_op.runtime.webhook.keyring import OVERLAP, Keyring, renewed, stored_form
from gpustack_op.runtime.webhook.objects import CONVERTED_DEFINITIONS, STORED_SECRETS, StoredSecret
from gpustack_op.runtime.webhook.registration import (
    Address,
    Registration,
    conversion_patch,
    registered,
    trusting_patch,
)

SAFETY_SECONDS = 300.0
"""Between two passes when nothing happens; events and due renewals come sooner."""

PAUSE_SECONDS = 1.0
"""Between two passes at the least, so that a quarrel with another writer stays slow."""

DEFERRED_SECONDS = 2.0
"""Before another look at a configuration that differs, but is the leader's to change: we may lead by then."""

FIRST_DELAY = 0.5
"""Seconds before a failed pass is repeated the first time."""

_ATTEMPTS = 5
"""Reads of the Secret in one pass before another replica that is always first becomes an error."""

T = TypeVar("T", bound=KubeObject)
log = logger("webhook")


class KeeperClient(Protocol):
    """What the keeper asks of a client."""

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T: ...
    async def create(self, resource: Resource[T], body: Mapping[str, Any], *, namespace: str = "") -> T: ...
    async def merge_patch(
        self, resource: Resource[T], name: str, patch: Mapping[str, Any], *, namespace: str = ""
    ) -> T: ...
    async def json_patch(self, resource: Resource[T], name: str, patch: Sequence[Mapping[str, Any]]) -> T: ...
    async def apply(self, resource: Resource[T], body: Mapping[str, Any], *, field_manager: str) -> T: ...


@dataclass(frozen=True, slots=True)
class Plan:
    """What to keep: the Secret, the configurations, and the CRDs that convert through this server."""

    namespace: str
    secret: str
    address: Address
    registrations: tuple[Registration, ...]
    conversions: tuple[str, ...] = ()
    field_manager: str = "webhook-registration"

    def watched(self) -> list[tuple[Resource[Any], Selector]]:
        """The collections whose changes should wake the keeper."""
        named: list[tuple[Resource[Any], Selector]]
        named = [(STORED_SECRETS, Selector(fields=f"metadata.name={self.secret}", namespace=self.namespace))]
        named += [(r.resource, Selector(fields=f"metadata.name={r.name}")) for r in self.registrations]
        named += [(CONVERTED_DEFINITIONS, Selector(fields=f"metadata.name={name}")) for name in self.conversions]
        return named


def always() -> bool:
    return True


class CertificateKeeper:
    def __init__(
        self,
        client: KeeperClient,
        tls: ssl.SSLContext,
        plan: Plan,
        *,
        leading: Callable[[], bool] = always,
        clock: WallClock = wall_clock,
    ) -> None:
        """`leading` tells whether this replica may decide what is registered; the others only mend `caBundle`, so that
        two versions of the program do not quarrel during an update."""
        self._client = client
        self._tls = tls
        self._plan = plan
        self._leading = leading
        self._clock = clock
        self._served: Keyring | None = None
        self._deferred = False
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Something of ours has changed: look again soon."""
        self._woken.set()

    async def prepare(self) -> None:
        """Loads a certificate, so that the server can start. Tries until it works."""
        await self._until_done(self._load_first)

    async def run(self) -> None:
        """Keeps everything good until cancelled."""
        while True:
            self._woken.clear()
            await self._until_done(self.mend)
            await asyncio.sleep(PAUSE_SECONDS)
            await self._rest()

    async def mend(self) -> None:
        """One pass."""
        keyring = await self._keyring()
        if self._served is None:
            self._serve(keyring)
        self._deferred = False
        for registration in self._plan.registrations:
            await self._register(registration, keyring.bundle)
        for definition in self._plan.conversions:
            await self._mend_conversion(definition, keyring.bundle)
        self._serve(keyring)

    async def _load_first(self) -> None:
        self._serve(await self._keyring())

    async def _until_done(self, attempt: Callable[[], Awaitable[None]]) -> None:
        backoff = Backoff(first=FIRST_DELAY)
        while True:
            try:
                await attempt()
            except (ApiError, *NETWORK_ERRORS) as error:
                if backoff.failures == 0:
                    log.error("webhook.upkeep_failing", error=str(error))
                await asyncio.sleep(backoff.next())
            else:
                if backoff.failures:
                    log.info("webhook.upkeep_works_again", attempts=backoff.failures)
                return

    async def _rest(self) -> None:
        due = (self._served.due() - self._clock()).total_seconds() if self._served else 0.0
        try:
            async with asyncio.timeout(min(max(due, 0.0), DEFERRED_SECONDS if self._deferred else SAFETY_SECONDS)):
                await self._woken.wait()
        except TimeoutError:
            return

    async def _keyring(self) -> Keyring:
        """The Secret's keyring, mended and stored where it needed mending."""
        for _ in range(_ATTEMPTS):
            secret = await self._read_secret()
            stored = _decoded(secret)
            keyring = self._wanted(stored)
            wanted = stored_form(keyring)
            if wanted == stored:
                return keyring
            if await self._store(secret, wanted):
                log.info("webhook.certificate_issued", ends=keyring.serving.ends.isoformat())
                return keyring
        raise TimeoutError(f"another writer was first {_ATTEMPTS} times in a row")

    def _wanted(self, stored: Mapping[str, bytes]) -> Keyring:
        now = self._clock()
        keyring = renewed(stored, self._plan.address.hosts, now)
        if self._served is None:
            return keyring
        # Other replicas may go on serving what this one serves until they have seen the new Secret.
        signer = signed_by(self._served.serving.certificate, self._served.trusted)
        return keyring.trusting([signer] if signer else [], now + OVERLAP)

    async def _read_secret(self) -> StoredSecret | None:
        try:
            return await self._client.get(STORED_SECRETS, self._plan.secret, self._plan.namespace)
        except NotFound:
            return None

    async def _store(self, secret: StoredSecret | None, wanted: Mapping[str, bytes]) -> bool:
        """False when another writer was first."""
        plan = self._plan
        data: dict[str, str | None] = {key: base64.b64encode(value).decode() for key, value in wanted.items()}
        try:
            if secret is None:
                metadata = {"name": plan.secret, "namespace": plan.namespace}
                body = {"metadata": metadata, "type": "Opaque", "data": data}
                await self._client.create(STORED_SECRETS, body, namespace=plan.namespace)
            else:
                data = dict.fromkeys(secret.data or {}, None) | data
                patch = {"metadata": {"resourceVersion": secret.metadata.resource_version}, "data": data}
                await self._client.merge_patch(STORED_SECRETS, plan.secret, patch, namespace=plan.namespace)
        except Conflict:
            return False
        return True

    async def _register(self, registration: Registration, bundle: bytes) -> None:
        plan = self._plan
        body = registration.body(plan.address, bundle)
        try:
            present = (await self._client.get(registration.resource, registration.name)).webhooks or ()
        except NotFound:
            present = None
        if present is not None and registered(body["webhooks"], present):
            return
        if present is None or self._leading():
            await self._client.apply(registration.resource, body, field_manager=plan.field_manager)
            log.info("webhook.registered", configuration=registration.name)
            return
        self._deferred = True
        patch = trusting_patch(registration.hook_names, present, bundle)
        if patch:
            await self._client.json_patch(registration.resource, registration.name, patch)

    async def _mend_conversion(self, definition: str, bundle: bytes) -> None:
        try:
            present = await self._client.get(CONVERTED_DEFINITIONS, definition)
        except NotFound:
            return  # its bundle is written when it appears
        patch = conversion_patch(present.spec.conversion or {}, bundle)
        if patch:
            await self._client.json_patch(CONVERTED_DEFINITIONS, definition, patch)

    def _serve(self, keyring: Keyring) -> None:
        if self._served is None or self._served.serving.certificate != keyring.serving.certificate:
            load(self._tls, keyring.serving)
            log.info("webhook.certificate_loaded", ends=keyring.serving.ends.isoformat())
        self._served = keyring


def _decoded(secret: StoredSecret | None) -> dict[str, bytes]:
    """The Secret's data; what is no base64 reads as empty, and is replaced."""
    data = secret.data if secret else None
    return {key: _bytes(value) for key, value in (data or {}).items()}


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return b""
