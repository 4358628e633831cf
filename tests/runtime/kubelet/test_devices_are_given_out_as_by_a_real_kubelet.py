from __future__ import annotations

import asyncio

import pytest

from gpustack_op.agent.proto.deviceplugin_pb2 import (
    CDIDevice,
    ContainerAllocateResponse,
    Device,
    DeviceSpec,
    Mount,
)
from tests.runtime.kubelet.bench import CARD, Bench, FailedError, container, pod
from tests.runtime.kubelet.plugin import devices
from tests.runtime.kubelet.stand import Stand

OTHER = "example.com/other"
SICK_ALL = f"no healthy devices present; cannot allocate unhealthy devices {CARD}"


async def test_one_call_for_each_resource_of_each_container(bench: Bench) -> None:
    cards = await bench.plugin("a", "b")
    others = await bench.plugin("x", resource=OTHER, endpoint="other.sock")
    assert await bench.admit(pod("1", main={CARD: 1, OTHER: 1}, side={CARD: 1})) == ""
    assert sorted(cards.asked("allocate")) == [["a"], ["b"]]
    assert others.asked("allocate") == [["x"]]


async def test_a_resource_that_no_plugin_has_listed_is_nobodys_business(bench: Bench) -> None:
    assert await bench.admit(pod("1", main={CARD: 1, "cpu": 4})) == ""


async def test_too_few_free_ids_refuse_the_pod(bench: Bench) -> None:
    plugin = await bench.plugin("a", "b")
    assert await bench.admit(pod("1", main={CARD: 1})) == ""
    assert await bench.admit(pod("2", main={CARD: 2})) == (
        f"requested number of devices unavailable for {CARD}. Requested: 2, Available: 1"
    )
    assert len(plugin.asked("allocate")) == 1


@pytest.mark.parametrize("count", [1, 0])
async def test_without_a_healthy_device_not_even_none_can_be_had(bench: Bench, count: int) -> None:
    plugin = await bench.plugin("a")
    plugin.end_stream()
    await bench.offers(0, 1)
    assert await bench.admit(pod("1", main={CARD: count})) == SICK_ALL


async def test_a_refusal_of_the_plugin_is_told_in_full_and_frees_the_ids(bench: Bench) -> None:
    plugin = await bench.plugin("a")
    plugin.refuses = "card a is taken"
    text = "rpc error: code = FailedPrecondition desc = card a is taken"
    assert await bench.admit(pod("1", main={CARD: 1})) == text
    plugin.refuses = ""
    assert await bench.admit(pod("2", main={CARD: 1})) == ""


async def test_an_answer_without_a_container_is_an_error(bench: Bench) -> None:
    plugin = await bench.plugin("a")
    plugin.answer = lambda ids: None
    assert (await bench.admit(pod("1", main={CARD: 1}))).startswith("no containers return in allocation response")


async def test_what_an_earlier_container_was_given_stays_until_the_pod_is_inactive(bench: Bench) -> None:
    await bench.plugin("a", "b")
    others = await bench.plugin("x", resource=OTHER, endpoint="other.sock")
    others.refuses = "no"
    first = pod("1", main={CARD: 2}, side={OTHER: 1})
    assert "desc = no" in await bench.admit(first, stays=True)
    assert await bench.held("1") == ["a", "b"]
    del bench.pods["1"]
    assert await bench.admit(pod("2", main={CARD: 2})) == ""


async def test_the_preference_is_asked_for_the_whole_number_and_followed(bench: Bench) -> None:
    plugin = await bench.plugin("a", "b", "c", get_preferred_allocation_available=True)
    plugin.prefers = ["c", "b"]
    assert await bench.admit(pod("1", main={CARD: 2})) == ""
    assert plugin.asked("preferred") == [["a", "b", "c"]]
    assert plugin.asked("must") == [[]]
    assert plugin.preferred_sizes == [2]
    assert await bench.held("1") == ["b", "c"]


