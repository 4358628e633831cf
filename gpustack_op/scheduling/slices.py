"""Logical slices of a card: what one costs, how much memory it may use, and whether it fits.

Guarantees   A slice is charged by the memory it asks for, whatever else the container says. Filling a card exactly is
             allowed, anything more is not. Rounding is always down, once.
Assumptions  Requests in MiB are a share of the card as its pool tells it (`published_mebibytes`); the cap inside the
             container is a share of the card as it was measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gpustack_op.scheduling.claims import Holder, PodClaim, holders
from gpustack_op.scheduling.credits import CARD, memory_units, percent_units
from gpustack_op.scheduling.manufacturers import MANUFACTURERS, Family, Manufacturer, Manufacturers
from gpustack_op.scheduling.memory_text import published_mebibytes


class SliceError(ValueError):
    """A request for a slice that cannot be served as it stands."""


@dataclass(frozen=True, slots=True)
class SliceRequest:
    """What a container says of its slice; 0 where it says nothing."""

    percent: int = 0
    mebibytes: int = 0
    units: int = 0
    cores_percent: int = 0

    @property
    def cores(self) -> int:
        """Percent of the card's compute; all of it unless the container asks for less."""
        return self.cores_percent if self.cores_percent > 0 else 100


def slice_request(asked: Mapping[str, int], row: Manufacturer) -> SliceRequest:
    return SliceRequest(
        percent=asked.get(row.sliced_memory_percentage, 0),
        mebibytes=asked.get(row.sliced_memory_mib, 0),
        units=asked.get(row.sliced_units, 0),
        cores_percent=asked.get(row.sliced_cores_percentage, 0),
    )


def folded(request: SliceRequest, card_mebibytes: int) -> int:
    """The units that the memory asked for is; 0 when no memory is asked for. The percentage goes before the MiB."""
    if request.percent > 0:
        return percent_units(request.percent)
    return memory_units(request.mebibytes, published_mebibytes(card_mebibytes)) if request.mebibytes > 0 else 0


def slice_units(request: SliceRequest, card_mebibytes: int) -> int:
    """What one slice costs on a card of so much memory."""
    if request.percent <= 0 and request.mebibytes <= 0:
        raise SliceError("a slice asks for no memory; set its memory in percent or in MiB")
    units = folded(request, card_mebibytes)
    if not 0 < units <= CARD:
        raise SliceError(f"a slice asks for {units} units of a card, which has {CARD}; ask for less than a whole card")
    if request.units not in {0, units}:
        raise SliceError(f"a slice says it costs {request.units} units, but the memory it asks for costs {units}")
    return units


def charge(units: int, tokens: int = 1) -> int:
    """What so many tokens of one card are charged; never more than the card."""
    return min(min(units, CARD) * tokens, CARD)


def memory_cap(request: SliceRequest, card_mebibytes: int) -> int:
    """The MiB a slice may use on a card of so much measured memory."""
    if request.percent > 0:
        return min(card_mebibytes * request.percent // 100, card_mebibytes)
    if request.mebibytes > 0:
        return min(request.mebibytes, card_mebibytes)
    raise SliceError("a slice asks for no memory; without a cap it would get the whole card")


@dataclass(frozen=True, slots=True)
class Room:
    """What a card can still give in slices."""

    units: int
    slots: int

    def takes(self, units: int) -> bool:
        return self.slots > 0 and units <= self.units


Occupancy = Mapping[str, Mapping[Holder, int]]
"""By card, the units that each container holds in slices."""


def occupancy(claims: Iterable[PodClaim], manufacturers: Manufacturers = MANUFACTURERS) -> Occupancy:
    """Of the claims as they count now; put reservations over them with `claims.overlaid` first."""
    slices = {
        card: {
            holder: sum(entry.allocated for entry in entries if entry.mode is Family.SLICED)
            for holder, entries in held.items()
            if any(entry.mode is Family.SLICED for entry in entries)
        }
        for card, held in holders(claims, manufacturers).items()
    }
    return {card: held for card, held in slices.items() if held}


def room(slices: int, held: Mapping[Holder, int], *, besides: Holder | None = None) -> Room:
    """Of a card that takes so many slices; what `besides` itself holds is free for it."""
    others = [units for holder, units in held.items() if holder != besides]
    return Room(units=max(CARD - sum(others), 0), slots=slices - len(others))
