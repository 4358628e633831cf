"""An empty answer is an answer; a file or a kernel that cannot be read is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpustack_op.agent.detector.base import Detection, DetectionError, Host
from gpustack_op.agent.detector.none import NoDetector
from gpustack_op.agent.detector.registry import DETECTORS, OptionError, Options, detector
from gpustack_op.agent.detector.simulated import SimulatedDetector
from gpustack_op.scheduling.device_groups import RawCard

MACHINE = """\
node: n
bootId: first
cpu: {vendor: AMD, name: AMD EPYC 7R32, cores: 4}
memory: 64Gi
driver: {version: "580.159.03", cuda: 13000}
"""
T4 = (
    "{manufacturer: nvidia, uuid: GPU-%d, name: Tesla T4, minor: 0, pciBusId: '00:1E.0', memoryMib: 15360,"
    " busWidth: 256, eccEnabled: true, cores: 2560, computeCapability: '7.5', migMode: false}"
)


def with_cards(*entries: str) -> str:
    return MACHINE + f"accelerators: [{', '.join(entries)}]\n"


def replaced(path: Path, text: str) -> None:
    """As an editor does it: a new file takes the old one's place."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "machine.yaml"
    path.write_text(with_cards(T4 % 1, T4 % 2))
    return path


def uuids(detection: Detection) -> list[str]:
    return [card.uuid for card in detection.cards]


def test_raw_readings_are_passed_on_and_nothing_is_derived(path: Path) -> None:
    assert SimulatedDetector(path).detect().cards[0] == RawCard(
        manufacturer="nvidia",
        uuid="GPU-1",
        name="Tesla T4",
        minor=0,
        pci_bus_id="00:1E.0",
        memory_mib=15360,
        bus_width=256,
        ecc_enabled=True,
        cores=2560,
        compute_capability=(7, 5),
        mig_mode=False,
        healthy=True,
        driver_version="580.159.03",
        cuda_driver_version=13000,
    )


def test_what_the_driver_does_not_tell_stays_unknown(path: Path) -> None:
    driverless = with_cards("{manufacturer: nvidia, uuid: GPU-1}").replace("driver:", "driver: {} #")
    path.write_text(driverless)
    assert SimulatedDetector(path).detect().cards == (RawCard(manufacturer="nvidia", uuid="GPU-1"),)


def test_a_change_counts_once_it_has_settled(path: Path) -> None:
    simulated = SimulatedDetector(path)
    simulated.detect()
    replaced(path, with_cards(T4 % 2))
    assert uuids(simulated.detect()) == ["GPU-1", "GPU-2"]
    assert uuids(simulated.detect()) == ["GPU-2"]


def test_a_file_caught_half_written_pulls_no_card(path: Path) -> None:
    simulated = SimulatedDetector(path)
    simulated.detect()
    path.write_text("")
    assert uuids(simulated.detect()) == ["GPU-1", "GPU-2"]
    path.write_text(with_cards(T4 % 1, T4 % 2, T4 % 3))
    assert uuids(simulated.detect()) == ["GPU-1", "GPU-2"]
    assert uuids(simulated.detect()) == ["GPU-1", "GPU-2", "GPU-3"]


def test_no_card_is_an_answer(path: Path) -> None:
    path.write_text(MACHINE)
    assert SimulatedDetector(path).detect() == Detection()


def test_a_broken_card_is_told_of_beside_the_others(path: Path) -> None:
    path.write_text(with_cards(T4 % 1, "{manufacturer: nvidia, uuid: GPU-2, memoryMib: -1}"))
    detection = SimulatedDetector(path).detect()
    assert uuids(detection) == ["GPU-1"]
    assert detection.broken == (f"{path}: accelerators[1] (GPU-2): memoryMib -1: write a whole number >= 0",)


@pytest.mark.parametrize("damage", ["node: [", "", "node: n\n"])
def test_a_file_that_cannot_be_used_is_no_answer(path: Path, damage: str) -> None:
    simulated = SimulatedDetector(path)
    simulated.detect()
    path.write_text(damage)
    simulated.detect()
    with pytest.raises(DetectionError, match=str(path)):
        simulated.detect()
    with pytest.raises(DetectionError, match=str(path)):
        simulated.host()


def test_a_file_that_goes_and_comes_back_is_read_again(path: Path) -> None:
    simulated = SimulatedDetector(path)
    simulated.detect()
    path.unlink()
    simulated.detect()
    with pytest.raises(DetectionError, match="cannot be read"):
        simulated.detect()
    path.write_text(with_cards(T4 % 9))
    with pytest.raises(DetectionError):
        simulated.detect()
    assert uuids(simulated.detect()) == ["GPU-9"]


def test_a_file_that_is_broken_from_the_start_is_no_answer(tmp_path: Path) -> None:
    simulated = SimulatedDetector(tmp_path / "none.yaml")
    with pytest.raises(DetectionError, match="cannot be read"):
        simulated.detect()


def test_the_host_is_the_inventorys(path: Path) -> None:
    host = SimulatedDetector(path).host()
    assert (host.cpu.name, host.boot_id) == ("AMD EPYC 7R32", "first")


def test_without_a_detector_the_kernel_tells_the_cpu_and_there_is_no_card(tmp_path: Path) -> None:
    (tmp_path / "proc/sys/kernel/random").mkdir(parents=True)
    (tmp_path / "proc/cpuinfo").write_text("processor : 0\nvendor_id : GenuineIntel\n")
    (tmp_path / "proc/sys/kernel/random/boot_id").write_text("3f0c\n")
    host = NoDetector(tmp_path).host()
    assert (host.cpu.vendor, host.boot_id) == ("Intel", "3f0c")
    assert NoDetector(tmp_path).detect() == Detection()


def test_a_kernel_that_cannot_be_asked_is_no_answer(tmp_path: Path) -> None:
    with pytest.raises(DetectionError, match="the kernel cannot be asked"):
        NoDetector(tmp_path).host()


def test_every_row_makes_its_detector(path: Path) -> None:
    assert list(DETECTORS) == ["none", "nvidia", "simulated"]
    assert isinstance(detector("none", Options()).host(), Host)
    assert uuids(detector("simulated", Options(inventory=path)).detect()) == ["GPU-1", "GPU-2"]


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        pytest.param("acme", Options(), "--detector acme: no such detector; give one of none, nvidia, sim", id="row"),
        pytest.param("simulated", Options(), "give its file with --inventory FILE", id="no inventory"),
        pytest.param("none", Options(inventory=Path("f")), "--inventory f: only --detector simulated", id="inventory"),
        pytest.param("none", Options(nvml_library=Path("f")), "--nvml-library f: only --detector nvidia", id="library"),
    ],
)
def test_a_detector_that_cannot_be_made_says_what_to_give(name: str, options: Options, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        detector(name, options)
