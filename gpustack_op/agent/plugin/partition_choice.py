"""Where a container's partitions go, before the driver is asked.

Guarantees   A container that already has its partitions keeps them. Otherwise they go on as many different cards as
             tokens were handed over, each where `placements` puts it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from gpustack_op.agent.plugin.charges import entry_of, partition_units
from gpustack_op.agent.plugin.guards import Site
from gpustack_op.agent.plugin.offer import Offer
from gpustack_op.agent.plugin.refusal import Code, RefusalError
from gpustack_op.agent.plugin.tokens import Token
from gpustack_op.api.core import Container
from gpustack_op.api.worker import Placement
from gpustack_op.scheduling.placements import PartitionCard, choose_places, profile_named, published
from gpustack_op.scheduling.records import ContainerRecord
from gpustack_op.scheduling.requests import asked
from gpustack_op.scheduling.sliced_detail import partition_ceiling, profiles_of


def partition_record(
    offer: Offer,
    container: Container,
    tokens: Sequence[Token],
    sites: Mapping[str, Site],
    *,
    occupied: Mapping[str, Sequence[Placement]],
    off: Collection[str] = (),
    before: ContainerRecord | None = None,
) -> ContainerRecord:
    """`occupied` without what the container itself holds; `off` are cards that give nothing now."""
    ids = tuple(sorted(token.written for token in tokens))
    name = requested_profile(offer, container)
    if not name:
        sentence = f"container {container.name} asks for {offer.resource} and names no profile of a partition"
        raise RefusalError(Code.FAILED_PRECONDITION, sentence)
    if (
        before
        and len(before.entries) == len(tokens)
        and all(_keeps(e.card, e.profile, name, sites) for e in before.entries)
    ):
        return ContainerRecord(before.entries, ids)
    open_cards = [
        PartitionCard(card.id, profiles_of(card), tuple(occupied.get(card.id, ())))
        for group, card in sites.values()
        if group.manufacturer == offer.row.id
        and partition_ceiling(card)
        and not card.status.unhealthy
        and card.id not in off
    ]
    chosen = choose_places(name, open_cards, len(tokens))
    if chosen is None:
        sentence = f"{len(tokens)} cards with room for partition {name} were asked; this node has fewer"
        raise RefusalError(Code.RESOURCE_EXHAUSTED, sentence)
    entries = []
    for card, place in chosen:
        profile = profile_named(name, card.profiles)
        assert profile is not None
        units = partition_units(offer.row, container, sites[card.id], profile)
        entries.append(entry_of(sites[card.id], offer.family, units, profile=profile.name, place=place))
    return ContainerRecord(tuple(entries), ids)


def requested_profile(offer: Offer, container: Container) -> str:
    """The first that is named with a positive amount; empty when none is."""
    names = sorted(
        profile for name, amount in asked(container).items() if amount and (profile := offer.row.profile_of(name))
    )
    return names[0] if names else ""


def _keeps(card: str, held: str, name: str, sites: Mapping[str, Site]) -> bool:
    return card in sites and name in {held, published(held)}
