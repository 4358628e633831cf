"""Whose a partition is: one small file for each container and card, in the Pod's folder on the node.

Guarantees   A marker is whole or not there: it is written aside and renamed, on a disk that has kept it. Removing one
             leaves whatever else is in its folder.
Assumptions  Only this agent writes them. The folder outlives the agent, not necessarily the machine's life.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from gpustack_op.agent.partitions.driver import PartitionError
from gpustack_op.api.worker import Placement
from gpustack_op.runtime.logging import logger

log = logger("partitions")

MODE: Final = 0o644


@dataclass(frozen=True, slots=True, order=True)
class Owner:
    """A container of a Pod."""

    pod: str
    """Its UID."""
    container: str


class Marker(msgspec.Struct, frozen=True, kw_only=True):
    """`boot_id` is the machine's boot in which the instance was made or bound."""

    pod: str = msgspec.field(name="podUID")
    container: str = ""
    card: str
    profile: str
    instance: int = msgspec.field(default=0, name="giID")
    compute: int = msgspec.field(default=0, name="ciID")
    uuid: str = msgspec.field(name="migUUID")
    compute_slices: int = msgspec.field(default=0, name="computeSlices")
    start: int = 0
    length: int = 0
    boot_id: str = msgspec.field(default="", name="bootID")

    @property
    def owner(self) -> Owner:
        return Owner(self.pod, self.container)

    @property
    def place(self) -> Placement:
        return Placement(start=self.start, length=self.length)


class Markers:
    """`pods` is the folder that has one for each Pod; `kind` begins the files' names."""

    def __init__(self, pods: Path, kind: str) -> None:
        self._pods = pods
        self._kind = kind

    def of(self, owner: Owner, card: str) -> Marker | None:
        """A marker that is there and cannot be read is an error: whose the partition is, is then not known."""
        path = self._path(owner, card)
        try:
            return _decoded(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError) as error:
            raise PartitionError(f"marker {path} cannot be read: {error}; delete it once its Pod is gone") from error

    def on(self, card: str) -> list[Marker]:
        return [marker for marker in self if marker.card == card]

    def __iter__(self) -> Iterator[Marker]:
        """All that can be read."""
        for path in sorted(self._pods.glob(f"*/c-*/{self._kind}-*.json")):
            try:
                yield _decoded(path.read_bytes())
            except (OSError, msgspec.MsgspecError) as error:
                log.warning("partition.marker_unreadable", path=str(path), error=str(error))

    def write(self, marker: Marker) -> None:
        path = self._path(marker.owner, marker.card)
        aside = path.with_suffix(".new")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with aside.open("wb") as file:
                file.write(msgspec.json.encode(marker))
                file.flush()
                os.fsync(file.fileno())
            aside.chmod(MODE)
            aside.rename(path)
        except OSError as error:
            with suppress(OSError):
                aside.unlink()
            raise PartitionError(f"marker {path} cannot be written: {error}; make room, or make it writable") from error

    def remove(self, owner: Owner, card: str) -> None:
        """With the folders that are empty without it."""
        path = self._path(owner, card)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise PartitionError(f"marker {path} cannot be removed: {error}; make it writable") from error
        with suppress(OSError):
            path.parent.rmdir()
            path.parent.parent.rmdir()

    def _path(self, owner: Owner, card: str) -> Path:
        return self._pods / owner.pod / f"c-{owner.container}" / f"{self._kind}-{card}.json"


def _decoded(content: bytes) -> Marker:
    marker = _decoder.decode(content)
    if not (marker.pod and marker.card and marker.profile and marker.uuid):
        raise msgspec.ValidationError("a marker names a Pod, a card, a profile and a partition")
    return marker


_decoder = msgspec.json.Decoder(Marker)
