"""Ids that the kubelet is offered: their names, their number, and what is none of them."""

from __future__ import annotations

import pytest

from gpustack_op.agent.plugin.health import Listed
from gpustack_op.agent.plugin.servicer import message
from gpustack_op.agent.plugin.tokens import Token, TokenError, read, tokens_of
from gpustack_op.scheduling.manufacturers import Family
from tests.builders import H100_PROFILES, cards_of

KUBELET_LIMIT = 4 << 20


def written(family: Family, **facts: object) -> list[str]:
    group = cards_of("a10g", 1, **facts)  # type: ignore[arg-type]  # passed through
    return [token.written for token in tokens_of(group, (group.accelerators or ())[0], family)]


def test_a_whole_card_is_one_token() -> None:
    assert written(Family.EXCLUSIVE) == ["a10g:a10g/0:0000"]


def test_a_shared_card_is_ten_tokens_named_by_their_units() -> None:
    assert written(Family.SHARED) == [
        "a10g:a10g/0:0000",
        "a10g:a10g/0:160000",
        "a10g:a10g/0:320000",
        "a10g:a10g/0:480000",
        "a10g:a10g/0:640000",
        "a10g:a10g/0:800000",
        "a10g:a10g/0:960000",
        "a10g:a10g/0:1120000",
        "a10g:a10g/0:1280000",
        "a10g:a10g/0:1440000",
    ]


@pytest.mark.parametrize(
    ("family", "facts", "number"),
    [
        pytest.param(Family.SLICED, {}, 128, id="a token for each slice a card takes"),
        pytest.param(Family.SLICED, {"slices": 0}, 0, id="none for a card that takes no slices"),
        pytest.param(Family.SLICED, {"profiles": H100_PROFILES}, 0, id="a partitioned card takes no slices"),
        pytest.param(Family.EXCLUSIVE, {"profiles": H100_PROFILES}, 0, id="nor is it given as a whole"),
        pytest.param(Family.PARTITIONED, {"profiles": H100_PROFILES}, 7, id="but in as many parts as it takes"),
        pytest.param(Family.PARTITIONED, {}, 0, id="a plain card is in no partitioning mode"),
        pytest.param(Family.VISIBILITY, {}, 512, id="there is always one left to make a card visible"),
    ],
)
def test_a_card_has_as_many_tokens_as_holders(family: Family, facts: dict[str, object], number: int) -> None:
    assert len(written(family, **facts)) == number


def test_what_was_written_is_read_back() -> None:
    assert read("a10g:GPU-x:0000") == Token("a10g", "GPU-x", 0)


@pytest.mark.parametrize("text", ["", "a:b", ":b:0", "a::0", "a:b:x", "a:b:-1", "a:b:", "a:b:c:0"])
def test_what_was_never_offered_is_named(text: str) -> None:
    with pytest.raises(TokenError, match=f'device id "{text}"'):
        read(text)


def test_sixteen_cards_stay_far_below_what_the_kubelet_takes() -> None:
    group = cards_of("nvidia-h100-80gb-hbm3", 16)
    tokens = [token for card in group.accelerators or () for token in tokens_of(group, card, Family.VISIBILITY)]
    listed = tuple(Listed(f"{token.written}-{'x' * 40}", healthy=True, numa=1) for token in tokens)
    assert message(listed).ByteSize() < KUBELET_LIMIT / 4
