"""The device plugins of one node, all together.

Owns      the sockets of this agent in the kubelet's folder, one for each resource, while it is the active agent.
Never     registers what it cannot give out: a manufacturer without an injector, partitions that nobody keeps.
Woken by  news of the books.
Promises  nothing is registered before the cards and the Pods are known; a manufacturer whose cards appear later is
          registered then, and stays, since a resource that vanishes strands the Pods that hold it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path

from gpustack_op.agent.plugin.active import ActiveLock
from gpustack_op.agent.plugin.books import Books
from gpustack_op.agent.plugin.instruments import Instruments
from gpustack_op.agent.plugin.offer import Offer
from gpustack_op.agent.plugin.registration import USUAL, Registration, Timing
from gpustack_op.agent.plugin.servicer import Desk
from gpustack_op.scheduling.manufacturers import Family, Manufacturer

MakeDesk = Callable[[Offer], Desk]


class Plugins:
    """`able` says in which families a manufacturer's cards can be given out here. `on_active` is called once."""

    name = "device-plugins"

    def __init__(
        self,
        folder: Path,
        lock: ActiveLock,
        books: Books,
        desk: MakeDesk,
        instruments: Instruments,
        *,
        able: Mapping[str, Collection[Family]],
        on_active: Callable[[], None] = lambda: None,
        timing: Timing = USUAL,
    ) -> None:
        self.registrations: dict[str, Registration] = {}
        self._folder = folder
        self._lock = lock
        self._books = books
        self._desk = desk
        self._instruments = instruments
        self._able = able
        self._on_active = on_active
        self._timing = timing

    @property
    def active(self) -> bool:
        return self._lock.is_held

    async def run(self, stop: asyncio.Event) -> None:
        if not await self._lock.acquire(stop):
            return
        self._on_active()
        try:
            async with asyncio.TaskGroup() as running:
                stopped = running.create_task(stop.wait())
                await self._serve(running, stopped, stop)
        finally:
            self._lock.release()

    async def _serve(self, running: asyncio.TaskGroup, stopped: asyncio.Task[bool], stop: asyncio.Event) -> None:
        number = -1
        while not stopped.done():
            for offer in self._offers():
                if offer.resource not in self.registrations:
                    running.create_task(self._register(offer).run(stop))
            news = asyncio.create_task(self._books.news.after(number))
            await asyncio.wait((stopped, news), return_when=asyncio.FIRST_COMPLETED)
            number = news.result() if news.done() else number
            news.cancel()

    def _register(self, offer: Offer) -> Registration:
        lead = f"{offer.row.id}.{offer.family.name.lower()}"
        made = Registration(
            self._folder,
            lead,
            self._desk(offer),
            on_change=lambda is_open: self._instruments.registered(offer.resource, is_open),
            timing=self._timing,
        )
        self.registrations[offer.resource] = made
        return made

    def _offers(self) -> Iterator[Offer]:
        if not self._books.pods.ready:
            return
        present = {group.manufacturer for group in self._books.groups() or ()}
        for row in self._books.manufacturers:
            if row.id in present:
                yield from (Offer(row, family) for family in self._able.get(row.id, ()))


def families(row: Manufacturer, *, is_carvable: bool) -> tuple[Family, ...]:
    """In which a manufacturer's cards can be given out at all."""
    partitioned = (Family.PARTITIONED,) if row.partition_kind and is_carvable else ()
    sliced = (Family.SLICED,) if row.logical_slices else ()
    return Family.EXCLUSIVE, Family.SHARED, *sliced, *partitioned, Family.VISIBILITY
