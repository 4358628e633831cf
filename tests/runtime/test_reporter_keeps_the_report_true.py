"""What a node's agent owns in the cluster is made, kept, and left alone once it is right."""

from __future__ import annotations

from typing import Any, TypeVar

import pytest

from gpustack_op.agent.cpu import Cpu
from gpustack_op.agent.detector.base import Detection, Host
from gpustack_op.agent.devices_writer import DevicesWriter
from gpustack_op.agent.reporter import Reporter
from gpustack_op.agent.roster import Pass
from gpustack_op.agent.sight import Look, Sight, next_sight
from gpustack_op.api.core import NODES, Node
from gpustack_op.api.meta import KubeObject, Resource
from gpustack_op.api.nfd import NODE_FEATURES, NodeFeature
from gpustack_op.api.worker import DEVICES, Devices
from gpustack_op.runtime.apply import Writer
from gpustack_op.runtime.controller import Request
from gpustack_op.scheduling.device_groups import RawCard
from tests.builders import raw_card
from tests.runtime.memory_api import MemoryApi

T = TypeVar("T", bound=KubeObject)

NAMESPACE = "gpustack-system"
FEATURE = "node-a10g-gpustack-device-manager"
NODE = {"metadata": {"name": "node-a10g", "uid": "node-1", "labels": {"kubernetes.io/os": "linux"}}}
CARD = "acceleratable.feature.gpustack.ai/nvidia-a10g"


class Stand:
    """A reporter whose cache is never behind the server."""

    namespace = NAMESPACE

    def __init__(self) -> None:
        self.api = MemoryApi()
        self.api.put(NODES, NODE)
        self.current: Sight | None = None
        self.reporter = Reporter(
            self, Writer(self.api, "agent"), DevicesWriter(self.api, "agent"), lambda: self.current
        )

    def node(self) -> Node | None:
        return self._read(NODES, "node-a10g")

    def node_feature(self) -> NodeFeature | None:
        return self._read(NODE_FEATURES, FEATURE, NAMESPACE)

    def devices(self) -> Devices | None:
        return self._read(DEVICES, "node-a10g")

    def sees(self, *cards: RawCard, boot: str = "one") -> None:
        look = Look(Host(Cpu(cores=4), boot), Detection(cards))
        self.current = next_sight(self.current, look, Pass(now=0, recovery=60, boot_id=boot), None)

    async def report(self) -> list[str]:
        """The writes that one reconcile took."""
        before = len(self.api.writes)
        await self.reporter.reconcile(Request("node-a10g"))
        return self.api.writes[before:]

    def edit(self, resource: Resource[Any], name: str, namespace: str, **parts: Any) -> None:
        """As a person would, past everybody."""
        self.api.put(resource, {**self.api.objects[(resource.plural, namespace, name)], **parts})

    def delete(self, resource: Resource[Any], name: str, namespace: str = "") -> None:
        del self.api.objects[(resource.plural, namespace, name)]

    def _read(self, resource: Resource[T], name: str, namespace: str = "") -> T | None:
        present = (resource.plural, namespace, name) in self.api.objects
        return self.api.read(resource, name, namespace) if present else None


@pytest.fixture
async def stand() -> Stand:
    made = Stand()
    made.sees(raw_card(uuid="GPU-1"))
    await made.report()
    return made


def rows(stand: Stand) -> list[tuple[str, int, int]]:
    devices = stand.devices()
    groups = (devices.status.groups or ()) if devices else ()
    return [(row.id, row.mode, row.remaining) for group in groups for row in group.accelerators or ()]


def cards(stand: Stand) -> list[tuple[str, bool]]:
    devices = stand.devices()
    groups = (devices.spec.groups or ()) if devices else ()
    return [(card.id, not card.status.unhealthy) for group in groups for card in group.accelerators or ()]


def owner(present: KubeObject | None) -> str:
    assert present is not None
    return (present.metadata.owner_references or ())[0].uid


async def test_the_node_feature_is_written_before_the_devices_and_their_ledger() -> None:
    stand = Stand()
    stand.sees(raw_card(uuid="GPU-1"))
    await stand.report()
    assert [name for verb, name in stand.api.calls if verb != "get"] == [FEATURE, "node-a10g", "node-a10g"]
    assert (cards(stand), rows(stand)) == ([("GPU-1", True)], [("GPU-1", 0, 1600000)])
    assert (owner(stand.node_feature()), owner(stand.devices())) == ("node-1", "node-1")


async def test_a_settled_node_sees_no_write(stand: Stand) -> None:
    assert await stand.report() == []


async def test_a_node_without_accelerators_gets_no_devices() -> None:
    stand = Stand()
    stand.sees()
    await stand.report()
    assert stand.devices() is None
    assert stand.node_feature() is not None


async def test_before_anything_is_known_nothing_is_written() -> None:
    stand = Stand()
    assert await stand.report() == []


