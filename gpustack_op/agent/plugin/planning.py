"""What a container gets, decided from what is known at one moment.

Guarantees   Either a plan, with all that has to be undone should it fail later, or a refusal; nothing is changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from gpustack_op.agent.injection.base import Grant, GrantedCard
from gpustack_op.agent.partitions.materialise import Made
from gpustack_op.agent.plugin.charges import record_of_tokens
from gpustack_op.agent.plugin.guards import Proposal, Site, refusal
from gpustack_op.agent.plugin.identify import Candidate, is_plain_init
from gpustack_op.agent.plugin.kubelet import Report
from gpustack_op.agent.plugin.offer import Offer
from gpustack_op.agent.plugin.partition_choice import partition_record
from gpustack_op.agent.plugin.refusal import Code, RefusalError
from gpustack_op.agent.plugin.tokens import Token, by_card
from gpustack_op.agent.plugin.verification import disagreements, sites_of, withheld
from gpustack_op.api.core import Pod
from gpustack_op.api.worker import DeviceGroup
from gpustack_op.scheduling.claims import Holder, PodClaim
from gpustack_op.scheduling.ledger import rebuilt
from gpustack_op.scheduling.manufacturers import Family, Manufacturers
from gpustack_op.scheduling.records import ContainerRecord
from gpustack_op.scheduling.requests import asked
from gpustack_op.scheduling.slices import SliceError, slice_request


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """`claims` are those of `pods`, with what is in flight."""

    groups: Sequence[DeviceGroup]
    pods: Sequence[Pod]
    claims: Sequence[PodClaim]
    report: Report
    manufacturers: Manufacturers


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`before` is what the container held so far. `taken_over` are ended containers of its Pod that held the same."""

    offer: Offer
    one: Candidate
    record: ContainerRecord
    sites: tuple[Site, ...]
    before: ContainerRecord | None = None
    taken_over: tuple[str, ...] = ()
    made: tuple[Made, ...] = ()

    @property
    def holder(self) -> Holder:
        return self.one.holder

    @property
    def grant(self) -> Grant:
        is_slice = self.offer.family is Family.SLICED
        return Grant(
            pod_uid=self.one.pod.uid,
            container=self.one.container.name,
            family=self.offer.family,
            cards=tuple(GrantedCard(group, card) for group, card in self.sites),
            slice=slice_request(asked(self.one.container), self.offer.row) if is_slice else None,
            partitions=tuple(made.marker.uuid for made in self.made),
        )

    def carved(self, made: Sequence[Made]) -> Plan:
        """With the partitions as they were really made."""
        entries = tuple(
            replace(entry, profile=one.marker.profile, placements=(one.marker.place,), partition_id=one.marker.uuid)
            for entry, one in zip(self.record.entries, made, strict=True)
        )
        return replace(self, record=replace(self.record, entries=entries), made=tuple(made))


def planned(offer: Offer, one: Candidate, tokens: Sequence[Token], moment: Moment) -> Plan:
    sites = sites_of(moment.groups)
    own = next((claim.record for claim in moment.claims if claim.uid == one.pod.uid), {})
    before = own.get(one.container.name)
    _check_one_way(offer, one, before)
    off = _withheld(one, moment)
    if offer.family is Family.PARTITIONED:
        others = _without(moment.claims, one.pod.uid, {one.container.name})
        ledger = rebuilt(moment.groups, others, moment.manufacturers)
        record = partition_record(
            offer, one.container, tokens, sites, occupied=ledger.occupied, off=off | ledger.disputed, before=before
        )
    else:
        record = _card_bound(offer, one, tokens, sites)
    cards = {entry.card for entry in record.entries}
    ended = tuple(name for name, held in own.items() if _is_taken_over(one, name, held, cards))
    proposal = Proposal(
        holder=one.holder,
        family=offer.family,
        sites=[sites[card] for card in cards],
        tokens={card: len(of_card) for card, of_card in by_card(tokens).items()},
        units={entry.card: entry.allocated for entry in record.entries},
    )
    sentence = refusal(proposal, _without(moment.claims, one.pod.uid, ended), withheld=off)
    if sentence:
        raise RefusalError(Code.FAILED_PRECONDITION, sentence)
    ordered = tuple(sites[entry.card] for entry in record.entries)
    return Plan(offer=offer, one=one, record=record, sites=ordered, before=before, taken_over=ended)


def _check_one_way(offer: Offer, one: Candidate, before: ContainerRecord | None) -> None:
    for entry in before.entries if before else ():
        if (entry.manufacturer, entry.mode) != (offer.row.id, offer.family):
            sentence = (
                f"container {one.container.name} already holds {entry.manufacturer} cards as "
                f"{entry.mode.name.lower()}; a container takes cards in one way"
            )
            raise RefusalError(Code.FAILED_PRECONDITION, sentence)


def _withheld(one: Candidate, moment: Moment) -> frozenset[str]:
    found = disagreements(moment.groups, moment.pods, moment.claims, moment.report, moment.manufacturers)
    return withheld(found, besides=one.holder)


def _card_bound(offer: Offer, one: Candidate, tokens: Sequence[Token], sites: Mapping[str, Site]) -> ContainerRecord:
    try:
        return record_of_tokens(offer.row, offer.family, one.container, tokens, sites)
    except SliceError as error:
        raise RefusalError(Code.FAILED_PRECONDITION, f"container {one.container.name}: {error}") from error


def _is_taken_over(one: Candidate, name: str, held: ContainerRecord, cards: Iterable[str]) -> bool:
    """A plain init container has ended when the next container is served, and the kubelet hands its devices on."""
    if name == one.container.name or not is_plain_init(one.pod, name):
        return False
    return bool(held.entries) and {entry.card for entry in held.entries} <= set(cards)


def _without(claims: Iterable[PodClaim], uid: str, containers: Iterable[str]) -> list[PodClaim]:
    gone = set(containers)
    return [
        replace(claim, record={name: held for name, held in claim.record.items() if name not in gone})
        if claim.uid == uid
        else claim
        for claim in claims
    ]
