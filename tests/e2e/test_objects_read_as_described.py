"""One object of each kind holds what the walkthrough shows, and beyond that only what is listed here."""

from __future__ import annotations

import json

import pytest

from devcluster.kubectl import Kubectl
from tests.e2e.objects import absent, beyond, described, fields
from tests.e2e.walkthrough import Walkthrough

SERVER = ("metadata.uid", "metadata.resourceVersion", "metadata.creationTimestamp")
"""Given to every object by the API server; a generation only where a spec can change."""

GENERATION = (*SERVER, "metadata.generation")

FURTHER = {
    "node": (
        *SERVER,
        "metadata.annotations[nfd.node.kubernetes.io/feature-labels]",
        "metadata.annotations[node.alpha.kubernetes.io/ttl]",
        "metadata.labels[beta.kubernetes.io/arch]",
        "metadata.labels[beta.kubernetes.io/os]",
        "metadata.labels[feature.gpustack.ai/acceleratable]",
        "metadata.labels[feature.node.kubernetes.io/cpu-model.family]",
        "metadata.labels[feature.node.kubernetes.io/cpu-model.id]",
        "metadata.labels[feature.node.kubernetes.io/cpu-model.vendor_id]",
        "metadata.labels[feature.node.kubernetes.io/kernel-version.full]",
        "metadata.labels[feature.node.kubernetes.io/kernel-version.major]",
        "metadata.labels[feature.node.kubernetes.io/kernel-version.minor]",
        "metadata.labels[feature.node.kubernetes.io/kernel-version.revision]",
        "metadata.labels[feature.node.kubernetes.io/pci-10de.present]",
        "metadata.labels[feature.node.kubernetes.io/system-os_release.ID]",
        "metadata.labels[feature.node.kubernetes.io/system-os_release.VERSION_ID]",
        "metadata.labels[feature.node.kubernetes.io/system-os_release.VERSION_ID.major]",
        "metadata.labels[feature.node.kubernetes.io/system-os_release.VERSION_ID.minor]",
        "metadata.labels[kubernetes.io/hostname]",
        "metadata.labels[shared-free-cards.fit.gpustack.ai/nvidia-a10g]",
        "metadata.labels[sliced-max-free-units.fit.gpustack.ai/nvidia-a10g]",
        "spec",
        "status",
    ),
    "nodefeature": (*GENERATION, "metadata.ownerReferences[0]"),
    "devices": (
        *GENERATION,
        "metadata.annotations[gpustack.ai/seen-in-boot]",
        "metadata.ownerReferences[0]",
        "spec.groups[0].id",
        "spec.groups[0].manufacturer",
        "spec.groups[0].name",
        "spec.groups[0].family",
        "spec.groups[0].memory",
        "spec.groups[0].cores",
        "spec.groups[0].computeCapability",
        "spec.groups[0].driverVersion",
        "spec.groups[0].runtimeVersion",
        "spec.groups[0].accelerators[0].id",
        "spec.groups[0].accelerators[0].index",
        "spec.groups[0].accelerators[0].physicalIndexes[0]",
        "spec.groups[0].accelerators[0].topology.pciBusId",
        "spec.groups[0].accelerators[0].status.unhealthy",
        "spec.groups[0].accelerators[0].status.logicalSliced.count",
        "spec.groups[0].accelerators[0].status.logicalSliced.coresPercentageOvercommit",
        "spec.groups[0].acceleratorSlicedDetail.logical.count",
        "spec.groups[0].acceleratorSlicedDetail.logical.coresPercentageOvercommit",
    ),
    "resourceflavor-accelerators": (
        *GENERATION,
        "metadata.annotations[note.gpustack.ai/acceleratable]",
        "metadata.annotations[note.gpustack.ai/acceleratorGroup]",
        "metadata.annotations[note.gpustack.ai/cores]",
        "metadata.annotations[note.gpustack.ai/cpuDetail]",
        "metadata.annotations[note.gpustack.ai/family]",
        "metadata.annotations[note.gpustack.ai/generalGroup]",
        "metadata.annotations[note.gpustack.ai/manufacturer]",
        "metadata.annotations[note.gpustack.ai/memory]",
        "metadata.annotations[note.gpustack.ai/product]",
        "metadata.finalizers[0]",
        "spec.tolerations[0].key",
        "spec.tolerations[0].operator",
        "spec.topologyName",
    ),
    "resourceflavor-cpu": (
        *GENERATION,
        "metadata.annotations[note.gpustack.ai/acceleratable]",
        "metadata.annotations[note.gpustack.ai/acceleratorGroup]",
        "metadata.annotations[note.gpustack.ai/cores]",
        "metadata.annotations[note.gpustack.ai/cpuDetail]",
        "metadata.annotations[note.gpustack.ai/family]",
        "metadata.annotations[note.gpustack.ai/generalGroup]",
        "metadata.annotations[note.gpustack.ai/manufacturer]",
        "metadata.annotations[note.gpustack.ai/memory]",
        "metadata.annotations[note.gpustack.ai/product]",
        "metadata.finalizers[0]",
        "spec.topologyName",
    ),
    "clusterqueue": (
        *GENERATION,
        "metadata.finalizers[0]",
        "spec.flavorFungibility.whenCanBorrow",
        "spec.flavorFungibility.whenCanPreempt",
        "spec.namespaceSelector",
        "spec.preemption.borrowWithinCohort.policy",
        "spec.preemption.reclaimWithinCohort",
        "spec.preemption.withinClusterQueue",
        "spec.queueingStrategy",
        "spec.stopPolicy",
        "status",
    ),
    "instancetype": (
        *GENERATION,
        "metadata.finalizers[0]",
        "spec.displayName",
        "status.cpu.capacity",
        "status.cpu.onceMaxRequest",
        "status.cpu.remaining",
        "status.detail.computeCapability",
        "status.detail.cores",
        "status.detail.family",
        "status.detail.manufacturer",
        "status.detail.memory",
        "status.detail.product",
        "status.detail.runtimeVersion",
        "status.detail.runtimeVersions[0]",
        "status.detail.slicedDetail.logical.coresPercentageOvercommit",
        "status.detail.slicedDetail.logical.count",
        "status.phaseMessage",
        "status.summary.accelerator",
        "status.summary.cpu",
        "status.summary.unit",
    ),
    "instancetypeflavor": (*GENERATION, "spec.family"),
}


