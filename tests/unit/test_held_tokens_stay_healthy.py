"""Which tokens the kubelet may hand out."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gpustack_op.agent.plugin.health import Standing, listed
from gpustack_op.api.worker import DeviceGroup
from gpustack_op.scheduling.claims import PodClaim
from gpustack_op.scheduling.ledger import rebuilt
from gpustack_op.scheduling.manufacturers import Family
from tests.builders import H100_PROFILES, cards_of, claim, given, partition_entry, share_entry, slice_entry, whole_entry


def healthy(
    family: Family, *claims: PodClaim, groups: Sequence[DeviceGroup] = (), withheld: Sequence[str] = ()
) -> list[str]:
    groups = groups or [cards_of("a", 2)]
    standing = Standing(groups=groups, claims=claims, ledger=rebuilt(groups, claims), withheld=withheld)
    return [one.id for one in listed(standing, "nvidia", family) if one.healthy]


WHOLE = claim("p", given(whole_entry("a/0"), ids=["a:a/0:0000"]))
SLICE = claim("p", given(slice_entry("a/0", 60), ids=["a:a/0:0003"]))


@pytest.mark.parametrize(
    ("claims", "sick", "withheld", "whole"),
    [
        pytest.param([], (), (), ["a:a/0:0000", "a:a/1:0000"], id="free cards are"),
        pytest.param([], (0,), (), ["a:a/1:0000"], id="a sick card is not"),
        pytest.param([SLICE], (), (), ["a:a/1:0000"], id="a card in slices is no whole card"),
        pytest.param([WHOLE], (), (), ["a:a/0:0000", "a:a/1:0000"], id="a card that is held as a whole stays"),
        pytest.param([WHOLE], (0,), (), ["a:a/0:0000", "a:a/1:0000"], id="also when it is sick"),
        pytest.param([], (), ("a/1",), ["a:a/0:0000"], id="a card in doubt is not"),
        pytest.param([WHOLE, SLICE], (), (), ["a:a/0:0000", "a:a/1:0000"], id="what is held in two ways stays held"),
    ],
)
def test_a_whole_card_is_healthy(
    claims: list[PodClaim], sick: tuple[int, ...], withheld: tuple[str, ...], whole: list[str]
) -> None:
    assert healthy(Family.EXCLUSIVE, *claims, groups=[cards_of("a", 2, sick=sick)], withheld=withheld) == whole


def test_only_the_held_slice_of_a_sick_card_is_healthy() -> None:
    assert healthy(Family.SLICED, SLICE, groups=[cards_of("a", 1, sick=[0])]) == ["a:a/0:0003"]


def test_a_full_card_keeps_its_other_slices() -> None:
    full = claim("p", given(slice_entry("a/0", 100), ids=["a:a/0:0003"]))
    assert len(healthy(Family.SLICED, full)) == 256


def test_a_finished_pod_holds_no_token() -> None:
    ended = claim("p", given(share_entry("a/0"), ids=["a:a/0:0000"]), phase="Succeeded")
    assert healthy(Family.SHARED, ended, groups=[cards_of("a", 1, sick=[0])]) == []


def test_partition_tokens_count_what_the_node_still_takes() -> None:
    cards = [cards_of("h", 2, profiles=H100_PROFILES)]
    live = claim("p", given(partition_entry("h/0", "3g.40gb", 0, 4), ids=["h:h/0:0003"]))
    assert healthy(Family.PARTITIONED, live, groups=cards) == [
        "h:h/0:0000",
        "h:h/0:0001",
        "h:h/0:0002",
        "h:h/0:0003",
        "h:h/0:0004",
        "h:h/0:0005",
        "h:h/0:0006",
        "h:h/1:0000",
        "h:h/1:0001",
        "h:h/1:0002",
        "h:h/1:0003",
    ]