async def test_without_its_node_nothing_is_written(stand: Stand) -> None:
    stand.delete(NODES, "node-a10g")
    stand.sees()
    assert await stand.report() == []


async def test_a_node_that_is_going_is_not_reported_any_more(stand: Stand) -> None:
    going = {**NODE["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
    stand.edit(NODES, "node-a10g", "", metadata=going)
    stand.sees()
    assert await stand.report() == []


async def test_what_is_deleted_is_put_back(stand: Stand) -> None:
    before = (stand.node_feature(), stand.devices())
    stand.delete(NODE_FEATURES, FEATURE, NAMESPACE)
    stand.delete(DEVICES, "node-a10g")
    await stand.report()
    after = (stand.node_feature(), stand.devices())
    assert [present.spec for present in after if present] == [present.spec for present in before if present]
    assert rows(stand) == [("GPU-1", 0, 1600000)]


async def test_an_account_outlives_its_devices_object(stand: Stand) -> None:
    account = {"id": "GPU-1", "index": 0, "mode": 1}
    stand.edit(
        DEVICES,
        "node-a10g",
        "",
        status={"groups": [{"id": "a10g", "manufacturer": "nvidia", "accelerators": [account]}]},
    )
    assert await stand.report() == []
    stand.delete(DEVICES, "node-a10g")
    await stand.report()
    assert rows(stand) == [("GPU-1", 1, 0)]


async def test_labels_and_features_that_we_did_not_state_are_removed_from_our_node_feature(stand: Stand) -> None:
    feature = stand.api.objects[(NODE_FEATURES.plural, NAMESPACE, FEATURE)]
    labels = {**feature["spec"]["labels"], "stray": "true", f"{CARD}.count": "9"}
    stand.edit(NODE_FEATURES, FEATURE, NAMESPACE, spec={**feature["spec"], "labels": labels})
    await stand.report()
    present = stand.node_feature()
    assert present is not None
    assert present.spec.labels is not None
    assert (present.spec.labels.get("stray"), present.spec.labels[f"{CARD}.count"]) == (None, "1")
    assert await stand.report() == []


async def test_labels_of_the_operator_on_the_devices_are_left_alone(stand: Stand) -> None:
    devices = stand.api.objects[(DEVICES.plural, "", "node-a10g")]
    theirs = {"gpustack.ai/managed": "true", "general.feature.gpustack.ai/amd-epyc-7r32": "true", "team": "blue"}
    stale = {"acceleratable.feature.gpustack.ai/nvidia-old": "true"}
    metadata = {**devices["metadata"], "labels": {**devices["metadata"]["labels"], **theirs, **stale}}
    stand.edit(DEVICES, "node-a10g", "", metadata=metadata)
    await stand.report()
    present = stand.devices()
    assert present is not None
    assert present.labels == {"kubernetes.io/os": "linux", CARD: "true", **theirs}
    assert await stand.report() == []


async def test_a_card_that_somebody_added_is_removed_again(stand: Stand) -> None:
    devices = stand.api.objects[(DEVICES.plural, "", "node-a10g")]
    group = devices["spec"]["groups"][0]
    strange = {"id": "GPU-strange", "index": 7, "status": {"unhealthy": False}}
    edited = {**group, "name": "edited", "accelerators": [strange, *group["accelerators"]]}
    stand.edit(DEVICES, "node-a10g", "", spec={"groups": [edited]})
    await stand.report()
    assert cards(stand) == [("GPU-1", True)]
    assert await stand.report() == []


async def test_an_absent_card_stays_in_the_counts_and_is_sick(stand: Stand) -> None:
    stand.sees()
    await stand.report()
    present = stand.node_feature()
    assert present is not None
    assert present.spec.labels is not None
    assert present.spec.labels[f"{CARD}.count"] == "1"
    assert (cards(stand), rows(stand)) == ([("GPU-1", False)], [("GPU-1", 0, 1600000)])


async def test_a_card_that_is_forgotten_leaves_both_objects(stand: Stand) -> None:
    stand.sees(boot="two")
    await stand.report()
    present = stand.node_feature()
    assert present is not None
    assert (cards(stand), rows(stand), present.spec.labels) == ([], [], {})
    assert await stand.report() == []


async def test_a_node_of_the_same_name_takes_over_but_waits_for_the_old_node_feature_to_go(stand: Stand) -> None:
    stand.delete(NODES, "node-a10g")
    stand.api.put(NODES, {"metadata": {**NODE["metadata"], "uid": "node-2"}})
    await stand.report()
    assert (owner(stand.node_feature()), owner(stand.devices())) == ("node-1", "node-2")
    stand.delete(NODE_FEATURES, FEATURE, NAMESPACE)
    await stand.report()
    assert owner(stand.node_feature()) == "node-2"
