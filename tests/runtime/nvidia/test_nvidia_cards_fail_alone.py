"""What happens to one card costs no other; what happens to the driver is known for what it is; all of it passes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic

import pytest

from gpustack_op.agent.announcements import Announcements
from gpustack_op.agent.detector.base import DetectionError
from gpustack_op.agent.detector.nvidia import NvidiaDetector
from gpustack_op.agent.monitor import Monitor
from gpustack_op.api.worker import Devices
from tests.nvml.machine import A10G, A100_40, H100, LOST, MISMATCH, NOT_LOADED, T4, UNKNOWN, MockMachine
from tests.runtime.nvidia.conftest import Detectors
from tests.waiting import until


def health(nvidia: NvidiaDetector) -> list[bool]:
    return [card.healthy for card in nvidia.detect().cards]


def ailments(nvidia: NvidiaDetector) -> list[str]:
    return [card.ailment for card in nvidia.detect().cards]


async def seen(nvidia: NvidiaDetector, question: Callable[[NvidiaDetector], object], answer: object) -> None:
    async def look() -> bool:
        try:
            return await asyncio.to_thread(question, nvidia) == answer
        except DetectionError:
            return False

    await until(look, seconds=10, every=0.02)


# --- One card -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [LOST, 16, UNKNOWN, 28])
async def test_a_lost_card_is_sick_alone_and_comes_back(
    nvidia: NvidiaDetector, machine: MockMachine, code: int
) -> None:
    machine.cards(T4, T4)
    assert health(nvidia) == [True, True]
    machine.fails("nvmlDeviceGetMemoryInfo_v2", code, card=1)
    assert ailments(nvidia)[1].endswith(f"(NVML error {code})")
    assert health(nvidia)[0] is True
    machine.fails("nvmlDeviceGetMemoryInfo_v2", None, card=1)
    await seen(nvidia, health, [True, True])


async def test_a_card_that_falls_off_its_bus_comes_back_when_the_driver_has_found_it(
    nvidia: NvidiaDetector, machine: MockMachine
) -> None:
    machine.cards(T4, A10G)
    assert health(nvidia) == [True, True]
    machine.loses(1)
    await seen(nvidia, lambda detector: [card.uuid for card in detector.detect().cards if card.healthy], ["GPU-0"])
    machine.finds(1)
    await seen(nvidia, health, [True, True])


def test_uncorrected_memory_errors_make_a_card_sick(nvidia: NvidiaDetector, machine: MockMachine) -> None:
    machine.cards(T4, T4)
    machine.card(1, {"eccErrors": 2})
    assert ailments(nvidia) == ["", "2 uncorrected errors in its memory"]


async def test_a_card_whose_driver_hangs_is_sick_alone(nvidia: NvidiaDetector, machine: MockMachine) -> None:
    machine.cards(T4, T4)
    assert health(nvidia) == [True, True]
    machine.hangs("nvmlDeviceGetMigMode", 2, card=1)
    await seen(nvidia, health, [True, False])
    machine.card(0, {"eccErrors": 1})
    begun = monotonic()
    assert health(nvidia) == [False, False]
    assert monotonic() - begun < 1
    machine.hangs("nvmlDeviceGetMigMode", None, card=1)
    await seen(nvidia, health, [False, True])


def test_a_card_that_hangs_from_the_start_holds_up_nobody(nvidia: NvidiaDetector, machine: MockMachine) -> None:
    machine.cards(T4, T4)
    machine.hangs("nvmlDeviceGetUUID", 1, card=0)
    found = nvidia.detect()
    assert [card.uuid for card in found.cards] == ["GPU-1"]
    assert found.broken[0].startswith("nvidia accelerator 0: it has not answered")


# --- Events -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("xid", [48, 63, 74, 79, 94, 95, 119, 7])
async def test_an_xid_makes_its_card_sick(nvidia: NvidiaDetector, machine: MockMachine, xid: int) -> None:
    machine.cards(T4, T4)
    nvidia.detect()
    await registered(nvidia, machine)
    machine.xid(1, xid)
    await seen(nvidia, ailments, ["", f"the driver has told of Xid {xid}"])
    await seen(nvidia, health, [True, True])


async def test_an_xid_of_an_application_is_no_fault_of_the_card(nvidia: NvidiaDetector, machine: MockMachine) -> None:
    machine.cards(T4, T4)
    nvidia.detect()
    await registered(nvidia, machine)
    for xid in (13, 31, 43, 45, 68, 109):
        machine.xid(0, xid)
    machine.xid(1, 79)
    await seen(nvidia, ailments, ["", "the driver has told of Xid 79"])


def test_a_driver_without_events_is_polled(nvidia: NvidiaDetector, machine: MockMachine) -> None:
    machine.cards(T4)
    machine.fails("nvmlEventSetCreate", 3)
    assert health(nvidia) == [True]
    machine.card(0, {"eccErrors": 1})
    assert health(nvidia) == [False]


async def registered(nvidia: NvidiaDetector, machine: MockMachine) -> None:
    """Each card's events are heard: Xids that came before are nobody's news."""

    async def look() -> bool:
        numbers = range(len(nvidia.detect().cards))
        for number in numbers:
            machine.xid(number, 99)
        return [card.healthy for card in nvidia.detect().cards] == [False for _ in numbers]

    await until(look, seconds=10, every=0.05)
    await seen(nvidia, lambda detector: all(health(detector)), True)


# --- The driver ---------------------------------------------------------------------------------------------------


async def test_a_driver_that_is_reloaded_is_found_again(nvidia: NvidiaDetector, machine: MockMachine) -> None:
    machine.cards(T4, T4)
    nvidia.detect()
    machine.set(down=NOT_LOADED)
    with pytest.raises(DetectionError):
        nvidia.detect()
    machine.reloads_driver("590.48.01")
    await seen(nvidia, lambda detector: [card.driver_version for card in detector.detect().cards], ["590.48.01"] * 2)
    assert health(nvidia) == [True, True]


async def test_a_driver_that_was_replaced_under_us_gets_its_own_library(
    nvidia: NvidiaDetector, machine: MockMachine
) -> None:
    machine.cards(T4)
    nvidia.detect()
    machine.set(down=MISMATCH)
    with pytest.raises(DetectionError, match="mismatch"):
        nvidia.detect()
    machine.reloads_driver("590.48.01")
    await seen(nvidia, health, [True])


async def test_a_driver_that_comes_late_is_found(nvidia: NvidiaDetector, machine: MockMachine) -> None:
    machine.cards(T4)
    machine.set(down=NOT_LOADED)
    assert health(nvidia) == []
    machine.set(down=None)
    await seen(nvidia, health, [True])


async def test_a_library_that_hangs_while_it_is_opened_is_waited_for(
    nvidia: NvidiaDetector, machine: MockMachine
) -> None:
    machine.cards(T4)
    machine.hangs("nvmlInitWithFlags", 1)
    assert nvidia.detect().broken == ("nvidia: nvmlInit: no answer within 0.3 s",)
    machine.hangs("nvmlInitWithFlags", None)
    await seen(nvidia, health, [True])


def test_a_mixed_node_keeps_the_drivers_order(nvidia: NvidiaDetector, machine: MockMachine) -> None:
    machine.cards(T4, A10G, A100_40 | {"mig": 1}, H100)
    assert [card.name for card in nvidia.detect().cards] == [
        "Tesla T4",
        "NVIDIA A10G",
        "NVIDIA A100-SXM4-40GB",
        "NVIDIA H100 80GB HBM3",
    ]


# --- With the monitor ---------------------------------------------------------------------------------------------


class Report:
    def devices(self) -> Devices | None:
        return None

    def recovery_period(self) -> float:
        return 0.0

    async def wait_synced(self) -> None: ...


class Silent:
    def event(self, *_arguments: object, **_more: object) -> None: ...


async def test_a_card_that_hangs_does_not_block_the_loop(detectors: Detectors, machine: MockMachine) -> None:
    machine.cards(T4, T4)
    monitor = Monitor(detectors(), Report(), Announcements(Silent(), lambda: None), wake=lambda: None, period=0.01)
    await monitor.look()
    machine.hangs("nvmlDeviceGetMigMode", 2, card=0)
    longest = asyncio.create_task(_longest_pause())

    async def is_sick() -> bool:
        await monitor.look()
        assert monitor.sight is not None
        return [known.health.unhealthy for known in monitor.sight.roster] == [True, False]

    await until(is_sick, seconds=10, every=0.02)
    machine.hangs("nvmlDeviceGetMigMode", None, card=0)
    longest.cancel()
    with pytest.raises(asyncio.CancelledError):
        await longest


async def _longest_pause() -> None:
    """Fails when the loop does not run for a second."""
    while True:
        begun = monotonic()
        await asyncio.sleep(0.01)
        assert monotonic() - begun < 1
