"""Once everything is as it should be, nobody of ours writes anything."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from devcluster.handle import RunningCluster
from tests.e2e.audit import OURS, AuditLog, Written
from tests.e2e.forms import seconds
from tests.e2e.waiting import eventually

AT_REST = 3.0
"""Seconds without a write after which whatever an earlier test has set off is done."""


async def written_within(log: AuditLog, seconds: float) -> Written | None:
    """The first write, as soon as there is one."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            async for written in log.follow():
                return written
    return None


async def test_operator_and_agents_write_nothing_while_nothing_happens(cluster: RunningCluster) -> None:
    log = AuditLog(cluster.layout, user=OURS)
    await eventually(lambda: written_within(log, AT_REST), when=lambda written: written is None, within=60)
    assert await written_within(log, seconds(short=20, full=60)) is None
