"""The kinds of partition that a card offers while its partitioning mode is on.

Guarantees   A name is the driver's; only where the driver gives none is it worked out, from the card's memory and the
             slices a partition takes, as the driver itself does it. A profile without a legal place is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pynvml

from gpustack_op.agent.nvml.errors import Meaning, NvmlError
from gpustack_op.agent.nvml.library import Handle, asked, call
from gpustack_op.agent.nvml.text import text_of
from gpustack_op.api.worker import PhysicalProfile, Placement
from gpustack_op.runtime.logging import logger
from gpustack_op.scheduling.memory_text import GIBIBYTE_IN_MIB
from gpustack_op.scheduling.placements import published

PROFILES: Final = 32
"""Profiles that are asked for, by number; the public header ends at 18."""

FIRST_VARIANT: Final = 10
"""First number of a profile that is the variant of another one, with graphics or media engines."""

MEDIA: Final = "+me"
"""The only variant that can be asked for by name."""

MOST_PLACES: Final = 64

log = logger("nvml")

_SEGMENT: Final = re.compile(r"[a-z0-9]([a-z0-9._-]*[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class DriverProfile:
    """A profile as the driver numbers it: `id` is what instances are created with."""

    id: int
    compute_slices: int
    memory_mib: int
    count: int
    places: tuple[Placement, ...]
    name: str = ""

    @property
    def profile(self) -> PhysicalProfile:
        return PhysicalProfile(
            name=self.name,
            memory_mib=self.memory_mib,
            compute_slices=self.compute_slices,
            memory_slices=self.places[0].length,
            count=self.count,
            placements=self.places,
        )


def driver_profiles(card: Handle, card_mib: int) -> tuple[DriverProfile, ...]:
    """In the driver's order, each name once."""
    found = [profile for number in range(PROFILES) if (profile := _asked_for(card, number))]
    slices = max((place.start + place.length for profile in found for place in profile.places), default=0)
    named: dict[str, DriverProfile] = {}
    for profile in found:
        name = profile.name or worked_out(profile, card_mib=card_mib, card_slices=slices)
        if is_usable(name):
            named.setdefault(name, _with_name(profile, name))
    return tuple(named.values())


def worked_out(profile: DriverProfile, *, card_mib: int, card_slices: int) -> str:
    """The name of a profile whose driver gives none: `1g.10gb` for one slice of eight on a card of 80 GiB."""
    gibibytes = -(-card_mib // GIBIBYTE_IN_MIB)  # up: what a card reports falls short of what it was sold with
    length = profile.places[0].length
    return f"{profile.compute_slices}g.{(2 * gibibytes * length + card_slices) // (2 * card_slices)}gb"


def is_usable(name: str) -> bool:
    """Whether it can be part of a resource's name, and asked for. Of the variants only the media engines' can."""
    plain = name.removesuffix(MEDIA)
    return "+" not in plain and _SEGMENT.fullmatch(published(name)) is not None


def normalised(name: str) -> str:
    """`MIG 1g.10gb` is `1g.10gb`."""
    words = name.lower().split()
    return words[-1] if words else ""


def _with_name(profile: DriverProfile, name: str) -> DriverProfile:
    return DriverProfile(profile.id, profile.compute_slices, profile.memory_mib, profile.count, profile.places, name)


def _asked_for(card: Handle, number: int) -> DriverProfile | None:
    info, name = _info(card, number)
    if info is None or (not name and number >= FIRST_VARIANT):
        return None
    places = _places(card, info.id)
    if not places:
        log.warning("partition.profile_without_place", profile=name or number)
        return None
    return DriverProfile(info.id, info.sliceCount, info.memorySizeMB, info.instanceCount, places, name)


def _info(card: Handle, number: int) -> tuple[Any | None, str]:
    """An older driver does not know the question that also tells the name."""
    info = asked(pynvml.nvmlDeviceGetGpuInstanceProfileInfo, card, number, 2)
    if info is not None:
        return info, normalised(text_of(lambda: info.name))
    return asked(pynvml.nvmlDeviceGetGpuInstanceProfileInfo, card, number, 1), ""


def _places(card: Handle, profile_id: int) -> tuple[Placement, ...]:
    """By start. A card that is lost meanwhile is an error, one that does not tell has none."""
    places = (pynvml.c_nvmlGpuInstancePlacement_t * MOST_PLACES)()
    count = pynvml.c_uint(MOST_PLACES)
    try:
        call(pynvml.nvmlDeviceGetGpuInstancePossiblePlacements, card, profile_id, places, pynvml.byref(count))
    except NvmlError as error:
        if error.meaning in {Meaning.LOST, Meaning.DRIVER, Meaning.MISMATCH}:
            raise
        return ()
    return _sorted(places[: count.value])


def _sorted(places: Iterable[Any]) -> tuple[Placement, ...]:
    found: Sequence[Placement] = [Placement(start=place.start, length=place.size) for place in places]
    return tuple(sorted(found, key=lambda place: place.start))
