"""Once everything is as it should be, nobody of ours writes anything."""

from __future__ import annotations

import asyncio

import pytest

from devcluster.handle import RunningCluster
from tests.e2e.audit import OURS, AuditLog, Written
from tests.e2e.forms import seconds


async def first_write(log: AuditLog) -> Written:
    async for written in log.follow():
        return written
    raise AssertionError("unreachable")


async def quiet_for(cluster: RunningCluster, wanted: float, *, within: float) -> None:
    """Whatever an earlier test has set off comes to rest, and stays so."""
    async with asyncio.timeout(within):
        while True:
            try:
                await asyncio.wait_for(first_write(AuditLog(cluster.layout, user=OURS)), wanted)
            except TimeoutError:
                return


async def test_operator_and_agents_write_nothing_while_nothing_happens(cluster: RunningCluster) -> None:
    await quiet_for(cluster, 3, within=60)
    log = AuditLog(cluster.layout, user=OURS)
    with pytest.raises(TimeoutError):
        written = await asyncio.wait_for(first_write(log), seconds(short=20, full=60))
        pytest.fail(f"written in a settled cluster: {written}")
