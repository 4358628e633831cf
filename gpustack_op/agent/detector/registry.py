"""The detectors that `--detector` offers; one more is a row here and a module beside this one.

A row's module is imported only when the detector is made, so that an agent loads no library that it does not use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType

from gpustack_op.agent.detector.base import Detector


@dataclass(frozen=True, slots=True)
class Options:
    """What a detector may be given on the command line."""

    inventory: Path | None = None
    nvml_library: Path | None = None
    pci_check: bool = True


class OptionError(ValueError):
    """A detector was asked for without what it needs."""


@dataclass(frozen=True, slots=True)
class DetectorRow:
    """`reads` are the fields of the options that name something for this detector."""

    name: str
    summary: str
    make: Callable[[Options], Detector]
    reads: tuple[str, ...] = ()
    finds_cards: bool = True


def _none(_options: Options) -> Detector:
    from gpustack_op.agent.detector.none import NoDetector  # noqa: PLC0415

    return NoDetector()


def _simulated(options: Options) -> Detector:
    from gpustack_op.agent.detector.simulated import SimulatedDetector  # noqa: PLC0415

    if options.inventory is None:
        raise OptionError("--detector simulated needs an inventory; give its file with --inventory FILE")
    return SimulatedDetector(options.inventory)


def _nvidia(options: Options) -> Detector:
    from gpustack_op.agent.detector.nvidia import NvidiaDetector  # noqa: PLC0415

    return NvidiaDetector(options.nvml_library, pci_check=options.pci_check)


DETECTORS: Mapping[str, DetectorRow] = MappingProxyType(
    {
        row.name: row
        for row in (
            DetectorRow("none", "no accelerators; the CPU as the kernel tells it", _none, finds_cards=False),
            DetectorRow("nvidia", "NVIDIA's cards, through the driver's library", _nvidia, ("nvml_library",)),
            DetectorRow("simulated", "a machine described by an inventory file", _simulated, ("inventory",)),
        )
    }
)


def detector(name: str, options: Options) -> Detector:
    row = DETECTORS.get(name)
    if row is None:
        raise OptionError(f"--detector {name}: no such detector; give one of {', '.join(DETECTORS)}")
    for field, value in asdict(options).items():
        readers = [other.name for other in DETECTORS.values() if field in other.reads]
        if isinstance(value, Path) and row.name not in readers:
            flag = "--" + field.replace("_", "-")
            raise OptionError(f"{flag} {value}: only --detector {' and '.join(readers)} reads it; give that")
    return row.make(options)
