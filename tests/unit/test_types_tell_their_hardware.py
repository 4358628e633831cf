"""Descriptors in an InstanceType's spec, detail and summary in its status."""

from __future__ import annotations

from typing import Any

import pytest

from gpustack_op.api.kueue import ResourceFlavor
from gpustack_op.api.worker import Devices, InstanceTypeSpec
from gpustack_op.scheduling.descriptors import descriptors, missing_descriptors
from gpustack_op.scheduling.detail import detail, runtime_versions
from gpustack_op.scheduling.pool_views import pool_views
from gpustack_op.scheduling.summary import summary
from tests.builders import (
    cluster_queue,
    devices,
    flavor,
    free,
    group,
    instance_type,
    partitioned,
    plain,
    type_spec,
    walkthrough_devices,
    walkthrough_flavors,
)

A10G = {
    "manufacturer": "nvidia",
    "product": "NVIDIA-A10G",
    "family": "Ampere",
    "memory": "24Gi",
    "cores": "10240",
}
SLICEABLE = {
    "logicalSliced": {"maxSize": 128, "coresPercentageOvercommit": True, "memoryPercentageStep": 1},
    "physicalSliced": {"maxSize": 0},
}
EPYC_FACTS = {"physicalCores": "8", "threadsPerPhysicalCore": "2"}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(type_spec(accelerator_group="nvidia-a10g"), A10G | {"feature": SLICEABLE}, id="cards"),
        pytest.param(
            type_spec(accelerator_group="nvidia-a10g", general_group="amd-epyc-7r32"),
            A10G | {"feature": SLICEABLE},
            id="cards on one CPU",
        ),
        pytest.param(type_spec(), {"manufacturer": "generic"}, id="every CPU"),
        pytest.param(
            type_spec(general_group="amd-epyc-7r13"),
            {"manufacturer": "amd", "product": "AMD EPYC 7R13 Processor", "family": "25"},
            id="one CPU",
        ),
        pytest.param(type_spec(accelerator_group="nvidia-a10"), {}, id="hardware that nobody has"),
    ],
)
def test_a_pool_is_described_by_its_flavors_and_cards(spec: InstanceTypeSpec, expected: dict[str, Any]) -> None:
    assert descriptors(spec, walkthrough_flavors(), walkthrough_devices()) == expected


@pytest.mark.parametrize(
    ("cards", "expected"),
    [
        pytest.param([], None, id="no card reported yet"),
        pytest.param([devices("n", free(), managed="false")], None, id="an unmanaged node tells nothing"),
        pytest.param(
            [devices("n", plain(), partitioned(7), free())],
            {
                "logicalSliced": {"maxSize": 128, "coresPercentageOvercommit": True, "memoryPercentageStep": 1},
                "physicalSliced": {"maxSize": 7},
            },
            id="the most capable card decides",
        ),
        pytest.param(
            [devices("n", plain())],
            {
                "logicalSliced": {"maxSize": 0, "coresPercentageOvercommit": False, "memoryPercentageStep": 0},
                "physicalSliced": {"maxSize": 0},
            },
            id="cards that cannot be divided",
        ),
    ],
)
def test_a_feature_is_told_when_a_card_has_reported(cards: list[Devices], expected: dict[str, Any] | None) -> None:
    told = descriptors(type_spec(accelerator_group="nvidia-a10g"), [flavor("a10g", cards=True)], cards)
    assert told.get("feature") == expected


def test_a_descriptor_that_has_a_value_is_not_given_again() -> None:
    present = instance_type(accelerator_group="nvidia-a10g", manufacturer="nvidia", product="My own words", memory="")
    assert missing_descriptors(present, walkthrough_flavors(), []) == {
        "family": "Ampere",
        "memory": "24Gi",
        "cores": "10240",
    }


def test_a_described_type_misses_nothing() -> None:
    present = instance_type(general_group="amd-epyc-7r13", manufacturer="amd", product="EPYC", family="25")
    assert missing_descriptors(present, walkthrough_flavors(), walkthrough_devices()) == {}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(type_spec(), {}, id="every CPU"),
        pytest.param(
            type_spec(general_group="amd-epyc-7r13"),
            {"manufacturer": "amd", "product": "AMD EPYC 7R13 Processor", "family": "25"} | EPYC_FACTS,
            id="one CPU",
        ),
        pytest.param(
            type_spec(accelerator_group="nvidia-a10g"),
            A10G
            | {
                "runtimeVersion": "13.0",
                "runtimeVersions": ["13.0"],
                "slicedDetail": {"logical": {"count": 128, "coresPercentageOvercommit": True}},
            },
            id="one card",
        ),
        pytest.param(
            type_spec(accelerator_group="nvidia-a10g", general_group="amd-epyc-7r32"),
            A10G
            | {
                "runtimeVersion": "13.0",
                "runtimeVersions": ["13.0"],
                "slicedDetail": {"logical": {"count": 128, "coresPercentageOvercommit": True}},
                "cpu": {
                    "manufacturer": "amd",
                    "product": "AMD EPYC 7R32",
                    "family": "23",
                    "physicalCores": "2",
                    "threadsPerPhysicalCore": "2",
                },
            },
            id="a card on one CPU",
        ),
        pytest.param(type_spec(accelerator_group="nvidia-a10"), {}, id="hardware that nobody has"),
    ],
)
def test_the_detail_tells_what_nodes_report(spec: InstanceTypeSpec, expected: dict[str, Any]) -> None:
    assert detail(spec, walkthrough_flavors(), walkthrough_devices()) == expected


