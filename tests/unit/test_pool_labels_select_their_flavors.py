"""The labels of a pool, and the selectors made from them."""

from __future__ import annotations

import pytest

from gpustack_op.scheduling import labels

ACCELERATABLE = "feature.gpustack.ai/acceleratable"
EPYC = "general.feature.gpustack.ai/amd-epyc-7763"
T4 = "acceleratable.feature.gpustack.ai/nvidia-tesla-t4"
SYSTEM = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}


@pytest.mark.parametrize(
    ("acceleratable", "general", "accelerator", "expected"),
    [
        pytest.param(False, "generic", "", {ACCELERATABLE: "false"}, id="a pool of every CPU"),
        pytest.param(False, "", "", {ACCELERATABLE: "false"}, id="no group is any CPU"),
        pytest.param(False, "amd-epyc-7763", "", {ACCELERATABLE: "false", EPYC: "true"}, id="a pool of one CPU"),
        pytest.param(True, "generic", "nvidia-tesla-t4", {ACCELERATABLE: "true", T4: "true"}, id="a card on every CPU"),
        pytest.param(
            True,
            "amd-epyc-7763",
            "nvidia-tesla-t4",
            {ACCELERATABLE: "true", T4: "true", EPYC: "true"},
            id="a card on one CPU",
        ),
        pytest.param(False, "generic", "nvidia-tesla-t4", {ACCELERATABLE: "false"}, id="a CPU pool has no card"),
    ],
)
def test_a_pool_is_labelled_by_its_spec(
    acceleratable: bool, general: str, accelerator: str, expected: dict[str, str]
) -> None:
    given = labels.pool_labels(
        acceleratable=acceleratable, general_group=general, accelerator_group=accelerator, os="linux", arch="amd64"
    )
    assert given == SYSTEM | expected


def test_an_unknown_system_is_no_label() -> None:
    given = labels.pool_labels(acceleratable=False, general_group="", accelerator_group="", os="", arch="")
    assert given == {ACCELERATABLE: "false"}


def test_a_selector_keeps_the_marks_and_drops_the_figures() -> None:
    stored = SYSTEM | {
        ACCELERATABLE: "true",
        T4: "true",
        f"{T4}.count": "4",
        f"{T4}.capacity": "8",
        EPYC: "true",
        "resource.gpustack.ai/type": "nodes",
    }
    assert labels.flavor_selector(stored) == SYSTEM | {ACCELERATABLE: "true", T4: "true", EPYC: "true"}


@pytest.mark.parametrize(
    "stored",
    [
        pytest.param({}, id="no label"),
        pytest.param(SYSTEM, id="a system alone"),
        pytest.param(SYSTEM | {f"{T4}.count": "4"}, id="a figure alone"),
        pytest.param(SYSTEM | {ACCELERATABLE: "true"}, id="a pool of cards that names none"),
    ],
)
def test_labels_of_no_pool_select_nothing(stored: dict[str, str]) -> None:
    assert labels.flavor_selector(stored) is None
    assert labels.selects(labels.flavor_selector(stored), stored) is False


def test_devices_are_selected_by_keys_and_management() -> None:
    stored = SYSTEM | {ACCELERATABLE: "true", T4: "true", EPYC: "true"}
    assert labels.devices_selector(stored) == SYSTEM | {T4: "true", EPYC: "true", "gpustack.ai/managed": "true"}


def test_a_pool_of_every_cpu_has_no_devices() -> None:
    assert labels.devices_selector(SYSTEM | {ACCELERATABLE: "false"}) is None


def test_a_selector_is_written_as_the_api_server_takes_it() -> None:
    assert labels.selector_text({"b": "true", "a": "1"}) == "a=1,b=true"
