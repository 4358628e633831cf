"""The rows of the InstanceTypeFlavor catalog."""

from __future__ import annotations

from typing import Any

import pytest

from gpustack_op.api.worker import Devices
from gpustack_op.scheduling.catalog import candidates, catalog_rows
from tests.builders import (
    devices,
    flavor,
    free,
    partitioned,
    plain,
    stored_flavor,
    walkthrough_devices,
    walkthrough_flavors,
)

A10G = {
    "acceleratorGroup": "nvidia-a10g",
    "acceleratable": True,
    "manufacturer": "nvidia",
    "product": "NVIDIA-A10G",
    "family": "Ampere",
    "memory": "24Gi",
    "cores": "10240",
    "sliceable": True,
}
T4 = {
    "acceleratorGroup": "nvidia-tesla-t4",
    "acceleratable": True,
    "manufacturer": "nvidia",
    "product": "Tesla-T4",
    "family": "Turing",
    "memory": "16Gi",
    "cores": "2560",
    "sliceable": True,
}
XEON = "intel-xeon-platinum-8259cl"


def specs(*, aware: bool) -> dict[str, Any]:
    rows = catalog_rows(walkthrough_flavors(), walkthrough_devices(), aware=aware)
    return {row["metadata"]["name"]: row["spec"] for row in rows}


def test_without_awareness_there_is_a_row_for_cpus_and_one_for_each_card() -> None:
    assert specs(aware=False) == {
        "gpustack--generic": {"generalGroup": "generic", "acceleratable": False, "manufacturer": "generic"},
        "gpustack--nvidia-a10g": A10G,
        "gpustack--nvidia-tesla-t4": T4,
    }


def test_with_awareness_every_cpu_has_a_row_and_cards_one_on_each_cpu() -> None:
    assert specs(aware=True) == {
        "gpustack--amd-epyc-7r13": {
            "generalGroup": "amd-epyc-7r13",
            "acceleratable": False,
            "manufacturer": "amd",
            "product": "AMD EPYC 7R13 Processor",
            "family": "25",
        },
        "gpustack--amd-epyc-7r32": {
            "generalGroup": "amd-epyc-7r32",
            "acceleratable": False,
            "manufacturer": "amd",
            "product": "AMD EPYC 7R32",
            "family": "23",
        },
        f"gpustack--{XEON}": {
            "generalGroup": XEON,
            "acceleratable": False,
            "manufacturer": "intel",
            "product": "Intel(R) Xeon(R) Platinum 8259CL CPU @ 2.50GHz",
            "family": "6",
        },
        "gpustack--amd-epyc-7r32--nvidia-a10g": A10G | {"generalGroup": "amd-epyc-7r32"},
        f"gpustack--{XEON}--nvidia-tesla-t4": T4 | {"generalGroup": XEON},
    }


def test_rows_are_sorted_by_manufacturer_and_product() -> None:
    rows = catalog_rows(reversed(walkthrough_flavors()), walkthrough_devices(), aware=True)
    assert [row["metadata"]["name"] for row in rows] == [
        "gpustack--amd-epyc-7r13",
        "gpustack--amd-epyc-7r32",
        f"gpustack--{XEON}",
        "gpustack--amd-epyc-7r32--nvidia-a10g",
        f"gpustack--{XEON}--nvidia-tesla-t4",
    ]


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        pytest.param([], None, id="no card has reported"),
        pytest.param([devices("n", plain())], False, id="cards that cannot be divided"),
        pytest.param([devices("n", plain()), devices("m", free())], True, id="one can be sliced"),
        pytest.param([devices("n", partitioned(7))], True, id="partitions are slices too"),
        pytest.param([devices("n", free(), managed="false")], None, id="an unmanaged node does not count"),
        pytest.param([devices("n", free(), key="nvidia-a10")], None, id="another card does not count"),
    ],
)
def test_sliceable_is_what_the_cards_can_do(nodes: list[Devices], expected: bool | None) -> None:
    (row,) = catalog_rows([flavor("a10g", cards=True)], nodes, aware=False)
    assert row["spec"].get("sliceable") is expected


def test_a_flavor_that_is_going_has_no_row() -> None:
    assert catalog_rows([flavor("cpu", deleting=True)], [], aware=False) == []


def test_a_flavor_without_any_group_has_no_row() -> None:
    unknown = stored_flavor({"metadata": {"name": "x", "labels": {"resource.gpustack.ai/type": "nodes"}}})
    assert catalog_rows([unknown], [], aware=True) == []


def test_candidates_are_the_accelerator_groups() -> None:
    assert candidates(walkthrough_flavors()) == ["nvidia-a10g", "nvidia-tesla-t4"]
