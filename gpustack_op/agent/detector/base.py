"""What every detector answers, whatever library it asks.

A detector that finds nothing says so with an empty answer: the cards are gone. One that could not ask raises a
`DetectionError`: nothing is known, and what was known before stays, unhealthy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from gpustack_op.agent.cpu import Cpu
from gpustack_op.scheduling.device_groups import RawCard


class DetectionError(Exception):
    """The library, the kernel or the file could not be asked."""


@dataclass(frozen=True, slots=True)
class Host:
    """The machine without its cards. An empty `boot_id` is unknown."""

    cpu: Cpu
    boot_id: str = ""


@dataclass(frozen=True, slots=True)
class Detection:
    """One pass over the cards, in the driver's order, as the driver describes them.

    `broken` has one sentence for each card that is there and cannot be used.
    """

    cards: tuple[RawCard, ...] = ()
    broken: tuple[str, ...] = ()


class Detector(Protocol):
    """Called from one thread at a time, every second or so: what has not changed should cost next to nothing."""

    def host(self) -> Host: ...

    def detect(self) -> Detection: ...
