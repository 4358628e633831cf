"""What follows from a card's raw readings: the memory it was sold with, its generation, its runtime's version.

A reading the driver does not give is None, and decides nothing.
"""

from __future__ import annotations

HBM_BUS_WIDTH = 1024
"""Bits of memory bus from which on a part has stacked memory (HBM), whose ECC costs no capacity."""

GDDR7_GENERATION = 10
"""Major compute capability from which on ECC lives inside the memory dies and hides nothing."""

Capability = tuple[int, int]

_FAMILIES = {
    1: "Tesla",
    2: "Fermi",
    3: "Kepler",
    5: "Maxwell",
    6: "Pascal",
    9: "Hopper",
    10: "Blackwell",
    12: "Blackwell",
}
_SPLIT_FAMILIES = {7: (5, "Volta", "Turing"), 8: (9, "Ampere", "Ada-Lovelace")}
"""Major capability to (first minor of the later family, earlier family, later family)."""


def recorded_memory(
    total_mib: int, *, bus_width: int | None, ecc_enabled: bool | None, capability: Capability | None
) -> int:
    """The memory in MiB that a card is recorded with.

    On GDDR parts before GDDR7, ECC hides a sixteenth of the memory; it is given back, so that a card is the same
    product whether ECC is on or off. Whatever cannot be read leaves the driver's total.
    """
    narrow = bus_width is not None and 0 < bus_width < HBM_BUS_WIDTH
    hides = ecc_enabled is True and capability is not None and capability[0] < GDDR7_GENERATION
    return total_mib * 16 // 15 if narrow and hides else total_mib


def family(capability: Capability | None) -> str:
    """The architecture's name; empty when unknown."""
    if capability is None:
        return ""
    major, minor = capability
    if major in _SPLIT_FAMILIES:
        first_minor, earlier, later = _SPLIT_FAMILIES[major]
        return later if minor >= first_minor else earlier
    return _FAMILIES.get(major, "")


def capability_text(capability: Capability | None) -> str:
    return f"{capability[0]}.{capability[1]}" if capability and capability[0] > 0 else ""


def capability(text: str) -> Capability | None:
    """`8.6` as numbers; None for anything else."""
    major, dot, minor = text.partition(".")
    if not (dot and _is_number(major) and _is_number(minor)):
        return None
    return int(major), int(minor)


def cuda_version(version: int) -> str:
    """The driver's integer (13000) as people write it (`13.0`); empty when unknown."""
    return f"{version // 1000}.{version % 1000 // 10}" if version > 0 else ""


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 4
