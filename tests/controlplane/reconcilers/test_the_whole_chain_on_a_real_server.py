"""All controllers together against a real API server: from four machines to three types, and then silence."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpustack_op.api.core import NODES
from gpustack_op.api.kueue import CLUSTER_QUEUES, RESOURCE_FLAVORS
from gpustack_op.api.nfd import NODE_FEATURES
from gpustack_op.api.worker import DEVICES, INSTANCE_TYPE_FLAVORS, INSTANCE_TYPES, InstanceType
from gpustack_op.runtime.config import ClientConfig
from tests.builders import bare_node, instance_type
from tests.controlplane.reconcilers.players import discover, forget, join, known, kueue_sees, report, report_inventory
from tests.controlplane.reconcilers.stage import EVERYTHING, NAMESPACE, Stage, staged

GENERIC, A10G, T4 = (
    "gpustack--generic-linux-amd64",
    "gpustack--nvidia-a10g-linux-amd64",
    "gpustack--nvidia-tesla-t4-linux-amd64",
)
MANAGED = "gpustack.ai/managed"


async def settled(stage: Stage, *shorts: str) -> None:
    """These machines, after everybody has had his say."""
    for short in shorts:
        await join(stage, short)
    for short in shorts:
        await known(stage, short)
    await stage.settle()
    for queue in await stage.names(CLUSTER_QUEUES):
        await kueue_sees(stage, queue)
    await stage.settle()


def cells(type_: InstanceType) -> tuple[Any, Any, Any]:
    """Accelerator cell, CPU cell and phase of the table."""
    status: Mapping[str, Any] = type_.status or {}
    summary = status.get("summary") or {}
    return summary.get("accelerator"), summary.get("cpu"), status.get("phase")


async def shows(stage: Stage, name: str, *expected: str) -> InstanceType:
    return await stage.until_so(INSTANCE_TYPES, name, lambda type_: cells(type_) == expected)


async def says(stage: Stage, name: str, sentence: str) -> None:
    await stage.until_so(INSTANCE_TYPES, name, lambda type_: (type_.status or {}).get("phaseMessage") == sentence)


async def test_four_machines_make_three_types_and_a_settled_cluster_sees_no_write(config: ClientConfig) -> None:
    async with staged(config, *EVERYTHING) as stage:
        await settled(stage, "cpu", "a10g", "t4-a", "t4-b")
        await shows(stage, GENERIC, "0/0 0/0 0/0 0/0", "48/72", "Active")
        await shows(stage, A10G, "1/1 1/10 100/100 0/0", "0/0", "Active")
        await shows(stage, T4, "4/5 4/50 100/500 0/0", "0/0", "Active")
        assert len(await stage.names(RESOURCE_FLAVORS)) == 7
        assert len(await stage.names(INSTANCE_TYPE_FLAVORS)) == 3
        await stage.settle()

        before = await stage.versions()
        assert await stage.reconcile_everything() == []
        assert await stage.versions() == before


async def test_a_new_process_over_a_settled_cluster_writes_nothing(config: ClientConfig) -> None:
    async with staged(config, *EVERYTHING) as stage:
        await settled(stage, "cpu", "a10g")
        await stage.settle()
        before = await stage.versions()
    async with staged(config, *EVERYTHING) as stage:
        await stage.reconcile_everything()
        assert stage.writes == []
        assert await stage.versions() == before


async def test_awareness_on_and_off_leaves_flavors_untouched(config: ClientConfig) -> None:
    async with staged(config, *EVERYTHING) as stage:
        await settled(stage, "cpu", "a10g", "t4-a", "t4-b")
        flavors = {f.name: f.metadata.resource_version for f in await stage.people.list(RESOURCE_FLAVORS)}

        await stage.set(instance_type_aware_cpu_manufacturer="true")
        await stage.until_there(INSTANCE_TYPES, "gpustack--amd-epyc-7r32--nvidia-a10g-linux-amd64")
        await stage.settle()
        assert len(await stage.names(INSTANCE_TYPES)) == 8
        assert len(await stage.names(INSTANCE_TYPE_FLAVORS)) == 5
        await stage.set(instance_type_aware_cpu_manufacturer="false")
        await stage.until_there(INSTANCE_TYPE_FLAVORS, "gpustack--generic")
        await stage.settle()

        assert len(await stage.names(INSTANCE_TYPES)) == 8
        assert len(await stage.names(INSTANCE_TYPE_FLAVORS)) == 3
        assert {f.name: f.metadata.resource_version for f in await stage.people.list(RESOURCE_FLAVORS)} == flavors


async def test_a_node_out_and_back(config: ClientConfig) -> None:
    async with staged(config, *EVERYTHING) as stage:
        await settled(stage, "cpu", "a10g")
        worker = "node-a10g-gpustack-worker"
        await stage.edit(NODE_FEATURES, worker, {"spec": {"labels": {MANAGED: "false"}}}, within=NAMESPACE)
        await shows(stage, A10G, "0/0 0/0 0/0 0/0", "0/0", "Active")
        await says(stage, A10G, "no managed node offers nvidia-a10g on linux/amd64; nothing is admitted until one does")
        await discover(stage, "node-a10g")
        await stage.edit(NODE_FEATURES, worker, {"spec": {"labels": {MANAGED: "true"}}}, within=NAMESPACE)
        await discover(stage, "node-a10g")
        await stage.settle()
        await kueue_sees(stage, A10G)
        await shows(stage, A10G, "1/1 1/10 100/100 0/0", "0/0", "Active")


async def test_a_gap_of_discovery_changes_nothing_until_the_grace_is_over(config: ClientConfig) -> None:
    async with staged(config, *EVERYTHING) as stage:
        await settled(stage, "cpu", "a10g")
        before = await stage.versions()
        await forget(stage, "node-a10g")
        await stage.reconcile_everything()
        await discover(stage, "node-a10g")
        await stage.settle()
        after = await stage.versions()
        assert {key for key in before if before[key] != after.get(key)} == {"nodes  node-a10g"}

        await stage.set(node_labels_grace_period="1s")
        await forget(stage, "node-a10g")
        await shows(stage, A10G, "0/0 0/0 0/0 0/0", "0/0", "Active")
        await discover(stage, "node-a10g")
        await stage.settle()
        await kueue_sees(stage, A10G)
        await shows(stage, A10G, "1/1 1/10 100/100 0/0", "0/0", "Active")


async def test_a_node_feature_of_another_namespace_is_nobodys_source(config: ClientConfig) -> None:
    async with staged(config, *EVERYTHING) as stage:
        await settled(stage, "cpu")
        stale = {"general.feature.gpustack.ai/amd-epyc-7r13.count": "64", MANAGED: "false"}
        metadata = {
            "name": "node-cpu-gpustack-worker",
            "namespace": "nfd",
            "labels": {"nfd.node.kubernetes.io/node-name": "node-cpu"},
        }
        await stage.people.create(NODE_FEATURES, {"metadata": metadata, "spec": {"labels": stale}}, namespace="nfd")
        assert await stage.reconcile_everything() == []
        await shows(stage, GENERIC, "0/0 0/0 0/0 0/0", "16/16", "Active")


async def test_a_tainted_node_is_told_about_and_the_others_go_on(config: ClientConfig) -> None:
    async with staged(config, *EVERYTHING) as stage:
        await settled(stage, "cpu", "a10g", "t4-a")
        taints = [{"key": "team", "value": "b", "effect": "NoSchedule"}]
        await stage.edit(NODES, "node-a10g", {"spec": {"taints": taints}})
        sentence = (
            'Node "node-a10g" is in no pool because of its taint team=b:NoSchedule; remove the taint to add the node'
        )
        await stage.until_so(DEVICES, "node-a10g", lambda d: d.annotations.get("gpustack.ai/left-out") == sentence)
        assert await stage.until(lambda: stage.notes("LeftOutOfPools")) == [sentence]
        await shows(stage, A10G, "0/0 0/0 0/0 0/0", "0/0", "Active")
        await shows(stage, T4, "1/1 1/10 100/100 0/0", "0/0", "Active")


async def test_a_node_whose_figures_nobody_can_believe_is_told_about_and_the_others_go_on(config: ClientConfig) -> None:
    async with staged(config, *EVERYTHING) as stage:
        await stage.add(NODES, bare_node("cpu", cpu="1E"))
        await report(stage, "cpu")
        await settled(stage, "a10g")
        assert await stage.until(lambda: stage.notes("LeftOutOfPools")) == [
            'Node "node-cpu" is in no pool because its capacity of 1000000000000000000 cores is no believable number; '
            "it must be at most 2147483647"
        ]
        await shows(stage, A10G, "1/1 1/10 100/100 0/0", "0/0", "Active")


async def test_a_foreign_queue_of_a_types_name_is_told_and_the_other_types_go_on(config: ClientConfig) -> None:
    async with staged(config, *EVERYTHING) as stage:
        await settled(stage, "a10g")
        theirs = await stage.people.create(CLUSTER_QUEUES, {"metadata": {"name": "theirs"}, "spec": {}})
        await stage.add(INSTANCE_TYPES, instance_type("theirs", accelerator_group="nvidia-a10g"))
        await stage.add(INSTANCE_TYPES, instance_type("mine", accelerator_group="nvidia-a10g"))
        await stage.until_there(CLUSTER_QUEUES, "mine")
        await kueue_sees(stage, "mine")
        await stage.settle()

        await shows(stage, "theirs", "1/1 1/10 100/100 0/0", "0/0", "Activating")
        await says(
            stage,
            "theirs",
            'ClusterQueue "theirs" was not made by this operator and is left alone; '
            "delete it, or create the InstanceType under another name",
        )
        await shows(stage, "mine", "1/1 1/10 100/100 0/0", "0/0", "Active")
        await stage.remove(INSTANCE_TYPES, "theirs")
        await stage.until_gone(INSTANCE_TYPES, "theirs")
        left = await stage.people.get(CLUSTER_QUEUES, "theirs")
        assert left.metadata.resource_version == theirs.metadata.resource_version
        await stage.remove(CLUSTER_QUEUES, "theirs")
        await stage.add(INSTANCE_TYPES, instance_type("theirs", accelerator_group="nvidia-a10g"))
        await stage.until_so(CLUSTER_QUEUES, "theirs", lambda q: q.uid != theirs.uid)


async def test_kueues_own_complaint_reaches_the_type(config: ClientConfig) -> None:
    async with staged(config, *EVERYTHING) as stage:
        await settled(stage, "a10g")
        queue = await stage.people.get(CLUSTER_QUEUES, A10G)
        complaint = {
            "type": "Active",
            "status": "False",
            "reason": "FlavorNotFound",
            "message": "references missing ResourceFlavor(s): a",
            "observedGeneration": queue.metadata.generation,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        await stage.edit(CLUSTER_QUEUES, A10G, {"status": {"conditions": [complaint]}}, subresource="status")
        await shows(stage, A10G, "1/1 1/10 100/100 0/0", "0/0", "Activating")
        await says(stage, A10G, "references missing ResourceFlavor(s): a")


async def test_an_agent_that_comes_late_completes_the_node(config: ClientConfig) -> None:
    async with staged(config, *EVERYTHING) as stage:
        await settled(stage, "cpu")
        await stage.add(NODES, bare_node("a10g"))
        await stage.until_there(NODE_FEATURES, "node-a10g-gpustack-worker", within=NAMESPACE)
        assert A10G not in await stage.names(INSTANCE_TYPES)
        await report(stage, "a10g")
        await known(stage, "a10g")
        await stage.until_there(INSTANCE_TYPES, A10G)


CARD = "{manufacturer: nvidia, uuid: %s, name: %s, memoryMib: 15360, computeCapability: '7.5', cores: 2560}"
LONG = "NVIDIA " + "X" * 73


async def test_cards_with_unwieldy_names_and_a_broken_one_each_find_their_place(
    config: ClientConfig, tmp_path: Path
) -> None:
    names = {"GPU-1": "''", "GPU-2": LONG, "GPU-3": "Tesla_V100_SXM2__32GB_", "GPU-4": "Tesla T4"}
    cards = [CARD % item for item in names.items()]
    broken = "{manufacturer: nvidia, uuid: GPU-5, name: Tesla T4, memoryMib: lots}"
    cpu = "{vendor: AMD, family: 25, model: 1, name: AMD EPYC 7R13 Processor, cores: 16}"
    inventory = tmp_path / "machine.yaml"
    inventory.write_text(f"{{node: node-cpu, memory: 64Gi, cpu: {cpu}, accelerators: [{', '.join([*cards, broken])}]}}")
    async with staged(config, *EVERYTHING) as stage:
        await stage.add(NODES, bare_node("cpu"))
        await report_inventory(stage, "node-cpu", inventory)
        await known(stage, "cpu")
        await stage.settle()

        assert await stage.names(INSTANCE_TYPES) == [
            GENERIC,
            "gpustack--nvidia-card-811c9dc5-linux-amd64",
            "gpustack--nvidia-tesla-t4-linux-amd64",
            "gpustack--nvidia-tesla-v100-sxm2-32gb-linux-amd64",
            f"gpustack--nvidia-{'x' * 38}-0a161ec6-linux-amd64",
        ]
        assert len(await stage.names(CLUSTER_QUEUES)) == 5
        await kueue_sees(stage, T4)
        await shows(stage, T4, "1/1 1/10 100/100 0/0", "0/0", "Active")
        assert await stage.until(lambda: stage.notes("AcceleratorBroken")) == [
            f'{inventory}: accelerators[4] (GPU-5): memoryMib "lots": write a whole number or null; it is not given out'
        ]
        await stage.settle()
        assert await stage.reconcile_everything() == []
