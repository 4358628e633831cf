"""Plans of steps: as much at once as the order allows, and nothing more after a failure."""

from __future__ import annotations

import asyncio

import pytest

from devcluster.steps import Steps


async def test_a_step_begins_when_those_before_it_are_done() -> None:
    seen: list[str] = []
    gate = asyncio.Event()

    async def gated() -> None:
        await gate.wait()
        seen.append("gated")

    async def note(what: str) -> None:
        seen.append(what)
        gate.set()

    async with Steps() as steps:
        first = steps.add(gated)
        steps.add(note, "after", after=[first])
        steps.add(note, "meanwhile")
    assert seen == ["meanwhile", "gated", "after"]


async def test_the_first_failure_is_raised_as_it_is_and_ends_the_rest() -> None:
    seen: list[str] = []

    async def fail() -> None:
        raise ValueError("this one")

    async def wait_for_ever() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    async def never() -> None:
        seen.append("begun")

    async def plan() -> None:
        async with Steps() as steps:
            steps.add(wait_for_ever)
            steps.add(never, after=[steps.add(fail)])

    with pytest.raises(ValueError, match="this one"):
        await asyncio.wait_for(plan(), 5)
    assert seen == ["cancelled"]
