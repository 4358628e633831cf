"""What an InstanceType may say and may not change, and the words of each refusal."""

from __future__ import annotations

from typing import Any

import pytest

from gpustack_op.operator.webhooks.instance_type_rules import change_causes, creation_causes, untyped_causes

WHOLE = "must be a positive integer with no unit suffix"
GI = 'must be a positive integer with a case-sensitive "Gi" suffix'
ONE = "must be 1 when acceleratable is false"
LONG_NAME = "spec.displayName: Too long: may not be more than 64 characters"
FROZEN = ["spec: Forbidden: is immutable except displayName, description and inactive"]
LEGAL = "must be usable in a label: at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends"


def gpu(cpu: Any = "4", ram: Any = "48Gi", storage: Any = "100Gi", **fields: Any) -> dict[str, Any]:
    return {
        "acceleratable": True,
        "acceleratorGroup": "nvidia-a10g",
        "generalGroup": "generic",
        "os": "linux",
        "arch": "amd64",
        "unitResources": {"cpu": cpu, "ram": ram},
        "localStorage": storage,
    } | fields


def cpu_only(cpu: Any = "1", **fields: Any) -> dict[str, Any]:
    return {**gpu(cpu), "acceleratable": False, "acceleratorGroup": "", **fields}


def told(causes: list[Any]) -> list[str]:
    return [f"{cause.field}: {cause.message}" for cause in causes]


@pytest.mark.parametrize(
    ("spec", "refusals"),
    [
        pytest.param(gpu(), [], id="a complete accelerated type"),
        pytest.param(cpu_only(), [], id="a complete type of CPUs"),
        pytest.param(cpu_only("1.0"), [], id="another spelling of one core"),
        pytest.param(cpu_only("1000m"), [], id="one core in thousandths"),
        pytest.param(cpu_only(1), [], id="one core as a number"),
        pytest.param(gpu(2), [], id="a number works like its text"),
        pytest.param(
            gpu(acceleratorGroup=""),
            ["spec.acceleratorGroup: Required value: must be specified when acceleratable is true"],
            id="accelerated, but of what",
        ),
        pytest.param(
            gpu(os="", arch=None),
            ["spec.os: Required value: must be specified", "spec.arch: Required value: must be specified"],
            id="no system",
        ),
        pytest.param(
            gpu("", "", ""),
            [
                f'spec.unitResources.cpu: Invalid value: "": {WHOLE}',
                f'spec.unitResources.ram: Invalid value: "": {GI}',
                f'spec.localStorage: Invalid value: "": {GI}',
            ],
            id="no sizes at all",
        ),
        pytest.param(
            gpu(ram=None, storage=None),
            [f'spec.unitResources.ram: Invalid value: "": {GI}', f'spec.localStorage: Invalid value: "": {GI}'],
            id="only a CPU size",
        ),
        pytest.param(gpu(ram="48"), [f'spec.unitResources.ram: Invalid value: "48": {GI}'], id="no suffix"),
        pytest.param(gpu(ram="48gi"), [f'spec.unitResources.ram: Invalid value: "48gi": {GI}'], id="lower-case suffix"),
        pytest.param(gpu(ram="-1Gi"), [f'spec.unitResources.ram: Invalid value: "-1Gi": {GI}'], id="negative memory"),
        pytest.param(gpu(ram="1.5Gi"), [f'spec.unitResources.ram: Invalid value: "1.5Gi": {GI}'], id="half a Gi"),
        pytest.param(
            gpu(ram=1073741824), [f'spec.unitResources.ram: Invalid value: "1073741824": {GI}'], id="memory in bytes"
        ),
        pytest.param(gpu(storage="0Gi"), [f'spec.localStorage: Invalid value: "0Gi": {GI}'], id="no storage"),
        pytest.param(
            gpu(storage="9999999999Gi"),
            [f'spec.localStorage: Invalid value: "9999999999Gi": {GI}'],
            id="more than 32 bits of storage",
        ),
        pytest.param(gpu("4Gi"), [f'spec.unitResources.cpu: Invalid value: "4Gi": {WHOLE}'], id="cores in Gi"),
        pytest.param(gpu("0.5"), [f'spec.unitResources.cpu: Invalid value: "0.5": {WHOLE}'], id="half a core"),
        pytest.param(gpu("0"), [f'spec.unitResources.cpu: Invalid value: "0": {WHOLE}'], id="no core"),
        pytest.param(gpu("４"), [f'spec.unitResources.cpu: Invalid value: "４": {WHOLE}'], id="full-width digits"),
        pytest.param(gpu("4\n"), [f'spec.unitResources.cpu: Invalid value: "4\\n": {WHOLE}'], id="a line break"),
        pytest.param(cpu_only("2"), [f'spec.unitResources.cpu: Invalid value: "2": {ONE}'], id="two cores a unit"),
        pytest.param(cpu_only("4"), [f'spec.unitResources.cpu: Invalid value: "4": {ONE}'], id="four cores a unit"),
        pytest.param(cpu_only("0"), [f'spec.unitResources.cpu: Invalid value: "0": {ONE}'], id="no core a unit"),
        pytest.param(cpu_only(""), [f'spec.unitResources.cpu: Invalid value: "": {ONE}'], id="an empty unit"),
        pytest.param(cpu_only("1000"), [f'spec.unitResources.cpu: Invalid value: "1000": {ONE}'], id="thousand cores"),
        pytest.param(cpu_only("1Gi"), [f'spec.unitResources.cpu: Invalid value: "1Gi": {ONE}'], id="a Gi of cores"),
        pytest.param(cpu_only("one"), [f'spec.unitResources.cpu: Invalid value: "one": {ONE}'], id="words"),
        pytest.param(
            gpu(acceleratorGroup="nvidia a10g"),
            [f'spec.acceleratorGroup: Invalid value: "nvidia a10g": {LEGAL}'],
            id="a group with a blank",
        ),
        pytest.param(
            gpu(generalGroup="g" * 64),
            [f'spec.generalGroup: Invalid value: "{"g" * 64}": {LEGAL}'],
            id="a group too long for a label",
        ),
        pytest.param(gpu(arch="amd64-"), [f'spec.arch: Invalid value: "amd64-": {LEGAL}'], id="an arch with a dash"),
        pytest.param(
            gpu(displayName="n" * 65, description="d" * 1025),
            [
                LONG_NAME,
                "spec.description: Too long: may not be more than 1024 characters",
            ],
            id="texts too long",
        ),
        pytest.param(gpu(displayName="名" * 64), [], id="64 characters, whatever their bytes"),
    ],
)
def test_a_new_type(spec: dict[str, Any], refusals: list[str]) -> None:
    assert told(creation_causes(spec)) == refusals


