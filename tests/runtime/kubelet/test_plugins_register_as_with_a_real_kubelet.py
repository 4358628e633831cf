from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import grpc
import pytest
from grpc import aio

from devcluster.kubelet import plugin as plugins
from gpustack_op.agent.proto.deviceplugin_pb2 import DevicePluginOptions
from tests.runtime.kubelet.bench import CARD, Bench, pod
from tests.runtime.kubelet.plugin import FakePlugin, devices
from tests.runtime.kubelet.stand import Stand


async def refused(plugin: FakePlugin, **how: str) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(aio.AioRpcError) as caught:
        await plugin.register(**how)  # type: ignore[arg-type]
    return caught.value.code(), str(caught.value.details())


async def test_the_plugin_is_called_back_before_the_answer_and_its_list_is_asked_for_after_it(bench: Bench) -> None:
    plugin = await bench.unregistered()
    await plugin.register()
    assert plugin.calls[0] == ("options", [])
    plugin.offer(devices("a", "b"))
    await bench.offers(2)
    assert [name for name, _ in plugin.calls] == ["options", "lists"]


async def test_only_this_version_is_taken(bench: Bench) -> None:
    plugin = await bench.unregistered()
    text = 'requested API version "v1" is not supported by kubelet. Supported version is ["v1beta1"]'
    assert await refused(plugin, version="v1") == (grpc.StatusCode.UNKNOWN, text)


@pytest.mark.parametrize("name", ["gpu", "kubernetes.io/gpu", "a.kubernetes.io/gpu", "example.com/", "requests.a/b"])
async def test_only_names_with_a_foreign_domain_are_taken(bench: Bench, name: str) -> None:
    plugin = await bench.unregistered(resource=name)
    assert await refused(plugin) == (grpc.StatusCode.UNKNOWN, f'the ResourceName "{name}" is invalid')


async def test_a_plugin_that_does_not_serve_cannot_register(simulated: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "DIAL", 0.2)
    plugin = FakePlugin(simulated.folders.plugins)
    text = "failed to dial device plugin: context deadline exceeded"
    assert await refused(plugin) == (grpc.StatusCode.UNKNOWN, text)


async def test_options_count_only_when_the_plugin_is_asked_for_them(bench: Bench) -> None:
    plugin = await bench.unregistered()
    plugin.prefers = ["a"]
    await plugin.register(options=DevicePluginOptions(get_preferred_allocation_available=True))
    await bench.told(plugin, "a", "b")
    assert await bench.admit(pod("1", main={CARD: 1})) == ""
    assert plugin.asked("preferred") == []


async def test_a_later_plugin_of_the_resource_is_asked_from_then_on_and_the_last_list_wins(bench: Bench) -> None:
    old = await bench.plugin("a", "b", "c")
    new = await bench.plugin("x", "y", endpoint="new.sock")
    await bench.told(old, "a")
    assert await bench.admit(pod("1", main={CARD: 1})) == ""
    assert old.asked("allocate") == []
    assert new.asked("allocate") == [["a"]]


async def test_the_end_of_an_old_plugin_closes_the_new_one(bench: Bench) -> None:
    old = await bench.plugin("a")
    new = await bench.plugin("x", "y", endpoint="new.sock")
    await old.stop()
    await bench.offers(0, 2)
    await asyncio.wait_for(new.stream_ended.wait(), 20)
    assert await bench.admit(pod("1", main={CARD: 1})) == (
        f"no healthy devices present; cannot allocate unhealthy devices {CARD}"
    )


async def test_a_new_plugin_that_registers_again_is_back(bench: Bench) -> None:
    old = await bench.plugin("a")
    new = await bench.plugin("x", "y", endpoint="new.sock")
    await old.stop()
    await bench.offers(0, 2)
    await new.register()
    await bench.told(new, "x", "y")


async def test_a_start_removes_sockets_and_nothing_else(bench: Bench) -> None:
    folder = bench.folders.plugins
    (folder / "file").write_text("stays")
    (folder / "folder").mkdir()
    await bench.stop()
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(folder / "left.sock"))
    await bench.start()
    assert sorted(path.name for path in folder.iterdir()) == ["file", "folder", "kubelet.sock"]


async def test_folders_are_closed_to_strangers(bench: Bench) -> None:
    assert bench.folders.plugins.stat().st_mode & 0o777 == 0o750


async def test_the_registration_socket_is_another_after_a_restart(bench: Bench) -> None:
    """By its inode, or by its time where the number is used again, plugins see that they must register."""
    before = identity(bench.folders.registration)
    await bench.restart()
    assert identity(bench.folders.registration) != before


def identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_ino, found.st_ctime_ns
