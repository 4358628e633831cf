"""The webhooks registered with a real API server, by URL: what a person's kubectl would be told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import msgspec
import pytest

from devcluster.cluster import Scope
from devcluster.handle import RunningCluster, running
from gpustack_op.api.worker import INSTANCE_TYPE_FLAVORS, INSTANCE_TYPES, SETTINGS
from gpustack_op.operator.informers import Informers
from gpustack_op.operator.webhooks import hooks
from gpustack_op.operator.webhooks.fronting import Fronting
from gpustack_op.operator.webhooks.identity import OwnIdentity
from gpustack_op.operator.workload_fit import FitPin
from gpustack_op.runtime.client import Client
from gpustack_op.runtime.errors import Forbidden, InternalError, Invalid, NotFound
from gpustack_op.runtime.metrics import Metrics
from gpustack_op.runtime.webhook.keeper import CertificateKeeper, Plan
from gpustack_op.runtime.webhook.objects import MUTATING_CONFIGURATIONS, STORED_SECRETS
from gpustack_op.runtime.webhook.registration import ByUrl, registered
from gpustack_op.runtime.webhook.server import Bind, WebhookServer, server_tls
from tests.runtime.catalog_caches import CatalogCaches

NAMESPACE = "gpustack-system"
TYPES = "/apis/worker.gpustack.ai/v1/instancetypes"
A10G: dict[str, Any] = {
    "acceleratable": True,
    "acceleratorGroup": "nvidia-a10g",
    "os": "linux",
    "arch": "amd64",
    "unitResources": {"cpu": "12", "ram": "128Gi"},
    "localStorage": "200Gi",
}


class Stranger:
    """A client by which the operator is told that it is somebody else than the administrator of this test."""

    async def raw(self, method: str, path: str, *, body: bytes | None = None) -> bytes:
        return b'{"status": {"userInfo": {"username": "the-operator"}}}'


@dataclass
class Operator:
    """The webhook part of an operator, and an administrator's client."""

    client: Client
    keeper: CertificateKeeper
    server: WebhookServer

    async def create(self, name: str, spec: Any) -> Any:
        """What is stored of a new type, as plain JSON."""
        body = {"apiVersion": INSTANCE_TYPES.api_version, "kind": "InstanceType", "metadata": {"name": name}}
        answer = await self.client.raw("POST", TYPES, body=msgspec.json.encode(body | {"spec": spec}))
        return msgspec.json.decode(answer)


@pytest.fixture(scope="module")
def cluster() -> Iterator[RunningCluster]:
    with running("webhooks-test", scope=Scope.CONTROL_PLANE, say=print) as up:
        yield up


@pytest.fixture
async def operator(cluster: RunningCluster) -> AsyncIterator[Operator]:
    tls, caches = server_tls(), CatalogCaches.unread()
    await caches.read()
    async with Client(cluster.administrator) as client:
        server = WebhookServer(Bind("127.0.0.1", 0), tls, Metrics())
        informers = cast(Informers, caches)
        identity, fronting = OwnIdentity(Stranger(), NAMESPACE), Fronting(informers, client)
        fit = FitPin(informers, cast(Any, None))
        hooks.install(server, informers, identity, fronting, fit, namespace=NAMESPACE)
        await server.start()
        address = ByUrl(f"https://127.0.0.1:{server.port}")
        plan = Plan(NAMESPACE, hooks.STORED_PAIR, address, hooks.registrations(NAMESPACE))
        keeper = CertificateKeeper(client, tls, plan)
        await keeper.mend()
        started = Operator(client, keeper, server)
        await eventually(lambda: answers(started))
        yield started
        await server.stop()


async def answers(operator: Operator) -> bool:
    """Whether the API server has come to know the registrations: it asks us, and trusts us."""
    probe = {"metadata": {"generateName": "probe-"}, "spec": A10G}
    try:
        body = await operator.client.raw(
            "POST", TYPES, params={"dryRun": "All"},
            body=msgspec.json.encode({"apiVersion": INSTANCE_TYPES.api_version, "kind": "InstanceType"} | probe),
        )  # fmt: skip
        await operator.client.create(
            SETTINGS, {"metadata": {"name": "no-such-setting", "namespace": NAMESPACE}}, namespace=NAMESPACE
        )
    except InternalError:
        return False  # it still asks the server of the test before
    except Invalid:
        return b'"generalGroup":"generic"' in body
    await operator.client.delete(SETTINGS, "no-such-setting", NAMESPACE)
    return False


