"""Amounts as people read them."""

from __future__ import annotations

from fractions import Fraction

import pytest

from gpustack_op.scheduling.memory_text import (
    binary_text,
    decimal_text,
    divided,
    mebibytes_text,
    percent_of,
    short_text,
)

GIBIBYTE = 1 << 30


@pytest.mark.parametrize(
    ("mebibytes", "expected"),
    [
        (15360, "15Gi"),
        (16384, "16Gi"),
        (24563, "24Gi"),
        (49152, "48Gi"),
        (81920, "80Gi"),
        (97887, "96Gi"),
        (81559, "80Gi"),
        (46080, "45Gi"),
        (8192, "8Gi"),
        (196608, "192Gi"),
        (1535, "1Gi"),
        (1536, "2Gi"),
        (1023, "1023Mi"),
        (1048576, "1Ti"),
    ],
)
def test_memory_is_rounded_half_up_to_its_largest_unit(mebibytes: int, expected: str) -> None:
    assert mebibytes_text(mebibytes) == expected


@pytest.mark.parametrize(
    ("amount", "expected"),
    [
        (0, "0"),
        (512, "512"),
        (1023, "1023"),
        (1024, "1Ki"),
        (16 * GIBIBYTE - 512, "16Gi"),
        (GIBIBYTE * 3 // 2, "2Gi"),
        (GIBIBYTE * 7 // 5, "1Gi"),
        (-16 * GIBIBYTE, "-16Gi"),
    ],
)
def test_bytes_in_binary_units(amount: int, expected: str) -> None:
    assert binary_text(amount) == expected


@pytest.mark.parametrize(
    ("amount", "expected"),
    [
        (1500, "2k"),
        (Fraction(3, 2), "2"),
        (-1500, "-2k"),
        (16 * GIBIBYTE, "17G"),
        (1_500_000, "2M"),
    ],
)
def test_amounts_in_decimal_units(amount: int | Fraction, expected: str) -> None:
    assert decimal_text(amount) == expected


@pytest.mark.parametrize(
    ("mebibytes", "expected"),
    [
        (0, "0g"),
        (1, "1g"),
        (1024, "1g"),
        (1025, "1g"),
        (43693, "43g"),
        (44280, "43g"),
        (15360, "15g"),
        (143771, "140g"),
    ],
)
def test_the_short_form_fits_a_key(mebibytes: int, expected: str) -> None:
    assert short_text(mebibytes) == expected


@pytest.mark.parametrize(
    ("amount", "percent", "expected"),
    [(16, 20, 3), (2, 20, 1), (2, 0, 1), (0, 50, 0), (10 * GIBIBYTE, 25, 2560 << 20), (7, 100, 7), (7, 130, 7)],
)
def test_a_percentage_is_floored_but_never_nothing(amount: int, percent: int, expected: int) -> None:
    assert percent_of(amount, percent) == expected


@pytest.mark.parametrize(
    ("amount", "divisor", "expected"), [(12, 8, 1), (12 * GIBIBYTE, 8, 1536 << 20), (12, 1, 12), (12, 0, 12)]
)
def test_a_division_is_floored(amount: int, divisor: int, expected: int) -> None:
    assert divided(amount, divisor) == expected
