"""Pods of all families come, run and go in random order while agent and kubelet fail; what runs is counted naively.

The count below shares nothing with the ledger: it looks at what each running Pod was told it may use.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpustack_op.agent.injection.base import InjectionError
from gpustack_op.agent.plugin.refusal import RefusalError
from gpustack_op.agent.plugin.reservations import UNSEEN
from gpustack_op.runtime.errors import Forbidden
from gpustack_op.scheduling.manufacturers import Family
from tests.builders import cards_of, pod
from tests.runtime.memory_api import ANSWER_LOST
from tests.runtime.plugin_stand import RESOURCES, Stand, ids, shares, slices, whole

CARDS = ("x/0", "x/1")
LIMITS = {Family.EXCLUSIVE: whole, Family.SHARED: shares}
TOKENS = {Family.EXCLUSIVE: 1, Family.SHARED: 10, Family.SLICED: 128}
FAILURES: dict[str, Any] = {"": None, "refused": Forbidden(403, "Forbidden", "no"), "lost": ANSWER_LOST}

families = st.sampled_from([Family.EXCLUSIVE, Family.SHARED, Family.SLICED])
steps = st.one_of(
    st.tuples(
        st.just("admit"),
        families,
        st.sampled_from(CARDS),
        st.sampled_from([30, 50, 60, 100]),
        st.sampled_from(["", "", "", "refused", "lost", "injection"]),
    ),
    st.tuples(st.sampled_from(["delete", "finish"]), st.integers(0, 20)),
    st.tuples(st.sampled_from(["agent restarts", "checkpoint is lost", "settle", "cache lags", "cache catches up"])),
)


@dataclass
class Running:
    family: Family
    card: str
    percent: int


@dataclass
class World:
    stand: Stand = field(default_factory=lambda: Stand(cards_of("x", 2)))
    running: dict[str, Running] = field(default_factory=dict)
    number: int = 0

    async def step(self, what: str, *facts: Any) -> None:
        if what == "admit":
            await self._admit(*facts)
        elif what in {"delete", "finish"}:
            await self._end(what, *facts)
        elif what == "agent restarts":
            self.stand.restart(patience=0)
        elif what == "checkpoint is lost":
            self.stand.kubelet.pods = {name: {} for name in self.stand.kubelet.pods}
        elif what == "settle":
            await self.stand.bookkeeper.settle()
        elif what == "cache lags":
            self.stand.cache.lag()
        else:
            self.stand.cache.catch_up()

    async def _admit(self, family: Family, card: str, percent: int, failure: str) -> None:
        token = self._free(family, card)
        if token is None:
            return
        name, self.number = f"p{self.number:03}", self.number + 1
        limits = LIMITS[family]() if family in LIMITS else slices(percent)
        self.stand.add(pod(name, limits, phase="Pending", created=f"2026-01-01T00:00:00.{name[1:]}Z"))
        self.stand.tray.trouble = InjectionError("no") if failure == "injection" else None
        self.stand.api.no_trouble()
        self.stand.api.trouble("merge_patch", FAILURES.get(failure))
        try:
            await self.stand.admit(name, family, [token])
        except RefusalError:
            self.stand.phase(name, "Failed")
            del self.stand.kubelet.pods["default", name]
            return
        self.stand.phase(name, "Running")
        self.running[name] = Running(family, card, percent)

    def _free(self, family: Family, card: str) -> str | None:
        """What the kubelet thinks is free."""
        held = {
            token
            for containers in self.stand.kubelet.pods.values()
            for by_resource in containers.values()
            for token in by_resource.get(RESOURCES[family], ())
        }
        step = 160_000 if family is Family.SHARED else 1
        tokens = (ids(card, index=index * step)[0] for index in range(TOKENS[family]))
        return next((token for token in tokens if token not in held), None)

    async def _end(self, what: str, choice: int) -> None:
        if not self.running:
            return
        name = sorted(self.running)[choice % len(self.running)]
        del self.running[name]
        if what == "delete":
            self.stand.remove(name)
        else:
            self.stand.phase(name, "Succeeded")
            self.stand.kubelet.pods.pop(("default", name), None)

    def check(self) -> None:
        for card in CARDS:
            here = [each for each in self.running.values() if each.card == card]
            assert len({each.family for each in here}) <= 1
            assert sum(each.family is Family.EXCLUSIVE for each in here) <= 1
            assert sum(each.family is Family.SHARED for each in here) <= 10
            assert sum(each.percent for each in here if each.family is Family.SLICED) <= 100

    async def settled(self) -> None:
        """Nothing leaks: the ledger is what runs."""
        self.stand.api.no_trouble()
        self.stand.cache.catch_up()
        self.stand.now += UNSEEN + 1  # a Pod that no cache ever showed is waited for until then
        await self.stand.bookkeeper.settle()
        await self.stand.bookkeeper.settle()
        for card in CARDS:
            here = [each for each in self.running.values() if each.card == card]
            used = {Family.EXCLUSIVE: 100, Family.SHARED: 10}
            assert self.stand.percent(card) == sum(used.get(each.family, each.percent) for each in here)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(steps, max_size=30))
def test_no_card_is_given_twice_and_none_leaks(sequence: list[tuple[Any, ...]]) -> None:
    async def played() -> None:
        world = World()
        world.stand.restart(patience=0)
        for step in sequence:
            await world.step(*step)
            world.check()
        await world.settled()

    asyncio.run(played())
