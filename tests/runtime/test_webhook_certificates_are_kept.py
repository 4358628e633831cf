"""The keeper: replicas share one pair, trust comes before use, damage is mended, and nothing is written twice."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
import structlog

from gpustack_op.api.meta import Resource
from gpustack_op.runtime.clock import wall_clock
from gpustack_op.runtime.errors import Forbidden, InternalError
from gpustack_op.runtime.metrics import Metrics
from gpustack_op.runtime.webhook import keeper as keeper_module
from gpustack_op.runtime.webhook.keeper import CertificateKeeper, KeeperClient, Plan
from gpustack_op.runtime.webhook.keyring import renewed, stored_form
from gpustack_op.runtime.webhook.objects import (
    CONVERTED_DEFINITIONS,
    MUTATING_CONFIGURATIONS,
    STORED_SECRETS,
    VALIDATING_CONFIGURATIONS,
)
from gpustack_op.runtime.webhook.registration import ByService, ByUrl, Hook, mutating, validating
from gpustack_op.runtime.webhook.review import ALLOWED, AdmissionRequest, Verdict
from gpustack_op.runtime.webhook.server import Bind, WebhookServer, server_tls
from tests.runtime.webhook_stand import WIDGETS, Clock, MemoryApi, trusting

if TYPE_CHECKING:
    from gpustack_op.runtime.client import Client

DEFAULT_HOOK = Hook(
    "default.widgets.example.com", "/default", WIDGETS, when=(("stays", "!has(object.metadata.deletionTimestamp)"),)
)
CHECK_HOOK = Hook("check.widgets.example.com", "/check", WIDGETS, operations=("CREATE",))
SECOND_HOOK = Hook("second.widgets.example.com", "/second", WIDGETS)
PLAN = Plan(
    namespace="system",
    secret="webhook-tls",
    address=ByUrl("https://127.0.0.1:9443"),
    registrations=(
        mutating("widget-defaults", [DEFAULT_HOOK]),
        validating("widget-checks", [CHECK_HOOK]),
        validating("widget-second-checks", [SECOND_HOOK]),
    ),
    conversions=("widgets.example.com",),
)
CONFIGURATIONS = [
    (MUTATING_CONFIGURATIONS, "widget-defaults"),
    (VALIDATING_CONFIGURATIONS, "widget-checks"),
    (VALIDATING_CONFIGURATIONS, "widget-second-checks"),
]


def conforms(client: Client) -> KeeperClient:
    """The real client is what the keeper asks for; mypy checks this line."""
    return client


class Replica:
    """A keeper with the context it loads certificates into."""

    def __init__(self, api: MemoryApi, clock: Clock, **options: Any) -> None:
        self.tls = server_tls()
        self.keeper = CertificateKeeper(api, self.tls, options.pop("plan", PLAN), clock=clock, **options)

    async def presented(self) -> bytes:
        """The certificate a new connection is given, in DER."""
        writers: list[asyncio.StreamWriter] = []
        server = await asyncio.start_server(lambda _, writer: writers.append(writer), "127.0.0.1", 0, ssl=self.tls)
        unverified = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname(), ssl=unverified)
        certificate: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        for each in (writer, *writers):
            each.close()
        server.close()
        await server.wait_closed()
        return certificate


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def api() -> MemoryApi:
    api = MemoryApi()
    conversion = {"strategy": "Webhook", "webhook": {"clientConfig": {"url": "https://127.0.0.1:9443/convert"}}}
    api.put(CONVERTED_DEFINITIONS, {"metadata": {"name": "widgets.example.com"}, "spec": {"conversion": conversion}})
    api.writes.clear()
    return api


@pytest.fixture
def replica(api: MemoryApi, clock: Clock) -> Replica:
    return Replica(api, clock)


def bundles(api: MemoryApi) -> set[bytes]:
    """Every `caBundle` that is stored; all should be the same."""
    found = [w["clientConfig"]["caBundle"] for r, n in CONFIGURATIONS for w in api.objects[r.kind, n]["webhooks"]]
    definition = api.objects["CustomResourceDefinition", "widgets.example.com"]
    found.append(definition["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"])
    return {base64.b64decode(text) for text in found}


def stored(api: MemoryApi) -> dict[str, bytes]:
    return {k: base64.b64decode(v) for k, v in api.objects["Secret", "webhook-tls"]["data"].items()}


def put_secret(api: MemoryApi, content: dict[str, bytes]) -> None:
    data = {key: base64.b64encode(value).decode() for key, value in content.items()}
    api.put(STORED_SECRETS, {"metadata": {"name": "webhook-tls", "namespace": "system"}, "data": data})


def certificate(api: MemoryApi) -> bytes:
    return ssl.PEM_cert_to_DER_cert(stored(api)["tls.crt"].decode())


async def test_a_first_pass_stores_the_pair_and_registers_everything(api: MemoryApi, replica: Replica) -> None:
    await replica.keeper.mend()

    assert api.writes == [
        "create Secret webhook-tls",
        "apply MutatingWebhookConfiguration widget-defaults",
        "apply ValidatingWebhookConfiguration widget-checks",
        "apply ValidatingWebhookConfiguration widget-second-checks",
        "patch CustomResourceDefinition widgets.example.com",
    ]
    assert bundles(api) == {stored(api)["ca.crt"]}
    assert await replica.presented() == certificate(api)


async def test_a_registration_says_everything(api: MemoryApi, replica: Replica) -> None:
    await replica.keeper.mend()

    webhook = api.objects["MutatingWebhookConfiguration", "widget-defaults"]["webhooks"][0]
    bundle = webhook["clientConfig"].pop("caBundle")
    assert base64.b64decode(bundle).startswith(b"-----BEGIN CERTIFICATE-----")
    assert webhook == {
        "name": "default.widgets.example.com",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://127.0.0.1:9443/default"},
        "rules": [
            {
                "apiGroups": ["example.com"],
                "apiVersions": ["v1"],
                "resources": ["widgets"],
                "operations": ["CREATE", "UPDATE"],
                "scope": "Cluster",
            }
        ],
        "matchConditions": [{"name": "stays", "expression": "!has(object.metadata.deletionTimestamp)"}],
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "sideEffects": "None",
        "timeoutSeconds": 10,
    }


async def test_a_settled_cluster_sees_no_write(api: MemoryApi, replica: Replica) -> None:
    await replica.keeper.mend()
    for resource, name in CONFIGURATIONS:
        webhook = api.objects[resource.kind, name]["webhooks"][0]
        webhook |= {"namespaceSelector": {}, "objectSelector": {}, "reinvocationPolicy": "Never"}
    api.writes.clear()

    await replica.keeper.mend()

    assert api.writes == []


async def test_of_two_replicas_that_start_at_once_both_serve_the_stored_pair(api: MemoryApi, clock: Clock) -> None:
    one, other = Replica(api, clock), Replica(api, clock)

    await asyncio.gather(one.keeper.prepare(), other.keeper.prepare())
    await one.keeper.mend()
    restarted = Replica(api, clock)
    await restarted.keeper.mend()

    assert api.writes.count("create Secret webhook-tls") == 1
    assert await one.presented() == await other.presented() == await restarted.presented() == certificate(api)


async def test_the_loser_of_a_create_race_reads_what_the_winner_stored(
    api: MemoryApi, clock: Clock, replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    winner = Replica(api, clock)
    create = api.create

    async def beaten(*args: Any, **kwargs: Any) -> Any:
        monkeypatch.setattr(api, "create", create)
        await winner.keeper.prepare()
        return await create(*args, **kwargs)

    monkeypatch.setattr(api, "create", beaten)
    await replica.keeper.mend()

    assert await replica.presented() == await winner.presented() == certificate(api)


Damage = Callable[[dict[str, Any]], Any]


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda w: w["clientConfig"].update(caBundle="Zm9yZWlnbg=="), id="the bundle of another authority"),
        pytest.param(lambda w: w["clientConfig"].pop("caBundle"), id="no bundle"),
        pytest.param(lambda w: w["clientConfig"].update(url="https://elsewhere/check"), id="another address"),
        pytest.param(lambda w: w.update(failurePolicy="Ignore"), id="another failure policy"),
        pytest.param(lambda w: w["rules"][0]["operations"].append("DELETE"), id="another rule"),
    ],
)
@pytest.mark.parametrize(("resource", "name"), CONFIGURATIONS)
async def test_a_damaged_registration_is_mended(
    api: MemoryApi, replica: Replica, resource: Resource[Any], name: str, damage: Damage
) -> None:
    await replica.keeper.mend()
    whole = api.objects[resource.kind, name]["webhooks"]
    damaged = [{**whole[0], "clientConfig": dict(whole[0]["clientConfig"]), "rules": [dict(whole[0]["rules"][0])]}]
    damaged[0]["rules"][0]["operations"] = list(whole[0]["rules"][0]["operations"])
    damage(damaged[0])
    api.put(resource, {"metadata": {"name": name}, "webhooks": damaged})
    api.writes.clear()

    await replica.keeper.mend()

    assert api.objects[resource.kind, name]["webhooks"] == whole
    assert api.writes == [f"apply {resource.kind} {name}"]


async def test_a_deleted_registration_is_put_back(api: MemoryApi, replica: Replica) -> None:
    await replica.keeper.mend()
    del api.objects["MutatingWebhookConfiguration", "widget-defaults"]

    await replica.keeper.mend()

    assert bundles(api) == {stored(api)["ca.crt"]}


async def test_a_webhook_of_an_earlier_version_is_removed(api: MemoryApi, replica: Replica) -> None:
    await replica.keeper.mend()
    api.objects["ValidatingWebhookConfiguration", "widget-checks"]["webhooks"].append({"name": "old.example.com"})
    api.writes.clear()

    await replica.keeper.mend()

    assert api.writes == ["apply ValidatingWebhookConfiguration widget-checks"]


async def test_a_replica_that_does_not_lead_mends_trust_and_nothing_else(api: MemoryApi, clock: Clock) -> None:
    await Replica(api, clock).keeper.mend()
    webhook = api.objects["ValidatingWebhookConfiguration", "widget-checks"]["webhooks"][0]
    webhook["timeoutSeconds"] = 5
    webhook["clientConfig"]["caBundle"] = ""
    api.writes.clear()

    await Replica(api, clock, leading=lambda: False).keeper.mend()

    assert api.writes == ["patch ValidatingWebhookConfiguration widget-checks"]
    assert bundles(api) == {stored(api)["ca.crt"]}
    assert api.objects["ValidatingWebhookConfiguration", "widget-checks"]["webhooks"][0]["timeoutSeconds"] == 5


async def test_a_replica_that_comes_to_lead_registers_what_it_had_to_leave(
    api: MemoryApi, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper_module, "PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(keeper_module, "DEFERRED_SECONDS", 0.01)
    await Replica(api, clock).keeper.mend()
    api.objects["ValidatingWebhookConfiguration", "widget-checks"]["webhooks"][0]["timeoutSeconds"] = 5
    applied, apply, leads = asyncio.Event(), api.apply, iter([False, False])

    async def noting(*args: Any, **options: Any) -> Any:
        applied.set()
        return await apply(*args, **options)

    monkeypatch.setattr(api, "apply", noting)
    running = asyncio.create_task(Replica(api, clock, leading=lambda: next(leads, True)).keeper.run())
    await asyncio.wait_for(applied.wait(), 5)

    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert api.objects["ValidatingWebhookConfiguration", "widget-checks"]["webhooks"][0]["timeoutSeconds"] == 10


async def test_a_pair_that_nears_its_end_is_renewed_and_loaded(api: MemoryApi, clock: Clock, replica: Replica) -> None:
    await replica.keeper.mend()
    before = await replica.presented()
    clock.advance(days=61)

    await replica.keeper.mend()

    assert await replica.presented() == certificate(api) != before
    assert bundles(api) == {stored(api)["ca.crt"]}


async def test_a_secret_that_was_replaced_is_served_and_both_authorities_are_trusted(
    api: MemoryApi, clock: Clock, replica: Replica
) -> None:
    await replica.keeper.mend()
    old = stored(api)["ca.crt"]
    put_secret(api, stored_form(renewed({}, PLAN.address.hosts, clock())))
    new = stored(api)["ca.crt"]

    await replica.keeper.mend()

    assert await replica.presented() == certificate(api)
    assert bundles(api) == {new + old}


async def test_the_replaced_authority_loses_its_trust_after_the_overlap(
    api: MemoryApi, clock: Clock, replica: Replica
) -> None:
    await replica.keeper.mend()
    put_secret(api, stored_form(renewed({}, PLAN.address.hosts, clock())))
    await replica.keeper.mend()
    clock.advance(hours=2)

    await replica.keeper.mend()

    assert bundles(api) == {stored(api)["ca.crt"]}
    assert "previous.crt" not in stored(api)


async def test_trust_comes_before_the_new_pair_is_served(
    api: MemoryApi, clock: Clock, replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    await replica.keeper.mend()
    before = await replica.presented()
    put_secret(api, stored_form(renewed({}, PLAN.address.hosts, clock())))

    async def refuse(*_: Any, **__: Any) -> None:
        raise InternalError(500, "InternalError", "etcd is away")

    monkeypatch.setattr(api, "apply", refuse)
    with pytest.raises(InternalError):
        await replica.keeper.mend()

    assert await replica.presented() == before


async def test_a_deleted_secret_is_made_anew_without_losing_trust(api: MemoryApi, replica: Replica) -> None:
    await replica.keeper.mend()
    old = stored(api)["ca.crt"]
    del api.objects["Secret", "webhook-tls"]

    await replica.keeper.mend()

    assert bundles(api) == {stored(api)["ca.crt"] + old}
    assert await replica.presented() == certificate(api)


async def test_a_secret_of_rubbish_is_replaced(api: MemoryApi, replica: Replica) -> None:
    api.put(STORED_SECRETS, {"metadata": {"name": "webhook-tls"}, "data": {"ca.crt": "%%%", "note": "/w=="}})

    await replica.keeper.mend()

    assert sorted(stored(api)) == ["ca.crt", "ca.key", "tls.crt", "tls.key"]
    assert await replica.presented() == certificate(api)


async def test_other_hosts_get_another_certificate(api: MemoryApi, clock: Clock, replica: Replica) -> None:
    await replica.keeper.mend()
    before = stored(api)
    moved = Plan("system", "webhook-tls", ByService("operator", "system"), PLAN.registrations)

    await Replica(api, clock, plan=moved).keeper.mend()

    assert stored(api)["ca.crt"] == before["ca.crt"]
    assert stored(api)["tls.crt"] != before["tls.crt"]
    webhook = api.objects["ValidatingWebhookConfiguration", "widget-checks"]["webhooks"][0]
    assert webhook["clientConfig"]["service"] == {
        "name": "operator",
        "namespace": "system",
        "port": 443,
        "path": "/check",
    }


async def test_upkeep_goes_on_after_a_failure_and_tells_it_once(
    api: MemoryApi, replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper_module, "FIRST_DELAY", 0.001)
    api.failures = [Forbidden(403, "Forbidden", "not yet") for _ in range(3)]

    with structlog.testing.capture_logs() as logs:
        await replica.keeper.prepare()

    told = [entry["event"] for entry in logs]
    assert told.count("webhook.upkeep_failing") == 1
    assert told.count("webhook.upkeep_works_again") == 1
    assert await replica.presented() == certificate(api)


async def test_a_wake_brings_the_next_pass(api: MemoryApi, replica: Replica, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper_module, "PAUSE_SECONDS", 0.0)
    applied = asyncio.Queue[str]()
    apply = api.apply

    async def noting(resource: Resource[Any], body: Any, **options: Any) -> Any:
        applied.put_nowait(body["metadata"]["name"])
        return await apply(resource, body, **options)

    monkeypatch.setattr(api, "apply", noting)
    running = asyncio.create_task(replica.keeper.run())
    first = [await asyncio.wait_for(applied.get(), 5) for _ in CONFIGURATIONS]
    del api.objects["MutatingWebhookConfiguration", "widget-defaults"]
    replica.keeper.wake()

    assert first == ["widget-defaults", "widget-checks", "widget-second-checks"]
    assert await asyncio.wait_for(applied.get(), 5) == "widget-defaults"
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_new_connections_get_the_new_pair_while_the_server_runs(api: MemoryApi, clock: Clock) -> None:
    async def allow(request: AdmissionRequest) -> Verdict:
        return ALLOWED

    # The TLS library judges by the real time.
    clock.now = wall_clock()
    replica = Replica(api, clock)
    await replica.keeper.mend()
    server = WebhookServer(Bind("127.0.0.1", 0), replica.tls, Metrics())
    server.add_validator("/check", allow)
    await server.start()

    async def reached(bundle: bytes) -> int:
        connector = aiohttp.TCPConnector(ssl=trusting(bundle), force_close=True)
        url = f"https://127.0.0.1:{server.port}/check"
        async with aiohttp.ClientSession(connector=connector) as session, session.post(url, data=b"") as answer:
            return answer.status

    old = bundles(api).pop()
    assert await reached(old) == 400

    put_secret(api, stored_form(renewed({}, PLAN.address.hosts, clock() - timedelta(days=1))))
    await replica.keeper.mend()

    assert await reached(bundles(api).pop()) == 400
    with pytest.raises(aiohttp.ClientConnectorCertificateError):
        await reached(old)
    await server.stop()


def test_the_keeper_is_woken_by_what_it_keeps_and_nothing_else() -> None:
    assert [(resource.kind, selector.fields, selector.namespace) for resource, selector in PLAN.watched()] == [
        ("Secret", "metadata.name=webhook-tls", "system"),
        ("MutatingWebhookConfiguration", "metadata.name=widget-defaults", ""),
        ("ValidatingWebhookConfiguration", "metadata.name=widget-checks", ""),
        ("ValidatingWebhookConfiguration", "metadata.name=widget-second-checks", ""),
        ("CustomResourceDefinition", "metadata.name=widgets.example.com", ""),
    ]
