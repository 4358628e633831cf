"""What a slice costs, how much memory it may use, and whether it fits."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gpustack_op.scheduling.claims import Overlay, PodClaim, overlaid
from gpustack_op.scheduling.credits import memory_units
from gpustack_op.scheduling.manufacturers import MANUFACTURERS
from gpustack_op.scheduling.memory_text import published_mebibytes
from gpustack_op.scheduling.records import ContainerRecord
from gpustack_op.scheduling.slices import (
    SliceError,
    SliceRequest,
    charge,
    memory_cap,
    occupancy,
    room,
    slice_request,
    slice_units,
)
from tests.builders import claim, given, slice_entry, whole_entry

NVIDIA = next(row for row in MANUFACTURERS if row.id == "nvidia")


@pytest.mark.parametrize(
    ("request_", "memory", "units"),
    [
        pytest.param(SliceRequest(percent=20), 24563, 320_000, id="a fifth"),
        pytest.param(SliceRequest(mebibytes=6144), 24576, 400_000, id="a quarter in MiB"),
        pytest.param(SliceRequest(mebibytes=6144), 24563, 400_000, id="of the published size, not the measured one"),
        pytest.param(SliceRequest(percent=20, mebibytes=8000), 24563, 320_000, id="the percentage wins"),
        pytest.param(SliceRequest(percent=100), 0, 1_600_000, id="percents need no memory"),
        pytest.param(SliceRequest(mebibytes=81920), 81559, 1_600_000, id="the whole published card"),
        pytest.param(SliceRequest(percent=20, units=320_000), 24563, 320_000, id="units that agree"),
    ],
)
def test_memory_is_folded(request_: SliceRequest, memory: int, units: int) -> None:
    assert slice_units(request_, memory) == units


@pytest.mark.parametrize(
    ("request_", "memory", "sentence"),
    [
        pytest.param(SliceRequest(units=1), 24563, "asks for no memory", id="units alone"),
        pytest.param(SliceRequest(percent=20, units=1), 24563, "says it costs 1 units", id="units that disagree"),
        pytest.param(SliceRequest(percent=101), 24563, "ask for less than a whole card", id="more than a card"),
        pytest.param(
            SliceRequest(mebibytes=24577), 24563, "ask for less than a whole card", id="more MiB than there are"
        ),
        pytest.param(SliceRequest(mebibytes=1), 2_000_000, "asks for 0 units", id="less than a unit"),
        pytest.param(SliceRequest(mebibytes=1), 0, "asks for 0 units", id="a card of unknown memory"),
    ],
)
def test_a_slice_that_cannot_be_charged(request_: SliceRequest, memory: int, sentence: str) -> None:
    with pytest.raises(SliceError, match=sentence):
        slice_units(request_, memory)


@pytest.mark.parametrize(
    ("request_", "memory", "cap"),
    [
        pytest.param(SliceRequest(percent=20), 24563, 4912, id="20 of 24,563"),
        pytest.param(SliceRequest(percent=20), 24564, 4912, id="20 of 24,564"),
        pytest.param(SliceRequest(percent=50), 24564, 12282, id="half of 24,564"),
        pytest.param(SliceRequest(percent=20, mebibytes=8000), 24563, 4912, id="the percentage wins"),
        pytest.param(SliceRequest(mebibytes=81920), 81559, 81559, id="never more than the card"),
        pytest.param(SliceRequest(percent=200), 24563, 24563, id="never more than the card in percent"),
    ],
)
def test_the_memory_cap(request_: SliceRequest, memory: int, cap: int) -> None:
    assert memory_cap(request_, memory) == cap


def test_without_a_memory_request_there_is_no_cap() -> None:
    with pytest.raises(SliceError, match="without a cap it would get the whole card"):
        memory_cap(SliceRequest(), 24563)


def test_a_request_is_read_from_a_containers_resources() -> None:
    asked = {
        "nvidia.com/gpu.sliced": 1,
        "nvidia.com/gpu.sliced.units": 320_000,
        "nvidia.com/gpu.sliced.memory-percentage": 20,
        "nvidia.com/gpu.sliced.cores-percentage": 30,
        "amd.com/gpu.sliced.memory-mib": 1,
    }
    assert slice_request(asked, NVIDIA) == SliceRequest(percent=20, units=320_000, cores_percent=30)


@pytest.mark.parametrize(("cores", "given_"), [(0, 100), (-5, 100), (30, 30)])
def test_compute_is_the_whole_card_unless_less_is_asked_for(cores: int, given_: int) -> None:
    assert SliceRequest(cores_percent=cores).cores == given_


@pytest.mark.parametrize(
    ("units", "tokens", "charged"),
    [(320_000, 1, 320_000), (320_000, 2, 640_000), (900_000, 2, 1_600_000), (9_999_999, 1, 1_600_000)],
)
def test_a_charge_never_exceeds_the_card(units: int, tokens: int, charged: int) -> None:
    assert charge(units, tokens) == charged


def test_a_partition_costs_its_memory() -> None:
    assert memory_units(19_968, 40_960) == 780_000


@pytest.mark.parametrize(
    ("measured", "told"), [(24563, 24576), (81559, 81920), (97887, 98304), (46080, 46080), (500, 500), (0, 0)]
)
def test_a_pool_tells_a_rounded_memory(measured: int, told: int) -> None:
    assert published_mebibytes(measured) == told


# --- Whether a slice fits -----------------------------------------------------------------------------------------

SELF = ("uid-of-self", "main")
CARD_1 = "t4/1"


def tenant(name: str, percent: int, **facts: str) -> PodClaim:
    return claim(name, given(slice_entry(CARD_1, percent)), **facts)


def reserved(name: str, percent: int) -> Overlay:
    return {(f"uid-of-{name}", "main"): ContainerRecord((slice_entry(CARD_1, percent),))}


BARE = claim("self", {})


@pytest.mark.parametrize(
    ("claims", "reservations", "slices", "percent", "fits"),
    [
        pytest.param([BARE, tenant("other", 60)], {}, 128, 50, False, id="60 beside 50"),
        pytest.param([BARE, tenant("other", 50)], {}, 128, 50, True, id="50 beside 50 fills the card"),
        pytest.param(
            [tenant("self", 60), tenant("other", 40)], reserved("self", 60), 128, 60, True,
            id="again, in annotation and reservation",
        ),
        pytest.param([tenant("self", 60), tenant("other", 40)], {}, 128, 60, True, id="again, after a restart"),
        pytest.param(
            [BARE, tenant("other", 40)], reserved("other", 40), 128, 60, True, id="a neighbour in both counts once"
        ),
        pytest.param([BARE, claim("other", {})], reserved("other", 60), 128, 50, False, id="a neighbour reserved only"),
        pytest.param([BARE], reserved("gone", 100), 128, 60, True, id="a reservation of a Pod that is gone"),
        pytest.param([BARE, tenant("other", 60, phase="Succeeded")], {}, 128, 60, True, id="beside a finished Pod"),
        pytest.param(
            [tenant("other", 20), claim("self", given(slice_entry(CARD_1, 40), container="aux"))], {}, 128, 40, True,
            id="beside another container of its own Pod",
        ),
        pytest.param([tenant(f"t{n}", 10) for n in range(4)], {}, 4, 30, False, id="no slot left"),
        pytest.param([tenant(f"t{n}", 10) for n in range(3)], {}, 4, 30, True, id="the last slot"),
    ],
)  # fmt: skip
def test_room_for_a_slice(
    claims: Sequence[PodClaim], reservations: Overlay, slices: int, percent: int, fits: bool
) -> None:
    held = occupancy(overlaid(claims, reservations)).get(CARD_1, {})
    assert room(slices, held, besides=SELF).takes(percent * 16_000) is fits


def test_only_slices_occupy() -> None:
    assert occupancy([claim("p", given(whole_entry("t4/0"), slice_entry(CARD_1, 10)))]) == {
        CARD_1: {("uid-of-p", "main"): 160_000}
    }
