"""A profile's name is the driver's; where there is none it is worked out as the driver would, never from its MiB."""

from __future__ import annotations

import pytest

from gpustack_op.agent.nvml.errors import MEANINGS, Meaning, NvmlError
from gpustack_op.agent.nvml.profiles import DriverProfile, is_usable, normalised, worked_out
from gpustack_op.api.worker import Placement


def profile(compute: int, memory_slices: int, mib: int) -> DriverProfile:
    places = (Placement(start=0, length=memory_slices),)
    return DriverProfile(id=0, compute_slices=compute, memory_mib=mib, count=1, places=places)


@pytest.mark.parametrize(
    ("compute", "slices", "mib", "card_mib", "card_slices", "name"),
    [
        pytest.param(1, 1, 4864, 40960, 8, "1g.5gb", id="A100 40 GB"),
        pytest.param(3, 4, 20096, 40536, 8, "3g.20gb", id="A100 40 GB, an older driver's figures"),
        pytest.param(1, 1, 9856, 81559, 8, "1g.10gb", id="H100, a card that is 1 GiB low"),
        pytest.param(7, 8, 80896, 81251, 8, "7g.80gb", id="a whole card that is 1 GiB low"),
        pytest.param(1, 1, 11008, 95830, 8, "1g.12gb", id="H100 NVL"),
        pytest.param(1, 1, 17920, 147456, 8, "1g.18gb", id="GH200"),
        pytest.param(1, 1, 20992, 183359, 8, "1g.23gb", id="B200"),
        pytest.param(1, 1, 22528, 189471, 8, "1g.23gb", id="GB200"),
        pytest.param(2, 2, 12032, 24576, 4, "2g.12gb", id="A30, with four memory slices"),
    ],
)
def test_a_name_is_worked_out_from_the_slices(
    compute: int, slices: int, mib: int, card_mib: int, card_slices: int, name: str
) -> None:
    assert worked_out(profile(compute, slices, mib), card_mib=card_mib, card_slices=card_slices) == name


@pytest.mark.parametrize(
    ("name", "usable"),
    [
        ("1g.10gb", True),
        ("1g.10gb+me", True),
        ("1g.23gb-me", True),
        ("1g.10gb+gfx", False),
        ("1g.24gb+me.all", False),
        ("1g 10gb", False),
        ("", False),
    ],
)
def test_a_name_must_fit_into_a_resources_name(name: str, usable: bool) -> None:
    assert is_usable(name) is usable


@pytest.mark.parametrize(
    ("told", "name"), [("MIG 1c.12g", "1c.12g"), (" 3G.40GB ", "3g.40gb"), ("", ""), ("1g.10gb+me", "1g.10gb+me")]
)
def test_a_told_name_is_its_last_word(told: str, name: str) -> None:
    assert normalised(told) == name


@pytest.mark.parametrize(
    ("code", "meaning"),
    [
        pytest.param(3, Meaning.ABSENT, id="not supported"),
        pytest.param(4, Meaning.FORBIDDEN, id="no permission"),
        pytest.param(9, Meaning.DRIVER, id="driver not loaded"),
        pytest.param(15, Meaning.LOST, id="GPU is lost"),
        pytest.param(18, Meaning.MISMATCH, id="driver and library differ"),
        pytest.param(19, Meaning.IN_USE, id="in use"),
        pytest.param(999, Meaning.LOST, id="unknown error"),
        pytest.param(12345, Meaning.FAULT, id="a code of a later driver"),
    ],
)
def test_every_code_has_a_meaning(code: int, meaning: Meaning) -> None:
    assert NvmlError("nvmlCall", code, "text").meaning is meaning


def test_the_codes_of_the_public_header_are_all_told() -> None:
    assert set(MEANINGS) >= {*range(1, 24), 25, 26, 27, 28, 29, 999} - {5}
