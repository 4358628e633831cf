"""Reads the CPU's facts from the kernel: `/proc/cpuinfo` and `/sys/devices/system/cpu`.

Guarantees   Nothing that changes from one moment to the next (the current clock) is read, so that what is published
             stays still. A fact that is missing or makes no sense is unknown; nothing here raises but an unreadable
             `/proc/cpuinfo`.
Assumptions  All cores are alike; where they are not, the first one speaks for the name and the caches.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from gpustack_op.agent.cpu import Cpu

_X86_VENDORS: Final = {
    "AuthenticAMD": "AMD",
    "GenuineIntel": "Intel",
    "HygonGenuine": "Hygon",
    "CentaurHauls": "VIA",
    "  Shanghai  ": "Zhaoxin",
}
"""The vendor string of the CPUID instruction, and how Node Feature Discovery spells that vendor."""

_ARM_VENDORS: Final = {
    0x41: "ARM",
    0x42: "Broadcom",
    0x43: "Cavium",
    0x46: "Fujitsu",
    0x48: "HiSilicon",
    0x4E: "NVIDIA",
    0x50: "AppliedMicro",
    0x51: "Qualcomm",
    0x61: "Apple",
    0x6D: "Microsoft",
    0x70: "Phytium",
    0xC0: "Ampere",
}
"""The implementer codes of Arm's MIDR register."""

_ARM_PARTS: Final = {
    (0x41, 0xD07): "Cortex-A57",
    (0x41, 0xD08): "Cortex-A72",
    (0x41, 0xD0B): "Cortex-A76",
    (0x41, 0xD0C): "Neoverse-N1",
    (0x41, 0xD40): "Neoverse-V1",
    (0x41, 0xD49): "Neoverse-N2",
    (0x41, 0xD4F): "Neoverse-V2",
    (0x41, 0xD83): "Neoverse-V3AE",
    (0x41, 0xD84): "Neoverse-V3",
    (0x41, 0xD8E): "Neoverse-N3",
    (0x46, 0x001): "A64FX",
    (0x48, 0xD01): "Kunpeng 920",
    (0x4E, 0x004): "Carmel",
    (0xC0, 0xAC3): "Ampere-1",
    (0xC0, 0xAC4): "Ampere-1A",
}
"""Server parts by implementer and part number; an unknown one has no name, and family and model make its key."""

_NOMINAL_CLOCK: Final = re.compile(r"@\s*([0-9]+(?:\.[0-9]+)?)\s*([MGT])Hz", re.IGNORECASE)
_CLOCK_UNIT: Final = {"M": 10**6, "G": 10**9, "T": 10**12}
_SIZE: Final = re.compile(r"([0-9]+)([KMG]?)")
_SIZE_UNIT: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_KILOHERTZ: Final = 1000

Block = Mapping[str, str]


def read(root: Path = Path("/")) -> Cpu:
    """The facts of the machine whose `/proc` and `/sys` stand below `root`."""
    text = (root / "proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    return parse(text, sysfs=_sysfs(root / "sys/devices/system/cpu/cpu0"))


def parse(cpuinfo: str, *, sysfs: Mapping[str, str]) -> Cpu:
    """`sysfs` holds the files below `cpu0` by their relative paths."""
    blocks = _blocks(cpuinfo)
    first = blocks[0] if blocks else {}
    identity = _arm(first, blocks) if "CPU implementer" in first else _x86(first)
    threads = _number(first.get("siblings")), _number(first.get("cpu cores"))
    name = str(identity["name"])
    return Cpu(
        vendor=str(identity["vendor"]),
        name=name,
        family=_number(identity["family"]),
        model=_number(identity["model"]),
        stepping=_number(identity["stepping"]),
        cores=max(1, len(blocks)),
        physical_cores=_physical_cores(blocks),
        threads_per_core=threads[0] // threads[1] if threads[0] and threads[1] else None,
        hz=_nominal_clock(name) or _kilohertz(sysfs.get("cpufreq/base_frequency")),
        boost_freq=_kilohertz(sysfs.get("cpufreq/cpuinfo_max_freq")),
        cache_line=_number(first.get("clflush size")) or _number(sysfs.get("cache/index0/coherency_line_size")),
        cache_l1i=_cache(sysfs, "1", "Instruction"),
        cache_l1d=_cache(sysfs, "1", "Data"),
        cache_l2=_cache(sysfs, "2", "Unified"),
        cache_l3=_cache(sysfs, "3", "Unified"),
    )


def _blocks(cpuinfo: str) -> Sequence[Block]:
    """One mapping a logical core. Trailing sections (`Hardware`, `Revision` on some boards) are no cores."""
    blocks: list[dict[str, str]] = []
    for line in cpuinfo.splitlines():
        key, colon, value = line.partition(":")
        if key.strip() == "processor" and value.strip().isdigit():
            blocks.append({})
        elif colon and blocks:
            blocks[-1].setdefault(key.strip(), value[1:] if value.startswith(" ") else value)
    return blocks


def _x86(block: Block) -> Mapping[str, str | None]:
    vendor = block.get("vendor_id", "")
    return {
        "vendor": _X86_VENDORS.get(vendor, vendor.strip()),
        "name": " ".join(block.get("model name", "").split()),
        "family": block.get("cpu family"),
        "model": block.get("model"),
        "stepping": block.get("stepping"),
    }


def _arm(block: Block, blocks: Sequence[Block]) -> Mapping[str, str | None]:
    implementer, part = _number(block["CPU implementer"]), _number(block.get("CPU part"))
    named = next((one["model name"] for one in blocks if one.get("model name")), "")
    return {
        "vendor": _ARM_VENDORS.get(implementer or 0, ""),
        "name": _ARM_PARTS.get((implementer or 0, part or 0), named.strip()),
        "family": block.get("CPU architecture"),
        "model": block.get("CPU part"),
        "stepping": block.get("CPU revision"),
    }


def _physical_cores(blocks: Sequence[Block]) -> int | None:
    cores = {(block.get("physical id", ""), block["core id"]) for block in blocks if "core id" in block}
    return len(cores) or None


def _nominal_clock(name: str) -> int | None:
    clock = _NOMINAL_CLOCK.search(name)
    return round(float(clock[1]) * _CLOCK_UNIT[clock[2].upper()]) if clock else None


def _kilohertz(text: str | None) -> int | None:
    number = _number(text)
    return number * _KILOHERTZ if number else None


def _cache(sysfs: Mapping[str, str], level: str, kind: str) -> int | None:
    for path, value in sysfs.items():
        folder = path.removesuffix("/level")
        if folder != path and value == level and sysfs.get(f"{folder}/type") == kind:
            return _size(sysfs.get(f"{folder}/size", ""))
    return None


def _size(text: str) -> int | None:
    size = _SIZE.fullmatch(text)
    return int(size[1]) * _SIZE_UNIT[size[2]] if size else None


def _number(text: str | None) -> int | None:
    """A decimal or 0x number that is not negative; anything else is unknown."""
    try:
        digits = (text or "").strip()
        number = int(digits, 16 if digits.startswith("0x") else 10)
    except ValueError:
        return None
    return number if number >= 0 else None


def _sysfs(folder: Path) -> dict[str, str]:
    wanted = [folder / "cpufreq/base_frequency", folder / "cpufreq/cpuinfo_max_freq"]
    for index in sorted(folder.glob("cache/index*")):
        wanted += [index / name for name in ("level", "type", "size", "coherency_line_size")]
    read = ((path, _text(path)) for path in wanted)
    return {str(path.relative_to(folder)): text for path, text in read if text}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
