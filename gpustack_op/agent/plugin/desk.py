"""Answers for one resource: what is on offer, what is best taken, what is given.

Guarantees   Every call of Allocate is counted with its result and its time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpustack_op.agent.injection.base import Injection, InjectionError, Injector
from gpustack_op.agent.plugin.allocator import Allocator, tokens_in
from gpustack_op.agent.plugin.books import Books
from gpustack_op.agent.plugin.charges import CARD_BOUND, units_of
from gpustack_op.agent.plugin.finder import Finder
from gpustack_op.agent.plugin.health import Listed, Standing, listed
from gpustack_op.agent.plugin.identify import Candidate
from gpustack_op.agent.plugin.instruments import Instruments
from gpustack_op.agent.plugin.offer import Offer
from gpustack_op.agent.plugin.preferred import hint, wished_cards
from gpustack_op.agent.plugin.refusal import Code, RefusalError
from gpustack_op.agent.plugin.stopwatch import Stopwatch
from gpustack_op.agent.plugin.verification import sites_of
from gpustack_op.agent.plugin.visibility import PartitionNames, visible_grant
from gpustack_op.scheduling.card_budget import Piece
from gpustack_op.scheduling.manufacturers import Family
from gpustack_op.scheduling.slices import SliceError


@dataclass(frozen=True, slots=True, kw_only=True)
class Counter:
    """What all desks of a node share. `injector` and `partitions` are those of the manufacturer."""

    books: Books
    finder: Finder
    allocator: Allocator
    instruments: Instruments
    injector: Injector
    partitions: Mapping[str, PartitionNames] = field(default_factory=dict)


class Desk:
    def __init__(self, counter: Counter, offer: Offer) -> None:
        self.resource = offer.resource
        self.news = counter.books.news
        self._counter = counter
        self._offer = offer

    def listed(self) -> tuple[Listed, ...] | None:
        standing = self._counter.books.told()
        return listed(standing, self._offer.row.id, self._offer.family) if standing else None

    async def preferred(self, available: list[str], must: list[str], size: int) -> list[str]:
        standing = self._counter.books.standing()
        if standing is None or self._offer.family not in CARD_BOUND:
            return []
        one = await self._counter.finder.glance(self._offer, size)
        wished = wished_cards(one.pod, standing) if one else frozenset()
        return hint(standing, self._piece(one, available, standing), available, must, size, wished=wished)

    async def allocate(self, ids: list[str]) -> Injection:
        watch, result = Stopwatch(), "ok"
        try:
            return await self._given(ids, watch)
        except BaseException as error:
            result = error.code.name.lower() if isinstance(error, RefusalError) else type(error).__name__.lower()
            raise
        finally:
            self._counter.instruments.allocated(self._offer.row.id, self._offer.family, result, watch.seconds)

    async def _given(self, ids: list[str], watch: Stopwatch) -> Injection:
        if self._offer.family is not Family.VISIBILITY:
            return await self._counter.allocator.allocate(self._offer, ids, watch)
        tokens = tokens_in(ids)
        async with self._counter.allocator.lock:
            found = await self._counter.finder.find(self._offer, tokens, watch)
        name = found.one.container.name
        grant = await visible_grant(
            self._counter.books, self._offer, found.one.pod, name, len(tokens), self._counter.partitions
        )
        try:
            return await self._counter.injector.inject(grant)
        except InjectionError as error:
            raise RefusalError(Code.INTERNAL, str(error)) from error

    def _piece(self, one: Candidate | None, available: list[str], standing: Standing) -> Piece:
        """A slice of the size that is asked for, on the first card that is on offer; of any size when nobody asks."""
        row, family = self._offer.row, self._offer.family
        sites = sites_of(standing.groups)
        cards = [token.card for token in tokens_in(available) if token.card in sites] if available else []
        try:
            units = units_of(row, family, one.container, sites[cards[0]], 1) if one and cards else 1
        except SliceError:
            units = 1
        return Piece(family=family, manufacturer=row.id, units=units)