async def eventually(condition: Callable[[], Awaitable[bool]]) -> None:
    for _ in range(400):
        if await condition():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("the API server has not asked the webhooks within 20 s")


async def test_a_custom_type_is_stored_with_labels_and_descriptors(operator: Operator) -> None:
    stored = await operator.create("a10g-12c128g", A10G)

    assert stored["metadata"]["labels"]["schedule.gpustack.ai/queue-entrance"] == "gpustack-fnv64-d4c0e6cd72686015"
    assert stored["spec"]["product"] == "NVIDIA-A10G"
    assert stored["spec"]["feature"]["logicalSliced"]["maxSize"] == 128


async def test_a_second_pass_over_what_the_api_server_stored_writes_nothing(operator: Operator) -> None:
    before = await operator.client.get(MUTATING_CONFIGURATIONS, hooks.MUTATION)

    await operator.keeper.mend()

    after = await operator.client.get(MUTATING_CONFIGURATIONS, hooks.MUTATION)
    secret = await operator.client.get(STORED_SECRETS, hooks.STORED_PAIR, NAMESPACE)
    assert after.metadata.resource_version == before.metadata.resource_version
    assert sorted(secret.data or {}) == ["ca.crt", "ca.key", "tls.crt", "tls.key"]


async def test_a_bundle_emptied_by_an_apply_is_put_back(operator: Operator) -> None:
    before = await operator.client.get(MUTATING_CONFIGURATIONS, hooks.MUTATION)
    path = "/webhooks/0/clientConfig/caBundle"
    await operator.client.json_patch(MUTATING_CONFIGURATIONS, hooks.MUTATION, [{"op": "remove", "path": path}])

    await operator.keeper.mend()

    after = await operator.client.get(MUTATING_CONFIGURATIONS, hooks.MUTATION)
    assert registered(before.webhooks or (), after.webhooks or ())


MUTATE = 'admission webhook "mutate.worker.gpustack.ai.v1.instancetype" denied the request: '
VALIDATE = 'admission webhook "validate.worker.gpustack.ai.v1.instancetype" denied the request: '
INVALID = 'InstanceType.worker.gpustack.ai "bad" is invalid: '
WHOLE = "must be a positive integer with no unit suffix"


@pytest.mark.parametrize(
    ("cpu", "message"),
    [
        pytest.param(
            "0.5", f'{VALIDATE}{INVALID}spec.unitResources.cpu: Invalid value: "0.5": {WHOLE}', id="half a core"
        ),
        pytest.param(
            "-1", f'{VALIDATE}{INVALID}spec.unitResources.cpu: Invalid value: "-1": {WHOLE}', id="less than none"
        ),
        pytest.param(0.5, f"{MUTATE}{INVALID}spec.unitResources.cpu: Invalid value: 0.5: {WHOLE}", id="a fraction"),
        pytest.param(
            True, f"{MUTATE}{INVALID}spec.unitResources.cpu: Invalid value: true: {WHOLE}", id="a truth value"
        ),
    ],
)
async def test_a_bad_size_is_refused_in_our_words(operator: Operator, cpu: Any, message: str) -> None:
    with pytest.raises(Invalid) as refused:
        await operator.create("bad", {**A10G, "unitResources": {"cpu": cpu, "ram": "128Gi"}})

    assert refused.value.message == message


async def test_everything_that_is_missing_is_told_at_once(operator: Operator) -> None:
    with pytest.raises(Invalid) as refused:
        await operator.create("bad", {"acceleratable": True})

    assert refused.value.message == (
        f"{VALIDATE}{INVALID}[spec.acceleratorGroup: Required value: must be specified when acceleratable is true, "
        "spec.os: Required value: must be specified, spec.arch: Required value: must be specified, "
        f'spec.unitResources.cpu: Invalid value: "": {WHOLE}, '
        'spec.unitResources.ram: Invalid value: "": must be a positive integer with a case-sensitive "Gi" suffix, '
        'spec.localStorage: Invalid value: "": must be a positive integer with a case-sensitive "Gi" suffix]'
    )
    assert [cause["reason"] for cause in refused.value.causes[:4]] == [
        "FieldValueRequired",
        "FieldValueRequired",
        "FieldValueRequired",
        "FieldValueInvalid",
    ]


