from __future__ import annotations

import asyncio

from gpustack_op.agent.proto.deviceplugin_pb2 import Device
from tests.runtime.kubelet.bench import CARD, Bench, pod
from tests.runtime.kubelet.plugin import SICK, devices
from tests.runtime.kubelet.stand import Stand
from tests.waiting import until

LARGE = [Device(ID=f"{number:0100d}", health="Healthy") for number in range(45_000)]
"""More than 4 MiB."""


async def test_each_message_is_the_whole_list(bench: Bench) -> None:
    plugin = await bench.plugin("a", "b", "c")
    plugin.offer(devices("b"))
    await bench.offers(1, 1)


async def test_an_id_that_is_held_is_forgotten_like_any_other(bench: Bench) -> None:
    plugin = await bench.plugin("a", "b")
    assert await bench.admit(pod("1", main={CARD: 2})) == ""
    plugin.offer(devices("a"))
    await bench.offers(1, 1)
    assert await bench.held("1") == ["a", "b"]


async def test_capacity_counts_sick_devices_and_allocatable_does_not(bench: Bench) -> None:
    plugin = await bench.plugin("a")
    plugin.offer([*devices("a", "b"), *devices("c", health=SICK)])
    await bench.offers(2, 3)


async def test_any_other_word_for_health_is_sick(bench: Bench) -> None:
    plugin = await bench.plugin("a")
    plugin.offer([*devices("a"), *devices("b", health="healthy"), *devices("c", health="")])
    await bench.offers(1, 3)


async def test_duplicates_collapse_and_an_id_of_two_minds_counts_twice(bench: Bench) -> None:
    plugin = await bench.plugin("z")
    plugin.offer([*devices("a", "a", "b"), *devices("b", health=SICK)])
    await bench.offers(2, 3)


async def test_an_empty_id_is_an_id_and_a_long_one_too(bench: Bench) -> None:
    plugin = await bench.plugin("z")
    plugin.offer(devices("", "x" * 200))
    await bench.offers(2, 2)


async def test_a_message_over_four_mebibytes_ends_the_stream_and_the_old_ids_stay_in_capacity(bench: Bench) -> None:
    plugin = await bench.plugin("a", "b")
    plugin.offer(LARGE)
    await bench.offers(0, 2)
    await asyncio.wait_for(plugin.stream_ended.wait(), 20)


async def test_a_held_device_that_turns_sick_shows_in_its_pod(simulated: Stand) -> None:
    plugin = await simulated.plugin("a")
    holder = pod("1", main={CARD: 1})
    assert await simulated.admit(holder) == ""
    plugin.offer(devices("a", health=SICK))
    await simulated.offers(0, 1)
    assert simulated.unwell == ["1"]
    health = [{"resourceID": "a", "health": "Unhealthy"}]
    assert simulated.devices.health(holder, "main") == ({"name": CARD, "resources": health},)


async def test_the_end_of_the_stream_makes_all_devices_sick(bench: Bench) -> None:
    plugin = await bench.plugin("a", "b")
    plugin.end_stream()
    await bench.offers(0, 2)


async def test_the_resource_stays_for_five_minutes_and_is_then_dropped_once(simulated: Stand) -> None:
    plugin = await simulated.plugin("a", "b")
    plugin.end_stream()
    await simulated.offers(0, 2)
    simulated.now = 299.0
    assert (await simulated.offer()).capacity == {CARD: 2}
    simulated.now = 301.0
    assert (await simulated.offer()).dropped == [CARD]
    assert (await simulated.offer()).dropped == []
    assert (await simulated.offer()).capacity == {}


async def test_a_plugin_that_comes_back_in_time_offers_again(simulated: Stand) -> None:
    plugin = await simulated.plugin("a", "b")
    plugin.end_stream()
    await simulated.offers(0, 2)
    simulated.now = 299.0
    await plugin.register()
    await simulated.told(plugin, "a", "b")
    simulated.now = 1000.0
    assert (await simulated.offer()).allocatable == {CARD: 2}


async def test_every_list_writes_the_checkpoint(bench: Bench) -> None:
    plugin = await bench.plugin("a")
    bench.folders.lose_checkpoint()
    plugin.offer(devices("a"))

    async def written() -> bool:
        return bench.folders.checkpoint.exists()

    await until(written, every=0.01)
