"""What the Pods of one node claim of its cards, and for how long.

Guarantees   `charged` is the one place that says what a finished Pod still holds. `overlaid` gives "our record" of a
             Pod: a reservation in flight before a pending give-back before the annotation, each container once.
Assumptions  A Pod that is being deleted holds everything until it is gone: its containers may still run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from gpustack_op.api.core import Pod
from gpustack_op.scheduling.manufacturers import MANUFACTURERS, Family, Manufacturers
from gpustack_op.scheduling.records import NO_RECORD, ContainerRecord, Entry, Record, RecordError, record_of

FINISHED = frozenset({"Succeeded", "Failed"})

Holder = tuple[str, str]
"""A container: its Pod's UID and its name."""

Overlay = Mapping[Holder, ContainerRecord | None]
"""What takes the place of a container's record; None takes it away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodClaim:
    """A Pod of the node. `unreadable` says why its record, which then counts as empty, could not be read."""

    uid: str
    namespace: str = ""
    name: str = ""
    phase: str = ""
    deleting: bool = False
    created: str = ""
    record: Record
    unreadable: str = ""

    @property
    def finished(self) -> bool:
        return self.phase in FINISHED


def claim_of(pod: Pod) -> PodClaim:
    try:
        return _claim(pod, record_of(pod))
    except RecordError as error:
        return replace(_claim(pod, NO_RECORD), unreadable=str(error))


def charged(claim: PodClaim, manufacturers: Manufacturers = MANUFACTURERS) -> Iterator[tuple[str, Entry]]:
    """Containers, by name, and what of their record counts now."""
    for container, held in sorted(claim.record.items()):
        for entry in held.entries:
            if not (claim.finished and _ends_with_its_containers(entry, manufacturers)):
                yield container, entry


def overlaid(claims: Iterable[PodClaim], *overlays: Overlay) -> list[PodClaim]:
    """The claims under these overlays, of which the first that knows a container wins.

    An overlay for a Pod that is not among the claims adds nothing.
    """
    return [_overlaid(claim, overlays) for claim in claims]


def holders(
    claims: Iterable[PodClaim], manufacturers: Manufacturers = MANUFACTURERS
) -> dict[str, dict[Holder, list[Entry]]]:
    """By card, who holds what of it."""
    held: dict[str, dict[Holder, list[Entry]]] = {}
    for claim in claims:
        for container, entry in charged(claim, manufacturers):
            held.setdefault(entry.card, {}).setdefault((claim.uid, container), []).append(entry)
    return held


def _claim(pod: Pod, record: Record) -> PodClaim:
    return PodClaim(
        uid=pod.uid,
        namespace=pod.namespace,
        name=pod.name,
        phase=pod.status.phase,
        deleting=pod.deleting,
        created=pod.metadata.creation_timestamp,
        record=record,
    )


def _ends_with_its_containers(entry: Entry, manufacturers: Manufacturers) -> bool:
    """Whether the card is free once the containers have ended. What the driver keeps is taken down with the Pod."""
    if entry.profile or entry.placements:
        return False
    row = manufacturers.get(entry.manufacturer)
    if entry.mode is Family.SLICED:
        return row is not None and not row.keeps_slices
    return entry.mode in {Family.EXCLUSIVE, Family.SHARED}


def _overlaid(claim: PodClaim, overlays: Iterable[Overlay]) -> PodClaim:
    known: dict[str, ContainerRecord | None] = dict(claim.record)
    for overlay in reversed(list(overlays)):
        known |= {container: held for (uid, container), held in overlay.items() if uid == claim.uid}
    return replace(claim, record={container: held for container, held in known.items() if held is not None})
