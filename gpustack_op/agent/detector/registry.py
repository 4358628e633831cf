"""The detectors that `--detector` offers; one more is a row here and a module beside this one.

A row's module is imported only when the detector is made, so that an agent loads no library that it does not use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from gpustack_op.agent.detector.base import Detector


@dataclass(frozen=True, slots=True)
class Options:
    """What a detector may be given on the command line."""

    inventory: Path | None = None


class OptionError(ValueError):
    """A detector was asked for without what it needs."""


@dataclass(frozen=True, slots=True)
class DetectorRow:
    name: str
    summary: str
    make: Callable[[Options], Detector]


def _none(options: Options) -> Detector:
    from gpustack_op.agent.detector.none import NoDetector  # noqa: PLC0415

    if options.inventory is not None:
        raise OptionError(f"--inventory {options.inventory}: only --detector simulated reads an inventory; give that")
    return NoDetector()


def _simulated(options: Options) -> Detector:
    from gpustack_op.agent.detector.simulated import SimulatedDetector  # noqa: PLC0415

    if options.inventory is None:
        raise OptionError("--detector simulated needs an inventory; give its file with --inventory FILE")
    return SimulatedDetector(options.inventory)


DETECTORS: Mapping[str, DetectorRow] = MappingProxyType(
    {
        row.name: row
        for row in (
            DetectorRow("none", "no accelerators; the CPU as the kernel tells it", _none),
            DetectorRow("simulated", "a machine described by an inventory file", _simulated),
        )
    }
)


def detector(name: str, options: Options) -> Detector:
    row = DETECTORS.get(name)
    if row is None:
        raise OptionError(f"--detector {name}: no such detector; give one of {', '.join(DETECTORS)}")
    return row.make(options)
