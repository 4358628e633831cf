"""Whoever waits for a development cluster to settle is told what is still missing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from devcluster.settle import Pools, missing
from gpustack_op.agent import inventory
from gpustack_op.api.worker import InstanceType, InstanceTypeFlavor, InstanceTypeFlavorSpec
from tests.builders import metadata, type_spec, walkthrough_flavors

MACHINES = [inventory.load(file) for file in sorted((Path(__file__).parents[2] / "hack" / "machines").glob("*.yaml"))]


def pool(name: str, *, cpu: str = "0", cards: str = "0", phase: str = "Active", **spec: Any) -> InstanceType:
    views = {"cpu": {"capacity": cpu}, "accelerator": {"capacity": cards}}
    return InstanceType(metadata=metadata(name), spec=type_spec(**spec), status={"phase": phase, **views})


def row(accelerator_group: str = "", general_group: str = "") -> InstanceTypeFlavor:
    spec = InstanceTypeFlavorSpec(accelerator_group=accelerator_group, general_group=general_group)
    return InstanceTypeFlavor(metadata=metadata(f"gpustack--{accelerator_group or general_group}"), spec=spec)


A10G = pool("a10g", cards="1", accelerator_group="nvidia-a10g")
T4 = pool("t4", cards="5", accelerator_group="nvidia-tesla-t4")
GENERIC = pool("cpus", cpu="72", general_group="generic")
SETTLED = Pools(
    flavors=walkthrough_flavors(),
    types=[A10G, T4, GENERIC],
    catalog=[row("nvidia-a10g"), row("nvidia-tesla-t4"), row(general_group="generic")],
)


def test_nothing_is_missing_once_everything_is_counted() -> None:
    assert missing(MACHINES, SETTLED) == []


def test_at_the_beginning_everything_is_missing() -> None:
    assert missing(MACHINES, Pools()) == [
        "0 of 72 cores are in flavors",
        "0 of 6 cards are in flavors",
        "0 of 72 cores are in pools",
        "0 of 6 cards are in pools",
    ]


@pytest.mark.parametrize(
    ("pools", "sentences"),
    [
        pytest.param(
            replace(
                SETTLED, flavors=[each for each in SETTLED.flavors if not each.name.endswith("-7r32-linux-amd64-4c")]
            ),
            ["68 of 72 cores are in flavors"],
            id="a flavor",
        ),
        pytest.param(
            replace(SETTLED, types=[A10G, T4, pool("cpus", general_group="generic")]),
            ["0 of 72 cores are in pools"],
            id="a view",
        ),
        pytest.param(
            replace(SETTLED, types=[A10G, T4, pool("cpus", cpu="72", general_group="generic", phase="Activating")]),
            ["cpus is Activating"],
            id="a pool that is open",
        ),
        pytest.param(
            replace(SETTLED, catalog=SETTLED.catalog[1:]), ["nvidia-a10g is not in the catalog"], id="a catalog row"
        ),
    ],
)
def test_what_is_missing_is_named(pools: Pools, sentences: list[str]) -> None:
    assert missing(MACHINES, pools) == sentences
