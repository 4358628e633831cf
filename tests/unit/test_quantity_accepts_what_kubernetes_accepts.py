"""Which texts are quantities, what they are worth, and how Kubernetes prints them."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from gpustack_op.api.quantity import Quantity, QuantityError


class Holder(BaseModel):
    amount: Quantity


@pytest.mark.parametrize(
    ("text", "value", "canonical"),
    [
        ("128974848", Fraction(128974848), "128974848"),
        ("128974848000m", Fraction(128974848), "128974848"),
        ("123Mi", Fraction(128974848), "123Mi"),
        ("129e6", Fraction(129000000), "129e6"),
        ("129E6", Fraction(129000000), "129e6"),
        ("129M", Fraction(129000000), "129M"),
        ("1e3", Fraction(1000), "1e3"),
        ("1E3", Fraction(1000), "1e3"),
        ("1e+3", Fraction(1000), "1e3"),
        ("1e-3", Fraction(1, 1000), "1e-3"),
        ("1k", Fraction(1000), "1k"),
        ("1E", Fraction(10**18), "1E"),
        ("1.", Fraction(1), "1"),
        (".5", Fraction(1, 2), "500m"),
        ("0.5", Fraction(1, 2), "500m"),
        ("+1", Fraction(1), "1"),
        ("-1", Fraction(-1), "-1"),
        ("-0.5", Fraction(-1, 2), "-500m"),
        ("5n", Fraction(5, 10**9), "5n"),
        ("3u", Fraction(3, 10**6), "3u"),
        ("100m", Fraction(1, 10), "100m"),
        ("1.5Gi", Fraction(1610612736), "1536Mi"),
        ("2048Mi", Fraction(2**31), "2Gi"),
        ("0.5Ki", Fraction(512), "512"),
        ("8Ei", Fraction(2**63), "8Ei"),
        ("8E", Fraction(8 * 10**18), "8E"),
        ("1000E", Fraction(10**21), "1000E"),
        ("1e21", Fraction(10**21), "1e21"),
        ("9223372036854775807", Fraction(2**63 - 1), "9223372036854775807"),
        ("1600000", Fraction(1600000), "1600k"),
        ("0", Fraction(0), "0"),
        ("-0", Fraction(0), "0"),
        ("007", Fraction(7), "7"),
    ],
)
def test_a_legal_text(text: str, value: Fraction, canonical: str) -> None:
    quantity = Quantity.parse(text)
    assert (quantity.value, str(quantity), quantity.canonical()) == (value, text, canonical)


@pytest.mark.parametrize(
    "text",
    [
        *["", " ", "1e", "1e1.5", "1 Gi", " 1", "1 ", "1gi", "1GI", "1K", "1ki", "1_000", "nan", "inf", "Infinity"],
        *["１２", "1Ｇi", "٣", "1Gi\n", "\n1", "1\n", "1\x00", ".", "+", "-", "Gi", "m", "e3", "--1", "+-1", "1.2.3"],
        *["0x10", "1,5", "1Gib", "1 e3", "1e3Ki", "1mm", "1i", "½", "1e99999999999", "1" * 1001],
    ],
)
def test_an_illegal_text_is_refused_and_shown(text: str) -> None:
    with pytest.raises(QuantityError, match=r"is no quantity|is out of range"):
        Quantity.parse(text)


@pytest.mark.parametrize("number", [0.5, 2.0, float("nan"), True, False])
def test_a_number_that_is_no_integer_is_refused(number: float) -> None:
    with pytest.raises(QuantityError, match="write a whole number or a quoted text"):
        Quantity.parse(number)


def test_an_integer_works_like_its_text() -> None:
    assert Quantity.parse(1073741824) == Quantity.parse("1Gi")
    assert str(Quantity.parse(2)) == "2"


def test_what_is_finer_than_a_nano_is_rounded_away_from_zero() -> None:
    assert Quantity.parse("0.1n") == Quantity.parse("1n")
    assert Quantity.parse("-0.1n") == Quantity.parse("-1n")
    assert Quantity.parse("1e-12") == Quantity.parse("1n")


def test_equal_values_are_one_key() -> None:
    written = ["128974848", "128974848000m", "123Mi", "128974.848k", "128974848e0"]
    assert len({Quantity.parse(text) for text in written}) == 1


def test_order_goes_by_value() -> None:
    texts = ["-1", "0", "5n", "100m", ".5", "1", "1k", "1Ki", "1M", "1E", "1Ei", "1e30"]
    assert sorted(map(Quantity.parse, reversed(texts))) == list(map(Quantity.parse, texts))


def test_sums_beyond_64_bits_do_not_wrap() -> None:
    largest = Quantity.parse("9223372036854775807")
    assert (largest + largest).canonical() == "18446744073709551614"
    assert (largest * 3).value == 27670116110564327421
    assert (Quantity.parse("1") - largest).canonical() == "-9223372036854775806"
    assert Quantity.parse("1E") * 1000 > Quantity.parse("8E")


@pytest.mark.parametrize(
    ("result", "written"),
    [
        (Quantity.parse("1Gi") + Quantity.parse("1024Mi"), "2Gi"),
        (Quantity.parse("0") + Quantity.parse("1Gi"), "1Gi"),
        (Quantity.parse("1") - Quantity.parse("200m"), "800m"),
        (Quantity.parse("1600k") * 4, "6400k"),
        (3 * Quantity.parse("500m"), "1500m"),
        (-Quantity.parse("1Gi"), "-1Gi"),
        (Quantity.of(1600000), "1600k"),
        (Quantity.of(0), "0"),
        (Quantity.of(2**34, binary=True), "16Gi"),
        (Quantity.of(1000, binary=True), "1k"),
        (Quantity.of(Fraction(4, 5)), "800m"),
    ],
)
def test_a_result_is_written_canonically(result: Quantity, written: str) -> None:
    assert str(result) == written


@pytest.mark.parametrize(
    ("text", "floor", "ceiling"),
    [("70125m", 70, 71), ("2", 2, 2), ("0.1", 0, 1), ("-0.5", -1, 0), ("1.5Ki", 1536, 1536)],
)
def test_whole_numbers(text: str, floor: int, ceiling: int) -> None:
    quantity = Quantity.parse(text)
    assert (int(quantity), quantity.ceil()) == (floor, ceiling)


def test_only_zero_is_false() -> None:
    assert not Quantity.parse("0Gi")
    assert Quantity.parse("1n")


def test_a_quantity_is_no_number() -> None:
    assert Quantity.parse("1") != 1
    with pytest.raises(TypeError):
        Quantity.parse("1") * 1.5  # type: ignore[operator]


@pytest.mark.parametrize(("given", "written"), [("2048Mi", "2048Mi"), (2, "2"), ("1e3", "1e3")])
def test_a_model_keeps_the_written_form(given: str | int, written: str) -> None:
    assert Holder.model_validate({"amount": given}).model_dump(mode="json") == {"amount": written}


@pytest.mark.parametrize("given", [0.5, True, None, "1K", [], {}])
def test_a_model_refuses_with_a_message_for_a_person(given: object) -> None:
    with pytest.raises(ValidationError, match="is no quantity; write a"):
        Holder.model_validate({"amount": given})


def test_importing_quantities_imports_no_pydantic() -> None:
    program = "import gpustack_op.api.quantity, sys; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == 0


numbers = st.from_regex(
    r"[+-]?([0-9]{1,12}(\.[0-9]{0,6})?|\.[0-9]{1,6})", fullmatch=True, alphabet=st.characters(codec="ascii")
)
suffixes = st.sampled_from(["", *"numkMGTPE", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E-2", "e+18", "e0"])
quantities = st.builds(lambda number, suffix: Quantity.parse(number + suffix), numbers, suffixes)


@settings(deadline=None)
@given(quantities)
def test_the_canonical_form_has_the_same_value_and_is_its_own_canonical_form(quantity: Quantity) -> None:
    again = Quantity.parse(quantity.canonical())
    assert again == quantity
    assert again.canonical() == quantity.canonical()


@settings(deadline=None)
@given(quantities, quantities)
def test_arithmetic_and_order_are_those_of_fractions(one: Quantity, other: Quantity) -> None:
    assert (one + other).value == one.value + other.value
    assert (one - other).value == one.value - other.value
    assert (one < other) == (one.value < other.value)
    assert (one == other) == (one.value == other.value)


def read(text: str) -> Quantity | None:
    try:
        return Quantity.parse(text)
    except QuantityError:
        return None


@settings(deadline=None)
@given(st.text(max_size=12))
def test_any_text_is_either_a_quantity_that_keeps_it_or_a_quantity_error(text: str) -> None:
    quantity = read(text)
    assert quantity is None or str(quantity) == text
