"""What a manufacturer's driver has to be able to do for its cards to be given out in partitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from gpustack_op.api.worker import Placement


class PartitionError(Exception):
    """A partition could not be made, found or taken down."""


class PartitionInUseError(PartitionError):
    """Something still computes on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """A live partition. An empty `uuid` is one that nothing can compute on; it takes its place all the same."""

    id: int
    place: Placement
    compute_slices: int = 0
    profile: str = ""
    """The driver's name; empty when it is none of those on offer."""
    uuid: str = ""
    compute_id: int = 0
    parts: int = 1
    """Into how many it was divided further: by hand, since we do not."""


class Driver(Protocol):
    """Cards go by id. Every call may take long, or hang: it is made in the card's own thread.

    Whatever fails is a `PartitionError`. What was begun and could not be finished has been undone.
    """

    def instances(self, card: str) -> tuple[Instance, ...]: ...

    def create(self, card: str, profile: str, place: Placement) -> Instance:
        """A partition one can compute on, as it was read back."""

    def destroy(self, card: str, instance: Instance) -> None:
        """Returns when the driver no longer lists it."""


@runtime_checkable
class Partitioner(Protocol):
    """A detector whose cards can be partitioned."""

    def partition_drivers(self) -> Mapping[str, Driver]: ...


def partition_drivers(detector: object) -> Mapping[str, Driver]:
    """By manufacturer; empty for a detector whose cards cannot."""
    return detector.partition_drivers() if isinstance(detector, Partitioner) else {}
