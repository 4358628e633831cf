"""Who else acts in a cluster, played by hand: the kubelet, the agent, Node Feature Discovery's master, Kueue."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpustack_op.agent.announcements import Announcements
from gpustack_op.agent.detector.simulated import SimulatedDetector
from gpustack_op.agent.devices_writer import DevicesWriter
from gpustack_op.agent.informers import AgentInformers
from gpustack_op.agent.monitor import Monitor
from gpustack_op.agent.reporter import Reporter
from gpustack_op.api.core import NODES
from gpustack_op.api.kueue import CLUSTER_QUEUES, WORKLOADS, ClusterQueue
from gpustack_op.api.nfd import NODE_FEATURES
from gpustack_op.api.worker import DEVICES
from gpustack_op.runtime.apply import Writer
from gpustack_op.runtime.cache import Caches
from gpustack_op.runtime.controller import Request
from gpustack_op.scheduling import labels
from tests.builders import CARD_KEYS, CARDS, MACHINES, agent_feature, bare_node, devices, free
from tests.controlplane.reconcilers.stage import NAMESPACE, Stage

PUBLISHED = (labels.MANAGED, labels.FEATURE_PREFIX, labels.GENERAL_PREFIX, labels.ACCELERATOR_PREFIX)


async def join(stage: Stage, short: str) -> None:
    """One of the documentation's machines: its Node, and what its agent reports."""
    await stage.add(NODES, bare_node(short))
    await report(stage, short)


async def report(stage: Stage, short: str) -> None:
    """What its agent reports."""
    machine = MACHINES[short]
    await stage.add(NODE_FEATURES, agent_feature(short))
    if machine.card:
        cards = [free()] * machine.cards
        key, memory = CARD_KEYS[machine.card], CARDS[machine.card]["memory"]
        reported = devices(machine.name, *cards, key=key, general_key="", managed="", memory=memory)
        await stage.add(DEVICES, reported)


async def report_inventory(stage: Stage, node: str, file: Path) -> None:
    """What the agent makes of an inventory file, once."""
    caches = Caches(stage.people, freeze=lambda: None)
    informers = AgentInformers(caches, node=node, namespace=NAMESPACE)
    announcements = Announcements(stage.recorder, informers.node)
    monitor = Monitor(SimulatedDetector(file), informers, announcements, wake=lambda: None)
    writers = Writer(stage.people, "agent"), DevicesWriter(stage.people, "agent")
    reporter = Reporter(informers, *writers, lambda: monitor.sight)
    caches.start()
    try:
        await caches.wait_synced()
        await monitor.look()
        await reporter.reconcile(Request(node))
    finally:
        await caches.stop()


async def discover(stage: Stage, node: str) -> None:
    """The Node gets the labels that our NodeFeatures state, and loses those that they state no more."""
    present = await stage.people.get(NODES, node)
    stated: dict[str, str | None] = {}
    for feature in await stage.people.list(NODE_FEATURES, NAMESPACE):
        if feature.labels.get(labels.NFD_NODE_NAME) == node:
            stated |= feature.spec.labels or {}
    lost = {key: None for key in present.labels if key.startswith(PUBLISHED) and key not in stated}
    await stage.edit(NODES, node, {"metadata": {"labels": stated | lost}})


async def known(stage: Stage, short: str) -> None:
    """Once the operator has labelled the machine, discovery brings that to its Node."""
    feature = f"node-{short}-gpustack-worker"
    key = f"{labels.GENERAL_PREFIX}{MACHINES[short].general_key}"
    await stage.until_so(NODE_FEATURES, feature, lambda f: key in (f.spec.labels or {}), within=NAMESPACE)
    await discover(stage, f"node-{short}")


async def forget(stage: Stage, node: str) -> None:
    """The Node loses all labels that discovery gave it."""
    present = await stage.people.get(NODES, node)
    lost = {key: None for key in present.labels if key.startswith(PUBLISHED)}
    await stage.edit(NODES, node, {"metadata": {"labels": lost}})


async def kueue_sees(stage: Stage, queue: str, **status: Any) -> ClusterQueue:
    """Kueue's verdict on the queue as it is stored; `status` is what it reports besides."""
    stored = await stage.people.get(CLUSTER_QUEUES, queue)
    stopped = stored.spec.stop_policy != "None"
    active = {
        "type": "Active",
        "status": "False" if stopped else "True",
        "reason": "Stopped" if stopped else "Ready",
        "message": "is stopped" if stopped else "Can admit new workloads",
        "observedGeneration": stored.metadata.generation,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    return await stage.edit(CLUSTER_QUEUES, queue, {"status": {"conditions": [active], **status}}, subresource="status")


async def admit(stage: Stage, name: str, *, queue: str, flavor: str, resource: str, **conditions: str) -> None:
    """A Workload with quota on a flavor; `conditions` replace those it has."""
    if await stage.get(WORKLOADS, name, within="default") is None:
        await stage.people.create(WORKLOADS, workload_body(name), namespace="default")
    status = {
        "conditions": [
            {
                "type": kind,
                "status": state,
                "reason": "Played",
                "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
            for kind, state in conditions.items()
        ],
        "admission": {
            "clusterQueue": queue,
            "podSetAssignments": [
                {"name": "main", "count": 1, "flavors": {resource: flavor}, "resourceUsage": {resource: "1"}}
            ],
        },
    }
    await stage.edit(WORKLOADS, name, {"status": status}, within="default", subresource="status")


def workload_body(name: str) -> dict[str, Any]:
    container = {"name": "main", "image": "example.com/none"}
    pod_set = {"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"podSets": [pod_set], "queueName": "any"}}
