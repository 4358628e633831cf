"""Product names as vendors print them, made into slugs and label values."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack_op.scheduling.sanitise import label_value, slug

SLUG = re.compile(r"([a-z0-9]([a-z0-9._-]*[a-z0-9])?)?")
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")


@pytest.mark.parametrize(
    ("name", "prefix", "limit", "expected"),
    [
        ("AMD Instinct MI300X OAM", "amd", 49, "instinct-mi300x-oam"),
        ("AMD Instinct MI308X OAM", "amd", 49, "instinct-mi308x-oam"),
        ("Navi 32 [Radeon RX 7700 XT / 7800 XT]", "amd", 49, "navi-32-radeon-rx-7700-xt-7800-xt"),
        ("Ascend910B2", "ascend", 46, "910b2"),
        ("310P3", "ascend", 46, "310p3"),
        ("K100_AI", "hygon", 47, "k100_ai"),
        ("MXC500", "metax", 47, "mxc500"),
        ("NVIDIA A100", "nvidia", 46, "a100"),
        ("NVIDIA H100 80GB HBM3", "nvidia", 46, "h100-80gb-hbm3"),
        ("NVIDIA H200", "nvidia", 46, "h200"),
        ("Tesla 4", "nvidia", 46, "tesla-4"),
        ("NVIDIA", "nvidia", 46, ""),
        ("", "nvidia", 46, ""),
        ("   ", "", 0, ""),
        ("AMD64 Accelerator", "amd", 0, "64-accelerator"),
        ("Moore Threads MTT S4000", "mthreads", 0, "moore-threads-mtt-s4000"),
        ("NVIDIA NVIDIA A10", "nvidia", 0, "a10"),
        ("a -_. b", "", 0, "a-b"),
        ("a_-b", "", 0, "a_b"),
        ("abc-def", "", 4, "abc"),
    ],
)
def test_a_product_becomes_a_slug(name: str, prefix: str, limit: int, expected: str) -> None:
    assert slug(name, prefix=prefix, limit=limit) == expected


@pytest.mark.parametrize(
    ("name", "prefix", "limit", "expected"),
    [
        ("Intel(R) Xeon(R) Platinum 8358 CPU @ 2.60GHz", "intel", 0, "xeon-platinum-8358"),
        ("Intel(R) Xeon(R) Platinum 8358 CPU @ 2.60GHz", "intel", 10, "xeon-plati"),
        ("Intel(R) Xeon(R) Platinum 8480+ CPU @ 2.00GHz", "intel", 0, "xeon-platinum-8480"),
        ("Intel(R) Core(TM) i9-14900K", "intel", 0, "core-i9-14900k"),
        ("AMD EPYC 7763 64-Core Processor", "amd", 0, "epyc-7763"),
        ("AMD Ryzen 9 7950X 16-Core Processor", "amd", 0, "ryzen-9-7950x"),
        ("AMD Ryzen Threadripper PRO 5995WX 64-Cores", "amd", 0, "ryzen-threadripper-pro-5995wx"),
        ("11th Gen Intel(R) Core(TM) i7-1165G7 @ 2.80GHz", "intel", 0, "core-i7-1165g7"),
        ("13th Gen Intel(R) Core(TM) i9-13900K", "intel", 0, "core-i9-13900k"),
        ("Genuine Intel(R) CPU 0000 @ 2.00GHz", "intel", 0, "cpu-0000"),
        ("Intel(R) Xeon(R) CPU E5-2690 v4 @ 2.60GHz", "intel", 0, "xeon-cpu-e5-2690-v4"),
        ("epyc-96-core-processor", "amd", 0, "epyc-96-core-processor"),
        ("Chip(Tm) 1", "", 0, "chiptm-1"),
    ],
)
def test_a_cpu_loses_what_its_vendor_added(name: str, prefix: str, limit: int, expected: str) -> None:
    assert slug(name, prefix=prefix, limit=limit, cruft=True) == expected


@pytest.mark.parametrize(
    ("name", "prefix", "expected"),
    [
        ("Intel(R) Core(TM) i9-14900K", "intel", "r-coretm-i9-14900k"),
        ("AMD EPYC 7763 64-Core Processor", "amd", "epyc-7763-64-core-processor"),
    ],
)
def test_a_product_keeps_what_only_cpus_lose(name: str, prefix: str, expected: str) -> None:
    assert slug(name, prefix=prefix) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Tesla T4", "Tesla-T4"),
        ("580.126.09", "580.126.09"),
        ("NVIDIA H100 80GB HBM3", "NVIDIA-H100-80GB-HBM3"),
        ("Navi 32 [Radeon RX 7700 XT / 7800 XT]", "Navi-32-Radeon-RX-7700-XT-7800-XT"),
        (" -x- ", "x"),
        ("A  B", "A-B"),
        ("", ""),
        ("NVIDIA TITAN X (Pascal)", "NVIDIA-TITAN-X-Pascal"),
        ("AMD INSTINCT MI250X (MCM) OAM AC MBA MSFT", "AMD-INSTINCT-MI250X-MCM-OAM-AC-MBA-MSFT"),
        ("X9SRA/X9SRA-3", "X9SRAX9SRA-3"),
        ("Intel(R) Xeon(R) Gold 6330 CPU @ 2.00GHz", "IntelR-XeonR-Gold-6330-CPU-2.00GHz"),
        ("Core™ i5        M 520", "Core-i5-M-520"),
        ("昇腾", ""),
        ("-", ""),
        ("A10\n", "A10"),
    ],
)
def test_any_text_becomes_a_label_value(text: str, expected: str) -> None:
    assert label_value(text) == expected


@given(st.text(), st.sampled_from(["", "nvidia", "amd", "a"]), st.integers(-1, 70), st.booleans())
def test_a_slug_is_always_legal(name: str, prefix: str, limit: int, cruft: bool) -> None:
    assert SLUG.fullmatch(slug(name, prefix=prefix, limit=limit, cruft=cruft))


@given(st.text(), st.integers(1, 70))
def test_a_slug_keeps_to_its_limit(name: str, limit: int) -> None:
    assert len(slug(name, limit=limit)) <= limit


@given(st.text(), st.sampled_from(["", "nvidia", "amd"]))
def test_a_slug_of_a_slug_is_the_slug(name: str, prefix: str) -> None:
    once = slug(name, prefix=prefix)
    assert slug(once) == once


@given(st.text())
def test_a_label_value_is_always_legal_and_stays(text: str) -> None:
    once = label_value(text)
    assert LABEL_VALUE.fullmatch(once)
    assert label_value(once) == once


@given(st.text(alphabet="abAB019 -_.", max_size=40))
def test_spaced_and_dashed_spellings_agree(name: str) -> None:
    assert slug(name) == slug(name.replace(" ", "-"))
