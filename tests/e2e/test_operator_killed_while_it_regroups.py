"""An operator that dies anywhere between a flip of CPU awareness and its outcome comes to the same outcome.

Most deaths come right after one of its writes, as the audit log tells it, so that they are between two writes.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from devcluster.handle import RunningCluster
from devcluster.process import Identity
from gpustack_op.runtime.client import Client
from tests.e2e.audit import OPERATOR, AuditLog
from tests.e2e.end_state import EndState, difference, end_state, flavors_to_the_byte
from tests.e2e.forms import times
from tests.e2e.looking import RESOURCE_FLAVORS, SYSTEM, Looking
from tests.e2e.waiting import eventually

told = logging.getLogger(__name__)

AWARENESS = "instance-type-aware-cpu-manufacturer"
AWARE_TYPES = (
    "gpustack--amd-epyc-7r13-linux-amd64",
    "gpustack--amd-epyc-7r32--nvidia-a10g-linux-amd64",
    "gpustack--amd-epyc-7r32-linux-amd64",
    "gpustack--intel-xeon-platinum-8259cl--nvidia-tesla-t4-linux-amd64",
    "gpustack--intel-xeon-platinum-8259cl-linux-amd64",
)
AT_REST = 2.0
"""Seconds without a write after which the operator has done all it will."""

AT_ANY_MOMENT = 0.2
"""Share of the deaths that come after a random time instead of after a write."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a flip leads to when nobody disturbs it, and in how many writes of the operator."""

    state: EndState
    writes: int


@dataclass(frozen=True, slots=True)
class Regrouping:
    """A cluster in which awareness is turned on and off."""

    cluster: RunningCluster
    looking: Looking

    async def flip(self, value: str) -> None:
        patch = f'{{"spec":{{"value":"{value}"}}}}'
        await self.cluster.kubectl("-n", SYSTEM, "patch", "setting", AWARENESS, "--type=merge", "-p", patch)

    async def undisturbed(self, value: str) -> Outcome:
        log = AuditLog(self.cluster.layout, user=OPERATOR)
        await self.flip(value)
        writes = 0
        while fresh := await writes_within(log, AT_REST):
            writes += fresh
        return Outcome(await end_state(self.looking), writes)

    async def kill_on_the_way(self, value: str, writes: int) -> str:
        """Flips, kills the operator before it is done, starts it again; says when it died."""
        log = AuditLog(self.cluster.layout, user=OPERATOR)
        operator = Identity.read(self.cluster.layout.pids / "operator")
        assert operator is not None
        flip = asyncio.create_task(self.flip(value))
        if random.random() < AT_ANY_MOMENT:
            await flip
            moment = random.uniform(0, 1.5)
            await asyncio.sleep(moment)
            when = f"{moment:.2f} s later"
        else:
            place = random.randint(1, writes - 1)
            when = f"after write {await nth_write(log, place)} of {writes}"
        os.kill(operator.pid, signal.SIGKILL)
        await flip
        await self.cluster.restart("operator")
        return when

    async def reaches(self, expected: EndState) -> None:
        """Gets there, and stays there once the operator is at rest."""
        await eventually(lambda: self._missing(expected), when=lambda missing: not missing, within=40)
        log = AuditLog(self.cluster.layout, user=OPERATOR)
        await eventually(lambda: writes_within(log, AT_REST), when=lambda writes: not writes)
        assert await self._missing(expected) == []

    async def _missing(self, expected: EndState) -> list[str]:
        return difference(expected, await end_state(self.looking))

    async def take_aware_types_away(self) -> None:
        await self.cluster.kubectl("delete", "instancetypes", "--ignore-not-found", *AWARE_TYPES)


async def writes_within(log: AuditLog, seconds: float) -> int:
    log.look()
    await asyncio.sleep(seconds)
    return len(log.look())


async def nth_write(log: AuditLog, place: int) -> int:
    """Returns right after the n-th write; earlier only if there are fewer, and gives how many there were."""
    seen = 0
    try:
        async with asyncio.timeout(AT_REST) as patience:
            async for _ in log.follow():
                seen += 1
                if seen == place:
                    break
                patience.reschedule(asyncio.get_running_loop().time() + AT_REST)
    except TimeoutError:
        pass
    return seen


@pytest.fixture
async def regrouping(cluster: RunningCluster, client: Client) -> AsyncIterator[Regrouping]:
    regrouping = Regrouping(cluster, Looking(client))
    before = await end_state(regrouping.looking)
    yield regrouping
    await regrouping.flip("false")
    await regrouping.take_aware_types_away()
    await regrouping.reaches(before)


@pytest.mark.timeout(1800)
async def test_a_killed_operator_comes_to_the_same_end(regrouping: Regrouping) -> None:
    collapsed = await end_state(regrouping.looking)
    flavors = await flavors_to_the_byte(regrouping.looking)
    outcomes = {value: await regrouping.undisturbed(value) for value in ("true", "false")}
    for death in range(1, times(short=5, full=30) + 1):
        value = ("false", "true")[death % 2]
        if value == "true":
            await regrouping.take_aware_types_away()
            await regrouping.reaches(collapsed)
        log = AuditLog(regrouping.cluster.layout, user=OPERATOR)
        when = await regrouping.kill_on_the_way(value, outcomes[value].writes)
        await regrouping.reaches(outcomes[value].state)
        told.info("death %d: awareness to %s, killed %s; %d writes in both lives", death, value, when, len(log.look()))
    assert await flavors_to_the_byte(regrouping.looking) == flavors, f"{RESOURCE_FLAVORS.kind}s were written"
