"""The view of a CPU pool, from what Kueue says of its queue."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from gpustack_op.scheduling.cpu_view import cpu_view
from gpustack_op.scheduling.pool_views import PoolViews, pool_views
from gpustack_op.scheduling.views import View
from tests.builders import cluster_queue, devices, free

WHOLE = {"a-4c": 4, "b-4c": 4, "c-16c": 16, "d-48c": 48}


@pytest.mark.parametrize(
    ("quotas", "reserved", "overcommit", "expected"),
    [
        pytest.param(WHOLE, {}, False, View(48, 72, 72), id="all four machines"),
        pytest.param(WHOLE, {}, True, View(48, 72, 72), id="nothing reserved, whatever is over-committed"),
        pytest.param({"b-4c": 4, "c-16c": 16, "d-48c": 48}, {}, False, View(48, 68, 68), id="one machine left"),
        pytest.param({"c-16c": 16}, {"c-16c": 4}, False, View(12, 12, 16), id="4 of 16 reserved"),
        pytest.param(
            {"c-16c": 16}, {"c-16c": "3200m"}, True, View(12, 12, 16), id="requests of 4 cores over-committed"
        ),
        pytest.param({"d-48c": 48, "a-4c": 4}, {"d-48c": 20}, False, View(32, 32, 52), id="20 of the large one"),
        pytest.param({"a-4c": 0, "c-16c": 16}, {"a-4c": 3}, False, View(16, 16, 16), id="a flavor withdrawn in use"),
        pytest.param({"a-4c": 4, "d-48c": 0}, {}, False, View(4, 4, 4), id="a withdrawn flavor sets no maximum"),
        pytest.param({"c-16c": 16}, {"c-16c": 20}, False, View(0, 0, 16), id="more reserved than there is"),
        pytest.param({"c-16c": 16}, {"c-16c": "1500m"}, False, View(14, 14, 16), id="floored to whole cores"),
        pytest.param({"c-16c": 16}, {"c-16c": "100m"}, True, View(15, 15, 16), id="floored after scaling"),
        pytest.param({}, {}, False, View(0, 0, 0), id="no flavors"),
        pytest.param({"a-4c": "1E"}, {}, False, View(4, 10**18, 10**18), id="a quota of no limit"),
    ],
)
def test_free_cores_are_counted(
    quotas: Mapping[str, str | int], reserved: Mapping[str, str | int], overcommit: bool, expected: View
) -> None:
    assert cpu_view(cluster_queue(quotas=quotas, reserved=reserved), overcommit=overcommit) == expected


def test_credits_are_no_cores() -> None:
    queue = cluster_queue(resource="credits.gpustack.ai/nvidia", quotas={"a-1d": "1600k"})
    assert cpu_view(queue, overcommit=False) == View(0, 0, 0)


def test_a_draining_pool_shows_zeros() -> None:
    queue = cluster_queue(quotas=WHOLE, stop_policy="HoldAndDrain")
    assert pool_views(accelerator_group="", queue=queue, devices=[], overcommit=True) == PoolViews()
    cards = [devices("node", free())]
    assert pool_views(accelerator_group="nvidia-a10g", queue=queue, devices=cards, overcommit=True) == PoolViews()


def test_a_held_pool_shows_what_it_has() -> None:
    queue = cluster_queue(quotas=WHOLE, stop_policy="Hold")
    assert pool_views(accelerator_group="", queue=queue, devices=[], overcommit=True).cpu == View(48, 72, 72)


def test_a_pool_without_a_queue_has_no_cores() -> None:
    assert pool_views(accelerator_group="", queue=None, devices=[], overcommit=True) == PoolViews()


def test_a_pool_of_cards_shows_no_cores() -> None:
    queue = cluster_queue(quotas={"a-1d": "1600k"}, resource="credits.gpustack.ai/nvidia")
    views = pool_views(accelerator_group="nvidia-a10g", queue=queue, devices=[devices("n", free())], overcommit=True)
    assert (views.exclusive, views.cpu) == (View(1, 1, 1), View(0, 0, 0))
