"""The judge and the nodes' figures against a real API server, with the test playing Kueue and the agents' ledgers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from gpustack_op.api.core import NODES, PODS
from gpustack_op.api.kueue import CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS, WORKLOADS, Workload
from gpustack_op.api.worker import DEVICES, INSTANCE_TYPES
from gpustack_op.operator.workload_fit import WHOLE_WORKLOADS
from gpustack_op.runtime.config import ClientConfig
from gpustack_op.scheduling import names
from tests.builders import instance_type
from tests.controlplane.people import ACCOUNTS
from tests.controlplane.reconcilers.players import join, known
from tests.controlplane.reconcilers.stage import Stage, staged

CHECK = "gpustack-node-devices"
CREDITS = "credits.gpustack.ai/nvidia"
GPU = "nvidia.com/gpu"
FLAVOR = "cards"
KEY = "acceleratable.feature.gpustack.ai/nvidia-tesla-t4"
LONG_AGO = "2026-01-01T00:00:00Z"
PLAYED = {"reason": "Played", "message": "", "lastTransitionTime": LONG_AGO}
FULL_A = (
    "node node-t4-a: asked for 1 whole card of nvidia-tesla-t4, but 0 of 1 cards free; "
    "card GPU-node-t4-a-0 is in use (exclusive); "
    "cards promised to 1 Pod that have not taken them yet count as taken"
)
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"

DEFAULT_PODS = "/api/v1/namespaces/default/pods"
AT_ONCE = json.dumps({"gracePeriodSeconds": 0}).encode()

Json = dict[str, Any]


@asynccontextmanager
async def with_t4(config: ClientConfig, *controllers: str) -> AsyncIterator[Stage]:
    """Two machines with T4, Ready, and a queue of them."""
    async with staged(config, "node_feature", *controllers) as stage:
        for short in ("t4-a", "t4-b"):
            await join(stage, short)
            await known(stage, short)
            ready = [{"type": "Ready", "status": "True", **PLAYED}]
            await stage.edit(NODES, f"node-{short}", {"status": {"conditions": ready}}, subresource="status")
        spec = {"nodeLabels": {KEY: "true"}}
        await stage.people.create(RESOURCE_FLAVORS, {"metadata": {"name": FLAVOR}, "spec": spec})
        await stage.people.create(CLUSTER_QUEUES, queue())
        try:
            yield stage
        finally:
            await stage.people.raw("DELETE", DEFAULT_PODS, body=AT_ONCE)


def queue() -> Json:
    listing = {"name": FLAVOR, "resources": [{"name": CREDITS, "nominalQuota": "8M"}]}
    return {
        "metadata": {"name": "pool", "labels": {"resource.gpustack.ai/type": "instancetypes"}},
        "spec": {
            "resourceGroups": [{"coveredResources": [CREDITS], "flavors": [listing]}],
            "admissionChecksStrategy": {"admissionChecks": [{"name": CHECK}]},
        },
    }


async def submit(stage: Stage, name: str, node: str, requests: dict[str, str]) -> None:
    """Kueue has made a Workload, and has reserved quota and this node for it."""
    container = {"name": "main", "image": "example.com/none", "resources": {"requests": requests, "limits": requests}}
    pod_set = {"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}
    body = {"metadata": {"name": name, "namespace": "default"}, "spec": {"podSets": [pod_set], "queueName": "any"}}
    await stage.people.create(WORKLOADS, body, namespace="default")
    await reserve(stage, name, node)


async def reserve(stage: Stage, name: str, node: str) -> None:
    part = {"domainCount": 1, "podCounts": {"universal": 1}, "valuesPerLevel": [{"universal": node}]}
    assignment = {
        "name": "main",
        "count": 1,
        "flavors": {CREDITS: FLAVOR},
        "resourceUsage": {CREDITS: "1600k"},
        "topologyAssignment": {"levels": ["kubernetes.io/hostname"], "slices": [part]},
    }
    status = {
        "admission": {"clusterQueue": "pool", "podSetAssignments": [assignment]},
        "conditions": [{"type": "QuotaReserved", "status": "True", **PLAYED}],
        "admissionChecks": [
            {"name": CHECK, "state": "Pending", **{k: PLAYED[k] for k in ("message", "lastTransitionTime")}}
        ],
    }
    await stage.edit(WORKLOADS, name, {"status": status}, within="default", subresource="status")


async def evict(stage: Stage, name: str) -> None:
    conditions = [
        {"type": "QuotaReserved", "status": "False", **PLAYED},
        {"type": "Evicted", "status": "True", **PLAYED},
    ]
    status = {"conditions": conditions, "admission": None}
    await stage.edit(WORKLOADS, name, {"status": status}, within="default", subresource="status")


async def use(stage: Stage, node: str, cards: int) -> None:
    """A Pod that came through no queue and is about to be given so many cards."""
    if await stage.get(ACCOUNTS, "default", within="default") is None:
        await stage.people.create(ACCOUNTS, {"metadata": {"name": "default"}}, namespace="default")
    container = {"name": "main", "image": "example.com/none", "resources": {"limits": {GPU: str(cards)}}}
    spec = {"nodeName": node, "containers": [container]}
    body = {"metadata": {"name": f"user-of-{node}", "namespace": "default"}, "spec": spec}
    await stage.people.create(PODS, body, namespace="default")


async def end(stage: Stage, node: str) -> None:
    """It ends, and the agent brings its ledger up to date."""
    await stage.people.raw("DELETE", f"{DEFAULT_PODS}/user-of-{node}", body=AT_ONCE)
    await stage.edit(DEVICES, node, {"status": {"groups": []}}, subresource="status")


def said(workload: Workload) -> tuple[str, str]:
    [check] = workload.status.admission_checks or ()
    return check.state, check.message


async def affinity(stage: Stage, name: str) -> Any:
    whole = await stage.people.get(WHOLE_WORKLOADS, name, "default")
    return whole.spec["podSets"][0]["template"]["spec"].get("affinity")


def to(node: str) -> Any:
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}}


async def ready(stage: Stage, name: str) -> Workload:
    return await stage.until_so(WORKLOADS, name, lambda w: said(w)[0] == "Ready", within="default")


async def held(stage: Stage, name: str) -> Workload:
    return await stage.until_so(WORKLOADS, name, lambda w: not w.spec.active, within="default")


async def let_in(stage: Stage, name: str) -> Workload:
    return await stage.until_so(WORKLOADS, name, lambda w: w.spec.active, within="default")


async def test_what_fits_is_ready_and_then_there_is_peace(config: ClientConfig) -> None:
    async with with_t4(config, "admission_judge") as stage:
        await submit(stage, "w", "node-t4-a", {GPU: "1"})
        judged = await ready(stage, "w")
        [check] = judged.status.admission_checks or ()
        assert check.last_transition_time > LONG_AGO
        await stage.settle()
        assert await stage.reconcile_everything() == []


async def test_what_does_not_fit_goes_where_it_does(config: ClientConfig) -> None:
    async with with_t4(config, "admission_judge") as stage:
        await use(stage, "node-t4-a", 1)
        await submit(stage, "w", "node-t4-a", {GPU: "1"})
        assert said(await held(stage, "w")) == ("Pending", FULL_A)
        await evict(stage, "w")
        await let_in(stage, "w")
        assert await affinity(stage, "w") == to("node-t4-b")
        await reserve(stage, "w", "node-t4-b")
        await ready(stage, "w")

        async def told() -> bool:
            return FULL_A in await stage.notes("WaitingForCards")

        await stage.until(told)


async def test_what_fits_nowhere_waits_outside_until_a_ledger_moves(config: ClientConfig) -> None:
    async with with_t4(config, "admission_judge") as stage:
        await use(stage, "node-t4-a", 1)
        await use(stage, "node-t4-b", 4)
        await submit(stage, "w", "node-t4-a", {GPU: "1"})
        await held(stage, "w")
        await evict(stage, "w")
        await stage.settle()
        assert not (await stage.people.get(WORKLOADS, "w", "default")).spec.active
        await end(stage, "node-t4-b")
        await let_in(stage, "w")
        assert await affinity(stage, "w") == to("node-t4-b")


async def test_two_for_one_card_are_judged_one_after_the_other(config: ClientConfig) -> None:
    async with with_t4(config, "admission_judge") as stage:
        await use(stage, "node-t4-b", 4)
        await submit(stage, "one", "node-t4-a", {GPU: "1"})
        await ready(stage, "one")
        await submit(stage, "two", "node-t4-a", {f"{GPU}.shared": "1"})
        assert "promised to 1 Pod" in said(await held(stage, "two"))[1]


async def test_what_a_person_deactivated_is_left_alone(config: ClientConfig) -> None:
    async with with_t4(config) as stage:
        await submit(stage, "w", "node-t4-a", {GPU: "1"})
        await stage.edit(WORKLOADS, "w", {"spec": {"active": False}}, within="default")
        async with staged(config, "admission_judge") as operator:
            await operator.reconcile_everything()
            assert operator.writes == []


async def test_a_new_process_lets_in_what_an_earlier_one_held(config: ClientConfig) -> None:
    async with with_t4(config, "admission_judge") as stage:
        await use(stage, "node-t4-a", 1)
        await use(stage, "node-t4-b", 4)
        await submit(stage, "w", "node-t4-a", {GPU: "1"})
        await held(stage, "w")
        await evict(stage, "w")
        await stage.settle()
        async with staged(config, "admission_judge") as another:
            await let_in(another, "w")


async def test_what_came_while_the_webhook_was_away_is_pinned(config: ClientConfig) -> None:
    async with with_t4(config, "workload_fit") as stage:
        await stage.add(INSTANCE_TYPES, instance_type("pool", accelerator_group="nvidia-tesla-t4"))
        entrance = names.entrance("pool")
        body = {"metadata": {"name": entrance}, "spec": {"clusterQueue": "pool"}}
        await stage.people.create(LOCAL_QUEUES, body, namespace="default")
        await stage.reconcile_everything()
        slices = {f"{GPU}.sliced": "1", f"{GPU}.sliced.units": "800k"}
        container = {"name": "main", "image": "example.com/none", "resources": {"requests": slices, "limits": slices}}
        pod_set = {"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}
        spec = {"podSets": [pod_set], "queueName": entrance}
        await stage.people.create(WORKLOADS, {"metadata": {"name": "w"}, "spec": spec}, namespace="default")

        async def pinned() -> Any:
            return await affinity(stage, "w")

        [term] = (await stage.until(pinned))["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
        key = "sliced-max-free-units.fit.gpustack.ai/nvidia-tesla-t4"
        assert term == {"matchExpressions": [{"key": key, "operator": "Gt", "values": ["799999"]}]}


async def test_a_node_tells_what_its_cards_hold_and_can_take(config: ClientConfig) -> None:
    async with with_t4(config, "node_capacity", "fit_labels") as stage:
        patch = {"status": {"capacity": {f"{GPU}.sliced": "128"}}}
        await stage.edit(NODES, "node-t4-a", patch, subresource="status")
        units = f"{GPU}.sliced.units"
        node = await stage.until_so(NODES, "node-t4-a", lambda n: units in (n.status.capacity or {}))
        assert (node.status.capacity or {})[f"{GPU}.sliced.memory-mib"] == "16384"
        room = "sliced-max-free-units.fit.gpustack.ai/nvidia-tesla-t4"
        await stage.until_so(NODES, "node-t4-b", lambda n: n.labels.get(room) == "1600000")
        await stage.settle()
        assert await stage.reconcile_everything() == []

        await stage.edit(NODES, "node-t4-a", {"status": {"capacity": {f"{GPU}.sliced": "0"}}}, subresource="status")
        await stage.until_so(NODES, "node-t4-a", lambda n: units not in (n.status.capacity or {}))
        await stage.remove(DEVICES, "node-t4-b")
        await stage.until_so(NODES, "node-t4-b", lambda n: room not in n.labels)
