"""The agent against a real API server: its own groups are kept right, and nobody else's are touched."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest
from yarl import URL

from devcluster.cluster import Scope
from devcluster.handle import RunningCluster, running
from gpustack_op.agent.announcements import Announcements
from gpustack_op.agent.detector.simulated import SimulatedDetector
from gpustack_op.agent.devices_writer import DevicesWriter
from gpustack_op.agent.informers import AgentInformers
from gpustack_op.agent.monitor import Monitor
from gpustack_op.agent.reporter import Reporter
from gpustack_op.api.core import NODES
from gpustack_op.api.nfd import NODE_FEATURES
from gpustack_op.api.worker import DEVICES, DeviceGroup, Devices, LedgerGroup
from gpustack_op.runtime.apply import Writer
from gpustack_op.runtime.cache import Caches
from gpustack_op.runtime.client import Client
from gpustack_op.runtime.controller import Request

NAMESPACE = "gpustack-system"
NUMBERS = count(1)
LIMIT_MIB = 60
"""Resident memory that an agent may take."""

T4 = "{manufacturer: nvidia, uuid: GPU-%d, name: Tesla T4, memoryMib: 15360, computeCapability: '7.5', cores: 2560}"


@pytest.fixture(scope="module")
def cluster() -> Iterator[RunningCluster]:
    with running("agent-test", scope=Scope.CONTROL_PLANE, say=print) as started:
        yield started


class Stand:
    """An agent whose looks and reports are made by hand. All edits go through its client, so its caches follow."""

    def __init__(self, client: Client, node: str, inventory: Path) -> None:
        self.client, self.node = client, node
        self.inventory = inventory
        self.caches = Caches(client, freeze=lambda: None)
        self.informers = AgentInformers(self.caches, node=node, namespace=NAMESPACE)
        self.monitor = Monitor(
            SimulatedDetector(inventory), self.informers, Announcements(_Silent(), lambda: None), wake=lambda: None
        )
        self.reporter = Reporter(
            self.informers, Writer(client, "agent"), DevicesWriter(client, "agent"), lambda: self.monitor.sight
        )
        self.writes = 0
        client.on_write(self._count)

    async def report(self) -> int:
        """How many writes a whole pass over an unchanged machine took."""
        before = self.writes
        await self.monitor.look()
        await self.reporter.reconcile(Request(self.node))
        return self.writes - before

    async def has(self, *cards: int) -> None:
        """The machine gets these cards."""
        write_machine(self.inventory, self.node, *cards)
        await self.monitor.look()

    async def edit(self, patch: dict[str, Any], subresource: str = "") -> None:
        await self.client.merge_patch(DEVICES, self.node, patch, subresource=subresource, field_manager="somebody")

    @property
    def devices(self) -> Devices:
        present = self.informers.devices()
        assert present is not None
        return present

    @property
    def groups(self) -> tuple[DeviceGroup, ...]:
        return self.devices.spec.groups or ()

    @property
    def accounts(self) -> tuple[LedgerGroup, ...]:
        return self.devices.status.groups or ()

    def _count(self, _write: object) -> Any:
        self.writes += 1
        return lambda _answer: None


class _Silent:
    def event(self, *_arguments: object, **_more: object) -> None: ...


def write_machine(path: Path, node: str, *cards: int) -> None:
    accelerators = ", ".join(T4 % card for card in cards)
    path.write_text(f"{{node: {node}, memory: 64Gi, bootId: one, cpu: {{cores: 4}}, accelerators: [{accelerators}]}}")


@pytest.fixture
async def stand(cluster: RunningCluster, tmp_path: Path) -> AsyncIterator[Stand]:
    """A node of two cards that has been reported."""
    name = f"node-{next(NUMBERS)}"
    write_machine(tmp_path / "machine.yaml", name, 1, 2)
    before = sockets()
    async with Client(cluster.administrator) as client:
        labels = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
        await client.create(NODES, {"metadata": {"name": name, "labels": labels}})
        made = Stand(client, name, tmp_path / "machine.yaml")
        made.caches.start()
        await made.caches.wait_synced()
        await made.report()
        yield made
        await made.caches.stop()
    await closed_down_to(before)


def sockets() -> set[str]:
    """Those of this process, by inode."""
    links = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            links.append(os.readlink(descriptor))
    return {link for link in links if link.startswith("socket:")}


async def closed_down_to(before: set[str]) -> None:
    """A watch that is cut off says good-bye after its client has closed, and a loop must live until it has."""
    for _ in range(500):
        if sockets() <= before:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("connections are still open after 5 s")


def ids(group: DeviceGroup | LedgerGroup) -> list[str]:
    return [card.id for card in group.accelerators or ()]


async def test_a_settled_node_sees_no_write(stand: Stand) -> None:
    assert await stand.report() == 0


async def test_the_report_survives_being_read_back(stand: Stand) -> None:
    (group,) = stand.groups
    (account,) = stand.accounts
    assert (group.id, group.memory, group.family, ids(group)) == ("tesla-t4", 15360, "Turing", ["GPU-1", "GPU-2"])
    assert [(row.id, row.mode, row.remaining) for row in account.accelerators or ()] == [
        ("GPU-1", 0, 1600000),
        ("GPU-2", 0, 1600000),
    ]


async def test_groups_of_other_manufacturers_are_left_as_they_are(stand: Stand) -> None:
    card = {"id": "AMD-1", "index": 0, "status": {"unhealthy": True}, "topology": {"numaAffinity": "1"}}
    theirs = {"id": "mi300x", "manufacturer": "amd", "name": "MI300X", "memory": 196608, "accelerators": [card]}
    account = {"id": "mi300x", "manufacturer": "amd", "accelerators": [{"id": "AMD-1", "index": 0, "mode": 1}]}
    for body, part in (({"spec": {"groups": [theirs]}}, ""), ({"status": {"groups": [account]}}, "status")):
        metadata = {"metadata": {"name": stand.node}}
        await stand.client.apply(DEVICES, metadata | body, subresource=part, field_manager="amd-agent")
    before = (
        [g for g in stand.groups if g.manufacturer == "amd"],
        [a for a in stand.accounts if a.manufacturer == "amd"],
    )
    assert await stand.report() == 0
    await stand.has(1, 2, 3)
    await stand.has(1, 2, 3)
    await stand.edit({"metadata": {"labels": {"acceleratable.feature.gpustack.ai/nvidia-old": "true"}}})
    await stand.report()
    after = (
        [g for g in stand.groups if g.manufacturer == "amd"],
        [a for a in stand.accounts if a.manufacturer == "amd"],
    )
    assert after == before
    assert [ids(group) for group in stand.groups if group.manufacturer == "nvidia"] == [["GPU-1", "GPU-2", "GPU-3"]]


async def test_our_group_is_put_right_whoever_edited_it_and_however(stand: Stand) -> None:
    right = stand.groups
    (group,) = msgspec.to_builtins(right)
    strange = {"id": "GPU-strange", "index": 9, "status": {"unhealthy": False}}
    cards = [card | {"topology": {"pciBusId": "0"}, "physicalIndexes": [7]} for card in reversed(group["accelerators"])]
    sick = {"accelerators": [_stated(card) for card in [strange, *cards]], "name": "edited", "cores": 1}
    extra = {"id": "extra", "manufacturer": "nvidia", "name": "extra"}
    await stand.edit({"spec": {"groups": [extra, {**_stated(group), **sick}]}})
    await stand.report()
    assert stand.groups == right
    assert await stand.report() == 0


async def test_an_account_is_kept_as_it_is_and_a_missing_one_made_again(stand: Stand) -> None:
    row = {"id": "GPU-2", "index": 1, "mode": 2, "remaining": 1440000}
    await stand.edit(
        {"status": {"groups": [{"id": "tesla-t4", "manufacturer": "nvidia", "accelerators": [row]}]}}, "status"
    )
    await stand.report()
    assert [(row.id, row.mode, row.remaining) for row in stand.accounts[0].accelerators or ()] == [
        ("GPU-1", 0, 1600000),
        ("GPU-2", 2, 1440000),
    ]
    assert await stand.report() == 0


async def test_labels_of_others_stay(stand: Stand) -> None:
    theirs = {"gpustack.ai/managed": "true", "general.feature.gpustack.ai/amd": "true"}
    await stand.edit({"metadata": {"labels": theirs}})
    assert await stand.report() == 0
    await stand.edit({"metadata": {"labels": {"kubernetes.io/os": None}}})
    await stand.report()
    assert stand.devices.labels == theirs | {
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "acceleratable.feature.gpustack.ai/nvidia-tesla-t4": "true",
    }


async def test_what_is_deleted_is_put_back(stand: Stand) -> None:
    await stand.client.delete(DEVICES, stand.node)
    await stand.client.delete(NODE_FEATURES, f"{stand.node}-gpustack-device-manager", NAMESPACE)
    await stand.report()
    assert stand.informers.node_feature() is not None
    assert ids(stand.groups[0]) == ids(stand.accounts[0]) == ["GPU-1", "GPU-2"]


async def test_an_agent_that_starts_anew_writes_nothing(stand: Stand) -> None:
    successor = Stand(stand.client, stand.node, stand.inventory)
    successor.caches.start()
    await successor.caches.wait_synced()
    assert await successor.report() == 0
    await successor.caches.stop()


# --- The program --------------------------------------------------------------------------------------------------


class Program:
    """`gpustack-agent` as a process, with its own service account and nothing more."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self.process, self.log = process, log

    @property
    def memory_mib(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) // 1024

    async def stop(self) -> int:
        self.process.terminate()
        return await asyncio.wait_for(self.process.wait(), 10)


