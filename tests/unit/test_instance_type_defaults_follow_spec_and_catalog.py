"""What the defaulting webhook fills into an InstanceType, and the hints that come with it."""

from __future__ import annotations

from typing import Any

import pytest

from gpustack_op.operator.webhooks.instance_type_defaults import Hardware, defaulted
from gpustack_op.operator.webhooks.instance_type_hints import creation_hints, preset_hints
from tests import builders

HARDWARE = Hardware(tuple(builders.walkthrough_flavors()), tuple(builders.walkthrough_devices()))
NOTHING = Hardware()

A10G = {
    "acceleratable": True,
    "acceleratorGroup": "nvidia-a10g",
    "os": "linux",
    "arch": "amd64",
    "unitResources": {"cpu": "12", "ram": "128Gi"},
    "localStorage": "200Gi",
}
CPU = {"acceleratable": False, "os": "linux", "arch": "amd64"}
DESCRIBED = {
    "manufacturer": "nvidia",
    "product": "NVIDIA-A10G",
    "family": "Ampere",
    "memory": "24Gi",
    "cores": "10240",
    "feature": {
        "logicalSliced": {"maxSize": 128, "coresPercentageOvercommit": True, "memoryPercentageStep": 1},
        "physicalSliced": {"maxSize": 0},
    },
}
SYSTEM_LABELS = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}


def made(spec: dict[str, Any], *, hardware: Hardware = HARDWARE, name: str = "mine", **metadata: Any) -> dict[str, Any]:
    return defaulted({"metadata": {"name": name, **metadata}, "spec": spec}, None, hardware).object


def test_a_type_of_a_known_accelerator_is_described_and_labelled() -> None:
    assert made(A10G, name="a10g-12c128g") == {
        "metadata": {
            "name": "a10g-12c128g",
            "labels": {
                **SYSTEM_LABELS,
                "feature.gpustack.ai/acceleratable": "true",
                "acceleratable.feature.gpustack.ai/nvidia-a10g": "true",
                "schedule.gpustack.ai/queue-entrance": "gpustack-fnv64-d4c0e6cd72686015",
            },
        },
        "spec": {**A10G, "generalGroup": "generic", **DESCRIBED},
    }


def test_a_real_cpu_group_selects_by_that_cpu_whatever_the_settings_say() -> None:
    labels = made({**A10G, "generalGroup": "amd-epyc-7r32"})["metadata"]["labels"]

    assert labels["general.feature.gpustack.ai/amd-epyc-7r32"] == "true"


def test_labels_of_another_pool_are_removed_and_a_persons_own_kept() -> None:
    labels = made(
        A10G,
        labels={
            "acceleratable.feature.gpustack.ai/nvidia-tesla-t4": "true",
            "general.feature.gpustack.ai/amd-epyc-7r13": "true",
            "kubernetes.io/arch": "arm64",
            "schedule.gpustack.ai/queue-entrance": "elsewhere",
            "team": "vision",
        },
    )["metadata"]["labels"]

    assert labels == made(A10G)["metadata"]["labels"] | {"team": "vision"}


def test_a_type_of_any_cpu_gets_the_unit_of_one_core() -> None:
    assert made(CPU)["spec"] == {
        **CPU,
        "generalGroup": "generic",
        "manufacturer": "generic",
        "unitResources": {"cpu": "1", "ram": "2Gi"},
        "localStorage": "100Gi",
    }


@pytest.mark.parametrize(
    ("spec", "unit"),
    [
        pytest.param({"acceleratorGroup": "nvidia-a10g"}, {"cpu": "8", "ram": "64Gi"}, id="a product of the catalog"),
        pytest.param({"acceleratorGroup": "nvidia-tesla-t4"}, {"cpu": "8", "ram": "32Gi"}, id="another one"),
        pytest.param(
            {"acceleratorGroup": "nvidia-h100-80gb-hbm3"}, {"cpu": "12", "ram": "192Gi"}, id="a product to come"
        ),
        pytest.param({"acceleratorGroup": "acme-x1"}, {"cpu": "4", "ram": "16Gi"}, id="a product nobody knows"),
        pytest.param(
            {"acceleratorGroup": "nvidia-a10g", "unitResources": {"cpu": "2"}},
            {"cpu": "2", "ram": "64Gi"},
            id="what is given stays",
        ),
        pytest.param(
            {"acceleratorGroup": "nvidia-a10g", "unitResources": {"cpu": None}},
            {"cpu": "8", "ram": "64Gi"},
            id="a null is an absent field",
        ),
        pytest.param(
            {"acceleratorGroup": "nvidia-a10g", "unitResources": {"cpu": "0", "ram": "48"}},
            {"cpu": "0", "ram": "48"},
            id="what is wrong stays for validation to refuse",
        ),
    ],
)
def test_sizes_that_are_left_out_come_from_the_presets(spec: dict[str, Any], unit: dict[str, str]) -> None:
    assert made({"acceleratable": True, "os": "linux", "arch": "amd64"} | spec)["spec"]["unitResources"] == unit


