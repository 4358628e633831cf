"""The four views of a pool's cards: (largest single request, remaining, capacity)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gpustack_op.scheduling.partition_view import PartitionView, partition_view
from gpustack_op.scheduling.views import View, accounts, exclusive_view, shared_view, sliced_view
from tests.builders import (
    CardState,
    devices,
    exclusive,
    free,
    partitioned,
    plain,
    shared,
    sliced,
    unaccounted,
    with_groups_of,
)

KEY = "nvidia-a10g"
H100 = {"1g.10gb": 7, "1g.20gb": 4, "2g.20gb": 3, "3g.40gb": 2, "4g.40gb": 1, "7g.80gb": 1}
Nodes = Sequence[Sequence[CardState]]
NONE = (0, 0, 0)


@pytest.mark.parametrize(
    ("nodes", "ex", "sh", "sl", "pt"),
    [
        pytest.param([], NONE, NONE, NONE, NONE, id="none"),
        pytest.param([[free()] * 8], (8, 8, 8), (8, 80, 80), (100, 800, 800), NONE, id="8 free"),
        pytest.param(
            [[*[exclusive()] * 2, *[free()] * 6]],
            (6, 6, 8), (6, 60, 80), (100, 600, 800), NONE,
            id="2 exclusive, 6 free",
        ),
        pytest.param(
            [[*[exclusive()] * 2, *[shared(1)] * 2, *[free()] * 4]],
            (4, 4, 8), (6, 58, 80), (100, 400, 800), NONE,
            id="2 exclusive, 2 shared once, 4 free",
        ),
        pytest.param(
            [[*[exclusive()] * 2, *[shared(1)] * 2, *[sliced(20)] * 2, *[free()] * 2]],
            (2, 2, 8), (4, 38, 80), (100, 360, 800), NONE,
            id="two more sliced by 20 %",
        ),
        pytest.param(
            [[*[exclusive()] * 2, *[shared(1)] * 2, *[sliced(22)] * 2, *[free()] * 2]],
            (2, 2, 8), (4, 38, 80), (100, 356, 800), NONE,
            id="these sliced by 22 %",
        ),
        pytest.param(
            [[*[exclusive()] * 3, *[shared(1)] * 2, *[sliced(22)] * 2, free()]],
            (1, 1, 8), (3, 28, 80), (100, 256, 800), NONE,
            id="3 exclusive, 2 shared, 2 sliced, 1 free",
        ),
        pytest.param(
            [[free()] * 4, [free()] * 2], (4, 6, 6), (4, 60, 60), (100, 600, 600), NONE, id="4 and 2 free on two nodes"
        ),
        pytest.param(
            [[sliced(60), sliced(70), sliced(80)]], (0, 0, 3), (0, 0, 30), (40, 90, 300), NONE, id="three sliced"
        ),
        pytest.param(
            [[plain(), plain(), free()]], (3, 3, 3), (3, 30, 30), (100, 100, 100), NONE, id="2 that cannot be sliced"
        ),
        pytest.param([[free(), sliced(20)]], (1, 1, 2), (1, 10, 20), (100, 180, 200), NONE, id="1 free, 1 sliced"),
        pytest.param([[sliced(20)]], (0, 0, 1), (0, 0, 10), (80, 80, 100), NONE, id="A10G with a slice"),
        pytest.param([[exclusive()]], (0, 0, 1), (0, 0, 10), (0, 0, 100), NONE, id="A10G held"),
        pytest.param([[shared(10)]], (0, 0, 1), (0, 0, 10), (0, 0, 100), NONE, id="all ten shares in use"),
        pytest.param([[free()] * 4, [free()]], (4, 5, 5), (4, 50, 50), (100, 500, 500), NONE, id="the T4 pool"),
        pytest.param([[partitioned(7)] * 2], NONE, NONE, NONE, (1, 14, 14), id="2 partitioned, untouched"),
        pytest.param(
            [[free(), partitioned(7)]], (1, 1, 1), (1, 10, 10), (100, 100, 100), (1, 7, 7), id="1 free, 1 partitioned"
        ),
        pytest.param([[partitioned(7, left={"1g": 6, "2g": 3})]], NONE, NONE, NONE, (1, 6, 7), id="best profile 6"),
        pytest.param(
            [[partitioned(7, left={"1g": 4}), partitioned(7, left={"1g": 2})], [partitioned(7, left={"1g": 5})]],
            NONE, NONE, NONE, (1, 11, 21),
            id="three partitioned with best 4, 2 and 5",
        ),
        pytest.param([[partitioned(7, left={"1g": 0})] * 2], NONE, NONE, NONE, (0, 0, 14), id="all profiles at 0"),
        pytest.param(
            [[partitioned(7, left={"1g": 6}), unaccounted(partitioned(7))]], NONE, NONE, NONE, (1, 13, 14),
            id="one not in the ledger",
        ),
        pytest.param([[free(healthy=False)]], (0, 0, 1), (0, 0, 10), (0, 0, 100), NONE, id="a sick card"),
        pytest.param(
            [[free(), free(healthy=False)]], (1, 1, 2), (1, 10, 20), (100, 100, 200), NONE, id="a sick card beside one"
        ),
        pytest.param(
            [[shared(3, healthy=False), sliced(20, healthy=False)]], (0, 0, 2), (0, 0, 20), (0, 0, 200), NONE,
            id="sick cards in use",
        ),
        pytest.param(
            [[partitioned(7, left={"1g": 6}, healthy=False)]], NONE, NONE, NONE, (0, 0, 7), id="a sick partitioned card"
        ),
        pytest.param([[unaccounted(free())]], (0, 0, 1), (0, 0, 10), (0, 0, 100), NONE, id="a card without an account"),
    ],
)  # fmt: skip
def test_cards_are_counted(
    nodes: Nodes,
    ex: tuple[int, int, int],
    sh: tuple[int, int, int],
    sl: tuple[int, int, int],
    pt: tuple[int, int, int],
) -> None:
    pool = accounts([devices(f"node-{number}", *cards) for number, cards in enumerate(nodes)], KEY)
    assert exclusive_view(pool) == View(*ex)
    assert shared_view(pool) == View(*sh)
    assert sliced_view(pool) == View(*sl)
    assert partition_view(pool).view == View(*pt)


def test_a_second_group_of_the_node_is_ignored() -> None:
    node = with_groups_of(devices("node", free()), devices("node", *[free()] * 4, key="nvidia-tesla-t4"))
    assert exclusive_view(accounts([node], KEY)) == View(1, 1, 1)


def test_a_card_that_left_the_spec_gives_nothing() -> None:
    gone = with_groups_of(devices("node"), devices("node", free()))
    node = type(gone)(metadata=gone.metadata, status=gone.status)
    assert exclusive_view(accounts([node], KEY)) == View(0, 0, 1)
    assert sliced_view(accounts([node], KEY)) == View(0, 0, 0)


def partitions(*cards: CardState) -> PartitionView:
    return partition_view(accounts([devices("node", *cards)], KEY))


def test_one_partition_leaves_less_of_every_profile() -> None:
    left = {"1g.10gb": 6, "1g.20gb": 3, "2g.20gb": 2, "3g.40gb": 1}
    view = partitions(partitioned(7, catalog=H100, left=left, allocated={"1g.10gb": 1}))
    assert view.allocated == (("1g.10gb", 1),)
    assert view.remaining == (
        ("1g.10gb", 6), ("1g.20gb", 3), ("2g.20gb", 2), ("3g.40gb", 1), ("4g.40gb", 0), ("7g.80gb", 0),
    )  # fmt: skip


def test_without_a_ledger_the_catalog_is_free() -> None:
    assert partitions(partitioned(7, catalog=H100)) == PartitionView(View(1, 7, 7), (), tuple(sorted(H100.items())))


def test_a_card_that_is_full_leaves_zeros() -> None:
    assert partitions(partitioned(7, catalog=H100, allocated={"1g.10gb": 7})) == PartitionView(
        View(0, 0, 7),
        (("1g.10gb", 7),),
        (("1g.10gb", 0), ("1g.20gb", 0), ("2g.20gb", 0), ("3g.40gb", 0), ("4g.40gb", 0), ("7g.80gb", 0)),
    )


def test_profiles_of_a_sick_card_stay_listed() -> None:
    sick = partitioned(7, catalog={"1g.10gb": 7}, left={"1g.10gb": 6}, allocated={"1g.10gb": 1}, healthy=False)
    assert partitions(sick) == PartitionView(View(0, 0, 7), (("1g.10gb", 1),), (("1g.10gb", 0),))


def test_a_pool_without_partitions_lists_none() -> None:
    assert partitions(free()) == PartitionView()
