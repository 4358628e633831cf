"""What one NVIDIA card says of itself.

Guarantees   Whatever a card does not have is None and hurts nothing. What it must have and cannot tell (an id, a PCI
             address) is an `NvmlError`.
Assumptions  Called from the card's own thread: any question may take for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pynvml

from gpustack_op.agent.detector.pci import locality
from gpustack_op.agent.nvml.errors import OF_THE_DRIVER, Meaning, NvmlError
from gpustack_op.agent.nvml.library import Handle, asked, call
from gpustack_op.agent.nvml.profiles import driver_profiles
from gpustack_op.agent.nvml.text import text, text_of
from gpustack_op.scheduling.card_facts import Capability
from gpustack_op.scheduling.device_groups import RawCard
from gpustack_op.scheduling.memory_text import MEBIBYTE

MANUFACTURER: Final = "nvidia"


@dataclass(frozen=True, slots=True)
class Driver:
    version: str = ""
    cuda: int = 0


def driver() -> Driver:
    version = text_of(lambda: asked(pynvml.nvmlSystemGetDriverVersion))
    return Driver(version, asked(pynvml.nvmlSystemGetCudaDriverVersion) or 0)


def read_card(card: Handle, of: Driver, root: Path) -> RawCard:
    """Everything. Takes dozens of questions."""
    uuid = text_of(lambda: call(pynvml.nvmlDeviceGetUUID, card))
    if not uuid:
        raise NvmlError("nvmlDeviceGetUUID", 0, "the card has no id that can be read")
    pci = call(pynvml.nvmlDeviceGetPciInfo, card)
    bus_id = text_of(lambda: pci.busId)
    numa, cpus = locality(root, bus_id)
    raw = RawCard(
        manufacturer=MANUFACTURER,
        uuid=uuid,
        name=_name(card, pci),
        minor=_optional(pynvml.nvmlDeviceGetMinorNumber, card),
        pci_bus_id=bus_id,
        numa_affinity=numa,
        cpu_affinity=cpus,
        bus_width=_optional(pynvml.nvmlDeviceGetMemoryBusWidth, card),
        ecc_enabled=_ecc_enabled(card),
        cores=_optional(pynvml.nvmlDeviceGetNumGpuCores, card),
        compute_capability=_capability(card),
        driver_version=of.version,
        cuda_driver_version=of.cuda,
    )
    return _with_partitions(card, _as_guest(card, _with_memory(card, raw)))


def mig_mode(card: Handle) -> bool:
    """Whether the card takes partitions now; a change that waits for a reset does not count."""
    modes = _optional(pynvml.nvmlDeviceGetMigMode, card)
    return modes is not None and bool(modes[0] == pynvml.NVML_DEVICE_MIG_ENABLE)


def ailment(card: Handle) -> str:
    """Why the card must not be given out; empty when it is well. Raises when it does not answer."""
    errors = _optional(
        pynvml.nvmlDeviceGetMemoryErrorCounter,
        card,
        pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
        pynvml.NVML_VOLATILE_ECC,
        pynvml.NVML_MEMORY_LOCATION_DRAM,
    )
    _answers(card)
    return f"{errors} uncorrected errors in its memory" if errors else ""


def _answers(card: Handle) -> None:
    """A card that is lost answers this question with an error, whatever else it remembers."""
    try:
        _memory(card)
    except NvmlError as error:
        if error.meaning is not Meaning.FORBIDDEN:
            raise


def _optional(question: Callable[..., Any], *arguments: Any) -> Any | None:
    """None also for what the agent may not ask and for what fails in itself; a lost card is an error."""
    try:
        return asked(question, *arguments)
    except NvmlError as error:
        if error.meaning is Meaning.LOST or error.meaning in OF_THE_DRIVER:
            raise
        return None


def _name(card: Handle, pci: Any) -> str:
    """What the driver calls it; a name that is none gives way to the numbers of the PCI device."""
    name = text_of(lambda: text(call(pynvml.nvmlDeviceGetName, card)))
    return name or f"PCI device {pci.pciDeviceId & 0xFFFF:04x}:{pci.pciDeviceId >> 16:04x}"


def _ecc_enabled(card: Handle) -> bool | None:
    modes = _optional(pynvml.nvmlDeviceGetEccMode, card)
    return None if modes is None else bool(modes[0])


def _capability(card: Handle) -> Capability | None:
    numbers = _optional(pynvml.nvmlDeviceGetCudaComputeCapability, card)
    return None if numbers is None else (numbers[0], numbers[1])


def _memory(card: Handle) -> int | None:
    """MiB; None where the card has no memory of its own to tell of."""
    info = asked(pynvml.nvmlDeviceGetMemoryInfo, card, pynvml.nvmlMemory_v2)
    if info is None:
        info = asked(pynvml.nvmlDeviceGetMemoryInfo, card)
    return info.total // MEBIBYTE or None if info is not None else None


def _with_memory(card: Handle, raw: RawCard) -> RawCard:
    """A guest that was given a partition may not ask about the card it is a part of: the partition is its card."""
    try:
        return replace(raw, memory_mib=_memory(card))
    except NvmlError as error:
        if error.meaning is not Meaning.FORBIDDEN or not mig_mode(card):
            raise
    part = next(iter(mig_devices(card)), None)
    return replace(raw, memory_mib=None if part is None else _memory(part), mig_mode=True, bus_width=None)


def _as_guest(card: Handle, raw: RawCard) -> RawCard:
    """A virtual card has the memory its host gave it: the bus tells nothing about what is missing from it."""
    return replace(raw, bus_width=None) if _is_guest(card) else raw


def _with_partitions(card: Handle, raw: RawCard) -> RawCard:
    """A card in the partitioning mode serves partitions only: one that cannot name any is of no use as it is."""
    if raw.mig_mode or not mig_mode(card):
        return raw
    profiles = tuple(known.profile for known in driver_profiles(card, raw.memory_mib or 0))
    if profiles or _is_guest(card):
        return replace(raw, mig_mode=True, profiles=profiles)
    return replace(raw, mig_mode=True, healthy=False, ailment="its partitioning mode is on, but it offers no partition")


def _is_guest(card: Handle) -> bool:
    return bool(_optional(pynvml.nvmlDeviceGetVirtualizationMode, card) == pynvml.NVML_GPU_VIRTUALIZATION_MODE_VGPU)


def mig_devices(card: Handle) -> list[Handle]:
    """The partitions of a card that can be computed on."""
    devices = []
    for index in range(call(pynvml.nvmlDeviceGetMaxMigDeviceCount, card)):
        try:
            devices.append(call(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, card, index))
        except NvmlError as error:
            if error.meaning not in {Meaning.NOTHING, Meaning.ABSENT}:
                raise
    return devices
