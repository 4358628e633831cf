from __future__ import annotations

from tests.runtime.kubelet.bench import CARD, Bench, pod
from tests.runtime.kubelet.plugin import FakePlugin
from tests.runtime.kubelet.stand import Stand

SICK_ALL = f"no healthy devices present; cannot allocate unhealthy devices {CARD}"


async def back(bench: Bench, plugin: FakePlugin, *ids: str) -> FakePlugin:
    """The plugin sees the restart, serves anew and registers."""
    await plugin.serve()
    await plugin.register()
    await bench.told(plugin, *ids)
    return plugin


async def test_the_file_has_the_real_kubelets_shape(bench: Bench) -> None:
    plugin = await bench.plugin("a", "b")
    assert await bench.admit(pod("1", main={CARD: 2})) == ""
    (entry,) = bench.checkpoint()["PodDeviceEntries"]
    assert sorted(entry["DeviceIDs"]["-1"]) == ["a", "b"]
    assert (entry["PodUID"], entry["ContainerName"], entry["ResourceName"]) == ("1", "main", CARD)
    assert sorted(bench.checkpoint()["RegisteredDevices"][CARD]) == ["a", "b"]
    assert plugin.asked("allocate") == [["a", "b"]]


async def test_after_a_restart_resources_offer_nothing_until_their_plugin_is_back(bench: Bench) -> None:
    plugin = await bench.plugin("a", "b")
    await bench.restart()
    assert (await bench.offer()).capacity == {CARD: 0}
    assert await bench.admit(pod("1", main={CARD: 1})) == SICK_ALL
    await back(bench, plugin, "a", "b")


async def test_after_a_restart_holders_keep_their_ids(bench: Bench) -> None:
    plugin = await bench.plugin("a", "b")
    holder = pod("1", main={CARD: 1})
    assert await bench.admit(holder) == ""
    (held,) = await bench.held("1")
    await bench.restart()
    await back(bench, plugin, "a", "b")
    assert await bench.admit(holder) == ""
    assert await bench.held("1") == [held]
    assert await bench.admit(pod("2", main={CARD: 1})) == ""
    assert await bench.held("2") != [held]
    assert await bench.given(holder, "main") == {"IDS": held}


async def test_a_container_that_runs_needs_no_plugin_while_the_kubelet_starts(bench: Bench) -> None:
    await bench.plugin("a")
    holder = pod("1", main={CARD: 1})
    assert await bench.admit(holder) == ""
    await bench.restart(running=[("1", "main")], all_known=False)
    assert await bench.admit(holder) == ""
    assert await bench.held("1") == ["a"]


async def test_a_container_that_does_not_run_needs_its_plugin_at_once(bench: Bench) -> None:
    await bench.plugin("a")
    holder = pod("1", main={CARD: 1})
    assert await bench.admit(holder) == ""
    await bench.restart(all_known=False)
    assert await bench.admit(holder) == SICK_ALL


async def test_nothing_is_given_back_before_all_pods_are_known(bench: Bench) -> None:
    plugin = await bench.plugin("a")
    assert await bench.admit(pod("1", main={CARD: 1})) == ""
    del bench.pods["1"]
    await bench.restart(all_known=False)
    await back(bench, plugin, "a")
    late = pod("2", main={CARD: 1})
    assert "Requested: 1, Available: 0" in await bench.admit(late)
    await bench.all_known()
    assert await bench.admit(late) == ""


async def test_without_a_checkpoint_the_ids_of_running_pods_are_given_to_the_next(bench: Bench) -> None:
    plugin = await bench.plugin("a")
    holder = pod("1", main={CARD: 1})
    assert await bench.admit(holder) == ""
    bench.folders.lose_checkpoint()
    await bench.restart(running=[("1", "main")], all_known=False)
    await back(bench, plugin, "a")
    assert await bench.admit(holder) == ""
    await bench.all_known()
    assert await bench.held("1") == []
    assert await bench.admit(pod("2", main={CARD: 1})) == ""
    assert await bench.held("2") == ["a"]


async def test_what_is_not_recorded_is_allocated_anew_when_its_container_restarts(bench: Bench) -> None:
    plugin = await bench.plugin("a")
    holder = pod("1", main={CARD: 1})
    assert await bench.admit(holder) == ""
    bench.folders.lose_checkpoint()
    await bench.restart(running=[("1", "main")])
    await back(bench, plugin, "a")
    assert await bench.given(holder, "main") == {"IDS": "a"}
    assert plugin.asked("allocate") == [["a"], ["a"]]


async def test_a_corrupt_checkpoint_is_said_and_the_start_goes_on_with_nothing(simulated: Stand) -> None:
    await simulated.plugin("a")
    assert await simulated.admit(pod("1", main={CARD: 1})) == ""
    simulated.folders.corrupt_checkpoint()
    await simulated.restart()
    assert "goes on without its checkpoint: checkpoint is corrupted" in simulated.said
    assert (await simulated.offer()).capacity == {}
    assert await simulated.held("1") == []


async def test_a_checkpoint_that_cannot_be_written_refuses_the_pod_though_the_plugin_has_answered(bench: Bench) -> None:
    plugin = await bench.plugin("a")
    bench.refuse_checkpoints()
    assert 'failed to write checkpoint file "kubelet_internal_checkpoint"' in await bench.admit(
        pod("1", main={CARD: 1})
    )
    assert plugin.asked("allocate") == [["a"]]
    bench.refuse_checkpoints(False)
    assert await bench.admit(pod("2", main={CARD: 1})) == ""
    assert [entry["PodUID"] for entry in bench.checkpoint()["PodDeviceEntries"]] == ["2"]
