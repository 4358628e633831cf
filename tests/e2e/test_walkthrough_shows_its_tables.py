"""Who follows the walkthrough with kubectl sees the tables that it shows, cell for cell."""

from __future__ import annotations

import pytest

from devcluster.kubectl import Kubectl
from tests.e2e.tables import expected, read_table
from tests.e2e.walkthrough import CPU_AWARE, TABLES, Walkthrough


@pytest.mark.parametrize("kind", TABLES)
async def test_four_nodes_make_the_initial_pools(kind: str, kubectl: Kubectl) -> None:
    assert read_table(await kubectl("get", kind)) == expected("initial", kind)


async def test_a_node_that_is_no_longer_managed_leaves_its_pools_and_comes_back(walkthrough: Walkthrough) -> None:
    await walkthrough.manage("node-a10g", managed=False)
    await walkthrough.shows("without-a10g", "instancetype", "resourceflavor")
    await walkthrough.manage("node-a10g", managed=True)
    await walkthrough.shows("initial", *TABLES)


async def test_a_type_of_another_size_is_a_second_view_of_the_same_card_until_it_is_deleted(
    walkthrough: Walkthrough,
) -> None:
    await walkthrough.add_custom_type()
    await walkthrough.shows("custom-type", "instancetype")
    await walkthrough.delete_types("a10g-12c128g")
    await walkthrough.shows("initial", *TABLES)


@pytest.mark.parametrize(("on", "off"), [("secret", "setting"), ("setting", "secret")])
async def test_cpus_are_told_apart_and_joined_again_without_touching_a_flavor(
    on: str, off: str, walkthrough: Walkthrough
) -> None:
    flavors = await walkthrough.kubectl("get", "resourceflavor", "-o", "json", "--show-managed-fields")

    await walkthrough.tell_cpus_apart(True, by=on)
    await walkthrough.shows("cpu-aware", "instancetype", "clusterqueue", "instancetypeflavor")

    await walkthrough.tell_cpus_apart(False, by=off)
    await walkthrough.shows("initial", "instancetypeflavor")
    assert await walkthrough.table("instancetype") == expected("cpu-aware", "instancetype")
    assert await walkthrough.table("clusterqueue") == expected("cpu-aware", "clusterqueue")

    await walkthrough.delete_types(*CPU_AWARE)
    await walkthrough.shows("initial", *TABLES)
    assert await walkthrough.kubectl("get", "resourceflavor", "-o", "json", "--show-managed-fields") == flavors