async def test_the_preference_is_asked_for_even_when_there_is_no_choice(bench: Bench) -> None:
    plugin = await bench.plugin("a", get_preferred_allocation_available=True)
    plugin.prefers = ["a"]
    assert await bench.admit(pod("1", main={CARD: 1})) == ""
    assert plugin.asked("preferred") == [["a"]]


async def test_unknown_preferences_are_dropped_and_missing_ones_filled(bench: Bench) -> None:
    plugin = await bench.plugin("a", "b", "c", get_preferred_allocation_available=True)
    plugin.prefers = ["never heard of", "c"]
    assert await bench.admit(pod("1", main={CARD: 2})) == ""
    held = await bench.held("1")
    assert "c" in held
    assert len(held) == 2


async def test_an_error_of_the_preference_refuses_the_pod(bench: Bench) -> None:
    await bench.plugin("a", get_preferred_allocation_available=True)
    assert await bench.admit(pod("1", main={CARD: 1})) == (
        "device plugin GetPreferredAllocation rpc failed with err: rpc error: code = Internal desc = no idea"
    )


async def test_ids_of_plain_init_containers_are_used_again_first(bench: Bench) -> None:
    plugin = await bench.plugin("a", "b", "c")
    assert await bench.admit(pod("1", init=[container("first", {CARD: 2})], main={CARD: 1}, side={CARD: 2})) == ""
    first, main, side = plugin.asked("allocate")
    assert set(main) < set(first)
    assert set(first) - set(main) < set(side)
    assert set(main).isdisjoint(side)


async def test_what_must_be_in_the_preference_are_the_ids_that_are_used_again(bench: Bench) -> None:
    plugin = await bench.plugin("a", "b", get_preferred_allocation_available=True)
    plugin.prefers = ["a"]
    assert await bench.admit(pod("1", init=[container("first", {CARD: 1})], main={CARD: 2})) == ""
    assert plugin.asked("must") == [[], ["a"]]
    assert plugin.asked("preferred") == [["a", "b"], ["a", "b"]]
    assert plugin.preferred_sizes == [1, 2]


async def test_sidecars_keep_their_ids(bench: Bench) -> None:
    plugin = await bench.plugin("a", "b")
    sidecar = container("side", {CARD: 1}, restartPolicy="Always")
    assert await bench.admit(pod("1", init=[sidecar], main={CARD: 1})) == ""
    side, main = plugin.asked("allocate")
    assert side != main


async def test_pods_that_are_not_active_any_more_give_back_without_the_plugin_being_told(bench: Bench) -> None:
    plugin = await bench.plugin("a")
    assert await bench.admit(pod("1", main={CARD: 1})) == ""
    del bench.pods["1"]
    assert await bench.admit(pod("2", main={CARD: 1})) == ""
    assert [name for name, _ in plugin.calls] == ["options", "lists", "allocate", "allocate"]


async def test_a_container_that_is_asked_for_again_keeps_what_it_has(bench: Bench) -> None:
    plugin = await bench.plugin("a", "b")
    first = pod("1", main={CARD: 1})
    assert await bench.admit(first) == ""
    assert await bench.admit(first) == ""
    assert len(plugin.asked("allocate")) == 1


async def test_another_number_for_the_same_container_is_refused(bench: Bench) -> None:
    await bench.plugin("a", "b")
    assert await bench.admit(pod("1", main={CARD: 1})) == ""
    assert await bench.admit(pod("1", main={CARD: 2})) == (
        f'pod "1" container "main" changed request for resource "{CARD}" from 1 to 2'
    )


async def test_sick_devices_are_not_confirmed(bench: Bench) -> None:
    plugin = await bench.plugin("a", "b")
    first = pod("1", main={CARD: 2})
    assert await bench.admit(first) == ""
    await bench.told(plugin, "a")
    assert await bench.admit(first) == (
        f"previously allocated devices are no longer healthy; cannot allocate unhealthy devices {CARD}"
    )