@pytest.mark.parametrize(
    ("spec", "refusals"),
    [
        pytest.param(gpu(0.5), [f"spec.unitResources.cpu: Invalid value: 0.5: {WHOLE}"], id="an unquoted fraction"),
        pytest.param(gpu(True), [f"spec.unitResources.cpu: Invalid value: true: {WHOLE}"], id="a truth value"),
        pytest.param(cpu_only(1.0), [f"spec.unitResources.cpu: Invalid value: 1.0: {ONE}"], id="a fraction of nothing"),
        pytest.param(
            gpu(memory=23.5),
            ["spec.memory: Invalid value: 23.5: must be a quantity, such as 24Gi or 10240"],
            id="a descriptor",
        ),
        pytest.param(gpu("bad"), [f'spec.unitResources.cpu: Invalid value: "bad": {WHOLE}'], id="no quantity"),
        pytest.param(cpu_only(""), [f'spec.unitResources.cpu: Invalid value: "": {ONE}'], id="an empty text"),
        pytest.param(gpu("4Gi", 4, None), [], id="other faults are told by validation"),
    ],
)
def test_a_value_of_the_wrong_type_is_told_before_the_schema_does(spec: dict[str, Any], refusals: list[str]) -> None:
    assert told(untyped_causes(spec)) == refusals


@pytest.mark.parametrize(
    ("old", "new", "refusals"),
    [
        pytest.param(gpu(), gpu(displayName="A10G"), [], id="the display name may change"),
        pytest.param(gpu(), gpu(description="for training"), [], id="the description may change"),
        pytest.param(gpu(), gpu(inactive=True), [], id="a type may be closed"),
        pytest.param(gpu(), gpu(displayName="n" * 65), [LONG_NAME],
                     id="a display name has its limit"),
        pytest.param(gpu(), gpu(generalGroup="amd-epyc-7r32"), FROZEN, id="the CPU group is frozen"),
        pytest.param(gpu(), gpu(acceleratorGroup="nvidia-l4"), FROZEN, id="the accelerator group is frozen"),
        pytest.param(gpu(), cpu_only(), FROZEN, id="acceleratable is frozen"),
        pytest.param(gpu(), gpu(os="windows"), FROZEN, id="the operating system is frozen"),
        pytest.param(gpu(), gpu(arch="arm64"), FROZEN, id="the architecture is frozen"),
        pytest.param(gpu(), gpu(ram="64Gi"), FROZEN, id="the memory of a unit is frozen"),
        pytest.param(gpu(), gpu(storage="1Gi"), FROZEN, id="the storage of a unit is frozen"),
        pytest.param(gpu(storage=None), gpu(), FROZEN, id="a size cannot be added"),
        pytest.param(gpu(), gpu(memory="24Gi", feature={"logicalSliced": {"maxSize": 128}}), [],
                     id="a descriptor may be filled in"),
        pytest.param(gpu(memory="24Gi"), gpu(memory="16Gi"), FROZEN, id="a descriptor is frozen once it is set"),
        pytest.param(gpu(memory="24Gi"), gpu(), FROZEN, id="a descriptor cannot be removed"),
        pytest.param(gpu("4"), gpu(4), [], id="a number for the same text is no change"),
        pytest.param(gpu(), gpu(memory=None), [], id="a null is an absent field"),
        pytest.param(cpu_only("2"), cpu_only("2", displayName="old"), [], id="a type older than a rule can be renamed"),
    ],
)  # fmt: skip
def test_a_change(old: dict[str, Any], new: dict[str, Any], refusals: list[str]) -> None:
    assert told(change_causes(old, new)) == refusals
