"""Finds the container for which the kubelet calls.

Guarantees   The kubelet is asked once, and once more after `AGAIN` seconds together with the API server: the cache may
             not show the Pod yet, as when the kubelet lists one that it lacks. Then the best guess is taken. A kubelet
             that cannot be asked is a refusal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from gpustack_op.agent.plugin.books import Books
from gpustack_op.agent.plugin.charges import units_of
from gpustack_op.agent.plugin.guards import Site, slice_room
from gpustack_op.agent.plugin.identify import Candidate, candidates, identified, waiting
from gpustack_op.agent.plugin.kubelet import KubeletError, Report
from gpustack_op.agent.plugin.offer import Offer
from gpustack_op.agent.plugin.refusal import Code, RefusalError
from gpustack_op.agent.plugin.stopwatch import Stopwatch
from gpustack_op.agent.plugin.tokens import Token, by_card
from gpustack_op.agent.plugin.verification import sites_of
from gpustack_op.api.core import Pod
from gpustack_op.runtime.errors import NETWORK_ERRORS, ApiError
from gpustack_op.scheduling.claims import PodClaim
from gpustack_op.scheduling.manufacturers import Family
from gpustack_op.scheduling.slices import SliceError

AGAIN: Final = 0.1
"""Seconds before the second look; nobody else on the node is admitted in the meantime."""


class Kubelet(Protocol):
    async def report(self) -> Report: ...


@dataclass(frozen=True, slots=True)
class Found:
    """A container, and what was known of the node's Pods when it was found."""

    one: Candidate
    pods: Sequence[Pod]
    report: Report


class Finder:
    def __init__(self, books: Books, kubelet: Kubelet, *, again: float = AGAIN) -> None:
        self._books = books
        self._kubelet = kubelet
        self._again = again

    async def find(self, offer: Offer, tokens: Sequence[Token], watch: Stopwatch) -> Found:
        pods: Sequence[Pod] = self._books.pods.pods()
        with watch.outside():
            report = await self._asked()
        # A Pod that only the kubelet knows may be the very one: then no other is taken for it.
        known = report is not None and _knows(pods, report)
        one = self._waiting(offer, tokens, pods, report) if report and known else None
        if one is None or report is None:
            with watch.outside():
                await asyncio.sleep(self._again)
                report, pods = await self._asked_at_last(), await self._newest(pods)
            one = self._waiting(offer, tokens, pods, report) or self._guessed(offer, tokens, pods)
        if one is None:
            raise RefusalError(Code.INTERNAL, f"no Pod of this node waits for {len(tokens)} of {offer.resource}")
        return Found(one, pods, report)

    async def glance(self, offer: Offer, count: int) -> Candidate | None:
        """Who is probably asking, for a hint: one look, and nobody is refused."""
        report, pods = await self._asked(), self._books.pods.pods()
        claims = self._books.claims(pods)
        found = candidates(pods, offer.resource, count)
        wait = waiting(found, report, offer.resource, is_claimed=_claimed(claims)) if report else []
        return identified(found, wait, is_claimed=_claimed(claims))

    async def _asked(self) -> Report | None:
        try:
            return await self._kubelet.report()
        except KubeletError:
            return None

    async def _asked_at_last(self) -> Report:
        try:
            return await self._kubelet.report()
        except KubeletError as error:
            sentence = f"the kubelet does not say for whom it asks: {error}"
            raise RefusalError(Code.FAILED_PRECONDITION, sentence) from error

    async def _newest(self, pods: Sequence[Pod]) -> Sequence[Pod]:
        try:
            return await self._books.pods.fresh()
        except (ApiError, *NETWORK_ERRORS):
            return pods

    def _waiting(self, offer: Offer, tokens: Sequence[Token], pods: Sequence[Pod], report: Report) -> Candidate | None:
        """A container that is started again, without the kubelet having a record of it, comes last."""
        claims = self._books.claims(pods)
        for restarting in (False, True):
            found = candidates(pods, offer.resource, len(tokens), restarting=restarting)
            wait = waiting(found, report, offer.resource, is_claimed=_claimed(claims))
            if wait:
                return self._best(offer, tokens, found, wait, claims)
        return None

    def _guessed(self, offer: Offer, tokens: Sequence[Token], pods: Sequence[Pod]) -> Candidate | None:
        found = candidates(pods, offer.resource, len(tokens))
        return self._best(offer, tokens, found, (), self._books.claims(pods))

    def _best(
        self,
        offer: Offer,
        tokens: Sequence[Token],
        found: Sequence[Candidate],
        wait: Sequence[Candidate],
        claims: Sequence[PodClaim],
    ) -> Candidate | None:
        feasible = _feasible(offer, tokens, sites_of(self._books.groups() or ()), claims)
        return identified(found, wait, is_claimed=_claimed(claims), is_feasible=feasible)


def _knows(pods: Iterable[Pod], report: Report) -> bool:
    """Whether every Pod that the kubelet lists is among these."""
    return report.pods.keys() <= {(pod.namespace, pod.name) for pod in pods}


def _claimed(claims: Iterable[PodClaim]) -> Callable[[Candidate], bool]:
    served = {(claim.uid, container) for claim in claims for container in claim.record}
    return lambda one: one.holder in served


def _feasible(
    offer: Offer, tokens: Sequence[Token], sites: Mapping[str, Site], claims: Sequence[PodClaim]
) -> Callable[[Candidate], bool]:
    """Whether every card that was handed over has room; only slices are told apart by it."""

    def has_room(one: Candidate) -> bool:
        if offer.family is not Family.SLICED:
            return True
        try:
            return all(
                slice_room(claims, sites[card][1], one.holder).takes(
                    units_of(offer.row, offer.family, one.container, sites[card], len(of_card))
                )
                for card, of_card in by_card(tokens).items()
            )
        except SliceError:
            return False

    return has_room
