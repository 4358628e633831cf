"""Gives a container its cards.

Guarantees   One allocation at a time decides; what it decides is reserved before the next may look. Nothing that fails
             later leaves a trace: the reservation goes, a partition is taken down, a record already written is put
             back to what it was, now or as soon as the API server takes it. A container that asks again gets what it
             asks for, charged once.
Assumptions  The kubelet waits for us without a deadline, and all Pods of the node with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Protocol

from gpustack_op.agent.injection.base import Injection, InjectionError, Injector
from gpustack_op.agent.partitions.driver import PartitionError
from gpustack_op.agent.partitions.markers import Owner
from gpustack_op.agent.partitions.materialise import Made, Wanted
from gpustack_op.agent.plugin.books import Books
from gpustack_op.agent.plugin.finder import Finder, Found
from gpustack_op.agent.plugin.guards import Site
from gpustack_op.agent.plugin.offer import Offer
from gpustack_op.agent.plugin.planning import Moment, Plan, planned
from gpustack_op.agent.plugin.record_writer import RecordWriter, is_passing
from gpustack_op.agent.plugin.refusal import Code, RefusalError
from gpustack_op.agent.plugin.reservations import Owed
from gpustack_op.agent.plugin.stopwatch import Stopwatch
from gpustack_op.agent.plugin.tokens import Token, TokenError, read
from gpustack_op.agent.plugin.verification import sites_of
from gpustack_op.api.core import Pod
from gpustack_op.api.worker import DeviceGroup
from gpustack_op.runtime.errors import NETWORK_ERRORS, ApiError
from gpustack_op.scheduling.manufacturers import Family
from gpustack_op.scheduling.records import Record
from gpustack_op.scheduling.sliced_detail import profiles_of

OUTSIDE = (ApiError, *NETWORK_ERRORS)


class Partitions(Protocol):
    """The keeper of one manufacturer's partitions."""

    async def materialise(self, wanted: Sequence[Wanted]) -> tuple[Made, ...]: ...
    async def roll_back(self, made: Sequence[Made]) -> None: ...


class Allocator:
    """`injectors` and `partitions` are by manufacturer. The lock is one for the whole node."""

    def __init__(
        self,
        books: Books,
        finder: Finder,
        writer: RecordWriter,
        injectors: Mapping[str, Injector],
        partitions: Mapping[str, Partitions] | None = None,
    ) -> None:
        self.lock = asyncio.Lock()
        self._books = books
        self._finder = finder
        self._writer = writer
        self._injectors = injectors
        self._partitions = partitions or {}

    async def allocate(self, offer: Offer, ids: Sequence[str], watch: Stopwatch) -> Injection:
        tokens = tokens_in(ids)
        injector = self._injectors.get(offer.row.id)
        if injector is None:
            raise RefusalError(Code.INTERNAL, f"nothing here can give out cards of {offer.row.id}")
        with watch.outside():
            await self.lock.acquire()
        try:
            plan = await self._decided(offer, tokens, watch)
            undone = _Undone(self._books, plan)
            self._reserve(plan)
        finally:
            self.lock.release()
        try:
            plan = await self._carved(plan, watch)
            undone.plan = plan
            await self._recorded(plan, watch)
            undone.written = True
            return await injector.inject(plan.grant)
        except BaseException as error:
            undone.written |= not isinstance(error, Exception) or _may_have_landed(error)
            await self._undo(undone)
            told = _told(error, plan)
            if told is None:
                raise
            raise told from error

    # --- Decided under the lock --------------------------------------------------------------------------------------

    async def _decided(self, offer: Offer, tokens: Sequence[Token], watch: Stopwatch) -> Plan:
        groups = self._books.groups()
        if groups is None or not self._books.pods.ready:
            raise RefusalError(Code.INTERNAL, "the node's cards and Pods are not known yet")
        _check_known(offer, tokens, sites_of(groups))
        found = await self._finder.find(offer, tokens, watch)
        try:
            return planned(offer, found.one, tokens, self._moment(groups, found.pods, found))
        except RefusalError as refused:
            with watch.outside():
                pods = await self._fresh(refused)
            return planned(offer, found.one, tokens, self._moment(groups, pods, found))

    async def _fresh(self, refused: RefusalError) -> list[Pod]:
        """Who holds the card may be gone and the cache late. If that cannot be told, the refusal stands."""
        try:
            return await self._books.pods.fresh()
        except OUTSIDE:
            raise refused from None

    def _moment(self, groups: Sequence[DeviceGroup], pods: Sequence[Pod], found: Found) -> Moment:
        return Moment(
            groups=groups,
            pods=pods,
            claims=self._books.claims(pods),
            report=found.report,
            manufacturers=self._books.manufacturers,
        )

    def _reserve(self, plan: Plan) -> None:
        self._books.reservations.reserve(plan.holder, plan.record)
        for container in plan.taken_over:
            self._books.reservations.hide((plan.one.pod.uid, container))
        self._books.news.tell()

    # --- Done after it -----------------------------------------------------------------------------------------------

    async def _carved(self, plan: Plan, watch: Stopwatch) -> Plan:
        if plan.offer.family is not Family.PARTITIONED:
            return plan
        keeper = self._partitions.get(plan.offer.row.id)
        if keeper is None:
            raise PartitionError(f"nothing here can partition cards of {plan.offer.row.id}")
        with watch.outside():
            plan = plan.carved(await keeper.materialise(_wanted(plan)))
        self._reserve(plan)
        return plan

    async def _recorded(self, plan: Plan, watch: Stopwatch) -> None:
        pod = plan.one.pod
        with watch.outside():
            await self._writer.write(pod.namespace, pod.name, pod.uid, self._record_of(pod))
        self._books.reservations.paid(plan.holder)

    def _record_of(self, pod: Pod) -> Record:
        """All that the Pod holds by now: the cache may not show yet what its other containers were just given."""
        known = next((each for each in self._books.pods.pods() if each.uid == pod.uid), pod)
        return self._books.claims([known])[0].record

    async def _undo(self, undone: _Undone) -> None:
        undone.release()
        keeper = self._partitions.get(undone.plan.offer.row.id)
        if undone.plan.made and keeper is not None:
            await asyncio.shield(keeper.roll_back(undone.plan.made))


