"""Shows a helper container, such as one that people log in to, the cards of another container of its Pod.

Guarantees   Nothing is charged and nothing recorded. What is shown is exactly what the other container holds, a
             partition rather than its card; where that is not known for sure the container is refused, since a runtime
             may read an empty list as all cards.
Assumptions  The kubelet tells which container waits; the one whose cards are shown was served before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from gpustack_op.agent.injection.base import Grant, GrantedCard
from gpustack_op.agent.partitions.driver import PartitionError
from gpustack_op.agent.partitions.markers import Owner
from gpustack_op.agent.plugin.books import Books
from gpustack_op.agent.plugin.guards import Site
from gpustack_op.agent.plugin.offer import Offer
from gpustack_op.agent.plugin.refusal import Code, RefusalError
from gpustack_op.agent.plugin.verification import sites_of
from gpustack_op.api.core import Pod
from gpustack_op.scheduling.manufacturers import Family
from gpustack_op.scheduling.records import ContainerRecord


class PartitionNames(Protocol):
    async def identify(self, owner: Owner, cards: Sequence[str]) -> tuple[str, ...]: ...


async def visible_grant(
    books: Books, offer: Offer, pod: Pod, container: str, count: int, partitions: Mapping[str, PartitionNames]
) -> Grant:
    owner, record = _owner(books, offer, pod, container)
    sites = _sites(books, record)
    if len(sites) != count:
        raise _refused(f"container {owner} holds {len(sites)} cards, {count} were asked to be made visible")
    names: tuple[str, ...] = ()
    if any(entry.mode is Family.PARTITIONED for entry in record.entries):
        names = await _partition_names(partitions.get(offer.row.id), Owner(pod.uid, owner), record)
    cards = tuple(GrantedCard(group, card) for group, card in sites)
    return Grant(pod_uid=pod.uid, container=container, family=Family.VISIBILITY, cards=cards, partitions=names)


def _owner(books: Books, offer: Offer, pod: Pod, container: str) -> tuple[str, ContainerRecord]:
    claim = books.claims([pod])[0]
    if claim.unreadable:
        raise _refused(claim.unreadable)
    for name, held in sorted(claim.record.items()):
        if name != container and any(entry.manufacturer == offer.row.id for entry in held.entries):
            return name, held
    raise _refused(f"no other container of Pod {pod.namespace}/{pod.name} holds a card of {offer.row.id}")


def _sites(books: Books, record: ContainerRecord) -> list[Site]:
    known = sites_of(books.groups() or ())
    gone = [entry.card for entry in record.entries if entry.card not in known]
    if gone:
        raise _refused(f"card {gone[0]} is not on this node any more")
    return [known[entry.card] for entry in record.entries]


async def _partition_names(partitions: PartitionNames | None, owner: Owner, record: ContainerRecord) -> tuple[str, ...]:
    if partitions is None:
        raise _refused("nothing here knows the partitions of this manufacturer")
    try:
        return await partitions.identify(owner, [entry.card for entry in record.entries])
    except PartitionError as error:
        raise _refused(str(error)) from error


def _refused(sentence: str) -> RefusalError:
    return RefusalError(Code.FAILED_PRECONDITION, sentence)
