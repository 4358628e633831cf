"""The InstanceType webhooks behind the real server: waiting for caches, refusals before the schema, hints."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from gpustack_op.api.kueue import RESOURCE_FLAVORS
from gpustack_op.operator.informers import Informers
from gpustack_op.operator.webhooks import hooks
from gpustack_op.operator.webhooks import instance_type as instance_type_module
from gpustack_op.operator.webhooks.fronting import Fronting
from gpustack_op.operator.webhooks.identity import OwnIdentity
from gpustack_op.operator.workload_fit import FitPin
from gpustack_op.runtime.informer import Informer
from gpustack_op.runtime.selector import EVERYTHING
from tests.runtime.catalog_caches import CatalogCaches
from tests.runtime.webhook_stand import MemoryApi, Stand, local_keyring, new_server, patch_of, patched, standing

KIND = {"group": "worker.gpustack.ai", "version": "v1", "kind": "InstanceType"}
A10G = {
    "acceleratable": True,
    "acceleratorGroup": "nvidia-a10g",
    "os": "linux",
    "arch": "amd64",
    "unitResources": {"cpu": 12, "ram": "128Gi"},
    "localStorage": "200Gi",
}


@pytest.fixture
def cluster() -> CatalogCaches:
    return CatalogCaches.unread()


@pytest.fixture
async def stand(cluster: CatalogCaches) -> AsyncIterator[Stand]:
    server, metrics = new_server()
    identity = OwnIdentity(cast(Any, MemoryApi()), "gpustack-system")
    informers = cast(Informers, cluster)
    fronting = Fronting(informers, cast(Any, MemoryApi()))
    fit = FitPin(informers, cast(Any, None))
    hooks.install(server, informers, identity, fronting, fit, namespace="gpustack-system")
    async with standing(server, local_keyring(), metrics) as started:
        yield started


def review(spec: Any, *, old: Any = None) -> dict[str, Any]:
    def wrapped(content: Any) -> dict[str, Any]:
        return {"metadata": {"name": "big"}, "spec": content}

    request = {
        "uid": "1",
        "kind": KIND,
        "name": "big",
        "operation": "UPDATE" if old else "CREATE",
        "object": wrapped(spec),
        "oldObject": wrapped(old) if old else None,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


async def asked(stand: Stand, body: dict[str, Any], *, validate: bool = False) -> Any:
    hook = hooks.VALIDATE_INSTANCE_TYPE if validate else hooks.DEFAULT_INSTANCE_TYPE
    return (await stand.ask(hook.path, body))["response"]


async def test_a_new_type_waits_until_the_catalog_is_read(
    stand: Stand, cluster: CatalogCaches, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits, wait_synced = asyncio.Event(), cluster.flavors.wait_synced

    async def noting() -> None:
        waits.set()
        await wait_synced()

    monkeypatch.setattr(cluster.flavors, "wait_synced", noting)
    waiting = asyncio.create_task(stand.ask(hooks.DEFAULT_INSTANCE_TYPE.path, review(A10G)))
    await asyncio.wait_for(waits.wait(), 5)
    assert not waiting.done()
    await cluster.read()
    answer = await asyncio.wait_for(waiting, 5)

    result: Any = {"metadata": {"name": "big"}, "spec": A10G}
    for operation in patch_of(answer):
        result = patched(result, operation)
    assert result["spec"]["product"] == "NVIDIA-A10G"
    assert result["spec"]["unitResources"] == {"cpu": "12", "ram": "128Gi"}
    assert result["metadata"]["labels"]["acceleratable.feature.gpustack.ai/nvidia-a10g"] == "true"


async def test_a_catalog_that_is_never_read_is_worth_another_try(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instance_type_module, "SYNC_SECONDS", 0.05)

    response = await asked(stand, review(A10G))

    assert response["status"] == {
        "status": "Failure",
        "code": 503,
        "reason": "ServiceUnavailable",
        "message": 'InstanceType "big" cannot be judged yet: still reading resourceflavors.kueue.x-k8s.io, '
        "devices.worker.gpustack.ai; try again",
    }


async def test_a_kind_that_is_not_served_is_not_waited_for(stand: Stand, cluster: CatalogCaches) -> None:
    await cluster.read()
    cluster.flavors = Informer(RESOURCE_FLAVORS, EVERYTHING)
    cluster.flavors.mark_missing()

    assert (await asked(stand, review(A10G)))["allowed"] is True


async def test_a_kind_that_turns_out_not_to_be_served_holds_nothing_up(
    stand: Stand, cluster: CatalogCaches, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instance_type_module, "SYNC_SECONDS", 0.05)
    await cluster.read()
    cluster.flavors = Informer(RESOURCE_FLAVORS, EVERYTHING)

    async def told_missing() -> None:
        cluster.flavors.mark_missing()
        await asyncio.Event().wait()

    monkeypatch.setattr(cluster.flavors, "wait_synced", told_missing)

    assert (await asked(stand, review(A10G)))["allowed"] is True


async def test_an_update_never_waits(stand: Stand) -> None:
    response = await asked(stand, review({**A10G, "inactive": True}, old=A10G))

    assert response["allowed"] is True


@pytest.mark.parametrize(
    ("cpu", "shown"), [pytest.param(0.5, "0.5", id="a fraction"), pytest.param(True, "true", id="a truth value")]
)
async def test_a_value_of_the_wrong_type_is_refused_before_the_schema_is_asked(
    stand: Stand, cpu: Any, shown: str
) -> None:
    response = await asked(stand, review({**A10G, "unitResources": {"cpu": cpu, "ram": "128Gi"}}))

    assert response["status"]["code"] == 422
    assert response["status"]["message"] == (
        'InstanceType.worker.gpustack.ai "big" is invalid: spec.unitResources.cpu: '
        f"Invalid value: {shown}: must be a positive integer with no unit suffix"
    )


async def test_a_null_size_is_filled_in_and_told(stand: Stand, cluster: CatalogCaches) -> None:
    await cluster.read()

    response = await asked(stand, review({**A10G, "unitResources": {"cpu": None, "ram": "128Gi"}}))

    assert response["warnings"] == [
        "left out and taken from the presets, immutable from now on: spec.unitResources.cpu: 8"
    ]


async def test_an_unknown_group_is_accepted_with_the_candidates(stand: Stand, cluster: CatalogCaches) -> None:
    await cluster.read()

    response = await asked(stand, review({**A10G, "acceleratorGroup": "nvidia-a10"}), validate=True)

    assert response == {
        "uid": "1",
        "allowed": True,
        "warnings": [
            'InstanceType "big": spec.acceleratorGroup "nvidia-a10" is in no catalog row; '
            "one of: nvidia-a10g, nvidia-tesla-t4"
        ],
    }


async def test_a_system_that_no_node_has_is_accepted_with_those_there_are(stand: Stand, cluster: CatalogCaches) -> None:
    await cluster.read()

    response = await asked(stand, review({**A10G, "os": "windows"}), validate=True)

    assert response["warnings"] == ['InstanceType "big": no node has windows/amd64; there are: linux/amd64']


async def test_nothing_is_called_unknown_before_the_catalog_is_read(stand: Stand) -> None:
    response = await asked(stand, review({**A10G, "acceleratorGroup": "nvidia-a10"}), validate=True)

    assert response == {"uid": "1", "allowed": True}


async def test_a_frozen_field_is_refused_with_what_may_change(stand: Stand) -> None:
    response = await asked(stand, review({**A10G, "arch": "arm64"}, old=A10G), validate=True)

    assert response["status"]["message"] == (
        'InstanceType.worker.gpustack.ai "big" is invalid: '
        "spec: Forbidden: is immutable except displayName, description and inactive"
    )


def test_the_hooks_are_registered_where_they_are_answered() -> None:
    registered = [hook for one in hooks.registrations("gpustack-system") for hook in one.hooks]
    told = [(hook.name, hook.path, hook.resource.plural) for hook in registered]

    assert told == [
        (
            "mutate.worker.gpustack.ai.v1.instancetype",
            "/mutate-worker-gpustack-ai-v1-instancetype",
            "instancetypes",
        ),
        ("mutate.gpustack-worker.core.v1.pod", "/mutate-gpustack-worker-core-v1-pod", "pods"),
        ("mutate.gpustack-worker.batch.v1.job", "/mutate-gpustack-worker-batch-v1-job", "jobs"),
        (
            "mutate.gpustack-worker.kueue.v1beta2.workload",
            "/mutate-gpustack-worker-kueue-v1beta2-workload",
            "workloads",
        ),
        (
            "validate.worker.gpustack.ai.v1.instancetype",
            "/validate-worker-gpustack-ai-v1-instancetype",
            "instancetypes",
        ),
        (
            "validate.worker.gpustack.ai.v1.instancetypeflavor",
            "/validate-worker-gpustack-ai-v1-instancetypeflavor",
            "instancetypeflavors",
        ),
        ("validate.gpustack.ai.v1.setting", "/validate-gpustack-ai-v1-setting", "settings"),
        ("validate.gpustack-worker.core.v1.pod", "/validate-gpustack-worker-core-v1-pod", "pods"),
        ("validate.gpustack-worker.batch.v1.job", "/validate-gpustack-worker-batch-v1-job", "jobs"),
    ]
