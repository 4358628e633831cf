"""Which flavors feed a queue, in which order, with how much quota."""

from __future__ import annotations

from typing import Any

import pytest

from gpustack_op.api.kueue import ResourceFlavor
from gpustack_op.scheduling.pools import feeds, offers, pool_plan, resource_groups, type_labels
from tests.builders import flavor, type_spec, walkthrough_flavors

A10G = "gpustack--amd-epyc-7r32--nvidia-a10g-linux-amd64-1d"
EPYC = "gpustack--amd-epyc-7r32-linux-amd64-4c"
ROME = "gpustack--amd-epyc-7r13-linux-amd64-16c"
XEON = "gpustack--intel-xeon-platinum-8259cl-linux-amd64"
T4 = "gpustack--intel-xeon-platinum-8259cl--nvidia-tesla-t4-linux-amd64"


def quotas(flavors: list[ResourceFlavor], **spec: Any) -> list[tuple[str, str]]:
    """The planned flavors and their quota, in order."""
    plan = pool_plan(type_labels(type_spec(**spec)), flavors)
    return [(entry.name, entry.resources[0].nominal_quota) for entry in plan.flavors]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({}, [(EPYC, "4"), (f"{XEON}-4c", "4"), (ROME, "16"), (f"{XEON}-48c", "48")], id="every CPU"),
        pytest.param({"general_group": "amd-epyc-7r13"}, [(ROME, "16")], id="one CPU"),
        pytest.param({"general_group": "amd-epyc-7r32"}, [(EPYC, "4")], id="a CPU beside cards"),
        pytest.param(
            {"general_group": "intel-xeon-platinum-8259cl"},
            [(f"{XEON}-4c", "4"), (f"{XEON}-48c", "48")],
            id="two sizes",
        ),
        pytest.param({"accelerator_group": "nvidia-a10g"}, [(A10G, "1600k")], id="one card"),
        pytest.param(
            {"accelerator_group": "nvidia-tesla-t4"}, [(f"{T4}-1d", "1600k"), (f"{T4}-4d", "6400k")], id="five cards"
        ),
        pytest.param(
            {"accelerator_group": "nvidia-a10g", "general_group": "amd-epyc-7r32"}, [(A10G, "1600k")], id="card and CPU"
        ),
        pytest.param({"accelerator_group": "nvidia-a10g", "general_group": "amd-epyc-7r13"}, [], id="no such pair"),
        pytest.param({"accelerator_group": "nvidia-a10"}, [], id="a shorter name is another card"),
        pytest.param({"arch": "arm64"}, [], id="no such architecture"),
        pytest.param({"acceleratable": True}, [], id="cards without a name are no pool"),
    ],
)
def test_a_pool_is_made_of_what_its_spec_selects(spec: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    assert quotas(walkthrough_flavors(), **spec) == expected


def test_equal_nodes_add_up() -> None:
    assert quotas([flavor("a10g", cards=True, nodes=2)], accelerator_group="nvidia-a10g") == [(A10G, "3200k")]


def test_small_nodes_come_first_by_number_not_by_text() -> None:
    flavors = [flavor("cpu", count=count) for count in (128, 16, 9)]
    assert [quota for _, quota in quotas(flavors)] == ["9", "16", "128"]


@pytest.mark.parametrize(
    "foreign",
    [
        pytest.param(flavor("cpu", deleting=True), id="a flavor that is going"),
        pytest.param(ResourceFlavor(), id="a flavor of somebody else"),
    ],
)
def test_other_flavors_are_left_out(foreign: ResourceFlavor) -> None:
    assert quotas([foreign]) == []


def test_a_flavor_without_nodes_offers_nothing() -> None:
    (empty,) = [flavor("cpu")]
    assert offers(empty)
    empty.metadata.labels["general.feature.gpustack.ai/amd-epyc-7r13.capacity"] = "0"  # type: ignore[index]
    assert not offers(empty)
    assert quotas([empty]) == []


def test_a_pool_takes_sixty_four_flavors() -> None:
    flavors = [flavor("cpu", count=count) for count in range(1, 65)]
    plan = pool_plan(type_labels(type_spec()), flavors)
    assert (len(plan.flavors), plan.left_out) == (64, ())


def test_the_sixty_fifth_flavor_is_left_out_and_named() -> None:
    flavors = [flavor("cpu", count=count) for count in range(1, 66)]
    plan = pool_plan(type_labels(type_spec()), flavors)
    assert (len(plan.flavors), plan.left_out) == (64, ("gpustack--amd-epyc-7r13-linux-amd64-65c",))


def test_a_flavor_that_is_listed_keeps_its_place() -> None:
    flavors = [flavor("cpu", count=count) for count in range(1, 66)]
    listed = {f"gpustack--amd-epyc-7r13-linux-amd64-{count}c" for count in range(2, 66)}
    plan = pool_plan(type_labels(type_spec()), flavors, listed=listed)
    assert plan.left_out == ("gpustack--amd-epyc-7r13-linux-amd64-1c",)


def test_places_can_be_kept_for_flavors_that_are_leaving() -> None:
    plan = pool_plan(type_labels(type_spec()), walkthrough_flavors(), limit=3)
    assert plan.left_out == (f"{XEON}-48c",)


def test_a_plan_is_one_resource_group() -> None:
    plan = pool_plan(type_labels(type_spec(accelerator_group="nvidia-tesla-t4")), walkthrough_flavors())
    credits = "credits.gpustack.ai/nvidia"
    assert resource_groups(plan.resource, plan.flavors) == [
        {
            "coveredResources": [credits],
            "flavors": [
                {"name": f"{T4}-1d", "resources": [{"name": credits, "nominalQuota": "1600k"}]},
                {"name": f"{T4}-4d", "resources": [{"name": credits, "nominalQuota": "6400k"}]},
            ],
        }
    ]


def test_an_empty_plan_is_no_group() -> None:
    plan = pool_plan(type_labels(type_spec()), [])
    assert resource_groups(plan.resource, plan.flavors) == []


@pytest.mark.parametrize(
    ("candidate", "spec", "expected"),
    [
        (flavor("a10g"), {"general_group": "amd-epyc-7r32"}, True),
        (flavor("a10g", cards=True), {"general_group": "amd-epyc-7r32"}, False),
        (flavor("a10g", cards=True), {"accelerator_group": "nvidia-a10g"}, True),
        (flavor("t4-a", cards=True), {"accelerator_group": "nvidia-a10g"}, False),
    ],
)
def test_a_flavor_feeds_the_pools_that_select_it(
    candidate: ResourceFlavor, spec: dict[str, Any], expected: bool
) -> None:
    assert feeds(candidate, type_labels(type_spec(**spec))) is expected
