"""Simulated nodes and tokens of service accounts against a real API server."""

from __future__ import annotations

import asyncio
import shutil
import uuid
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from devcluster.node import NODES, Node, SimulatedNode
from devcluster.paths import MACHINES
from devcluster.programs import AGENT
from devcluster.programs import NAMESPACE as SYSTEM
from devcluster.tokens import Token
from gpustack_op.agent import inventory
from gpustack_op.api.nfd import NODE_FEATURES
from gpustack_op.runtime.client import Client
from tests.waiting import until


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The A10G machine's inventory under a name of its own, to be changed at will."""
    copy = tmp_path / "machine.yaml"
    shutil.copy(MACHINES / "node-a10g.yaml", copy)
    replace(copy, "node: node-a10g", f"node: node-{uuid.uuid4().hex[:8]}")
    return copy


@pytest.fixture
async def node(file: Path, client: Client, said: list[str]) -> AsyncIterator[SimulatedNode]:
    made = SimulatedNode(file, inventory.load(file), client, said.append)
    await made.join()
    await made.publish()
    running = asyncio.create_task(made.run())
    yield made
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    await made.leave()


@pytest.fixture
def said() -> list[str]:
    return []


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


async def test_extended_resources_become_allocatable_and_go_again(node: SimulatedNode, client: Client) -> None:
    async def has(amount: str | None) -> bool:
        return (await client.get(NODES, node.name)).status.allocatable.get("example.com/card") == amount

    for amount in ("2", "3", None):
        capacity = {"status": {"capacity": {"example.com/card": amount}}}
        await client.merge_patch(NODES, node.name, capacity, subresource="status")
        await until(lambda amount=amount: has(amount))  # type: ignore[misc]
    assert (await client.get(NODES, node.name)).status.allocatable["cpu"] == "4"


async def test_a_node_that_was_marked_unready_says_that_it_is_well(node: SimulatedNode, client: Client) -> None:
    marked = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
    await client.merge_patch(NODES, node.name, marked, subresource="status")

    async def ready() -> bool:
        return (await client.get(NODES, node.name)).status.ready

    await until(ready)


async def test_a_changed_inventory_is_published(node: SimulatedNode, client: Client, file: Path) -> None:
    replace(file, "family: 23", "family: 99")
    replace(file, "memory: 64Gi", "memory: 32Gi")

    async def published() -> bool:
        feature = await client.get(NODE_FEATURES, node.name, "nfd")
        seen = await client.get(NODES, node.name)
        family = (feature.spec.labels or {}).get("feature.node.kubernetes.io/cpu-model.family")
        return (family, seen.status.capacity["memory"]) == ("99", "32Gi")

    await until(published)


async def test_an_inventory_that_cannot_be_used_is_said_and_the_last_good_one_stays(
    node: SimulatedNode, client: Client, file: Path, said: list[str]
) -> None:
    replace(file, "cores: 4", "cores: -4")

    async def complained() -> bool:
        return bool(said)

    await until(complained)
    assert "keeps its last good inventory" in said[0]
    assert "cpu.cores" in said[0]
    assert (await client.get(NODES, node.name)).status.capacity["cpu"] == "4"


async def test_a_node_that_is_there_already_is_taken_over(node: SimulatedNode, client: Client, file: Path) -> None:
    uid = node.uid
    again = SimulatedNode(file, inventory.load(file), client, print)
    await again.join()
    assert again.uid == uid


async def test_a_lease_is_renewed_and_owned_by_its_node(node: SimulatedNode, client: Client) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{node.name}"
    lease = msgspec.json.decode(await client.raw("GET", path))
    assert lease["metadata"]["ownerReferences"][0]["uid"] == node.uid
    assert lease["spec"]["holderIdentity"] == node.name
    assert lease["spec"]["renewTime"]


async def test_an_agents_token_tells_its_node(node: SimulatedNode, client: Client, tmp_path: Path) -> None:
    bound: Node = await client.get(NODES, node.name)
    reference = {"apiVersion": "v1", "kind": "Node", "name": bound.name, "uid": bound.uid}
    token = Token(account=AGENT, namespace=SYSTEM, file=tmp_path / "token", bound_to=reference)
    seconds = await token.fetch(client)
    review = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": token.file.read_text()},
    }
    answer = await client.raw("POST", "/apis/authentication.k8s.io/v1/tokenreviews", body=msgspec.json.encode(review))
    user = msgspec.json.decode(answer)["status"]["user"]
    assert user["username"] == f"system:serviceaccount:{SYSTEM}:{AGENT}"
    assert user["extra"]["authentication.kubernetes.io/node-name"] == [bound.name]
    assert 2800 < seconds < 2900
    assert token.file.stat().st_mode & 0o077 == 0
