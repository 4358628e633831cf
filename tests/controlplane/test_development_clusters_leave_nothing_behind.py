"""Development clusters with real binaries: whatever happens to one, nothing of it stays, and its neighbour goes on."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from devcluster import daemon, state
from devcluster.build import Binaries, built
from devcluster.cluster import Cluster, Scope
from devcluster.errors import AlreadyUpError, ClusterError, NotUpError, PartError
from devcluster.handle import RunningCluster
from devcluster.paths import Layout
from devcluster.process import Identity
from tests.controlplane.processes import in_group, of_cluster
from tests.waiting import until


@dataclass
class Started:
    """A cluster that a test may do anything to."""

    cluster: RunningCluster
    supervisor: int

    @property
    def layout(self) -> Layout:
        return self.cluster.layout

    def pid(self, part: str) -> int:
        identity = Identity.read(self.layout.pids / part)
        assert identity is not None
        return identity.pid


@pytest.fixture
def started() -> Iterator[Started]:
    layout = Layout.of(f"test-left-{os.getpid()}")
    process = daemon.up(layout, scope=Scope.CONTROL_PLANE, say=print, attached=True)
    yield Started(RunningCluster(layout), process.pid)
    daemon.down(layout, print)
    process.wait()
    state.forget(layout)


async def test_a_killed_part_is_named_and_the_neighbour_still_answers(
    started: Started, control_plane: RunningCluster
) -> None:
    group = started.pid("kube-apiserver")
    await started.cluster.kill("kube-apiserver")
    parts = {part.part: part for part in await started.cluster.status()}
    assert parts["kube-apiserver"].state == "ended"
    assert parts["kube-apiserver"].ending == "killed by SIGKILL"
    assert parts["kube-apiserver"].tail
    assert parts["etcd"].state == "running"
    assert "kube-apiserver killed by SIGKILL" in started.layout.log("supervisor").read_text()
    assert in_group(group) == []
    assert "kube-system" in await control_plane.kubectl("get", "namespaces")


async def test_a_killed_part_runs_again_when_asked_to(started: Started) -> None:
    await started.cluster.kill("kube-apiserver")
    await started.cluster.restart("kube-apiserver")
    assert "default" in await started.cluster.kubectl("get", "namespaces")


def test_down_leaves_no_process(started: Started) -> None:
    groups = [started.pid("etcd"), started.pid("kube-apiserver")]
    assert set(groups) < set(of_cluster(started.layout))
    daemon.down(started.layout, print)
    assert [in_group(group) for group in groups] == [[], []]
    assert of_cluster(started.layout) == []
    assert {path.name for path in started.layout.root.iterdir()} == {"lock", "logs", "audit.log"}


def test_nothing_outlives_a_killed_supervisor(started: Started) -> None:
    groups = [started.pid("etcd"), started.pid("kube-apiserver")]
    os.kill(started.supervisor, signal.SIGKILL)
    os.waitpid(started.supervisor, 0)
    daemon.down(started.layout, print)
    assert [in_group(group) for group in groups] == [[], []]
    assert not state.is_up(started.layout)


async def test_a_cluster_ends_when_its_folder_is_removed(started: Started) -> None:
    groups = [started.pid("etcd"), started.pid("kube-apiserver")]
    state.forget(started.layout)

    async def gone() -> bool:
        return [in_group(group) for group in groups] == [[], []]

    await until(gone)


async def test_a_name_is_used_once_at_a_time(control_plane: RunningCluster) -> None:
    with pytest.raises(AlreadyUpError, match="is up; end it with: hack/dev"):
        daemon.up(control_plane.layout, scope=Scope.CONTROL_PLANE, say=print)
    assert "default" in await control_plane.kubectl("get", "namespaces")


async def test_a_command_that_fails_says_why_and_hurts_nothing(control_plane: RunningCluster) -> None:
    with pytest.raises(ClusterError, match="no part is named kubelet; there are etcd, kube-apiserver"):
        await control_plane.restart("kubelet")
    assert [part.state for part in await control_plane.status()] == ["running", "running"]


async def test_a_cluster_that_is_not_up_says_how_to_start_it(tmp_path: Path) -> None:
    layout = Layout.of("nobody", state=tmp_path)
    layout.root.mkdir()
    with pytest.raises(NotUpError, match="start it with: hack/dev --name nobody up"):
        await RunningCluster(layout).status()


async def test_a_half_failed_start_names_the_culprit_and_leaves_no_process(tmp_path: Path) -> None:
    binaries = with_broken_api_server(built(), tmp_path)
    layout = Layout.of("half", state=tmp_path)
    said: list[str] = []
    with pytest.raises(PartError, match="kube-apiserver exited with status 3 while starting") as failure:
        await Cluster(layout, binaries, scope=Scope.CONTROL_PLANE, say=said.append).start()
    assert "this disk is full" in str(failure.value)
    assert of_cluster(layout) == []
    assert not state.is_up(layout)
    assert layout.log("etcd").exists()


def with_broken_api_server(binaries: Binaries, folder: Path) -> Binaries:
    broken = folder / "kubernetes"
    broken.mkdir()
    program = broken / "kube-apiserver"
    program.write_text("#!/bin/sh\necho this disk is full\nexit 3\n")
    program.chmod(0o755)
    return Binaries({**binaries.folders, "kubernetes": broken})
