"""Flavors, queues and types against a real API server, with Kueue's status played: how they come, lean and go."""

from __future__ import annotations

import pytest

from gpustack_op.api.core import NODES
from gpustack_op.api.kueue import CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS, WORKLOADS, ClusterQueue
from gpustack_op.api.nfd import NODE_FEATURES
from gpustack_op.api.worker import INSTANCE_TYPE_FLAVORS, INSTANCE_TYPES
from gpustack_op.runtime.config import ClientConfig
from tests.builders import flavor, instance_type
from tests.controlplane.reconcilers.players import admit, discover, join, kueue_sees
from tests.controlplane.reconcilers.stage import NAMESPACE, Stage, staged

T4_1 = "gpustack--intel-xeon-platinum-8259cl--nvidia-tesla-t4-linux-amd64-1d"
T4_4 = "gpustack--intel-xeon-platinum-8259cl--nvidia-tesla-t4-linux-amd64-4d"
T4_CAPACITY = "acceleratable.feature.gpustack.ai/nvidia-tesla-t4.capacity"
T4 = "gpustack--nvidia-tesla-t4-linux-amd64"
CREDITS = "credits.gpustack.ai/nvidia"
CHAIN = ("node_feature", "flavors", "instance_types", "queues")


def quotas(queue: ClusterQueue) -> dict[str, str]:
    """Quota by flavor, in order."""
    return {f.name: f.resources[0].nominal_quota for g in queue.spec.resource_groups or () for f in g.flavors}


async def with_t4(stage: Stage, *shorts: str) -> None:
    """Machines with T4, known to everybody."""
    for short in shorts:
        await join(stage, short)
        await stage.until_there(NODE_FEATURES, f"node-{short}-gpustack-worker", within=NAMESPACE)
        await discover(stage, f"node-{short}")


async def opt_out(stage: Stage, node: str) -> None:
    patch = {"spec": {"labels": {"gpustack.ai/managed": "false"}}}
    await stage.edit(NODE_FEATURES, f"{node}-gpustack-worker", patch, within=NAMESPACE)


async def test_a_flavor_leaned_on_goes_last(config: ClientConfig) -> None:
    async with staged(config, "node_feature", "flavors") as stage:
        await with_t4(stage, "t4-a")
        await stage.until_so(RESOURCE_FLAVORS, T4_1, lambda f: f.labels[T4_CAPACITY] == "1")
        listing = {"name": T4_1, "resources": [{"name": CREDITS, "nominalQuota": "1600k"}]}
        groups = [{"coveredResources": [CREDITS], "flavors": [listing]}]
        await stage.people.create(CLUSTER_QUEUES, {"metadata": {"name": "leaning"}, "spec": {"resourceGroups": groups}})
        await admit(stage, "w", queue="leaning", flavor=T4_1, resource=CREDITS, QuotaReserved="True", Admitted="True")

        await stage.remove(NODES, "node-t4-a")
        await stage.until_so(RESOURCE_FLAVORS, T4_1, lambda f: f.labels[T4_CAPACITY] == "0")
        assert await stage.reconcile_everything() == []
        await stage.remove(CLUSTER_QUEUES, "leaning")
        assert await stage.reconcile_everything() == []
        await stage.remove(WORKLOADS, "w", within="default")

        await stage.until_gone(RESOURCE_FLAVORS, T4_1)


async def test_a_spec_that_kueue_forbids_to_change_is_made_anew(config: ClientConfig) -> None:
    async with staged(config, "node_feature", "flavors") as stage:
        marks = {"metadata": {"name": T4_1, "labels": {"resource.gpustack.ai/type": "nodes"}}}
        earlier = await stage.people.create(RESOURCE_FLAVORS, {**marks, "spec": {"nodeLabels": {"a": "b"}}})
        await with_t4(stage, "t4-a")
        made = await stage.until_so(RESOURCE_FLAVORS, T4_1, lambda f: f.uid != earlier.uid)
        assert made.spec.topology_name == "gpustack"


