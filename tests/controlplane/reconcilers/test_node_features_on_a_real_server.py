"""The operator's NodeFeature against a real API server: made, healed, and never in the way of a person's opt-out."""

from __future__ import annotations

from gpustack_op.api.core import NODES
from gpustack_op.api.nfd import NODE_FEATURES, NodeFeature
from gpustack_op.runtime.config import ClientConfig
from tests.controlplane.reconcilers.players import discover, forget, join
from tests.controlplane.reconcilers.stage import NAMESPACE, Stage, staged

WORKER = "node-cpu-gpustack-worker"
MANAGED = "gpustack.ai/managed"
KEY = "general.feature.gpustack.ai/amd-epyc-7r13"
ABSURD = {
    "amd-epyc-7r32.count": "many",
    "amd.count": "99999999999999999999",
    "a" * 63: "true",
    "x_y.z": "true",
}


async def worker(stage: Stage, **labels: str | None) -> NodeFeature:
    """The NodeFeature once its labels say this; `managed` stands for its full key, None for an absent one."""
    wanted = {MANAGED if key == "managed" else key: value for key, value in labels.items()}
    return await stage.until_so(
        NODE_FEATURES,
        WORKER,
        lambda feature: all((feature.spec.labels or {}).get(key) == value for key, value in wanted.items()),
        within=NAMESPACE,
    )


async def edit(stage: Stage, **labels: str | None) -> None:
    wanted = {MANAGED if key == "managed" else key: value for key, value in labels.items()}
    await stage.edit(NODE_FEATURES, WORKER, {"spec": {"labels": wanted}}, within=NAMESPACE)


async def test_a_node_feature_is_made_and_put_back(config: ClientConfig) -> None:
    async with staged(config, "node_feature") as stage:
        await join(stage, "cpu")
        await worker(stage, managed="true", **{KEY: "true", f"{KEY}.count": "16"})

        await stage.remove(NODE_FEATURES, WORKER, within=NAMESPACE)
        await worker(stage, managed="true", **{KEY: "true"})
        await edit(stage, **{KEY: "false", "general.feature.gpustack.ai/made-up": "true", "team.example.com/a": "b"})
        await worker(stage, **{KEY: "true", "general.feature.gpustack.ai/made-up": None, "team.example.com/a": "b"})

        assert await stage.reconcile_everything() == []


async def test_an_opt_out_survives_edits_passes_and_the_loss_of_its_node_feature(config: ClientConfig) -> None:
    async with staged(config, "node_feature") as stage:
        await join(stage, "cpu")
        await worker(stage, managed="true", **{KEY: "true"})
        await discover(stage, "node-cpu")

        await edit(stage, managed="false")
        await stage.until_so(NODES, "node-cpu", lambda node: node.annotations.get(MANAGED) == "false")
        await stage.edit(NODES, "node-cpu", {"status": {"capacity": {"cpu": "8"}}}, subresource="status")
        await worker(stage, managed="false", **{f"{KEY}.count": "8"})
        await stage.remove(NODE_FEATURES, WORKER, within=NAMESPACE)

        await worker(stage, managed="false", **{f"{KEY}.count": "8"})


async def test_an_opt_out_beside_our_own_write_is_never_reverted(config: ClientConfig) -> None:
    async with staged(config, "node_feature") as stage:
        await join(stage, "cpu")
        await worker(stage, managed="true", **{KEY: "true"})
        for cores in range(20, 40):
            await stage.edit(NODES, "node-cpu", {"status": {"capacity": {"cpu": str(cores)}}}, subresource="status")
            await edit(stage, managed="false" if cores % 2 else "true")
        await worker(stage, managed="false", **{f"{KEY}.count": "39"})
        await stage.settle()
        assert (await worker(stage, managed="false")).name == WORKER


async def test_a_node_that_lost_its_labels_keeps_its_key(config: ClientConfig) -> None:
    async with staged(config, "node_feature") as stage:
        await join(stage, "cpu")
        await worker(stage, **{KEY: "true"})
        await discover(stage, "node-cpu")
        await stage.remove(NODE_FEATURES, "node-cpu-gpustack-device-manager", within=NAMESPACE)
        await forget(stage, "node-cpu")
        assert await stage.reconcile_everything() == []
        await worker(stage, managed="true", **{KEY: "true"})


async def test_absurd_labels_of_one_node_stop_no_other(config: ClientConfig) -> None:
    async with staged(config, "node_feature") as stage:
        absurd = {f"example.com/{'x' * 55}-{number:03}": "v" * 63 for number in range(500)}
        ours = {f"general.feature.gpustack.ai/{name}": value for name, value in ABSURD.items()}
        await join(stage, "a10g")
        await stage.edit(NODES, "node-a10g", {"metadata": {"labels": absurd | ours}})
        await stage.edit(NODES, "node-a10g", {"status": {"capacity": {"cpu": "1E"}}}, subresource="status")
        await join(stage, "cpu")
        await worker(stage, managed="true", **{KEY: "true"})
        feature = await stage.until_there(NODE_FEATURES, "node-a10g-gpustack-worker", within=NAMESPACE)
        assert (feature.spec.labels or {})["general.feature.gpustack.ai/amd-epyc-7r32"] == "true"
        await stage.settle()
