"""What a container is charged for the tokens of the cards that it was given.

Guarantees   The units follow from what the container asks for and from the card, never from the kubelet's choice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpustack_op.agent.plugin.guards import Site
from gpustack_op.agent.plugin.tokens import Token, by_card
from gpustack_op.api.core import Container
from gpustack_op.api.worker import PhysicalProfile, Placement
from gpustack_op.scheduling.credits import CARD, SHARE, memory_units
from gpustack_op.scheduling.manufacturers import Family, Manufacturer
from gpustack_op.scheduling.records import ContainerRecord, Entry
from gpustack_op.scheduling.requests import asked
from gpustack_op.scheduling.slices import charge, slice_request, slice_units

CARD_BOUND = frozenset({Family.EXCLUSIVE, Family.SHARED, Family.SLICED})
"""Families in which a token names the card that is given."""


def units_of(row: Manufacturer, family: Family, container: Container, site: Site, tokens: int) -> int:
    """Of one card. A request for a slice that makes no sense is a SliceError."""
    if family is Family.SLICED:
        group, _card = site
        return charge(slice_units(slice_request(asked(container), row), group.memory), tokens)
    return CARD if family is Family.EXCLUSIVE else SHARE


def partition_units(row: Manufacturer, container: Container, site: Site, profile: PhysicalProfile) -> int:
    """What the container says, else the profile's part of the card's memory; never nothing."""
    group, _card = site
    return min(
        asked(container).get(row.partitioned_units, 0) or memory_units(profile.memory_mib, group.memory) or 1, CARD
    )


def record_of_tokens(
    row: Manufacturer, family: Family, container: Container, tokens: Sequence[Token], sites: Mapping[str, Site]
) -> ContainerRecord:
    entries = [
        entry_of(sites[card], family, units_of(row, family, container, sites[card], len(of_card)))
        for card, of_card in by_card(tokens).items()
    ]
    return ContainerRecord(tuple(entries), tuple(sorted(token.written for token in tokens)))


def entry_of(site: Site, family: Family, units: int, *, profile: str = "", place: Placement | None = None) -> Entry:
    group, card = site
    return Entry(
        manufacturer=group.manufacturer,
        group=group.id,
        card=card.id,
        index=card.index,
        mode=family,
        allocated=units,
        profile=profile,
        placements=(place,) if place else (),
    )
