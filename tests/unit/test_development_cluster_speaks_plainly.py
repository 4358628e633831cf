"""Names, command lines, progress and tables of the development cluster: what a person types and reads."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from devcluster.__main__ import split
from devcluster.build import check_space, key
from devcluster.cli import table
from devcluster.compile import Progress
from devcluster.errors import BuildError, ClusterError
from devcluster.paths import Layout, cache_root, selected_name
from devcluster.supervisor import PartStatus
from devcluster.versions import ETCD, KUBERNETES, MODULES


@pytest.mark.parametrize("name", ["demo", "a", "a-1", "x" * 40])
def test_a_cluster_may_be_named(name: str) -> None:
    assert Layout.of(name, state=Path("/state")).root == Path("/state") / name


@pytest.mark.parametrize("name", ["", "-a", "a-", "A", "a/b", "..", "a b", "x" * 41])
def test_a_name_that_is_no_folder_name_is_refused(name: str) -> None:
    with pytest.raises(ClusterError, match="use at most 40 lower-case letters"):
        Layout.of(name)


def test_the_variable_selects_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUSTACK_DEVCLUSTER", "other")
    assert selected_name() == "other"
    monkeypatch.setenv("GPUSTACK_DEVCLUSTER", "")
    assert selected_name() == "demo"


def test_the_cache_follows_the_desktop_convention(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/fast/cache")
    assert cache_root() == Path("/fast/cache/gpustack-op")


@pytest.mark.parametrize(
    ("arguments", "ours", "theirs"),
    [
        pytest.param(["status"], ["status"], [], id="no kubectl"),
        pytest.param(
            ["kubectl", "-n", "a", "get", "pods", "--help"],
            ["kubectl"],
            ["-n", "a", "get", "pods", "--help"],
            id="options after it are kubectl's",
        ),
        pytest.param(["--name", "x", "kubectl", "get"], ["--name", "x", "kubectl"], ["get"], id="a name before it"),
        pytest.param(["kubectl", "get", "kubectl"], ["kubectl"], ["get", "kubectl"], id="the first one counts"),
    ],
)
def test_what_follows_kubectl_is_passed_on(arguments: list[str], ours: list[str], theirs: list[str]) -> None:
    assert split(arguments) == (ours, theirs)


def test_progress_is_one_line_a_minute_where_nobody_watches() -> None:
    now = [100.0]
    stream = io.StringIO()
    tell = Progress(stream, clock=lambda: now[0]).part(2, 7, "kueue")
    for second in (100, 101, 159, 161, 200):
        now[0] = second
        tell(False)
    now[0] = 231
    tell(True)
    assert stream.getvalue().splitlines() == [
        "part 2 of 7: kueue, 0 min 00 s elapsed",
        "part 2 of 7: kueue, 1 min 01 s elapsed",
        "part 2 of 7: kueue, 2 min 11 s elapsed, built",
    ]


def test_a_full_disk_is_said_before_anything_is_built(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"GB are free, a first build needs 1000000 GB; free some space"):
        check_space([tmp_path], needed=10**15)


def test_binaries_are_kept_apart_by_what_they_are_built_with() -> None:
    here = key(ETCD, "go1.26.8 linux/amd64")
    assert here == key(ETCD, "go1.26.8 linux/amd64")
    assert len({here, key(ETCD, "go1.26.9 linux/amd64"), key(KUBERNETES, "go1.26.8 linux/amd64")}) == 3


def test_every_program_has_one_module() -> None:
    programs = [program for module in MODULES for program in module.binaries]
    assert sorted(programs) == [
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kubectl",
        "kueue",
        "nfd-master",
    ]


def test_the_version_stamp_is_what_clients_parse() -> None:
    assert KUBERNETES.ldflags == (
        "-s -w -X k8s.io/component-base/version.gitVersion=v1.36.3 -X k8s.io/component-base/version.gitMajor=1 "
        "-X k8s.io/component-base/version.gitMinor=36 -X k8s.io/component-base/version.gitTreeState=clean"
    )


def test_the_table_tells_what_runs_and_how_the_rest_ended() -> None:
    parts = [
        PartStatus("etcd", "running", 42, 12.6),
        PartStatus("kueue", "ended", ending="killed by SIGKILL", tail="last words"),
        PartStatus("nfd-master", "stopped"),
    ]
    assert table(parts).splitlines() == [
        "PART         STATE     PID   SINCE",
        "etcd         running   42    13 s",
        "kueue        ended           killed by SIGKILL",
        "nfd-master   stopped",
    ]
