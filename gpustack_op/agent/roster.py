"""The cards that a node is known to have, present or not.

Guarantees   A card once seen stays, in its group and at its index, unhealthy while it is absent, until the node has
             rebooted since it was last seen and nothing is charged on it: the labels that count it are in the node
             selectors of running Pods. When the driver cannot be asked, every card stays, unhealthy.
Assumptions  Ids are unique and follow the card. An unknown boot is never a reboot.
Recovery     A new agent starts from what its predecessor reported, see `recall`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from gpustack_op.agent import health
from gpustack_op.agent.health import Health
from gpustack_op.scheduling.device_groups import RawCard


@dataclass(frozen=True, slots=True)
class Known:
    """One card: its last readings, the boot in which they were taken, and how it does."""

    card: RawCard
    boot_id: str
    health: Health

    @property
    def reported(self) -> RawCard:
        """The card as it is told to the cluster, where health is what counts, not what was read last."""
        return replace(self.card, healthy=not self.health.unhealthy)


Roster = tuple[Known, ...]
"""In the order of the cards' indexes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """When a pass over the cards was made, and by what rules. `charged` are the ids of cards that are in use."""

    now: float
    recovery: float
    boot_id: str = ""
    charged: Collection[str] = ()


def detected(roster: Roster, cards: Iterable[RawCard], made: Pass) -> Roster:
    """The roster after a pass that could ask."""
    before = {known.card.uuid: known for known in roster}
    seen = [_seen(before.get(card.uuid), card, made) for card in cards]
    ids = {known.card.uuid for known in seen}
    for index, known in enumerate(roster):
        if known.card.uuid not in ids and not _forgotten(known, made):
            seen.insert(index, replace(known, health=health.SICK, boot_id=known.boot_id or made.boot_id))
    return _with_present_drivers(seen, ids)


def unmeasured(roster: Roster) -> Roster:
    """The roster after a pass that could not ask."""
    return tuple(replace(known, health=health.SICK) for known in roster)


def _seen(before: Known | None, card: RawCard, made: Pass) -> Known:
    state = (
        health.first_seen(healthy=card.healthy, now=made.now)
        if before is None
        else health.observed(before.health, healthy=card.healthy, now=made.now, recovery=made.recovery)
    )
    return Known(card, made.boot_id, state)


def _forgotten(known: Known, made: Pass) -> bool:
    rebooted = "" not in {known.boot_id, made.boot_id} and known.boot_id != made.boot_id
    return rebooted and known.card.uuid not in made.charged


def _with_present_drivers(roster: Sequence[Known], present: Collection[str]) -> Roster:
    """An absent card is told with the driver that its manufacturer's other cards have now."""
    drivers = {known.card.manufacturer: known.card for known in roster if known.card.uuid in present}
    return tuple(
        known if driver is None else replace(known, card=_with_driver(known.card, driver))
        for known in roster
        for driver in (drivers.get(known.card.manufacturer),)
    )


def _with_driver(card: RawCard, driver: RawCard) -> RawCard:
    return replace(card, driver_version=driver.driver_version, cuda_driver_version=driver.cuda_driver_version)
