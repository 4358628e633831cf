"""What follows from a card's raw readings."""

from __future__ import annotations

import pytest

from gpustack_op.scheduling.card_facts import (
    Capability,
    capability,
    capability_text,
    cuda_version,
    family,
    recorded_memory,
)


@pytest.mark.parametrize(
    ("total", "bus_width", "ecc", "card", "expected"),
    [
        pytest.param(23028, 384, True, (8, 6), 24563, id="A10G"),
        pytest.param(15360, 256, True, (7, 5), 16384, id="T4"),
        pytest.param(46080, 384, True, (8, 9), 49152, id="L40S"),
        pytest.param(49152, 384, False, (8, 9), 49152, id="L40S with ECC off"),
        pytest.param(97887, 512, True, (12, 0), 97887, id="GDDR7 keeps ECC inside the dies"),
        pytest.param(8192, 128, True, (12, 0), 8192, id="narrow GDDR7"),
        pytest.param(81559, 5120, True, (9, 0), 81559, id="HBM loses nothing"),
        pytest.param(46080, 0, True, (8, 9), 46080, id="bus width 0"),
        pytest.param(46080, None, True, (8, 9), 46080, id="bus width unreadable"),
        pytest.param(46080, 384, None, (8, 9), 46080, id="ECC unreadable"),
        pytest.param(46080, 384, True, None, 46080, id="capability unreadable"),
    ],
)
def test_memory_is_recorded_as_sold(
    total: int, bus_width: int | None, ecc: bool | None, card: Capability | None, expected: int
) -> None:
    assert recorded_memory(total, bus_width=bus_width, ecc_enabled=ecc, capability=card) == expected


@pytest.mark.parametrize(
    ("card", "expected"),
    [
        ((1, 3), "Tesla"),
        ((2, 1), "Fermi"),
        ((3, 7), "Kepler"),
        ((4, 0), ""),
        ((5, 2), "Maxwell"),
        ((6, 1), "Pascal"),
        ((7, 0), "Volta"),
        ((7, 4), "Volta"),
        ((7, 5), "Turing"),
        ((8, 0), "Ampere"),
        ((8, 8), "Ampere"),
        ((8, 9), "Ada-Lovelace"),
        ((9, 0), "Hopper"),
        ((10, 0), "Blackwell"),
        ((11, 0), ""),
        ((12, 0), "Blackwell"),
        (None, ""),
    ],
)
def test_the_family_follows_the_capability(card: Capability | None, expected: str) -> None:
    assert family(card) == expected


@pytest.mark.parametrize(
    ("version", "expected"), [(13000, "13.0"), (12080, "12.8"), (12040, "12.4"), (0, ""), (-1, "")]
)
def test_a_cuda_version_is_printed_as_people_write_it(version: int, expected: str) -> None:
    assert cuda_version(version) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("8.6", (8, 6)), ("12.0", (12, 0)), ("8", None), ("8.x", None), ("", None), ("٨.٦", None)]
)
def test_a_capability_is_two_numbers(text: str, expected: Capability | None) -> None:
    assert capability(text) == expected


@pytest.mark.parametrize(("card", "expected"), [((7, 5), "7.5"), ((0, 0), ""), (None, "")])
def test_a_capability_is_printed_when_known(card: Capability | None, expected: str) -> None:
    assert capability_text(card) == expected
