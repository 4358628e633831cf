"""Whether our records say what the kubelet says; where they do not, the kubelet is right.

Guarantees   Each container that holds devices of a card-bound family is compared by the ids it holds. What disagrees is
             told with the cards concerned and, where the kubelet's ids can be read, the record that agrees. A record of
             which the kubelet says nothing stays: it may have lost its checkpoint.
Assumptions  Records are given with what is in flight over them. A partition's ids name no card, so that only its own
             record can tell where it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpustack_op.agent.plugin.charges import CARD_BOUND, record_of_tokens
from gpustack_op.agent.plugin.guards import Site
from gpustack_op.agent.plugin.kubelet import PodName, Report
from gpustack_op.agent.plugin.tokens import TokenError, read
from gpustack_op.api.core import Container, Pod
from gpustack_op.api.worker import DeviceGroup
from gpustack_op.scheduling.claims import Holder, PodClaim
from gpustack_op.scheduling.manufacturers import MANUFACTURERS, Family, Manufacturer, Manufacturers
from gpustack_op.scheduling.records import ContainerRecord
from gpustack_op.scheduling.requests import card_resources, containers_of
from gpustack_op.scheduling.slices import SliceError

NOTHING = ContainerRecord()


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """`right` is the record as the kubelet has it; None where that cannot be told. `holder` is None without a Pod."""

    pod: PodName
    container: str
    holder: Holder | None
    cards: frozenset[str]
    right: ContainerRecord | None
    reason: str

    @property
    def sentence(self) -> str:
        return f"Pod {'/'.join(self.pod)}, container {self.container}: {self.reason}"


@dataclass(frozen=True, slots=True)
class _Told:
    """What the kubelet says one container holds of one family."""

    row: Manufacturer
    family: Family
    ids: frozenset[str]


def disagreements(
    groups: Iterable[DeviceGroup],
    pods: Iterable[Pod],
    claims: Iterable[PodClaim],
    report: Report,
    manufacturers: Manufacturers = MANUFACTURERS,
) -> list[Disagreement]:
    sites = sites_of(groups)
    known = {(pod.namespace, pod.name): pod for pod in pods}
    records = {claim.uid: claim for claim in claims}
    return list(_found(sites, known, records, report, manufacturers))


def sites_of(groups: Iterable[DeviceGroup]) -> dict[str, Site]:
    """By card."""
    return {card.id: (group, card) for group in groups for card in group.accelerators or ()}


def _found(
    sites: Mapping[str, Site],
    known: Mapping[PodName, Pod],
    records: Mapping[str, PodClaim],
    report: Report,
    manufacturers: Manufacturers,
) -> Iterator[Disagreement]:
    for name, containers in report.pods.items():
        pod = known.get(name)
        claim = records.get(pod.uid) if pod else None
        if name in report.ambiguous or (claim is not None and claim.finished):
            continue
        for container, held in containers.items():
            record = claim.record.get(container, NOTHING) if claim else NOTHING
            for told in _card_bound(held, manufacturers):
                if frozenset(record.device_ids) != told.ids or claim is None:
                    yield _disagreement(name, pod, container, record, told, sites)


def _card_bound(held: Mapping[str, frozenset[str]], manufacturers: Manufacturers) -> Iterator[_Told]:
    for row in manufacturers:
        for family, resource in card_resources(row).items():
            if family in CARD_BOUND and held.get(resource):
                yield _Told(row, family, held[resource])


def _disagreement(
    name: PodName,
    pod: Pod | None,
    container: str,
    record: ContainerRecord,
    told: _Told,
    sites: Mapping[str, Site],
) -> Disagreement:
    stated = _container(pod, container) if pod else None
    right, reason = (
        _right(stated, told, sites) if stated else (None, "the kubelet tells of it, the API server does not")
    )
    return Disagreement(
        pod=name,
        container=container,
        holder=(pod.uid, container) if pod else None,
        cards=frozenset({*_cards(told.ids), *(entry.card for entry in record.entries)}) & set(sites),
        right=right,
        reason=reason or f"recorded with {_listed(record.device_ids)}, the kubelet says {_listed(told.ids)}",
    )


def _right(container: Container, told: _Told, sites: Mapping[str, Site]) -> tuple[ContainerRecord | None, str]:
    try:
        tokens = [read(text) for text in sorted(told.ids)]
        unknown = [token.written for token in tokens if token.card not in sites]
        if unknown:
            return None, f"the kubelet says it holds {_listed(unknown)}, which is no card of this node"
        return record_of_tokens(told.row, told.family, container, tokens, sites), ""
    except (TokenError, SliceError) as error:
        return None, str(error)


def _container(pod: Pod, name: str) -> Container | None:
    return next((one for one in containers_of(pod.spec) if one.name == name), None)


def _cards(ids: Iterable[str]) -> Iterator[str]:
    for text in ids:
        try:
            yield read(text).card
        except TokenError:
            continue


def _listed(ids: Iterable[str]) -> str:
    return ", ".join(sorted(ids)) or "nothing"


def withheld(found: Sequence[Disagreement], *, besides: Holder | None = None) -> frozenset[str]:
    """The cards that wait for their record to be put right."""
    return frozenset(card for one in found if one.holder is None or one.holder != besides for card in one.cards)
