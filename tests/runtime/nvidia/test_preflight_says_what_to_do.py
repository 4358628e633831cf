"""Before it starts an agent says, a line each, what the node lacks and what to do about it."""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gpustack_op.agent.detector.nvidia import NvidiaDetector
from gpustack_op.agent.preflight import Finding, Folders, Preflight
from tests.nvml.machine import MISMATCH, T4, MockMachine


class Hanging:
    def inspect(self) -> list[Finding]:
        threading.Event().wait(10)
        return []


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A machine whose driver's modules are loaded."""
    (tmp_path / "root/proc/driver/nvidia").mkdir(parents=True)
    (tmp_path / "root/proc/modules").write_text("nvidia_uvm 1 0 - Live\nnvidia 1 1 nvidia_uvm, Live\n")
    told = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.03  Release Build\n"
    (tmp_path / "root/proc/driver/nvidia/version").write_text(told)
    return tmp_path / "root"


def driver(nvidia: NvidiaDetector) -> list[str]:
    return [str(finding) for finding in Preflight(nvidia, None).findings()]


def test_a_machine_that_is_ready(nvidia: NvidiaDetector, machine: MockMachine, root: Path) -> None:
    machine.cards(T4)
    assert driver(nvidia) == [
        "ok    kernel modules: nvidia, nvidia_uvm",
        "ok    driver: version 580.159.03, library 580.159.03, 1 accelerators",
    ]
    assert len(nvidia.detect().cards) == 1


def test_modules_that_are_not_loaded(nvidia: NvidiaDetector, root: Path) -> None:
    (root / "proc/modules").write_text("nvidia 1 0 - Live\n")
    assert driver(nvidia)[0] == "amiss kernel modules: not loaded: nvidia_uvm; run modprobe nvidia_uvm"


def test_a_driver_without_cards(nvidia: NvidiaDetector, root: Path) -> None:
    assert driver(nvidia)[1].startswith("amiss driver: version 580.159.03, library 580.159.03, 0 accelerators; look")


def test_a_driver_that_was_installed_over_the_running_one(
    nvidia: NvidiaDetector, machine: MockMachine, root: Path
) -> None:
    machine.set(down=MISMATCH)
    assert driver(nvidia)[1].endswith("reload the kernel modules: a driver was installed over the running one")


def test_a_library_that_is_not_there(tmp_path: Path) -> None:
    told = driver(NvidiaDetector(tmp_path / "none.so", root=tmp_path))[1]
    assert told.startswith(f"amiss driver: dlopen: {tmp_path}/none.so cannot be loaded")
    assert told.endswith("or name the library with --nvml-library")


# --- The kubelet and the disk -------------------------------------------------------------------------------------


@pytest.fixture
def folders() -> Iterator[Folders]:
    """Of a node whose kubelet runs; short, since sockets have short names."""
    with tempfile.TemporaryDirectory(prefix="gp") as short:
        yield from _listening(Folders(Path(short, "k"), Path(short, "state"), Path(short, "locks")))


def _listening(made: Folders) -> Iterator[Folders]:
    with closing(socket.socket(socket.AF_UNIX)) as plugins, closing(socket.socket(socket.AF_UNIX)) as resources:
        for folder, listening in ((made.plugins, plugins), (made.pod_resources, resources)):
            folder.mkdir(parents=True)
            listening.bind(str(folder / "kubelet.sock"))
        yield made


def amiss(folders: Folders) -> list[str]:
    return [f"{one.subject}: {one.remedy}" for one in Preflight(object(), folders).findings() if one.remedy]


def test_a_node_that_is_ready(folders: Folders) -> None:
    assert amiss(folders) == []


def test_a_kubelet_that_does_not_run(folders: Folders) -> None:
    (folders.pod_resources / "kubelet.sock").unlink()
    assert amiss(folders) == ["kubelet's pod resources: start the kubelet, or mount its folder into the agent's Pod"]


def test_a_folder_of_something_else(folders: Folders) -> None:
    (folders.plugins / "kubelet.sock").unlink()
    (folders.plugins / "kubelet.sock").write_text("")
    assert amiss(folders) == ["kubelet's device plugins: name the kubelet's own folder with --kubelet-root"]


def test_a_folder_that_cannot_be_written(folders: Folders) -> None:
    folders.state.write_text("a file")
    assert amiss(folders) == [
        "write access: make it writable and leave room on its disk, or name another folder with --state-dir"
    ]


def test_a_path_that_is_too_long_for_a_socket() -> None:
    deep = Folders(Path("/" + "k" * 100))
    assert amiss(deep)[-1] == "socket paths: shorten --kubelet-root by 45 bytes, with a link if need be"


def test_a_driver_that_hangs_is_told_and_holds_up_nothing(folders: Folders) -> None:
    (told,) = [str(one) for one in Preflight(Hanging(), None, patience=0.05).findings()]
    assert told.startswith("amiss driver: has not answered within 0.05 s; look into the kernel's log")


# --- As a command -------------------------------------------------------------------------------------------------


def command(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gpustack_op.cli.agent", "preflight", *map(str, arguments)],
        cwd=Path(__file__).parents[3],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_command_needs_no_cluster(folders: Folders, machine: MockMachine, library: Path) -> None:
    machine.cards(T4)
    where = ("--kubelet-root", folders.kubelet, "--state-dir", folders.state, "--lock-dir", folders.locks)
    ended = command("--detector", "nvidia", "--nvml-library", library, *where, **machine.environment)
    assert "ok    driver: version 580.159.03" in ended.stdout
    assert f"ok    kubelet's pod resources: {folders.pod_resources}/kubelet.sock\n" in ended.stdout


def test_the_command_fails_when_something_is_amiss(tmp_path: Path, library: Path) -> None:
    ended = command("--detector", "nvidia", "--nvml-library", library, "--kubelet-root", tmp_path)
    assert ended.returncode == 1
    assert "amiss kubelet's device plugins: " in ended.stdout


def test_an_agent_without_cards_needs_nothing() -> None:
    ended = command("--detector", "none")
    assert (ended.returncode, ended.stdout.strip()) == (0, "")