async def test_a_derived_pool_from_its_first_node_to_its_last(config: ClientConfig) -> None:
    async with staged(config, *CHAIN) as stage:
        await with_t4(stage, "t4-a", "t4-b")
        await stage.until_so(CLUSTER_QUEUES, T4, lambda q: quotas(q) == {T4_1: "1600k", T4_4: "6400k"})
        await kueue_sees(stage, T4)

        await opt_out(stage, "node-t4-a")
        await stage.until_so(CLUSTER_QUEUES, T4, lambda q: quotas(q) == {T4_4: "6400k", T4_1: "0"})
        assert await stage.reconcile_everything() == []
        await kueue_sees(stage, T4)
        queue = await stage.until_so(CLUSTER_QUEUES, T4, lambda q: quotas(q) == {T4_4: "6400k"})
        assert queue.spec.stop_policy == "None"
        await stage.until_gone(RESOURCE_FLAVORS, T4_1)

        await opt_out(stage, "node-t4-b")
        await stage.until_so(CLUSTER_QUEUES, T4, lambda q: q.spec.stop_policy == "Hold" and quotas(q) == {T4_4: "0"})
        await kueue_sees(stage, T4)
        await stage.until_so(CLUSTER_QUEUES, T4, lambda q: quotas(q) == {})
        await stage.until_gone(RESOURCE_FLAVORS, T4_4)
        assert T4 in await stage.names(INSTANCE_TYPES)


async def test_a_reservation_without_its_verdict_keeps_the_flavor_in_the_queue(config: ClientConfig) -> None:
    async with staged(config, *CHAIN) as stage:
        await with_t4(stage, "t4-a", "t4-b")
        await stage.until_so(CLUSTER_QUEUES, T4, lambda q: quotas(q) == {T4_1: "1600k", T4_4: "6400k"})
        await kueue_sees(stage, T4)
        await admit(stage, "w", queue=T4, flavor=T4_1, resource=CREDITS, QuotaReserved="True")
        await opt_out(stage, "node-t4-a")
        await stage.until_so(CLUSTER_QUEUES, T4, lambda q: quotas(q) == {T4_4: "6400k", T4_1: "0"})
        await kueue_sees(stage, T4)
        assert await stage.reconcile_everything() == []

        await admit(stage, "w", queue=T4, flavor=T4_1, resource=CREDITS, QuotaReserved="True", Admitted="True")

        await stage.until_so(CLUSTER_QUEUES, T4, lambda q: quotas(q) == {T4_4: "6400k"})
        assert await stage.reconcile_everything() == []
        assert T4_1 in await stage.names(RESOURCE_FLAVORS)


@pytest.mark.parametrize(
    ("drain", "stop"),
    [
        pytest.param("false", "Hold", id="what runs there runs on"),
        pytest.param("true", "HoldAndDrain", id="where the setting says so, it is stopped"),
    ],
)
async def test_the_last_flavor_of_a_pool_in_use(config: ClientConfig, drain: str, stop: str) -> None:
    async with staged(config, *CHAIN, "settings") as stage:
        await with_t4(stage, "t4-a")
        await stage.until_so(CLUSTER_QUEUES, T4, lambda q: quotas(q) == {T4_1: "1600k"})
        await kueue_sees(stage, T4, admittedWorkloads=1, reservingWorkloads=1)
        await stage.set(instance_type_drain_when_no_flavors=drain)
        await opt_out(stage, "node-t4-a")
        await stage.until_so(CLUSTER_QUEUES, T4, lambda q: q.spec.stop_policy == stop and quotas(q) == {T4_1: "0"})


async def test_a_type_from_its_creation_to_its_end(config: ClientConfig) -> None:
    async with staged(config, "instance_types", "queues", "entrances") as stage:
        await stage.add(INSTANCE_TYPES, instance_type("mine", accelerator_group="nvidia-tesla-t4"))
        made = await stage.until_there(CLUSTER_QUEUES, "mine")
        assert made.spec.stop_policy == "Hold"
        await stage.until(lambda: stage.names(LOCAL_QUEUES))
        await stage.edit(
            INSTANCE_TYPES, "mine", {"metadata": {"finalizers": ["example.com/x", "gpustack.ai/controlled"]}}
        )

        await stage.remove(INSTANCE_TYPES, "mine")
        await stage.until_so(CLUSTER_QUEUES, "mine", lambda q: q.spec.stop_policy == "HoldAndDrain")
        await kueue_sees(stage, "mine", reservingWorkloads=1)
        assert await stage.reconcile_everything() == []
        await kueue_sees(stage, "mine", reservingWorkloads=0)

        await stage.until_gone(CLUSTER_QUEUES, "mine")
        await stage.until_so(INSTANCE_TYPES, "mine", lambda t: t.metadata.finalizers == ("example.com/x",))


