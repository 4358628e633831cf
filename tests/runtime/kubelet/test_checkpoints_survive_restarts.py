from __future__ import annotations

import json

from devcluster.kubelet.checkpoint import read
from tests.runtime.kubelet.plugin import FakePlugin
from tests.runtime.kubelet.stand import CARD, Stand, pod

SICK_ALL = f"no healthy devices present; cannot allocate unhealthy devices {CARD}"


async def back(stand: Stand, plugin: FakePlugin, *ids: str) -> FakePlugin:
    """The plugin sees the restart, serves anew and registers."""
    await plugin.serve()
    await plugin.register()
    await stand.told(plugin, *ids)
    return plugin


async def test_the_file_has_the_real_kubelets_shape(stand: Stand) -> None:
    plugin = await stand.plugin("a", "b")
    assert await stand.admit(pod("1", main={CARD: 2})) == ""
    written = json.loads(stand.folders.checkpoint.read_text())
    (entry,) = written["Data"]["PodDeviceEntries"]
    assert sorted(entry["DeviceIDs"]["-1"]) == ["a", "b"]
    assert (entry["PodUID"], entry["ContainerName"], entry["ResourceName"]) == ("1", "main", CARD)
    assert sorted(written["Data"]["RegisteredDevices"][CARD]) == ["a", "b"]
    assert plugin.asked("allocate") == [["a", "b"]]


async def test_after_a_restart_resources_offer_nothing_until_their_plugin_is_back(stand: Stand) -> None:
    plugin = await stand.plugin("a", "b")
    await stand.restart()
    assert stand.devices.offer().capacity == {CARD: 0}
    assert await stand.admit(pod("1", main={CARD: 1})) == SICK_ALL
    await back(stand, plugin, "a", "b")


async def test_after_a_restart_holders_keep_their_ids(stand: Stand) -> None:
    plugin = await stand.plugin("a", "b")
    holder = pod("1", main={CARD: 1})
    assert await stand.admit(holder) == ""
    (held,) = await stand.held("1")
    await stand.restart()
    await back(stand, plugin, "a", "b")
    assert await stand.admit(holder) == ""
    assert await stand.held("1") == [held]
    assert await stand.admit(pod("2", main={CARD: 1})) == ""
    assert await stand.held("2") != [held]
    given = await stand.devices.given(holder, holder.containers[0])
    assert given.environment == {"IDS": held}


async def test_a_container_that_runs_needs_no_plugin_while_the_kubelet_starts(stand: Stand) -> None:
    await stand.plugin("a")
    holder = pod("1", main={CARD: 1})
    assert await stand.admit(holder) == ""
    await stand.restart(running=[("1", "main")], all_known=False)
    assert await stand.admit(holder) == ""
    assert await stand.held("1") == ["a"]


async def test_a_container_that_does_not_run_needs_its_plugin_at_once(stand: Stand) -> None:
    await stand.plugin("a")
    holder = pod("1", main={CARD: 1})
    assert await stand.admit(holder) == ""
    await stand.restart(all_known=False)
    assert await stand.admit(holder) == SICK_ALL


async def test_nothing_is_given_back_before_all_pods_are_known(stand: Stand) -> None:
    plugin = await stand.plugin("a")
    assert await stand.admit(pod("1", main={CARD: 1})) == ""
    del stand.pods["1"]
    await stand.restart(all_known=False)
    await back(stand, plugin, "a")
    late = pod("2", main={CARD: 1})
    assert "Requested: 1, Available: 0" in await stand.admit(late)
    stand.devices.all_pods_known()
    assert await stand.admit(late) == ""


async def test_without_a_checkpoint_the_ids_of_running_pods_are_given_to_the_next(stand: Stand) -> None:
    plugin = await stand.plugin("a")
    holder = pod("1", main={CARD: 1})
    assert await stand.admit(holder) == ""
    stand.folders.lose_checkpoint()
    await stand.restart(running=[("1", "main")], all_known=False)
    await back(stand, plugin, "a")
    assert await stand.admit(holder) == ""
    stand.devices.all_pods_known()
    assert await stand.held("1") == []
    assert await stand.admit(pod("2", main={CARD: 1})) == ""
    assert await stand.held("2") == ["a"]


async def test_what_is_not_recorded_is_allocated_anew_when_its_container_restarts(stand: Stand) -> None:
    plugin = await stand.plugin("a")
    holder = pod("1", main={CARD: 1})
    assert await stand.admit(holder) == ""
    stand.folders.lose_checkpoint()
    await stand.restart(running=[("1", "main")])
    await back(stand, plugin, "a")
    given = await stand.devices.given(holder, holder.containers[0])
    assert given.environment == {"IDS": "a"}
    assert plugin.asked("allocate") == [["a"], ["a"]]


async def test_a_corrupt_checkpoint_is_said_and_the_start_goes_on_with_nothing(stand: Stand) -> None:
    await stand.plugin("a")
    assert await stand.admit(pod("1", main={CARD: 1})) == ""
    stand.folders.corrupt_checkpoint()
    await stand.restart()
    assert "goes on without its checkpoint: checkpoint is corrupted" in stand.said
    assert stand.devices.offer().capacity == {}
    assert await stand.held("1") == []


async def test_a_checkpoint_that_cannot_be_written_refuses_the_pod_though_the_plugin_has_answered(stand: Stand) -> None:
    plugin = await stand.plugin("a")
    stand.folders.refuse_checkpoints()
    assert 'failed to write checkpoint file "kubelet_internal_checkpoint"' in await stand.admit(
        pod("1", main={CARD: 1})
    )
    assert plugin.asked("allocate") == [["a"]]
    stand.folders.refuse_checkpoints(False)
    assert await stand.admit(pod("2", main={CARD: 1})) == ""
    recorded = read(stand.folders)
    assert recorded is not None
    assert [entry.pod for entry in recorded.entries] == ["2"]
