"""A person who flips things on and off, with a stopwatch.

A flip begins when nothing has moved for a moment, as when a person has read the tables. Its time begins when kubectl
has returned, and ends when the tables are the right ones. They are read through the API, since a kubectl of its own for
each look would take longer than what is measured. The machine's load is told too: all parts of a cluster share its
cores, and on one that others keep busy these times say more about them.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from devcluster.settle import read_pools
from gpustack_op.api.meta import Resource
from gpustack_op.api.worker import INSTANCE_TYPE_FLAVORS, INSTANCE_TYPES
from gpustack_op.runtime.client import Client
from tests.e2e.tables import Table, expected, served_table
from tests.e2e.walkthrough import CPU_AWARE, Walkthrough

LOOK_AGAIN: Final = 0.05
"""Seconds between two looks: more of them would keep the API server busy with us."""

REST: Final = 0.4
"""Seconds without a change before the next flip."""

GIVE_UP: Final = 20.0
"""Seconds; far beyond what is right, so that the failure tells how late it was."""

Tables = Mapping[Resource[Any], Table]

WITHOUT_A10G: Final[Tables] = {INSTANCE_TYPES: expected("without-a10g", "instancetype")}
WITH_A10G: Final[Tables] = {INSTANCE_TYPES: expected("initial", "instancetype")}
APART: Final[Tables] = {
    INSTANCE_TYPES: expected("cpu-aware", "instancetype"),
    INSTANCE_TYPE_FLAVORS: expected("cpu-aware", "instancetypeflavor"),
}
TOGETHER: Final[Tables] = {
    INSTANCE_TYPES: expected("cpu-aware", "instancetype"),  # they stay until a person deletes them
    INSTANCE_TYPE_FLAVORS: expected("initial", "instancetypeflavor"),
}


@dataclass(frozen=True, slots=True)
class Flip:
    name: str
    command: Callable[[], Awaitable[None]]
    tables: Tables


@dataclass(frozen=True, slots=True)
class Timed:
    name: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.seconds:5.2f} s  {self.name}"


class Replay:
    def __init__(self, person: Walkthrough, client: Client, tell: Callable[[str], None]) -> None:
        self._person = person
        self._client = client
        self._tell = tell

    async def rounds(self, count: int) -> list[Timed]:
        """Four flips a round, each told as soon as it is over; every other round writes in the other places."""
        times: list[Timed] = []
        self._tell(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
        for number in range(count):
            on, off = ("secret", "setting") if number % 2 == 0 else ("setting", "secret")
            times += [timed async for timed in self._round(on, off)]
        return times

    async def _round(self, on: str, off: str) -> AsyncIterator[Timed]:
        manage, tell_apart = self._person.manage, self._person.tell_cpus_apart
        for flip in (
            Flip("node-a10g leaves", partial(manage, "node-a10g", managed=False), WITHOUT_A10G),
            Flip("node-a10g returns", partial(manage, "node-a10g", managed=True), WITH_A10G),
            Flip(f"CPUs told apart, by {on}", partial(tell_apart, True, by=on), APART),
            Flip(f"CPUs joined, by {off}", partial(tell_apart, False, by=off), TOGETHER),
        ):
            await self._rest()
            await flip.command()
            timed = Timed(flip.name, await self._until(flip.tables))
            self._tell(str(timed))
            yield timed
        await self._person.delete_types(*CPU_AWARE)
        await self._until(WITH_A10G)

    async def _rest(self) -> None:
        versions: frozenset[tuple[str, str]] = frozenset()
        while (latest := (await read_pools(self._client)).versions) != versions:
            versions = latest
            await asyncio.sleep(REST)

    async def _until(self, tables: Tables) -> float:
        started = time.monotonic()
        while (present := await self._present(tables)) != tables:
            if time.monotonic() > started + GIVE_UP:
                raise AssertionError(f"not so within {GIVE_UP} s; last seen: {present}")
            await asyncio.sleep(LOOK_AGAIN)
        return time.monotonic() - started

    async def _present(self, tables: Tables) -> Tables:
        served = await asyncio.gather(*(served_table(self._client, resource) for resource in tables))
        return dict(zip(tables, served, strict=True))


def slowest(times: list[Timed], *, beyond: float) -> list[Timed]:
    return sorted((timed for timed in times if timed.seconds > beyond), key=lambda timed: -timed.seconds)