@pytest.fixture
async def program(cluster: RunningCluster, stand: Stand, tmp_path: Path) -> AsyncIterator[Program]:
    """Runs for the stand's node, which has lost its report."""
    await stand.client.delete(DEVICES, stand.node)
    await stand.client.delete(NODE_FEATURES, f"{stand.node}-gpustack-device-manager", NAMESPACE)
    config, log = cluster.administrator, tmp_path / "agent.log"
    server, token = URL(config.server), tmp_path / "token"
    token.write_text(await token_of(stand, "gpustack-agent"))
    with log.open("wb") as out:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "gpustack_op.cli.agent", "--node", stand.node, "--detector", "simulated"),
            *("--inventory", str(stand.inventory), "--metrics-bind", "", "--health-bind", ""),
            stderr=out,
            env={
                "PYTHONPATH": str(Path(__file__).parents[2]),
                "KUBERNETES_SERVICE_HOST": str(server.host),
                "KUBERNETES_SERVICE_PORT": str(server.port),
                "GPUSTACK_TOKEN_FILE": str(token),
                "GPUSTACK_CA_FILE": str(config.ca_file),
            },
        )
    yield Program(process, log)
    if process.returncode is None:
        process.kill()
        await process.wait()


async def token_of(stand: Stand, account: str) -> str:
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []}}
    answer = msgspec.json.decode(await stand.client.raw("POST", path, body=msgspec.json.encode(body)))
    return str(answer["status"]["token"])


