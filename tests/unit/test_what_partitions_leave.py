"""Nodes of partitioned cards: what the ledger, the node's resources, the tokens and the views say of them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gpustack_op.api.worker import DeviceGroup, Devices, DevicesSpec, DevicesStatus
from gpustack_op.scheduling.claims import PodClaim
from gpustack_op.scheduling.ledger import Ledger, rebuilt
from gpustack_op.scheduling.manufacturers import MANUFACTURERS
from gpustack_op.scheduling.node_capacity import counting_resources
from gpustack_op.scheduling.partition_view import healthy_tokens, partition_room, partition_view
from gpustack_op.scheduling.views import accounts, exclusive_view, shared_view, sliced_view
from tests.builders import (
    H100_PROFILES,
    cards_of,
    claim,
    given,
    metadata,
    partition_entry,
    share_entry,
    slice_entry,
    whole_entry,
)

NVIDIA = next(row for row in MANUFACTURERS if row.id == "nvidia")
MEMORY = 81559
A_HALF = claim("p", given(partition_entry("h100/0", "3g.40gb", 0, 4, units=780_000), ids=["h100:h100/0:0003"]))
EIGHT = [cards_of("h100", 8, profiles=H100_PROFILES, memory=MEMORY)]
MIXED = [
    cards_of("h100", 3, profiles=H100_PROFILES, memory=MEMORY),
    cards_of("h100-whole", 5, memory=MEMORY, first=3),
]
SERVED = {"nvidia.com/gpu.sliced": "640", "nvidia.com/gpu.partitioned": "21"}


def profile_keys(groups: Sequence[DeviceGroup], ledger: Ledger) -> dict[str, int]:
    lead = "nvidia.com/gpu.partitioned."
    found = counting_resources(NVIDIA, groups, SERVED, ledger.groups)
    return {key.removeprefix(lead): amount for key, amount in found.items() if key.startswith(lead)}


def test_eight_cards_of_which_one_has_a_half_in_use() -> None:
    assert profile_keys(EIGHT, rebuilt(EIGHT, [A_HALF])) == {
        "mig-1g.10gb": 52,
        "mig-1g.20gb": 30,
        "mig-2g.20gb": 22,
        "mig-3g.40gb": 16,
        "mig-4g.40gb": 7,
        "mig-7g.80gb": 7,
        "units": 12_800_000,
    }


def test_three_partitioned_and_five_whole_cards() -> None:
    assert counting_resources(NVIDIA, MIXED, SERVED, rebuilt(MIXED, []).groups) == {
        "nvidia.com/gpu.sliced.units": 8_000_000,
        "nvidia.com/gpu.sliced.cores-percentage": 64_000,
        "nvidia.com/gpu.sliced.memory-percentage": 500,
        "nvidia.com/gpu.sliced.memory-mib": 409_600,
        "nvidia.com/gpu.partitioned.units": 4_800_000,
        "nvidia.com/gpu.partitioned.mig-1g.10gb": 21,
        "nvidia.com/gpu.partitioned.mig-1g.20gb": 12,
        "nvidia.com/gpu.partitioned.mig-2g.20gb": 9,
        "nvidia.com/gpu.partitioned.mig-3g.40gb": 6,
        "nvidia.com/gpu.partitioned.mig-4g.40gb": 3,
        "nvidia.com/gpu.partitioned.mig-7g.80gb": 3,
    }


def test_a_partition_and_a_slice_on_them() -> None:
    ledger = rebuilt(MIXED, [A_HALF, claim("q", given(slice_entry("h100-whole/3", 50)))])
    assert profile_keys(MIXED, ledger) == {
        "mig-1g.10gb": 17,
        "mig-1g.20gb": 10,
        "mig-2g.20gb": 7,
        "mig-3g.40gb": 6,
        "mig-4g.40gb": 2,
        "mig-7g.80gb": 2,
        "units": 4_800_000,
    }


# --- Tokens -------------------------------------------------------------------------------------------------------


def room(groups: Sequence[DeviceGroup], claims: Sequence[PodClaim]) -> int:
    found = devices(groups, claims)
    keys = [f"{group.manufacturer}-{group.id}" for group in groups]
    return sum(partition_room(node) for key in keys for node in accounts([found], key))


@pytest.mark.parametrize(
    ("groups", "claims", "expected"),
    [
        pytest.param(EIGHT, [A_HALF], 53, id="one half of eight cards: 49 + 1 + 3"),
        pytest.param(MIXED, [A_HALF], 18, id="one half of three cards: 14 + 1 + 3"),
        pytest.param([cards_of("h100", 2, profiles=H100_PROFILES)], [A_HALF], 11, id="one half of two cards"),
        pytest.param([cards_of("h100", 2, profiles=H100_PROFILES, sick=[1])], [A_HALF], 4, id="a sick card has none"),
    ],
)
def test_room_for_partitions(groups: Sequence[DeviceGroup], claims: Sequence[PodClaim], expected: int) -> None:
    assert room(groups, claims) == expected


def test_tokens_that_are_held_stay_healthy_then_the_first_others() -> None:
    tokens = [f"{card}:{number}" for card in "AB" for number in range(7)]
    healthy = healthy_tokens(tokens, held=["A:3"], room=11)
    assert sorted(healthy) == [
        "A:0", "A:1", "A:2", "A:3", "A:4", "A:5", "A:6", "B:0", "B:1", "B:2", "B:3",
    ]  # fmt: skip
    assert healthy_tokens(tokens, held=["B:6", "B:5"], room=1) == {"B:5", "B:6"}


# --- Views --------------------------------------------------------------------------------------------------------


def devices(groups: Sequence[DeviceGroup], claims: Sequence[PodClaim]) -> Devices:
    return Devices(
        metadata=metadata("node"),
        spec=DevicesSpec(groups=tuple(groups)),
        status=DevicesStatus(groups=rebuilt(groups, claims).groups),
    )


def row(nodes: Sequence[Devices], key: str) -> str:
    """EX SH SL PT, each as the largest request and what remains."""
    pool = accounts(nodes, key)
    views = (exclusive_view(pool), shared_view(pool), sliced_view(pool), partition_view(pool).view)
    return " ".join(f"{view.once}/{view.remaining}" for view in views)


A10G = [cards_of("a10g", 1)]


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        pytest.param([], "1/1 1/10 100/100 0/0", id="free"),
        pytest.param([claim("p", given(slice_entry("a10g/0", 20)))], "0/0 0/0 80/80 0/0", id="a slice of 20 percent"),
        pytest.param([claim("p", given(whole_entry("a10g/0")))], "0/0 0/0 0/0 0/0", id="held whole"),
        pytest.param([claim("p", given(share_entry("a10g/0")))], "0/0 1/9 0/0 0/0", id="shared once"),
    ],
)
def test_a_row_of_one_card(claims: Sequence[PodClaim], expected: str) -> None:
    assert row([devices(A10G, claims)], "nvidia-a10g") == expected


def test_a_row_of_two_nodes() -> None:
    nodes = [devices([cards_of("t4", 1)], []), devices([cards_of("t4", 4)], [])]
    assert row(nodes, "nvidia-t4") == "4/5 4/50 100/500 0/0"


def test_a_row_of_partitioned_cards() -> None:
    assert row([devices(EIGHT, [])], "nvidia-h100") == "0/0 0/0 0/0 1/56"
    assert row([devices(EIGHT, [A_HALF])], "nvidia-h100") == "0/0 0/0 0/0 1/52"


def test_a_row_of_both() -> None:
    partitioned = cards_of("h100", 3, profiles=H100_PROFILES).accelerators or ()
    whole = cards_of("h100", 5, first=3).accelerators or ()
    both = DeviceGroup(id="h100", manufacturer="nvidia", memory=MEMORY, accelerators=(*partitioned, *whole))
    claims = [A_HALF, claim("q", given(slice_entry("h100/3", 50)))]
    assert row([devices([both], claims)], "nvidia-h100") == "4/4 4/40 100/450 1/17"