@pytest.mark.parametrize("name", FURTHER)
async def test_an_object_holds_what_is_shown_and_what_is_listed(name: str, kubectl: Kubectl) -> None:
    wanted = described(name)
    namespace = wanted["metadata"].get("namespace", "default")
    answer = await kubectl("-n", namespace, "get", wanted["kind"], wanted["metadata"]["name"], "-o", "json")
    present, shown = fields(json.loads(answer)), fields(wanted)
    assert {path: present.get(path) for path in shown} == shown
    assert beyond(present, shown, FURTHER[name]) == []
    assert absent(present, FURTHER[name]) == []


async def test_what_an_administrator_leaves_out_of_a_type_is_filled_in(walkthrough: Walkthrough) -> None:
    await walkthrough.add_custom_type()
    await walkthrough.shows("custom-type", "instancetype")
    present = fields(json.loads(await walkthrough.kubectl("get", "instancetype", "a10g-12c128g", "-o", "json")))
    shown = fields(described("instancetype-custom"))
    assert {path: present.get(path) for path in shown} == shown


async def test_the_queue_of_a_pool_that_tells_cpus_apart_is_labelled_with_the_cpu(walkthrough: Walkthrough) -> None:
    await walkthrough.tell_cpus_apart(True)
    await walkthrough.shows("cpu-aware", "clusterqueue")
    wanted = described("clusterqueue-cpu-aware")
    answer = await walkthrough.kubectl("get", "clusterqueue", wanted["metadata"]["name"], "-o", "json")
    assert json.loads(answer)["metadata"]["labels"] == wanted["metadata"]["labels"]