@pytest.mark.parametrize(
    ("name", "cpu", "stored_cpu"),
    [
        pytest.param("two", 2, "2", id="a number is stored as its text"),
        pytest.param("none", None, "8", id="a null is left out, and filled from the presets"),
    ],
)
async def test_a_size_that_is_no_text(operator: Operator, name: str, cpu: Any, stored_cpu: str) -> None:
    stored = await operator.create(name, {**A10G, "unitResources": {"cpu": cpu, "ram": "128Gi"}})

    assert stored["spec"]["unitResources"] == {"cpu": stored_cpu, "ram": "128Gi"}


async def test_a_type_may_be_replaced_by_its_own_manifest(operator: Operator) -> None:
    stored = await operator.create("replaced", {**A10G, "unitResources": {"cpu": 12, "ram": "128Gi"}})
    metadata = {"name": "replaced", "resourceVersion": stored["metadata"]["resourceVersion"]}

    manifest = {"metadata": metadata, "spec": {**A10G, "unitResources": {"cpu": 12, "ram": "128Gi"}, "inactive": True}}
    replaced = await operator.client.update(INSTANCE_TYPES, manifest)

    assert replaced.spec.inactive is True
    assert replaced.spec.product == "NVIDIA-A10G"
    assert replaced.labels == stored["metadata"]["labels"]


async def test_a_frozen_field_is_refused_and_the_display_name_is_not(operator: Operator) -> None:
    await operator.create("frozen", A10G)

    with pytest.raises(Invalid, match="arch is immutable"):
        await operator.client.merge_patch(INSTANCE_TYPES, "frozen", {"spec": {"arch": "arm64"}})
    renamed = await operator.client.merge_patch(INSTANCE_TYPES, "frozen", {"spec": {"displayName": "A10G"}})

    assert renamed.spec.display_name == "A10G"


async def test_labels_that_decide_the_pool_cannot_be_edited_away(operator: Operator) -> None:
    await operator.create("labelled", A10G)
    edits = {
        "acceleratable.feature.gpustack.ai/nvidia-a10g": None,
        "acceleratable.feature.gpustack.ai/nvidia-tesla-t4": "true",
        "team": "vision",
    }

    stored = await operator.client.merge_patch(INSTANCE_TYPES, "labelled", {"metadata": {"labels": edits}})

    assert stored.labels["acceleratable.feature.gpustack.ai/nvidia-a10g"] == "true"
    assert "acceleratable.feature.gpustack.ai/nvidia-tesla-t4" not in stored.labels
    assert stored.labels["team"] == "vision"


async def test_what_is_being_deleted_can_go_while_nobody_answers(operator: Operator) -> None:
    await operator.create("going", A10G)
    await operator.client.merge_patch(INSTANCE_TYPES, "going", {"metadata": {"finalizers": ["example.com/held"]}})
    await operator.client.delete(INSTANCE_TYPES, "going")
    await operator.server.stop()

    await operator.client.merge_patch(INSTANCE_TYPES, "going", {"metadata": {"finalizers": None}})

    with pytest.raises(NotFound):
        await operator.client.get(INSTANCE_TYPES, "going")


async def test_a_setting_with_a_bad_value_is_refused_where_it_is_written(operator: Operator) -> None:
    name = "node-labels-grace-period"
    body = {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": {"value": "10x"}}

    with pytest.raises(Invalid) as refused:
        await operator.client.create(SETTINGS, body, namespace=NAMESPACE)

    assert refused.value.message == (
        'admission webhook "validate.gpustack.ai.v1.setting" denied the request: Setting.gpustack.ai '
        '"node-labels-grace-period" is invalid: spec.value: Invalid value: "10x" is no duration; '
        "write for example 90s, 5m or 1h30m"
    )


async def test_the_catalog_is_refused_to_everybody_else(operator: Operator) -> None:
    with pytest.raises(Forbidden, match="is written by the operator from what the nodes offer"):
        await operator.client.create(INSTANCE_TYPE_FLAVORS, {"metadata": {"name": "mine"}, "spec": {}})