def test_sizes_from_the_presets_are_told() -> None:
    result = defaulted({"metadata": {"name": "mine"}, "spec": {**A10G, "unitResources": {}}}, None, HARDWARE)

    assert preset_hints(result.filled) == (
        "left out and taken from the presets, immutable from now on: "
        "spec.unitResources.cpu: 8, spec.unitResources.ram: 64Gi",
    )


def test_nothing_is_told_when_everything_was_given() -> None:
    result = defaulted({"metadata": {"name": "mine"}, "spec": A10G}, None, HARDWARE)

    assert preset_hints(result.filled) == ()


def test_numbers_become_the_text_of_them() -> None:
    spec = made({**A10G, "unitResources": {"cpu": 12, "ram": "128Gi"}, "cores": 10240})["spec"]

    assert spec["unitResources"]["cpu"] == "12"
    assert spec["cores"] == "10240"


def test_an_accelerated_type_of_nothing_is_left_for_validation_to_refuse() -> None:
    made_of_nothing = made({"acceleratable": True, "os": "linux"})

    assert made_of_nothing == {
        "metadata": {"name": "mine"},
        "spec": {"acceleratable": True, "os": "linux", "generalGroup": "generic"},
    }


@pytest.mark.parametrize("field", ["acceleratorGroup", "generalGroup", "os"])
def test_no_illegal_label_is_made_of_an_illegal_field(field: str) -> None:
    labels = made({**A10G, field: "no label!"})["metadata"]["labels"]

    assert "no label!" not in " ".join([*labels, *labels.values()])


def test_a_type_with_a_generated_name_gets_its_entrance_when_it_has_a_name() -> None:
    labels = made(A10G, name="", generateName="a10g-")["metadata"]["labels"]

    assert "schedule.gpustack.ai/queue-entrance" not in labels


def test_unknown_hardware_leaves_the_descriptors_for_later() -> None:
    assert made(A10G, hardware=NOTHING)["spec"] == {**A10G, "generalGroup": "generic"}


def test_a_given_descriptor_is_kept() -> None:
    assert made({**A10G, "family": "mine"})["spec"]["family"] == "mine"


@pytest.mark.parametrize("spec", ["text", None, {"os": 5, "arch": "amd64"}])
def test_what_the_schema_will_refuse_is_passed_on(spec: Any) -> None:
    result = defaulted({"metadata": {"name": "mine"}, "spec": spec}, None, HARDWARE)

    assert "labels" not in result.object["metadata"]


# --- Updates ------------------------------------------------------------------------------------------------------

STORED = made(A10G)


def test_doing_it_again_changes_nothing() -> None:
    assert defaulted(STORED, STORED, HARDWARE).object == STORED


def test_a_replacing_update_may_leave_out_what_was_filled_in() -> None:
    bare = {"metadata": {"name": "mine"}, "spec": {**CPU, "acceleratable": True, "acceleratorGroup": "nvidia-a10g"}}

    assert defaulted(bare, STORED, NOTHING).object == STORED


def test_a_descriptor_that_was_not_known_is_filled_in_by_an_update() -> None:
    unknown = made(A10G, hardware=NOTHING)

    assert defaulted(unknown, unknown, HARDWARE).object["spec"] == STORED["spec"]


def test_an_update_never_adds_a_size_since_that_would_be_refused() -> None:
    old = {"metadata": {"name": "mine"}, "spec": {**CPU, "generalGroup": "generic"}}

    assert "unitResources" not in defaulted(old, old, HARDWARE).object["spec"]