async def test_pod_resources_can_be_asked_while_a_plugin_allocates(simulated: Stand) -> None:
    """And tell the Pod that is being admitted, without ids yet."""
    plugin = await simulated.plugin("a")
    seen: list[list[str]] = []

    async def look() -> None:
        seen.append(await simulated.held("1"))

    plugin.holds = look
    assert await simulated.admit(pod("1", main={CARD: 1})) == ""
    assert seen == [[]]
    assert await simulated.held("1") == ["a"]


async def test_a_plugin_that_hangs_is_waited_for(bench: Bench) -> None:
    plugin = await bench.plugin("a")
    hanging, go_on = asyncio.Event(), asyncio.Event()

    async def hang() -> None:
        hanging.set()
        await go_on.wait()

    plugin.holds = hang
    admission = asyncio.create_task(bench.admit(pod("1", main={CARD: 1})))
    await asyncio.wait_for(hanging.wait(), 20)
    assert not admission.done()
    go_on.set()
    assert await admission == ""


async def test_a_container_is_given_all_its_plugins_say(simulated: Stand) -> None:
    cards = await simulated.plugin("a")
    others = await simulated.plugin("x", resource=OTHER, endpoint="other.sock")
    cards.answer = lambda ids: ContainerAllocateResponse(
        envs={"CARDS": "a"},
        mounts=[Mount(container_path="/lib/card.so", host_path="/opt/card.so", read_only=True)],
        devices=[DeviceSpec(container_path="/dev/card0", host_path="/dev/card7", permissions="rw")],
    )
    others.answer = lambda ids: ContainerAllocateResponse(
        annotations={"a": "b"}, cdi_devices=[CDIDevice(name="example.com/other=x")]
    )
    wanting = pod("1", main={CARD: 1, OTHER: 1})
    assert await simulated.admit(wanting) == ""
    given = await simulated.all_given(wanting, "main")
    assert given.environment == {"CARDS": "a"}
    assert [(each.container_path, each.host_path, each.read_only) for each in given.mounts] == [
        ("/lib/card.so", "/opt/card.so", True)
    ]
    assert [(each.container_path, each.host_path, each.permissions) for each in given.devices] == [
        ("/dev/card0", "/dev/card7", "rw")
    ]
    assert given.annotations == {"a": "b"}
    assert given.cdi_devices == ("example.com/other=x",)


async def test_of_one_name_only_one_value_reaches_the_container(bench: Bench) -> None:
    cards = await bench.plugin("a")
    others = await bench.plugin("x", resource=OTHER, endpoint="other.sock")
    cards.answer = lambda ids: ContainerAllocateResponse(envs={"WHO": "cards"})
    others.answer = lambda ids: ContainerAllocateResponse(envs={"WHO": "others"})
    wanting = pod("1", main={CARD: 1, OTHER: 1})
    assert await bench.admit(wanting) == ""
    assert (await bench.given(wanting, "main"))["WHO"] in ("cards", "others")


async def test_a_start_is_told_to_plugins_that_want_it(bench: Bench) -> None:
    plugin = await bench.plugin("a", pre_start_required=True)
    wanting = pod("1", main={CARD: 1})
    assert await bench.admit(wanting) == ""
    await bench.given(wanting, "main")
    assert plugin.asked("start") == [["a"]]


async def test_an_error_at_a_start_is_told(bench: Bench) -> None:
    plugin = await bench.plugin("a", pre_start_required=True)
    wanting = pod("1", main={CARD: 1})
    assert await bench.admit(wanting) == ""
    plugin.refuses = "not now"
    text = "device plugin PreStartContainer rpc failed with err: rpc error: code = FailedPrecondition desc = not now"
    with pytest.raises(FailedError, match=text):
        await bench.given(wanting, "main")


async def test_ids_of_several_numa_nodes_are_told_once_for_each(simulated: Stand) -> None:
    plugin = await simulated.plugin("z")
    two = Device(ID="a", health="Healthy")
    two.topology.nodes.add(ID=0)
    two.topology.nodes.add(ID=1)
    plugin.offer([two, *devices("b")])
    await simulated.offers(2, 2)
    assert await simulated.admit(pod("1", main={CARD: 2})) == ""
    assert await simulated.held("1") == ["a", "a", "b"]