class _Undone:
    """How it was before a plan. `written` when the Pod's record may tell of it already."""

    def __init__(self, books: Books, plan: Plan) -> None:
        self.plan = plan
        self.written = False
        self._books = books
        holders = (plan.holder, *((plan.one.pod.uid, container) for container in plan.taken_over))
        known = books.reservations
        self._reserved = {holder: known.of(holder) for holder in holders if known.holds(holder)}
        self._recorded = {holder: books.record_of(plan.one.pod, holder[1]) for holder in holders}

    def release(self) -> None:
        pod = self.plan.one.pod
        for holder, record in self._recorded.items():
            if self.written:
                self._books.reservations.owe(holder, Owed(pod.namespace, pod.name, record))
            self._books.reservations.release(
                holder, back_to=self._reserved.get(holder), was_reserved=holder in self._reserved
            )
        self._books.news.tell()


def tokens_in(ids: Sequence[str]) -> list[Token]:
    if not ids:
        raise RefusalError(Code.INVALID_ARGUMENT, "no device id was given")
    try:
        return [read(text) for text in sorted(set(ids))]
    except TokenError as error:
        raise RefusalError(Code.INVALID_ARGUMENT, str(error)) from error


def _check_known(offer: Offer, tokens: Sequence[Token], sites: Mapping[str, Site]) -> None:
    for token in tokens:
        if token.card not in sites or sites[token.card][0].manufacturer != offer.row.id:
            sentence = f'device id "{token.written}" names no {offer.row.id} card of this node'
            raise RefusalError(Code.INVALID_ARGUMENT, sentence)


def _wanted(plan: Plan) -> list[Wanted]:
    owner = Owner(plan.one.pod.uid, plan.one.container.name)
    return [
        Wanted(owner=owner, card=card.id, profile=entry.profile, offered=profiles_of(card), place=entry.placements[0])
        for (_group, card), entry in zip(plan.sites, plan.record.entries, strict=True)
    ]


def _may_have_landed(error: BaseException) -> bool:
    return isinstance(error, OUTSIDE) and is_passing(error)


def _told(error: BaseException, plan: Plan) -> RefusalError | None:
    """Failures of what is around us as the kubelet is told; None for all else, which is what it is."""
    if isinstance(error, OUTSIDE):
        pod = plan.one.pod
        sentence = f"what Pod {pod.namespace}/{pod.name} was given cannot be recorded: {error}"
        return RefusalError(Code.INTERNAL, sentence)
    if isinstance(error, (PartitionError, InjectionError)):
        return RefusalError(Code.INTERNAL, str(error))
    return None