def test_an_update_keeps_the_stored_spelling() -> None:
    stored = {**STORED, "spec": {**STORED["spec"], "unitResources": {"cpu": 12, "ram": "128Gi"}}}
    texts = {**STORED, "spec": {**STORED["spec"], "unitResources": {"cpu": "12", "ram": "128Gi"}}}

    assert defaulted(stored, stored, HARDWARE).object["spec"]["unitResources"]["cpu"] == 12
    assert defaulted(texts, stored, HARDWARE).object["spec"]["unitResources"]["cpu"] == 12


def test_an_old_type_without_a_cpu_group_stays_without() -> None:
    old = {"metadata": {"name": "mine"}, "spec": dict(CPU)}

    assert "generalGroup" not in defaulted(old, old, NOTHING).object["spec"]


def test_the_labels_are_put_back_by_an_update() -> None:
    stripped = {"metadata": {"name": "mine", "labels": None}, "spec": STORED["spec"]}

    assert defaulted(stripped, STORED, HARDWARE).object == STORED


def test_the_request_is_not_changed() -> None:
    given = {"metadata": {"name": "mine"}, "spec": {**A10G, "unitResources": {"cpu": 12}}}

    defaulted(given, None, HARDWARE)

    assert given == {"metadata": {"name": "mine"}, "spec": {**A10G, "unitResources": {"cpu": 12}}}


# --- Hints --------------------------------------------------------------------------------------------------------


def hints(systems: tuple[tuple[str, str], ...] = (("linux", "amd64"),), **fields: Any) -> tuple[str, ...]:
    return creation_hints("big", builders.type_spec(**fields), HARDWARE.flavors, systems)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({"accelerator_group": "nvidia-a10g"}, (), id="a group of the catalog"),
        pytest.param({"general_group": "amd-epyc-7r13"}, (), id="a CPU of the catalog"),
        pytest.param(
            {"accelerator_group": "nvidia-a10"},
            ('InstanceType "big": spec.acceleratorGroup "nvidia-a10" is in no catalog row; '
             "one of: nvidia-a10g, nvidia-tesla-t4",),
            id="a short name is no match",
        ),
        pytest.param(
            {"accelerator_group": "NVIDIA-Tesla-T4"},
            ('InstanceType "big": spec.acceleratorGroup "NVIDIA-Tesla-T4" is in no catalog row; '
             "one of: nvidia-tesla-t4, nvidia-a10g",),
            id="another case is no match",
        ),
        pytest.param(
            {"general_group": "amd-epyc"},
            ('InstanceType "big": spec.generalGroup "amd-epyc" is in no catalog row; '
             "one of: amd-epyc-7r32, amd-epyc-7r13, intel-xeon-platinum-8259cl",),
            id="an unknown CPU",
        ),
        pytest.param(
            {"accelerator_group": "nvidia-a10g", "acceleratable": False},
            ('InstanceType "big": spec.acceleratorGroup "nvidia-a10g" has no effect, since acceleratable is not true',),
            id="a group that is not used",
        ),
        pytest.param(
            {"os": "windows"},
            ('InstanceType "big": no node has windows/amd64; there are: linux/amd64',),
            id="an operating system that no node has",
        ),
        pytest.param(
            {"arch": "arm64", "systems": (("linux", "s390x"), ("linux", "amd64"), ("linux", "amd64"))},
            ('InstanceType "big": no node has linux/arm64; there are: linux/amd64, linux/s390x',),
            id="an architecture that no node has",
        ),
        pytest.param({"os": "windows", "systems": ()}, (), id="no node is known"),
    ],
)  # fmt: skip
def test_hints_about_a_new_type(fields: dict[str, Any], expected: tuple[str, ...]) -> None:
    assert hints(**fields) == expected


@pytest.mark.parametrize("asked", ["nvidia-h20", "nvidia-a10", "nvidia-a100", "NVIDIA-A10G", "nvidia-a10g-24gb"])
def test_a_product_is_never_matched_by_a_part_of_its_name(asked: str) -> None:
    assert made({**A10G, "acceleratorGroup": asked})["spec"].keys() == {*A10G, "generalGroup"}
    assert "one of: " in hints(accelerator_group=asked)[0]


def test_an_empty_catalog_is_said_to_be_empty() -> None:
    assert creation_hints("big", builders.type_spec(accelerator_group="nvidia-a10g"), [], []) == (
        'InstanceType "big": spec.acceleratorGroup "nvidia-a10g" is in no catalog row; there is none yet',
    )
