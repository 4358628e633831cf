"""The labels that say what a single card of a node can still take."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from gpustack_op.api.worker import DeviceGroup, Devices, DevicesSpec, DevicesStatus
from gpustack_op.scheduling.claims import PodClaim
from gpustack_op.scheduling.fit_labels import (
    fit_labels,
    is_fit_label,
    shared_cards_label,
    sliced_units_label,
    without_fit_labels,
)
from gpustack_op.scheduling.ledger import rebuilt
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

SLICED = "sliced-max-free-units.fit.gpustack.ai/nvidia-t4"
SHARED = "shared-free-cards.fit.gpustack.ai/nvidia-t4"


def devices(groups: Sequence[DeviceGroup], *claims: PodClaim) -> Devices:
    return Devices(
        metadata=metadata("node"),
        spec=DevicesSpec(groups=tuple(groups)),
        status=DevicesStatus(groups=rebuilt(groups, claims).groups),
    )


def t4(number: int, **facts: int) -> list[DeviceGroup]:
    return [cards_of("t4", number, **facts)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("groups", "claims", "units", "cards"),
    [
        pytest.param(t4(2), [], "1600000", "2", id="two free cards"),
        pytest.param(t4(2), [claim("p", given(slice_entry("t4/0", 30)))], "1600000", "1", id="one with a slice"),
        pytest.param(
            t4(2), [claim("p", given(slice_entry("t4/0", 30), slice_entry("t4/1", 60)))], "1120000", "0",
            id="the freest of two with slices",
        ),
        pytest.param(t4(1), [claim("p", given(share_entry("t4/0")))], "0", "1", id="a shared card takes no slice"),
        pytest.param(t4(1), [claim("p", given(whole_entry("t4/0")))], "0", "0", id="held whole"),
        pytest.param(
            t4(1), [claim(f"p{n}", given(share_entry("t4/0"))) for n in range(10)], "0", "0", id="ten shares in use"
        ),
        pytest.param(
            t4(1, slices=2), [claim(f"p{n}", given(slice_entry("t4/0", 10))) for n in range(2)], "0", "0",
            id="no slot left, whatever is free",
        ),
        pytest.param([cards_of("t4", 2, sick=[0, 1])], [], "0", "0", id="sick cards"),
        pytest.param([cards_of("t4", 2, sick=[0])], [], "1600000", "1", id="one sick card"),
    ],
)  # fmt: skip
def test_the_figures(groups: Sequence[DeviceGroup], claims: Sequence[PodClaim], units: str, cards: str) -> None:
    assert fit_labels(devices(groups, *claims)) == {SLICED: units, SHARED: cards}


def test_cards_that_cannot_be_sliced_have_shares_only() -> None:
    assert fit_labels(devices(t4(1, slices=0))) == {SHARED: "1"}


def test_partitioned_cards_have_none() -> None:
    groups = [cards_of("h100", 1, profiles=H100_PROFILES)]
    assert fit_labels(devices(groups, claim("p", given(partition_entry("h100/0", "1g.10gb", 0, 1))))) == {}


def test_every_sort_of_card_has_its_own() -> None:
    assert fit_labels(devices([cards_of("t4", 1), cards_of("a10g", 2)])) == {
        SLICED: "1600000",
        SHARED: "1",
        "sliced-max-free-units.fit.gpustack.ai/nvidia-a10g": "1600000",
        "shared-free-cards.fit.gpustack.ai/nvidia-a10g": "2",
    }


@pytest.mark.parametrize("group_id", ["", "a b", "x" * 60])
def test_a_key_that_is_no_label_is_skipped(group_id: str) -> None:
    assert fit_labels(devices([cards_of(group_id, 1)])) == {}


def test_a_card_that_left_the_node_does_not_count() -> None:
    gone = devices(t4(2))
    assert fit_labels(msgspec.structs.replace(gone, spec=DevicesSpec(groups=tuple(t4(1)))))[SHARED] == "1"


def test_fit_labels_are_told_from_others() -> None:
    assert (sliced_units_label("nvidia-t4"), shared_cards_label("nvidia-t4")) == (SLICED, SHARED)
    assert is_fit_label(SLICED)
    assert not is_fit_label("acceleratable.feature.gpustack.ai/nvidia-t4")
    assert without_fit_labels({SLICED: "1", SHARED: "2", "a": "b"}) == {"a": "b"}