async def test_a_queue_deleted_by_hand_comes_back_with_its_entrances(config: ClientConfig) -> None:
    async with staged(config, "instance_types", "queues", "entrances") as stage:
        await stage.add(INSTANCE_TYPES, instance_type("mine", accelerator_group="nvidia-tesla-t4"))
        first = await stage.until_there(CLUSTER_QUEUES, "mine")
        await stage.until(lambda: stage.names(LOCAL_QUEUES))
        await stage.remove(CLUSTER_QUEUES, "mine")
        second = await stage.until_so(CLUSTER_QUEUES, "mine", lambda q: q.uid != first.uid)
        name = (await stage.names(LOCAL_QUEUES))[0]
        await stage.until_so(LOCAL_QUEUES, name, lambda q: q.controlled_by(second.uid), within="default")


async def test_entrances_are_put_back_and_closed_namespaces_have_none(config: ClientConfig) -> None:
    async with staged(config, "instance_types", "queues", "entrances") as stage:
        await stage.add(INSTANCE_TYPES, instance_type("a10g-12c128g", accelerator_group="nvidia-a10g"))
        entrance = "gpustack-fnv64-d4c0e6cd72686015"
        first = await stage.until_there(LOCAL_QUEUES, entrance, within="default")
        await stage.remove(LOCAL_QUEUES, entrance, within="default")
        await stage.until_so(LOCAL_QUEUES, entrance, lambda q: q.uid != first.uid, within="default")
        await stage.edit(LOCAL_QUEUES, entrance, {"spec": {"stopPolicy": "Hold"}}, within="default")
        await stage.until_so(LOCAL_QUEUES, entrance, lambda q: q.spec.stop_policy == "None", within="default")
        await stage.settle()
        assert {queue.namespace for queue in await stage.people.list(LOCAL_QUEUES)} == {"default"}


async def test_flavors_and_queues_of_an_earlier_naming_show_once_and_go_queue_first(config: ClientConfig) -> None:
    earlier = flavor("t4-a", cards=True, name="gpustack-old-t4")
    listing = {"name": earlier.name, "resources": [{"name": CREDITS, "nominalQuota": "1600k"}]}
    pool = {
        "metadata": {"name": T4, "labels": {"resource.gpustack.ai/type": "instancetypes"}},
        "spec": {"resourceGroups": [{"coveredResources": [CREDITS], "flavors": [listing]}]},
    }
    async with staged(config) as before:
        await before.add(RESOURCE_FLAVORS, earlier)
        await before.people.create(CLUSTER_QUEUES, pool)
        await before.add(INSTANCE_TYPES, instance_type(T4, accelerator_group="nvidia-tesla-t4"))
    async with staged(config, *CHAIN, "catalog") as stage:
        await with_t4(stage, "t4-a")
        await stage.until_so(CLUSTER_QUEUES, T4, lambda q: quotas(q) == {T4_1: "1600k", "gpustack-old-t4": "0"})
        await stage.settle()
        assert await stage.names(INSTANCE_TYPE_FLAVORS) == ["gpustack--generic", "gpustack--nvidia-tesla-t4"]
        assert "gpustack-old-t4" in await stage.names(RESOURCE_FLAVORS)
        await kueue_sees(stage, T4)
        await stage.until_so(CLUSTER_QUEUES, T4, lambda q: quotas(q) == {T4_1: "1600k"})
        await stage.until_gone(RESOURCE_FLAVORS, "gpustack-old-t4")


async def test_a_terminating_flavor_is_not_used_again(config: ClientConfig) -> None:
    async with staged(config, *CHAIN) as stage:
        await with_t4(stage, "t4-a")
        first = await stage.until_there(RESOURCE_FLAVORS, T4_1)
        await stage.until_so(CLUSTER_QUEUES, T4, lambda q: quotas(q) == {T4_1: "1600k"})
        await kueue_sees(stage, T4)
        held = ["kueue.x-k8s.io/resource-in-use"]
        await stage.edit(RESOURCE_FLAVORS, T4_1, {"metadata": {"finalizers": held}})
        await stage.remove(RESOURCE_FLAVORS, T4_1)
        await stage.until_so(CLUSTER_QUEUES, T4, lambda q: quotas(q) == {T4_1: "0"})
        await kueue_sees(stage, T4)
        await stage.until_so(CLUSTER_QUEUES, T4, lambda q: quotas(q) == {})
        await stage.edit(RESOURCE_FLAVORS, T4_1, {"metadata": {"finalizers": None}})

        await stage.until_so(RESOURCE_FLAVORS, T4_1, lambda f: f.uid != first.uid)
        await stage.until_so(CLUSTER_QUEUES, T4, lambda q: quotas(q) == {T4_1: "1600k"})
