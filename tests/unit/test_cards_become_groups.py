"""From the raw readings of a node's cards to the groups of its Devices object."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack_op.api.worker import DeviceGroup, PhysicalProfile
from gpustack_op.scheduling.device_groups import device_groups, groups_json
from gpustack_op.scheduling.ledger import fresh_ledger
from tests.builders import raw_card


def outline(groups: tuple[DeviceGroup, ...]) -> list[tuple[str, int, list[int]]]:
    """Id, memory and card indexes of each group."""
    return [(g.id, g.memory, [card.index for card in g.accelerators or ()]) for g in groups]


def test_a_card_is_described_whole() -> None:
    (group,) = groups_json(device_groups([raw_card(uuid="GPU-1", minor=0, pci_bus_id="00000000:00:1E.0")]))
    assert group == {
        "id": "a10g",
        "manufacturer": "nvidia",
        "name": "NVIDIA A10G",
        "memory": 24563,
        "cores": 10240,
        "driverVersion": "580.159.03",
        "runtimeVersion": "13.0",
        "computeCapability": "8.6",
        "family": "Ampere",
        "accelerators": [
            {
                "id": "GPU-1",
                "index": 0,
                "physicalIndexes": [0],
                "topology": {"pciBusId": "00000000:00:1E.0"},
                "status": {
                    "unhealthy": False,
                    "logicalSliced": {"count": 128, "coresPercentageOvercommit": True},
                },
            }
        ],
        "acceleratorSlicedDetail": {"logical": {"count": 128, "coresPercentageOvercommit": True}},
    }


def test_different_cards_of_one_node_are_different_groups() -> None:
    cards = [
        raw_card("Tesla V100-PCIE", memory_mib=16384, ecc_enabled=False),
        raw_card("GeForce GTX 1080 Ti", memory_mib=11264, ecc_enabled=False),
        raw_card("Tesla V100-PCIE", memory_mib=32768, ecc_enabled=False),
        raw_card("Tesla V100-PCIE", memory_mib=16384, ecc_enabled=False),
        raw_card("Tesla V100-PCIE", memory_mib=32768, ecc_enabled=False),
    ]
    assert outline(device_groups(cards)) == [
        ("tesla-v100-pcie-16g", 16384, [0, 3]),
        ("geforce-gtx-1080-ti", 11264, [1]),
        ("tesla-v100-pcie-32g", 32768, [2, 4]),
    ]


def test_indexes_are_counted_for_each_manufacturer_alone() -> None:
    cards = [raw_card(), raw_card("MI300X", manufacturer="amd"), raw_card()]
    assert outline(device_groups(cards)) == [("mi300x", 24563, [0]), ("a10g", 24563, [0, 1])]


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        pytest.param({}, {"logicalSliced": {"count": 128, "coresPercentageOvercommit": True}}, id="sliceable"),
        pytest.param({"memory_mib": None}, {}, id="unknown memory is not sliceable"),
        pytest.param({"memory_mib": 0}, {}, id="no memory of its own is not sliceable"),
        pytest.param({"mig_mode": True}, {}, id="a partitioning mode ends slicing"),
        pytest.param(
            {"mig_mode": True, "profiles": (PhysicalProfile(name="1g.10gb", memory_mib=9856, count=7),)},
            {"physicalSliced": {"count": 7, "profiles": [{"name": "1g.10gb", "memoryMib": 9856, "count": 7}]}},
            id="partitions only",
        ),
        pytest.param(
            {"profiles": (PhysicalProfile(name="1g.10gb", count=7),)},
            {"logicalSliced": {"count": 128, "coresPercentageOvercommit": True}},
            id="profiles mean nothing while the mode is off",
        ),
        pytest.param({"manufacturer": "amd"}, {}, id="a manufacturer without slicing"),
        pytest.param({"manufacturer": "kunlun"}, {}, id="an unknown manufacturer"),
    ],
)
def test_a_card_says_what_it_can_be_divided_into(facts: dict[str, Any], expected: dict[str, Any]) -> None:
    (group,) = groups_json(device_groups([raw_card(**facts)]))
    assert group["accelerators"][0]["status"] == {"unhealthy": False} | expected


def test_a_card_without_a_memory_figure_is_listed() -> None:
    (group,) = groups_json(device_groups([raw_card("NVIDIA GB10", memory_mib=None)]))
    assert (group["id"], group["memory"]) == ("gb10", 0)


def test_a_nameless_card_is_listed() -> None:
    (group,) = groups_json(device_groups([raw_card("")]))
    assert (group["id"], group["name"]) == ("card-811c9dc5", "")


def test_a_sick_card_stays_in_its_group() -> None:
    (group,) = device_groups([raw_card(uuid="a"), raw_card(uuid="b", healthy=False)])
    assert [(card.id, card.status.unhealthy) for card in group.accelerators or ()] == [("a", False), ("b", True)]


def test_a_fresh_ledger_has_every_card_wholly_free() -> None:
    groups = device_groups([raw_card(uuid="a"), raw_card(uuid="b")])
    assert fresh_ledger(groups) == [
        {
            "id": "a10g",
            "manufacturer": "nvidia",
            "accelerators": [
                {"id": "a", "index": 0, "mode": 0, "remaining": 1600000},
                {"id": "b", "index": 1, "mode": 0, "remaining": 1600000},
            ],
        }
    ]


@given(st.lists(st.builds(raw_card, st.text(max_size=8), memory_mib=st.integers(0, 3)), max_size=6))
def test_what_is_published_reads_back_the_same(cards: list[Any]) -> None:
    groups = device_groups(cards)
    assert msgspec.convert(groups_json(groups), tuple[DeviceGroup, ...]) == groups
