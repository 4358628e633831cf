"""Looks after the partitions of one manufacturer's cards: gives, takes back, makes again.

Owns      the partitions of the cards it is told of, and their markers.
Never     switches a card's mode; takes down what a living Pod holds; touches a card that is not told as partitioned.
Woken by  `wake` (Pods have come or gone), the end of its own last pass while something is on its way out, a minute.
Promises  calls for one card run one after another, in that card's own thread; a card whose driver hangs holds up
          nobody else; what is in use is tried again, and said once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from gpustack_op.agent.daemon_thread import DaemonThread
from gpustack_op.agent.partitions.driver import PartitionError, PartitionInUseError
from gpustack_op.agent.partitions.markers import Owner
from gpustack_op.agent.partitions.materialise import How, Made, Wanted, Workbench
from gpustack_op.agent.partitions.mend import Lost, repairs
from gpustack_op.agent.partitions.reclaim import Gone, Misses, planned
from gpustack_op.agent.partitions.world import Held, World
from gpustack_op.api.worker import PhysicalProfile
from gpustack_op.runtime.logging import logger
from gpustack_op.scheduling.placements import profile_named

RESYNC = 60.0
"""Seconds after which a pass is made although nothing has happened."""

AGAIN = 1.0
"""Seconds to the next pass while something is on its way out."""

PATIENCE = 30.0
"""Seconds for all steps of one partition: cards take up to some seconds for each."""

TELL_AT = 8
"""The pass in which it is said that something that should go is still in use."""

Cards = Mapping[str, Sequence[PhysicalProfile]]
"""The partitioned cards that are well, with what they offer. A sick one is left alone."""

T = TypeVar("T")

log = logger("partitions")


class Keeper:
    """`cards` and `world` are what is known now; a world of None is not known yet, and nothing is taken down."""

    name = "partitions"

    def __init__(
        self,
        bench: Workbench,
        cards: Callable[[], Cards],
        world: Callable[[], World | None],
        *,
        patience: float = PATIENCE,
        again: float = AGAIN,
        on_lost: Callable[[], None] = lambda: None,
    ) -> None:
        self.lost: frozenset[Lost] = frozenset()
        self._bench = bench
        self._cards = cards
        self._world = world
        self._patience = patience
        self._again = again
        self._on_lost = on_lost
        self._threads: dict[str, DaemonThread] = {}
        self._misses: dict[str, Misses] = {}
        self._failing: dict[str, str] = {}
        self._woken = asyncio.Event()

    # --- For an allocation -------------------------------------------------------------------------------------------

    async def materialise(self, wanted: Sequence[Wanted]) -> tuple[Made, ...]:
        """One partition on each of these cards, or none at all."""
        world = self._world()
        living = None if world is None else world.living | {one.owner.pod for one in wanted}
        made: list[Made] = []
        for one in wanted:
            try:
                made += [await self._on(one.card, partial(self._bench.materialise, one, living))]
            except BaseException:
                await self.roll_back(made)
                raise
        return tuple(made)

    async def roll_back(self, made: Sequence[Made]) -> None:
        """What cannot be undone now is taken down with its Pod."""
        for one in reversed(made):
            try:
                await self._on(one.marker.card, partial(self._bench.roll_back, one))
            except PartitionError as error:
                log.warning("partition.rollback_failed", card=one.marker.card, error=str(error))
        if any(one.how is How.CREATED for one in made):
            self.wake()

    async def identify(self, owner: Owner, cards: Sequence[str]) -> tuple[str, ...]:
        """What the container computes on, of each of these cards; an error unless all of it is known for sure."""
        return tuple([await self._on(card, partial(self._identified, owner, card)) for card in cards])

    def _identified(self, owner: Owner, card: str) -> str:
        marker = self._bench.markers.of(owner, card)
        if marker is None:
            raise PartitionError(f"card {card}: nobody knows of a partition of container {owner.container}")
        offered = self._cards().get(card)
        if offered is not None and profile_named(marker.profile, offered) is None:
            raise PartitionError(f"card {card} no longer offers profile {marker.profile}")
        if not any((one.id, one.uuid) == (marker.instance, marker.uuid) for one in self._bench.driver.instances(card)):
            raise PartitionError(f"card {card}: partition {marker.uuid} of container {owner.container} is gone")
        return marker.uuid

    # --- Upkeep ------------------------------------------------------------------------------------------------------

    def wake(self) -> None:
        self._woken.set()

    async def run(self, stop: asyncio.Event) -> None:
        stopped = asyncio.create_task(stop.wait())
        try:
            while not stopped.done():
                self._woken.clear()
                is_settled = await self.look()
                await self._pause(stopped, RESYNC if is_settled else self._again)
        finally:
            stopped.cancel()
            for thread in self._threads.values():
                thread.close()

    async def look(self) -> bool:
        """One pass over all cards; whether nothing is on its way out."""
        world = self._world()
        if world is None:
            return True
        cards = self._cards()
        lost = await asyncio.gather(*(self._upkeep(card, offered, world) for card, offered in cards.items()))
        self._told(frozenset(one for of_card in lost for one in of_card))
        return not any(self._misses.values())

    async def _pause(self, stopped: asyncio.Task[bool], seconds: float) -> None:
        woken = asyncio.create_task(self._woken.wait())
        try:
            await asyncio.wait((stopped, woken), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            woken.cancel()

    async def _upkeep(self, card: str, offered: Sequence[PhysicalProfile], world: World) -> Sequence[Lost]:
        try:
            lost = await self._on(card, partial(self._mended, card, offered, world))
            await self._on(card, partial(self._reclaimed, card, world))
        except PartitionError as error:
            if self._failing.get(card) != str(error):
                log.warning("partition.upkeep_failed", card=card, error=str(error))
            self._failing[card] = str(error)
            return [one for one in self.lost if one.held.card == card]
        if self._failing.pop(card, ""):
            log.info("partition.upkeep_recovered", card=card)
        return lost

    def _mended(self, card: str, offered: Sequence[PhysicalProfile], world: World) -> list[Lost]:
        bench = self._bench
        plan = repairs(world.on(card), bench.driver.instances(card), bench.markers.on(card), bench.boot_id())
        return [*plan.lost, *filter(None, (self._made_again(held, offered) for held in plan.again))]

    def _made_again(self, held: Held, offered: Sequence[PhysicalProfile]) -> Lost | None:
        """The container knows its partition by its id: one with another id is of no use to it."""
        profile = profile_named(held.profile, offered)
        if profile is None:
            return Lost(held, f"the card offers no profile {held.profile} any more")
        marker = self._bench.create(held.owner, held.card, profile, held.place)
        if marker.uuid == held.uuid:
            log.info("partition.made_again", card=held.card, pod=held.owner.pod, uuid=held.uuid)
            return None
        self._bench.roll_back(Made(How.CREATED, marker))
        return Lost(held, f"after a reboot it could only be made again as {marker.uuid}")

    def _reclaimed(self, card: str, world: World) -> None:
        instances, markers = self._bench.driver.instances(card), self._bench.markers.on(card)
        plan = planned(card, instances, markers, world, self._misses.get(card, {}))
        self._misses[card] = plan.misses
        for gone in plan.gone:
            self._take_down(card, gone)

    def _take_down(self, card: str, gone: Gone) -> None:
        try:
            if gone.instance is not None:
                self._bench.driver.destroy(card, gone.instance)
                log.info("partition.reclaimed", card=card, id=gone.instance.id, start=gone.instance.place.start)
            if gone.marker is not None:
                self._bench.markers.remove(gone.marker.owner, card)
        except PartitionInUseError as error:
            if gone.misses == TELL_AT:
                log.warning("partition.still_in_use", card=card, error=str(error))

    def _told(self, lost: frozenset[Lost]) -> None:
        before, self.lost = self.lost, lost
        for one in lost - before:
            log.error("partition.lost", card=one.held.card, pod=one.held.owner.pod, uuid=one.held.uuid, why=one.why)
        if lost != before:
            self._on_lost()

    async def _on(self, card: str, function: Callable[[], T]) -> T:
        """In the card's thread, which is also its lock."""
        thread = self._threads.setdefault(card, DaemonThread(f"partitions {card}"))
        try:
            return await thread.within(function, self._patience)
        except TimeoutError:
            raise PartitionError(f"card {card}: the driver has not answered within {self._patience:g} s") from None
