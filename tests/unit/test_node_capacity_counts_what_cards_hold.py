"""The counting resources of a node."""

from __future__ import annotations

from gpustack_op.api.worker import DeviceGroup
from gpustack_op.scheduling.manufacturers import MANUFACTURERS
from gpustack_op.scheduling.node_capacity import counting_resources
from tests.builders import CardState, devices, free, partitioned, plain

NVIDIA = next(row for row in MANUFACTURERS if row.id == "nvidia")


def groups(*cards: CardState) -> tuple[DeviceGroup, ...]:
    return devices("node", *cards, key="nvidia-tesla-t4", memory=16384).spec.groups or ()


def test_four_cards_count_for_slices() -> None:
    assert counting_resources(NVIDIA, groups(*[free()] * 4), {"nvidia.com/gpu.sliced": "512"}) == {
        "nvidia.com/gpu.sliced.units": 6_400_000,
        "nvidia.com/gpu.sliced.cores-percentage": 51_200,
        "nvidia.com/gpu.sliced.memory-percentage": 400,
        "nvidia.com/gpu.sliced.memory-mib": 65_536,
    }


def test_partitioned_cards_count_for_partitions_only() -> None:
    cards = groups(free(), partitioned(catalog={"1g.10gb": 7}), partitioned(catalog={"1g.10gb": 7}), plain())
    assert counting_resources(NVIDIA, cards, {"nvidia.com/gpu.sliced": "128", "nvidia.com/gpu.partitioned": "14"}) == {
        "nvidia.com/gpu.sliced.units": 1_600_000,
        "nvidia.com/gpu.sliced.cores-percentage": 12_800,
        "nvidia.com/gpu.sliced.memory-percentage": 100,
        "nvidia.com/gpu.sliced.memory-mib": 16_384,
        "nvidia.com/gpu.partitioned.units": 3_200_000,
        "nvidia.com/gpu.partitioned.mig-1g.10gb": 14,
    }


def test_a_family_that_nobody_serves_counts_nothing() -> None:
    assert counting_resources(NVIDIA, groups(free()), {"nvidia.com/gpu.sliced": "0"}) == {}
    assert counting_resources(NVIDIA, groups(free()), {"nvidia.com/gpu.sliced": "many"}) == {}


def test_cards_of_others_do_not_count() -> None:
    others = devices("node", free(), key="amd-mi300x").spec.groups or ()
    assert counting_resources(NVIDIA, others, {"nvidia.com/gpu.sliced": "1"})["nvidia.com/gpu.sliced.units"] == 0
