"""The general key of a node, from what NFD and the node's agent have said so far."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack_op.scheduling.cpu_key import CpuIdentity, general_key

LABEL_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
NOTHING = CpuIdentity()


@pytest.mark.parametrize(
    ("vendor", "name", "family", "model", "expected"),
    [
        ("AMD", "", "25", "1", "amd-25-1"),
        ("AMD", "AMD EPYC 7763 64-Core Processor", "25", "1", "amd-epyc-7763"),
        ("AMD", "@cpu.model.name", "25", "1", "amd-25-1"),
        ("Intel", "Intel(R) Xeon(R) Platinum 8358 CPU @ 2.60GHz", "", "", "intel-xeon-platinum-8358"),
        ("VendorUnknown", "Kunpeng 920", "", "", "generic-kunpeng-920"),
        ("Intel", "", "6", "143", "intel-6-143"),
        ("AMD", "AMD EPYC 9654 96-Core Processor", "", "", "amd-epyc-9654"),
        ("AMD", "AMD EPYC-Rome Processor", "", "", "amd-epyc-rome"),
        ("AMD", "AMD EPYC 7R13 Processor", "", "", "amd-epyc-7r13"),
        ("AMD", "AMD EPYC 7R32", "", "", "amd-epyc-7r32"),
        ("Intel", "Intel(R) Xeon(R) Platinum 8259CL CPU @ 2.50GHz", "", "", "intel-xeon-platinum-8259cl"),
        ("Intel", "INTEL(R) XEON(R) PLATINUM 8592+", "", "", "intel-xeon-platinum-8592"),
        ("Intel", "Intel Xeon Processor (Skylake, IBRS)", "", "", "intel-xeon-processor-skylake-ibrs"),
        ("ARM", "Neoverse-N1", "", "", "arm-neoverse-n1"),
        ("AMD", "epyc-9654-96-core-processor-" * 4, "", "", "amd-epyc-9654-96-core-processor-epyc-9654-96-core-proc"),
        ("AMD", "(TM)", "25", "1", "amd-25-1"),
    ],
)
def test_a_known_cpu_has_a_key(vendor: str, name: str, family: str, model: str, expected: str) -> None:
    assert general_key(CpuIdentity(vendor=vendor, name=name, family=family, model=model)) == expected


@pytest.mark.parametrize(
    "identity",
    [
        pytest.param(NOTHING, id="nobody has spoken"),
        pytest.param(CpuIdentity(vendor="AMD"), id="a manufacturer alone is no key"),
        pytest.param(CpuIdentity(vendor="AMD", model="1"), id="a model without its family says nothing"),
        pytest.param(CpuIdentity(vendor="AMD", family="25"), id="a family alone says nothing"),
        pytest.param(CpuIdentity(vendor="VendorUnknown"), id="an unknown vendor is no key"),
        pytest.param(CpuIdentity(vendor="AMD", name="@cpu.model.name"), id="an unresolved reference is no name"),
    ],
)
def test_an_undescribed_cpu_has_no_key(identity: CpuIdentity) -> None:
    assert general_key(identity) is None


def test_names_without_a_legal_letter_are_told_apart() -> None:
    assert general_key(CpuIdentity(vendor="AMD", name="鲲鹏")) == "amd-cpu-3f9bae0b"
    assert general_key(CpuIdentity(vendor="AMD", name="飞腾")) == "amd-cpu-44e3583c"


@pytest.mark.parametrize(
    ("node_labels", "reported", "complete"),
    [
        ({"feature.node.kubernetes.io/cpu-model.vendor_id": "AMD"}, {"name": "EPYC"}, True),
        ({"feature.node.kubernetes.io/cpu-model.vendor_id": "AMD"}, {}, False),
        ({"feature.node.kubernetes.io/cpu-model.vendor_id": "AMD"}, {"name": "@cpu.model.name"}, False),
        ({}, {"name": "EPYC"}, False),
    ],
)
def test_both_reporters_make_an_identity_complete(
    node_labels: dict[str, str], reported: dict[str, str], complete: bool
) -> None:
    assert CpuIdentity.of(node_labels, reported).complete is complete


@given(st.builds(CpuIdentity, vendor=st.text(), name=st.text(), family=st.text(), model=st.text()))
def test_a_key_always_fits_its_labels_and_is_never_a_bare_manufacturer(identity: CpuIdentity) -> None:
    key = general_key(identity) or "none-given"
    assert LABEL_NAME.fullmatch(f"{key}.capacity")
    manufacturer, dash, rest = key.partition("-")
    assert manufacturer
    assert dash
    assert rest