def test_capability_is_summed_over_the_pool() -> None:
    told = detail(type_spec(accelerator_group="nvidia-tesla-t4"), walkthrough_flavors(), walkthrough_devices())
    assert told["slicedDetail"]["logical"]["count"] == 640


def test_partitions_are_summed_by_profile() -> None:
    cards = [partitioned(7, catalog={"2g.20gb": 3, "1g.10gb": 7}), partitioned(7, catalog={"1g.10gb": 7})]
    told = detail(type_spec(accelerator_group="nvidia-a10g"), [flavor("a10g", cards=True)], [devices("n", *cards)])
    assert told["slicedDetail"] == {
        "physical": {
            "count": 14,
            "profiles": [
                {"name": "1g.10gb", "count": 14, "memoryMib": 0},
                {"name": "2g.20gb", "count": 3, "memoryMib": 0},
            ],
        }
    }


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        (["13.0", "12.8", "13.0", "9.2"], ["9.2", "12.8", "13.0"]),
        (["9", "9.0"], ["9"]),
        (["", "unknown", "12.8"], ["12.8"]),
        ([], []),
    ],
)
def test_runtime_versions_are_compared_as_numbers(reported: list[str], expected: list[str]) -> None:
    assert runtime_versions([group("nvidia-a10g", runtime_version=version) for version in reported]) == expected


def test_a_malformed_note_is_nothing_known() -> None:
    broken = flavor("cpu")
    broken.metadata.annotations["note.gpustack.ai/cpuDetail"] = '{"cache": 7, "stepping": '  # type: ignore[index]
    assert detail(type_spec(general_group="amd-epyc-7r13"), [broken], []) == {
        "manufacturer": "amd",
        "product": "AMD EPYC 7R13 Processor",
        "family": "25",
    }


# --- Summary ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "accelerator", "cpu"),
    [
        pytest.param(type_spec(accelerator_group="nvidia-a10g"), "1/1 1/10 100/100 0/0", "0/0", id="A10G"),
        pytest.param(type_spec(accelerator_group="nvidia-tesla-t4"), "4/5 4/50 100/500 0/0", "0/0", id="T4"),
        pytest.param(type_spec(), "0/0 0/0 0/0 0/0", "48/72", id="CPU"),
    ],
)
def test_the_cells_are_those_of_the_table(spec: InstanceTypeSpec, accelerator: str, cpu: str) -> None:
    views = pool_views(
        accelerator_group=spec.accelerator_group or "",
        queue=cluster_queue(quotas={"a-4c": 4, "b-4c": 4, "c-16c": 16, "d-48c": 48}),
        devices=walkthrough_devices(),
        overcommit=True,
    )
    cells = summary(spec, views)
    assert (cells["accelerator"], cells["cpu"]) == (accelerator, cpu)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (type_spec(unit="1/2Gi/100Gi"), "1/2Gi/100Gi"),
        (type_spec(unit="12/128Gi/200Gi"), "12/128Gi/200Gi"),
        (type_spec(local_storage=None, unit_resources=None), "//"),
    ],
)
def test_the_unit_is_printed_as_written(spec: InstanceTypeSpec, expected: str) -> None:
    views = pool_views(accelerator_group="", queue=None, devices=[], overcommit=True)
    assert summary(spec, views)["unit"] == expected


def test_large_amounts_are_printed_as_quantities() -> None:
    node = devices("n", *[free()] * 20)
    views = pool_views(accelerator_group="nvidia-a10g", queue=None, devices=[node], overcommit=True)
    assert summary(type_spec(), views)["accelerator"] == "20/20 20/200 100/2k 0/0"


def test_partitions_are_printed_by_profile() -> None:
    node = devices("n", partitioned(7, catalog={"2g.20gb": 3, "1g.10gb": 7}))
    views = pool_views(accelerator_group="nvidia-a10g", queue=None, devices=[node], overcommit=True)
    assert summary(type_spec(), views)["partitions"] == "1g.10gb:7 2g.20gb:3"


def test_views_are_written_as_the_status_has_them() -> None:
    node = devices("n", free(), partitioned(7, catalog={"1g.10gb": 7}, left={"1g.10gb": 6}, allocated={"1g.10gb": 1}))
    views = pool_views(accelerator_group="nvidia-a10g", queue=None, devices=[node], overcommit=True)
    assert views.as_json() == {
        "accelerator": {"onceMaxRequest": "1", "remaining": "1", "capacity": "1"},
        "acceleratorShared": {"onceMaxRequest": "1", "remaining": "10", "capacity": "10"},
        "acceleratorSliced": {"onceMaxRequest": "100", "remaining": "100", "capacity": "100"},
        "acceleratorPartitioned": {
            "onceMaxRequest": "1",
            "remaining": "6",
            "capacity": "7",
            "allocatedProfiles": [{"name": "1g.10gb", "count": 1}],
            "remainingProfiles": [{"name": "1g.10gb", "count": 6}],
        },
        "cpu": {"onceMaxRequest": "0", "remaining": "0", "capacity": "0"},
    }


def test_no_partition_no_list() -> None:
    views = pool_views(accelerator_group="", queue=None, devices=[], overcommit=True)
    assert views.as_json()["acceleratorPartitioned"] == {"onceMaxRequest": "0", "remaining": "0", "capacity": "0"}
    assert "partitions" not in summary(type_spec(), views)


def test_flavors_of_others_describe_nothing() -> None:
    assert descriptors(type_spec(), [ResourceFlavor()], []) == {}
