"""CPU and RAM that come with a card."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack_op.scheduling.presets import PRESETS, PresetError, Presets, Row, Tier, unit_resources
from gpustack_op.scheduling.sanitise import label_value

TIERS = {
    "fallback": Tier("4", "16Gi"),
    "small": Tier("8", "32Gi"),
    "medium": Tier("8", "64Gi"),
    "large": Tier("12", "128Gi"),
    "xlarge": Tier("12", "192Gi"),
}


@pytest.mark.parametrize(
    ("manufacturer", "product", "tier"),
    [
        ("nvidia", "NVIDIA H100 80GB HBM3", "xlarge"),
        ("nvidia", "NVIDIA-H100-80GB-HBM3", "xlarge"),
        ("nvidia", "NVIDIA H100 PCIe", "xlarge"),
        ("nvidia", "NVIDIA H100 NVL", "xlarge"),
        ("nvidia", "H100", "xlarge"),
        ("nvidia", "Tesla T4", "small"),
        ("nvidia", "Tesla-T4", "small"),
        ("nvidia", "NVIDIA GB10", "small"),
        ("nvidia", "NVIDIA A100 80GB PCIe", "large"),
        ("nvidia", "NVIDIA A100-SXM4-80GB", "large"),
        ("nvidia", "NVIDIA A100-SXM4-40GB", "medium"),
        ("nvidia", "NVIDIA A100", "medium"),
        ("nvidia", "NVIDIA A100 140GB", "medium"),
        ("nvidia", "NVIDIA A100 80GB 40GB", "large"),
        ("nvidia", "NVIDIA A10", "medium"),
        ("nvidia", "NVIDIA A10G", "medium"),
        ("nvidia", "NVIDIA-A10G", "medium"),
        ("nvidia", "NVIDIA L4", "small"),
        ("nvidia", "NVIDIA L40S", "large"),
        ("nvidia", "NVIDIA-L40S", "large"),
        ("nvidia", "NVIDIA GeForce RTX 4090", "medium"),
        ("nvidia", "Tesla V100-SXM2-32GB", "medium"),
        ("nvidia", "Tesla V100-SXM2-16GB", "small"),
        ("nvidia", "NVIDIA RTX 6000 Ada Generation", "small"),
        ("nvidia", "Quadro RTX 6000", "small"),
        ("nvidia", "NVIDIA RTX 5070", "fallback"),
        ("nvidia", "NVIDIA H20", "fallback"),
        ("nvidia", "NVIDIA RTX PRO 6000 Blackwell Server Edition", "fallback"),
        ("nvidia", "", "fallback"),
        ("nvidia", "NVIDIA", "fallback"),
        ("nvidia", "Tesla", "fallback"),
        ("nvidia", "!!!", "fallback"),
        ("ascend", "910B2", "medium"),
        ("ascend", "Ascend910B2", "medium"),
        ("ascend", "910B4-1", "medium"),
        ("ascend", "310P3", "medium"),
        ("ascend", "910_9392", "xlarge"),
        ("amd", "MI300X", "xlarge"),
        ("amd", "AMD Radeon Instinct MI300X OAM", "xlarge"),
        ("amd", "AMD Instinct MI250X", "medium"),
        ("amd", "AMD64 Accelerator", "fallback"),
        ("hygon", "K100_AI", "large"),
        ("hygon", "K100-AI", "large"),
        ("metax", "MXC500", "medium"),
        ("mthreads", "MTT S4000", "medium"),
        ("iluvatar", "Iluvatar BI-V150", "medium"),
        ("cambricon", "MLU370-X8", "medium"),
        ("cambricon", "MLU", "fallback"),
        ("kunlun", "P800", "fallback"),
    ],
)
def test_a_product_has_a_tier(manufacturer: str, product: str, tier: str) -> None:
    assert PRESETS.tier(manufacturer, product) == tier
    assert unit_resources(manufacturer, product) == TIERS[tier]


@given(st.sampled_from(["nvidia", "amd"]), st.text(alphabet="NVIDAtesla100hbm -_.", max_size=30))
def test_raw_and_sanitised_spellings_give_the_same(manufacturer: str, product: str) -> None:
    assert PRESETS.tier(manufacturer, product) == PRESETS.tier(manufacturer, label_value(product))


NVIDIA: Mapping[str, Sequence[Row]] = {"nvidia": [Row(("a10",), "small")]}


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        pytest.param({"tiers": {"fallback": Tier("4", "16Gi")}}, "tiers must be exactly", id="missing tiers"),
        pytest.param({"tiers": TIERS | {"huge": Tier("64", "1024Gi")}}, "tiers must be exactly", id="a tier too many"),
        pytest.param({"tiers": TIERS | {"fallback": Tier("2", "16Gi")}}, "fallback must be", id="another fallback"),
        pytest.param({"tiers": TIERS | {"small": Tier("4", "32Gi")}}, "larger than fallback", id="small as fallback"),
        pytest.param({"tiers": TIERS | {"large": Tier("8", "32Gi")}}, "not be smaller", id="a tier that shrinks"),
        pytest.param({"tiers": TIERS | {"xlarge": Tier("12", "192gi")}}, "followed by Gi", id="gi for Gi"),
        pytest.param({"tiers": TIERS | {"xlarge": Tier("12k", "192Gi")}}, "positive integer", id="a CPU with a unit"),
        pytest.param({"tiers": TIERS | {"xlarge": Tier("12", "4294967296Gi")}}, "32 bits", id="a figure too large"),
        pytest.param({"rows": {"acme": []}}, "unknown", id="an unknown manufacturer"),
        pytest.param({"rows": {"nvidia": [Row((), "small")]}}, "at least one token", id="an empty prefix"),
        pytest.param({"rows": {"nvidia": [Row(("A10",), "small")]}}, "lower-case", id="upper case"),
        pytest.param({"rows": {"nvidia": [Row(("a10",), "huge")]}}, "tier 'huge' is unknown", id="an unknown tier"),
        pytest.param(
            {"rows": {"nvidia": [Row(("a10",), "small"), Row(("a10",), "large")]}}, "begins", id="a repeated prefix"
        ),
        pytest.param(
            {"rows": {"nvidia": [Row(("rtx",), "small"), Row(("rtx", "6000"), "large")]}},
            "begins",
            id="a prefix of another",
        ),
        pytest.param({"rows": {"nvidia": [Row(("nvidia", "a10"), "small")]}}, "its manufacturer", id="the brand"),
        pytest.param({"rows": {"nvidia": [Row(("tesla", "t4"), "small")]}}, "begins with a strip", id="a strip"),
        pytest.param({"strips": [("quadro",), ("quadro", "rtx")]}, "begins strip", id="a strip within a strip"),
        pytest.param({"strips": [()]}, "at least one token", id="an empty strip"),
        pytest.param(
            {"rows": {"nvidia": [Row(("a10",), "small", (("8gb", "large"), ("8gb", "small")))]}},
            "repeated",
            id="a repeated refinement",
        ),
        pytest.param(
            {"rows": {"nvidia": [Row(("a10",), "small", (("a10", "large"),))]}},
            "part of the prefix",
            id="a refinement out of the prefix",
        ),
        pytest.param(
            {"rows": {"nvidia": [Row(("a10",), "small", (("80-gb", "large"),))]}}, "lower-case", id="two tokens in one"
        ),
    ],
)
def test_a_table_that_contradicts_itself_is_refused(table: dict[str, Any], reason: str) -> None:
    with pytest.raises(PresetError, match=reason):
        Presets(**({"tiers": TIERS, "rows": NVIDIA, "strips": [("tesla",)]} | table))


def test_no_tier_asks_for_more_than_twelve_cores() -> None:
    assert max(int(unit_resources("nvidia", product).cpu) for product in ("H100", "L40S", "A10", "T4", "")) == 12
