"""The PCI devices of a machine, as the kernel lists them."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from gpustack_op.scheduling.manufacturers import PCI_CLASSES


def is_plugged_in(root: Path, vendors: Collection[str]) -> bool:
    """Whether there is an accelerator of one of these PCI vendors, be its driver loaded or not."""
    return any(
        _read(device / "vendor").removeprefix("0x") in vendors
        and _read(device / "class").removeprefix("0x").startswith(PCI_CLASSES)
        for device in _devices(root)
    )


def is_virtual_windows(root: Path) -> bool:
    """Windows' Linux has its cards without a PCI bus."""
    release = _read(root / "proc/sys/kernel/osrelease").lower()
    return "microsoft" in release or "wsl" in release


def locality(root: Path, bus_id: str) -> tuple[str, str]:
    """The NUMA node and the CPUs near a device, as ranges; empty where unknown. Drivers write longer addresses."""
    domain, _, rest = bus_id.lower().partition(":")
    device = root / "sys/bus/pci/devices" / f"{domain[-4:]}:{rest}"
    numa = _read(device / "numa_node") if rest else ""
    return ("" if numa.startswith("-") else numa), (_read(device / "local_cpulist") if rest else "")


def _devices(root: Path) -> list[Path]:
    try:
        return list((root / "sys/bus/pci/devices").iterdir())
    except OSError:
        return []


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