async def seen(stand: Stand, condition: Callable[[Devices], bool]) -> Devices:
    """The Devices once they are as awaited; told by the watch, so that nothing is polled."""
    told = asyncio.Event()
    stand.informers.all_devices.add_handler(lambda _: told.set())
    async with asyncio.timeout(20):
        while not ((present := stand.informers.devices()) and condition(present)):
            told.clear()
            await told.wait()
    return present


def health(devices: Devices) -> list[tuple[str, bool]]:
    groups = devices.spec.groups or ()
    return [(card.id, not card.status.unhealthy) for group in groups for card in group.accelerators or ()]


async def test_the_program_reports_with_its_own_role_and_follows_its_machine(stand: Stand, program: Program) -> None:
    found = await seen(stand, lambda devices: bool(devices.status.groups))
    assert health(found) == [("GPU-1", True), ("GPU-2", True)]
    write_machine(stand.inventory, stand.node, 2)
    pulled = await seen(stand, lambda devices: health(devices) == [("GPU-1", False), ("GPU-2", True)])
    assert pulled.status == found.status
    assert program.memory_mib <= LIMIT_MIB
    assert await program.stop() == 0
    assert [line for line in program.log.read_text().splitlines() if '"level":"error"' in line] == []


def _stated(value: Any) -> Any:
    """Without the nulls that a struct has and an API server does not take."""
    if isinstance(value, dict):
        return {key: _stated(item) for key, item in value.items() if item is not None}
    return [_stated(item) for item in value] if isinstance(value, list | tuple) else value
