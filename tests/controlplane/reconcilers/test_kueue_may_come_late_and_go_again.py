"""Without Kueue the operator stays up, says what is missing, does the rest, and goes on by itself when Kueue comes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec
import pytest

from devcluster.install import Installer
from gpustack_op.api.kueue import ADMISSION_CHECKS, CLUSTER_QUEUES, TOPOLOGIES
from gpustack_op.api.nfd import NODE_FEATURES
from gpustack_op.api.worker import INSTANCE_TYPES, SETTINGS
from gpustack_op.runtime.client import Client
from gpustack_op.runtime.config import ClientConfig
from tests.builders import instance_type
from tests.controlplane.reconcilers.players import join, known, kueue_sees
from tests.controlplane.reconcilers.program import Program, program
from tests.controlplane.reconcilers.stage import NAMESPACE

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MISSING = "Kueue is not installed: its kind ClusterQueue is not served yet"


@pytest.fixture
async def crds(config: ClientConfig) -> AsyncIterator[list[Any]]:
    """Kueue's CRDs, which are there again after the test."""
    async with Client(config) as client:
        body = msgspec.json.decode(await client.raw("GET", CRDS))
        found = [_as_installed(crd) for crd in body["items"] if crd["spec"]["group"] == "kueue.x-k8s.io"]
        yield found
        await Installer(client).install_crds(found)


def _as_installed(crd: Any) -> Any:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": crd["metadata"]["name"],
            "annotations": crd["metadata"].get("annotations", {}),
        },
        "spec": crd["spec"],
    }


async def remove(operator: Program, crds: Sequence[Any]) -> None:
    """Kueue's kinds with all their objects."""
    people = operator.stage.people
    for crd in crds:
        await people.raw("DELETE", f"{CRDS}/{crd['metadata']['name']}")

    async def gone() -> bool:
        left = msgspec.json.decode(await people.raw("GET", CRDS))["items"]
        return not any(crd["spec"]["group"] == "kueue.x-k8s.io" for crd in left)

    await operator.stage.until(gone)


async def ready_saying(operator: Program, *words: str) -> str:
    """What readiness answers once it holds all these words."""

    async def look() -> str:
        status, text = await operator.ready()
        return text if status == 200 and all(word in text for word in words) else ""

    return await operator.stage.until(look, within=30)


async def message(operator: Program, name: str, text: str) -> None:
    await operator.stage.until_so(
        INSTANCE_TYPES, name, lambda type_: (type_.status or {}).get("phaseMessage", "") == text
    )


async def test_kueue_comes_late_goes_and_comes_back(config: ClientConfig, crds: list[Any]) -> None:
    async with program(config) as before:
        await remove(before, crds)
    async with program(config) as operator:
        stage = operator.stage
        await ready_saying(operator, "clusterqueues.kueue.x-k8s.io", "workloads.kueue.x-k8s.io")
        await join(stage, "a10g")
        await known(stage, "a10g")
        await stage.until_there(SETTINGS, "node-labels-grace-period", within=NAMESPACE)
        await stage.add(INSTANCE_TYPES, instance_type("waiting", accelerator_group="nvidia-a10g"))
        await message(operator, "waiting", MISSING)

        await Installer(stage.people).install_crds(crds)
        await stage.until(lambda: stage.people.get(CLUSTER_QUEUES, "waiting"), within=30)
        await stage.until_there(CLUSTER_QUEUES, "gpustack--nvidia-a10g-linux-amd64")
        await stage.until_there(TOPOLOGIES, "gpustack")
        first = await stage.until_there(ADMISSION_CHECKS, "gpustack-node-devices")
        await kueue_sees(stage, "waiting")
        await message(operator, "waiting", "")

        await remove(operator, crds)
        await ready_saying(operator, "clusterqueues.kueue.x-k8s.io")
        await stage.edit(
            NODE_FEATURES, "node-a10g-gpustack-worker",
            {"spec": {"labels": {"general.feature.gpustack.ai/amd-epyc-7r32": None}}}, within=NAMESPACE,
        )  # fmt: skip
        await known(stage, "a10g")
        await Installer(stage.people).install_crds(crds)

        again = await stage.until(lambda: stage.people.get(ADMISSION_CHECKS, "gpustack-node-devices"), within=30)
        assert again.uid != first.uid
        await stage.until(lambda: stage.people.get(CLUSTER_QUEUES, "waiting"), within=30)
        await stage.until(lambda: stage.people.get(TOPOLOGIES, "gpustack"), within=30)
