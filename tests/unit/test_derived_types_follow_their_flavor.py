"""The InstanceType that a flavor derives."""

from __future__ import annotations

import pytest

from gpustack_op.scheduling.derived_type import derived_type, derived_type_name
from tests.builders import flavor, stored_flavor, walkthrough_flavors

XEON = "intel-xeon-platinum-8259cl"


@pytest.mark.parametrize(
    ("aware", "expected"),
    [
        pytest.param(
            False,
            {
                "gpustack--generic-linux-amd64",
                "gpustack--nvidia-a10g-linux-amd64",
                "gpustack--nvidia-tesla-t4-linux-amd64",
            },
            id="all CPUs together",
        ),
        pytest.param(
            True,
            {
                "gpustack--amd-epyc-7r13-linux-amd64",
                "gpustack--amd-epyc-7r32-linux-amd64",
                "gpustack--amd-epyc-7r32--nvidia-a10g-linux-amd64",
                f"gpustack--{XEON}-linux-amd64",
                f"gpustack--{XEON}--nvidia-tesla-t4-linux-amd64",
            },
            id="each CPU apart",
        ),
    ],
)
def test_the_four_machines_derive_their_types(aware: bool, expected: set[str]) -> None:
    assert {derived_type_name(flavor, aware=aware) for flavor in walkthrough_flavors()} == expected


def test_a_type_of_cards_has_the_preset_of_its_product() -> None:
    assert derived_type(flavor("a10g", cards=True), aware=False) == {
        "metadata": {
            "name": "gpustack--nvidia-a10g-linux-amd64",
            "labels": {"schedule.gpustack.ai/derived-from-node": "true"},
            "finalizers": ["gpustack.ai/controlled"],
        },
        "spec": {
            "displayName": "NVIDIA-A10G",
            "acceleratable": True,
            "acceleratorGroup": "nvidia-a10g",
            "generalGroup": "generic",
            "os": "linux",
            "arch": "amd64",
            "unitResources": {"cpu": "8", "ram": "64Gi"},
            "localStorage": "100Gi",
        },
    }


def test_a_type_of_every_cpu_has_a_unit_of_one_core() -> None:
    assert derived_type(flavor("cpu"), aware=False) == {
        "metadata": {
            "name": "gpustack--generic-linux-amd64",
            "labels": {"schedule.gpustack.ai/derived-from-node": "true"},
            "finalizers": ["gpustack.ai/controlled"],
        },
        "spec": {
            "displayName": "CPU-only",
            "acceleratable": False,
            "generalGroup": "generic",
            "os": "linux",
            "arch": "amd64",
            "unitResources": {"cpu": "1", "ram": "2Gi"},
            "localStorage": "100Gi",
        },
    }


@pytest.mark.parametrize(
    ("short", "cards", "general_group", "display_name"),
    [
        ("cpu", False, "amd-epyc-7r13", "AMD EPYC 7R13 Processor"),
        ("t4-b", True, XEON, "Tesla-T4"),
    ],
)
def test_an_aware_type_names_its_cpu(short: str, cards: bool, general_group: str, display_name: str) -> None:
    spec = derived_type(flavor(short, cards=cards), aware=True)["spec"]
    assert (spec["generalGroup"], spec["displayName"]) == (general_group, display_name)


def test_a_display_name_is_cut_to_what_the_api_allows() -> None:
    long = stored_flavor(
        {
            "metadata": {
                "name": "gpustack--amd-x-linux-amd64-4c",
                "annotations": {"note.gpustack.ai/generalGroup": "amd-x", "note.gpustack.ai/product": "é" * 100},
            }
        }
    )
    assert derived_type(long, aware=True)["spec"]["displayName"] == "é" * 64
