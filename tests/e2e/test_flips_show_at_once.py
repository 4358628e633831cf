"""What a person changes is in the tables before they have typed the command that shows them."""

from __future__ import annotations

from collections.abc import Callable

from gpustack_op.runtime.client import Client
from tests.e2e.flips import Replay, slowest
from tests.e2e.walkthrough import Walkthrough


async def test_of_twenty_flips_nineteen_show_within_two_seconds_and_none_after_four(
    walkthrough: Walkthrough, client: Client, tell: Callable[[str], None]
) -> None:
    times = await Replay(walkthrough, client, tell).rounds(5)
    assert len(times) == 20
    assert len(slowest(times, beyond=2)) <= 1
    assert slowest(times, beyond=4) == []
