"""Makes the partition that a container was promised on one card, or finds it again.

Guarantees   A second call for the same container gives the same partition. A partition that is somebody else's is
             never taken; one that nobody marked and that fits is adopted. What fails leaves nothing behind.
Assumptions  One call at a time for a card.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum

from gpustack_op.agent.partitions.driver import Driver, Instance, PartitionError
from gpustack_op.agent.partitions.markers import Marker, Markers, Owner
from gpustack_op.api.worker import PhysicalProfile, Placement
from gpustack_op.runtime.logging import logger
from gpustack_op.scheduling.placements import choose_start, free_places, overlap, profile_named

log = logger("partitions")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One partition on one card. `offered` are the card's profiles, of which `profile` names one."""

    owner: Owner
    card: str
    profile: str
    offered: Sequence[PhysicalProfile]
    place: Placement | None = None
    """Where it was foreseen; None leaves the choice."""
    spoken_for: Sequence[Placement] = ()
    """Places that others were promised and that the driver may not know of yet."""


class How(Enum):
    CREATED = "created"
    BOUND = "bound"
    REBOUND = "rebound"


@dataclass(frozen=True, slots=True)
class Made:
    how: How
    marker: Marker


class Workbench:
    """The cards of one manufacturer. `boot_id` tells the machine's present boot, empty when unknown."""

    def __init__(self, driver: Driver, markers: Markers, boot_id: Callable[[], str]) -> None:
        self.driver = driver
        self.markers = markers
        self.boot_id = boot_id

    def materialise(self, wanted: Wanted, living: Collection[str] | None = None) -> Made:
        """`living` are the UIDs of the Pods there are: what belonged to others may go when room is needed."""
        profile = profile_named(wanted.profile, wanted.offered)
        if profile is None:
            raise PartitionError(f'card {wanted.card} offers no partition profile "{wanted.profile}"')
        own = self.markers.of(wanted.owner, wanted.card)
        instances = self.driver.instances(wanted.card)
        if own is not None:
            return Made(How.REBOUND, recognised(own, profile.name, instances))
        taken = {marker.instance for marker in self.markers.on(wanted.card)}
        fitting = adoptable(profile, instances, taken, wanted)
        if fitting is not None:
            return Made(How.BOUND, self._marked(wanted.owner, wanted.card, profile, fitting))
        return Made(How.CREATED, self._created(wanted, profile, instances, living))

    def roll_back(self, made: Made) -> None:
        """As if `materialise` had not been called."""
        marker = made.marker
        if made.how is How.CREATED:
            self.take_down(marker.card, marker.instance, marker.uuid)
        if made.how is not How.REBOUND:
            self.markers.remove(marker.owner, marker.card)

    def take_down(self, card: str, number: int, uuid: str) -> None:
        """Nothing if the number is another partition's by now, or nobody's."""
        for instance in self.driver.instances(card):
            if instance.id == number and instance.uuid == uuid:
                self.driver.destroy(card, instance)
                log.info("partition.destroyed", card=card, profile=instance.profile, start=instance.place.start)

    def create(self, owner: Owner, card: str, profile: PhysicalProfile, place: Placement) -> Marker:
        """A partition in this place, marked as this container's."""
        instance = self.driver.create(card, profile.name, place)
        try:
            marker = self._marked(owner, card, profile, instance)
        except PartitionError:
            with suppress(PartitionError):
                self.driver.destroy(card, instance)
            raise
        log.info("partition.created", card=card, profile=profile.name, start=place.start, pod=owner.pod)
        return marker

    def _created(
        self, wanted: Wanted, profile: PhysicalProfile, instances: Sequence[Instance], living: Collection[str] | None
    ) -> Marker:
        place = chosen(profile, instances, wanted)
        if place is None and living is not None and self._cleared(wanted.card, instances, living):
            place = chosen(profile, self.driver.instances(wanted.card), wanted)
        if place is None:
            raise PartitionError(f"card {wanted.card} has no free place for a partition of profile {profile.name}")
        return self.create(wanted.owner, wanted.card, profile, place)

    def _cleared(self, card: str, instances: Sequence[Instance], living: Collection[str]) -> bool:
        """Takes down at once what Pods left behind that are gone; whether there was anything."""
        left = [marker for marker in self.markers.on(card) if marker.pod not in living]
        for marker in left:
            with suppress(PartitionError):  # still in use: the place stays taken
                self.take_down(card, marker.instance, marker.uuid)
                self.markers.remove(marker.owner, card)
        return bool(left and instances)

    def _marked(self, owner: Owner, card: str, profile: PhysicalProfile, instance: Instance) -> Marker:
        marker = Marker(
            pod=owner.pod,
            container=owner.container,
            card=card,
            profile=profile.name,
            instance=instance.id,
            compute=instance.compute_id,
            uuid=instance.uuid,
            compute_slices=instance.compute_slices,
            start=instance.place.start,
            length=instance.place.length,
            boot_id=self.boot_id(),
        )
        self.markers.write(marker)
        return marker


def recognised(own: Marker, profile: str, instances: Sequence[Instance]) -> Marker:
    """The container's marker, if what it tells of is still there."""
    if own.profile != profile:
        raise PartitionError(f"card {own.card}: the container holds a {own.profile}, and asks for a {profile}")
    live = next((instance for instance in instances if instance.id == own.instance), None)
    if live is None:
        raise PartitionError(f"card {own.card}: the container's partition {own.uuid} is gone")
    if live.uuid != own.uuid:
        raise PartitionError(f"card {own.card}: the container's partition {own.uuid} is now another, {live.uuid}")
    return own


def adoptable(
    profile: PhysicalProfile, instances: Sequence[Instance], taken: Collection[int], wanted: Wanted
) -> Instance | None:
    """An instance of the same shape that is nobody's; the foreseen place goes first."""

    def fits(instance: Instance) -> bool:
        return (
            instance.compute_slices == profile.compute_slices
            and instance.place.length == profile.memory_slices
            and instance.profile in {"", profile.name}
            and bool(instance.uuid)
            and instance.parts <= 1
            and instance.id not in taken
            and not any(overlap(instance.place, place) for place in wanted.spoken_for)
        )

    fitting = [instance for instance in instances if fits(instance)]
    return next((one for one in fitting if one.place == wanted.place), fitting[0] if fitting else None)


def chosen(profile: PhysicalProfile, instances: Sequence[Instance], wanted: Wanted) -> Placement | None:
    """The foreseen place if it is free, else the best of those that are; whatever is there takes its place."""
    occupied = [*(instance.place for instance in instances), *wanted.spoken_for]
    if wanted.place is not None and wanted.place in free_places(profile, occupied):
        return wanted.place
    return choose_start(profile, occupied, wanted.offered)
