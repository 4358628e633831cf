"""The labels that operator and agent publish for a node, and what is read back from them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack_op.scheduling import labels
from gpustack_op.scheduling.device_groups import device_groups
from tests.builders import group, raw_card

GENERAL = "general.feature.gpustack.ai/"
ACCELERATOR = "acceleratable.feature.gpustack.ai/"
LABEL_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
T4 = group(
    "nvidia-tesla-t4", "Tesla T4", cards=4, memory=15360, cores=2560, driver_version="580.126.09",
    runtime_version="13.0", compute_capability="7.5", family="Turing",
)  # fmt: skip
T4_LABELS = {
    "feature.gpustack.ai/acceleratable": "true",
    f"{ACCELERATOR}nvidia": "true",
    f"{ACCELERATOR}nvidia.driver-version": "580.126.09",
    f"{ACCELERATOR}nvidia.runtime-version": "13.0",
    f"{ACCELERATOR}nvidia-tesla-t4": "true",
    f"{ACCELERATOR}nvidia-tesla-t4.product": "Tesla-T4",
    f"{ACCELERATOR}nvidia-tesla-t4.memory": "15Gi",
    f"{ACCELERATOR}nvidia-tesla-t4.cores": "2560",
    f"{ACCELERATOR}nvidia-tesla-t4.family": "Turing",
    f"{ACCELERATOR}nvidia-tesla-t4.comcap": "7.5",
    f"{ACCELERATOR}nvidia-tesla-t4.count": "4",
}


@pytest.mark.parametrize(
    ("existing", "manual", "expected"),
    [("", False, "true"), ("", True, ""), ("true", True, "true"), ("false", False, "false"), ("false", True, "false")],
)
def test_a_managed_mark_that_is_there_stays(existing: str, manual: bool, expected: str) -> None:
    assert labels.managed_mark(existing, manual=manual) == expected


def test_a_node_tells_its_cpu_and_cores() -> None:
    assert labels.capacity_labels("amd-25-1", 16) == {
        f"{GENERAL}amd": "true",
        f"{GENERAL}amd-25-1": "true",
        f"{GENERAL}amd-25-1.count": "16",
    }


def test_no_cores_no_count() -> None:
    assert labels.capacity_labels("amd-25-1", 0) == {f"{GENERAL}amd": "true", f"{GENERAL}amd-25-1": "true"}


def test_a_node_for_cpu_pools_only_says_so() -> None:
    assert labels.capacity_labels("amd-25-1", 0, cpu_only=True)["feature.gpustack.ai/cpu-only"] == "true"


def test_a_group_tells_everything_it_knows() -> None:
    assert labels.accelerator_labels([T4]) == T4_LABELS


def test_a_group_leaves_out_what_it_does_not_know() -> None:
    assert labels.accelerator_labels([group("nvidia-h100", "H100", memory=81920)]) == {
        "feature.gpustack.ai/acceleratable": "true",
        f"{ACCELERATOR}nvidia": "true",
        f"{ACCELERATOR}nvidia-h100": "true",
        f"{ACCELERATOR}nvidia-h100.product": "H100",
        f"{ACCELERATOR}nvidia-h100.memory": "80Gi",
        f"{ACCELERATOR}nvidia-h100.cores": "0",
        f"{ACCELERATOR}nvidia-h100.count": "1",
    }


def test_several_manufacturers_stand_side_by_side_and_an_empty_group_is_skipped() -> None:
    published = labels.accelerator_labels(
        [group("nvidia-tesla-t4"), group("nvidia-l4", cards=0), group("amd-mi300x", "MI300X", cards=2, memory=196608)]
    )
    assert published[f"{ACCELERATOR}nvidia"] == "true"
    assert published[f"{ACCELERATOR}amd"] == "true"
    assert published[f"{ACCELERATOR}amd-mi300x.memory"] == "192Gi"
    assert published[f"{ACCELERATOR}amd-mi300x.count"] == "2"
    assert [key for key in published if "nvidia-l4" in key] == []


def test_no_card_no_label() -> None:
    assert labels.accelerator_labels([group("nvidia-l4", cards=0)]) == {}


def test_unknown_memory_is_no_memory_of_zero() -> None:
    assert f"{ACCELERATOR}nvidia-gb10.memory" not in labels.accelerator_labels([group("nvidia-gb10")])


def test_a_product_without_a_legal_letter_is_called_by_its_id() -> None:
    published = labels.accelerator_labels(device_groups([raw_card("昇腾")]))
    assert published[f"{ACCELERATOR}nvidia-card-c373b59f.product"] == "card-c373b59f"


@pytest.mark.parametrize(
    ("node_labels", "expected"),
    [
        (T4_LABELS, ["nvidia-tesla-t4"]),
        ({key.replace("nvidia", "unknown"): value for key, value in T4_LABELS.items()}, []),
        ({"feature.gpustack.ai/nvidia-tesla-t4": "true"}, []),
        ({f"{ACCELERATOR}nvidia-tesla-t4": "yes"}, []),
        ({f"{ACCELERATOR}nvidia": "true"}, []),
    ],
)
def test_accelerator_keys_are_read_back(node_labels: dict[str, str], expected: list[str]) -> None:
    assert labels.accelerator_keys(node_labels) == expected


def test_the_cpu_key_is_read_back() -> None:
    assert labels.general_keys(labels.capacity_labels("amd-epyc-7763", 8)) == ["amd-epyc-7763"]


def test_devices_carry_the_keys_and_the_operators_marks() -> None:
    agent = labels.devices_labels(os="linux", arch="amd64", accelerator_keys=["nvidia-a10g"])
    operator = labels.devices_labels(os="", arch="", accelerator_keys=[], managed="true", general_key="amd-epyc-7r32")
    assert agent | operator == {
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "gpustack.ai/managed": "true",
        f"{GENERAL}amd-epyc-7r32": "true",
        f"{ACCELERATOR}nvidia-a10g": "true",
    }


@given(st.lists(st.builds(raw_card, st.text(), driver_version=st.text(), memory_mib=st.integers(0, 10**6)), max_size=4))
def test_whatever_a_driver_says_the_labels_are_legal(cards: list[object]) -> None:
    published = labels.accelerator_labels(device_groups(cards))  # type: ignore[arg-type]
    assert [key for key in published if not LABEL_NAME.fullmatch(key.partition("/")[2])] == []
    assert [value for value in published.values() if not LABEL_NAME.fullmatch(value)] == []
