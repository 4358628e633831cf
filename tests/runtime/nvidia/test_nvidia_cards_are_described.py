"""What NVIDIA's library says of a card becomes a group of the Devices, by the functions that serve every detector."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpustack_op.agent.detector.base import DetectionError
from gpustack_op.agent.detector.nvidia import NvidiaDetector
from gpustack_op.scheduling.device_groups import device_groups, groups_json
from tests.nvml.machine import A10G, A100_40, A100_80, H100, NO_PERMISSION, NOT_LOADED, T4, MockMachine
from tests.runtime.nvidia.conftest import QUICK

VGPU = 2
"""The library's number for a guest's virtual card."""

Outline = list[tuple[str, int, int]]


def outline(detector: NvidiaDetector) -> Outline:
    """Id, memory and number of cards of each group."""
    groups = device_groups(detector.detect().cards)
    return [(group.id, group.memory, len(group.accelerators or ())) for group in groups]


def statuses(detector: NvidiaDetector) -> list[Any]:
    groups = groups_json(device_groups(detector.detect().cards))
    return [card["status"] for group in groups for card in group["accelerators"]]


def profiles(detector: NvidiaDetector) -> list[tuple[str, int, int, int, list[int]]]:
    """Of the first card: name, MiB, most instances, memory slices, starts."""
    return [
        (p.name, p.memory_mib, p.count, p.memory_slices, [place.start for place in p.placements or ()])
        for p in detector.detect().cards[0].profiles
    ]


SLICEABLE = {"unhealthy": False, "logicalSliced": {"count": 128, "coresPercentageOvercommit": True}}
PLAIN = {"unhealthy": False}


def test_a_card_is_described_whole(nvidia: NvidiaDetector, machine: MockMachine, tmp_path: Path) -> None:
    near = tmp_path / "root/sys/bus/pci/devices/0000:00:1e.0"
    near.mkdir(parents=True)
    (near / "numa_node").write_text("1\n")
    (near / "local_cpulist").write_text("24-47\n")
    machine.cards(A10G | {"uuid": "GPU-e0587d2e", "pci": "00000000:00:1E.0"})
    assert groups_json(device_groups(nvidia.detect().cards)) == [
        {
            "id": "a10g",
            "manufacturer": "nvidia",
            "name": "NVIDIA A10G",
            "memory": 24563,
            "cores": 10240,
            "driverVersion": "580.159.03",
            "runtimeVersion": "13.0",
            "computeCapability": "8.6",
            "family": "Ampere",
            "accelerators": [
                {
                    "id": "GPU-e0587d2e",
                    "index": 0,
                    "physicalIndexes": [0],
                    "topology": {"pciBusId": "00000000:00:1E.0", "numaAffinity": "1", "cpuAffinity": "24-47"},
                    "status": SLICEABLE,
                }
            ],
            "acceleratorSlicedDetail": {"logical": {"count": 128, "coresPercentageOvercommit": True}},
        }
    ]


@pytest.mark.parametrize(
    ("facts", "group"),
    [
        pytest.param(T4, ("tesla-t4", 16384, 1), id="T4"),
        pytest.param(A10G, ("a10g", 24563, 1), id="A10G"),
        pytest.param(A10G | {"ecc": 0, "memory": 24564}, ("a10g", 24564, 1), id="A10G without ECC"),
        pytest.param(A100_40, ("a100-sxm4-40gb", 40960, 1), id="A100 40 GB"),
        pytest.param(A100_80, ("a100-sxm4-80gb", 81920, 1), id="A100 80 GB"),
        pytest.param(H100, ("h100-80gb-hbm3", 81559, 1), id="H100"),
        pytest.param(A10G | {"busWidth": None}, ("a10g", 23028, 1), id="bus width unreadable"),
        pytest.param(A10G | {"ecc": None}, ("a10g", 23028, 1), id="ECC unreadable"),
        pytest.param(A10G | {"computeCapability": None}, ("a10g", 23028, 1), id="capability unreadable"),
        pytest.param(A10G | {"error.nvmlDeviceGetMemoryInfo_v2": 13}, ("a10g", 24563, 1), id="old memory query"),
        pytest.param(A10G | {"error.nvmlDeviceGetMemoryInfo_v2": 25}, ("a10g", 24563, 1), id="unknown version of it"),
    ],
)
def test_every_product_has_its_group(
    nvidia: NvidiaDetector, machine: MockMachine, facts: dict[str, Any], group: tuple[str, int, int]
) -> None:
    machine.cards(facts)
    assert outline(nvidia) == [group]


def test_different_cards_of_one_node_are_different_groups(nvidia: NvidiaDetector, machine: MockMachine) -> None:
    v100: dict[str, Any] = {"name": "Tesla V100-PCIE", "busWidth": 4096, "computeCapability": "7.0"}
    small, large = v100 | {"memory": 16384}, v100 | {"memory": 32768}
    machine.cards(small, large, small, large, {"name": "GeForce GTX 1080 Ti", "memory": 11264})
    assert outline(nvidia) == [
        ("tesla-v100-pcie-16g", 16384, 2),
        ("tesla-v100-pcie-32g", 32768, 2),
        ("geforce-gtx-1080-ti", 11264, 1),
    ]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("NVIDIA L4", "NVIDIA L4", id="plain"),
        pytest.param("%f8%90%00NVIDIA", "PCI device 10de:27b8", id="no UTF-8"),
        pytest.param("NVIDIA%07L4", "PCI device 10de:27b8", id="a control character"),
        pytest.param("", "PCI device 10de:27b8", id="empty"),
    ],
)
def test_a_name_that_is_none_costs_nobody_anything(
    nvidia: NvidiaDetector, machine: MockMachine, name: str, expected: str
) -> None:
    machine.cards({"name": name, "memory": 23034, "pciDeviceId": 0x27B810DE}, T4)
    assert [card.name for card in nvidia.detect().cards] == [expected, "Tesla T4"]


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param({"name": "NVIDIA GB10"}, id="not supported"),
        pytest.param({"name": "NVIDIA GB10", "memory": 0}, id="total 0"),
    ],
)
def test_a_card_without_memory_of_its_own_is_listed_and_not_sliced(
    nvidia: NvidiaDetector, machine: MockMachine, facts: dict[str, Any]
) -> None:
    machine.cards(facts, T4)
    assert outline(nvidia) == [("gb10", 0, 1), ("tesla-t4", 16384, 1)]
    assert statuses(nvidia) == [PLAIN, SLICEABLE]


# --- Partitions ---------------------------------------------------------------------------------------------------


def test_the_partitions_of_an_a100(nvidia: NvidiaDetector, machine: MockMachine) -> None:
    machine.cards(A100_40 | {"mig": 1})
    assert profiles(nvidia) == [
        ("1g.5gb", 4864, 7, 1, [0, 1, 2, 3, 4, 5, 6]),
        ("2g.10gb", 9856, 3, 2, [0, 2, 4]),
        ("3g.20gb", 19968, 2, 4, [0, 4]),
        ("4g.20gb", 19968, 1, 4, [0]),
        ("7g.40gb", 40192, 1, 8, [0]),
        ("1g.5gb+me", 4864, 1, 1, [0, 1, 2, 3, 4, 5, 6]),
        ("1g.10gb", 9856, 4, 2, [0, 2, 4, 6]),
    ]


def test_a_driver_that_names_no_profile_gets_the_same_names(nvidia: NvidiaDetector, machine: MockMachine) -> None:
    machine.cards(H100 | {"mig": 1, "error.nvmlDeviceGetGpuInstanceProfileInfoV": 13})
    assert [name for name, *_ in profiles(nvidia)] == [
        *("1g.10gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"),
        "1g.20gb",
    ]


def test_a_profile_without_a_place_is_left_out(nvidia: NvidiaDetector, machine: MockMachine) -> None:
    machine.cards(A100_40 | {"mig": 1, "profile.0": "1g.5gb|19|1|4864|7|1|"})
    assert [name for name, *_ in profiles(nvidia)][:2] == ["2g.10gb", "3g.20gb"]


def test_a_card_in_the_partitioning_mode_is_not_sliced(nvidia: NvidiaDetector, machine: MockMachine) -> None:
    machine.cards(A100_40, A100_40 | {"mig": 1})
    whole, partitioned = statuses(nvidia)
    assert whole == SLICEABLE
    assert (partitioned.keys(), partitioned["physicalSliced"]["count"]) == ({"unhealthy", "physicalSliced"}, 7)


def test_a_mode_that_waits_for_a_reset_does_not_count(nvidia: NvidiaDetector, machine: MockMachine) -> None:
    machine.cards(A100_40 | {"migPending": 1})
    assert statuses(nvidia) == [SLICEABLE]


def test_a_change_of_mode_is_seen_at_the_next_look(nvidia: NvidiaDetector, machine: MockMachine) -> None:
    machine.cards(A100_40)
    assert profiles(nvidia) == []
    machine.card(0, {"mig": 1})
    assert len(profiles(nvidia)) == 7
    machine.card(0, {"mig": 0})
    assert statuses(nvidia) == [SLICEABLE]


def test_a_partitioned_card_that_names_no_profile_is_not_given_out_whole(
    nvidia: NvidiaDetector, machine: MockMachine
) -> None:
    machine.cards({"name": "NVIDIA A30", "memory": 24576, "mig": 1})
    (card,) = nvidia.detect().cards
    assert (card.healthy, card.ailment) == (False, "its partitioning mode is on, but it offers no partition")


# --- Guests -------------------------------------------------------------------------------------------------------


def test_a_guest_with_a_partition_has_one_whole_card_of_its_memory(
    nvidia: NvidiaDetector, machine: MockMachine
) -> None:
    facts: dict[str, Any] = {"mig": 1, "virtualization": VGPU, "profiles": ["1g.12gb|19|1|11008|1|1|"]}
    (uuid,) = machine.cards({"name": "GRID H100-1-12C", "memoryError": NO_PERMISSION, **facts})
    machine.carve(uuid, 1, 19, 0, 1)
    assert outline(nvidia) == [("grid-h100-1-12c", 11008, 1)]
    assert statuses(nvidia) == [PLAIN]


@pytest.mark.parametrize(
    ("facts", "group"),
    [
        pytest.param({"name": "NVIDIA A10-4Q", "virtualization": VGPU}, ("a10-4q", 4096, 1), id="virtual card"),
        pytest.param({"name": "NVIDIA A10"}, ("a10", 4096, 1), id="a fraction that says nothing"),
    ],
)
def test_a_guest_with_a_fraction_has_the_memory_it_was_given(
    nvidia: NvidiaDetector, machine: MockMachine, facts: dict[str, Any], group: tuple[str, int, int]
) -> None:
    machine.cards(facts | {"memory": 4096, "busWidth": 384, "computeCapability": "8.6"})
    machine.card(0, {"ecc": facts.get("virtualization", 0) and 1})
    assert outline(nvidia) == [group]
    assert "physicalSliced" not in statuses(nvidia)[0]


# --- Nothing to describe ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reading", ["nvmlDeviceGetUUID", "nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetHandleByIndex_v2"])
def test_a_card_that_cannot_be_read_is_named_and_the_others_are_used(
    nvidia: NvidiaDetector, machine: MockMachine, reading: str
) -> None:
    machine.cards(T4, A10G, T4)
    machine.fails(reading, 999, card=1)
    found = nvidia.detect()
    assert [card.uuid for card in found.cards] == ["GPU-0", "GPU-2"]
    assert found.broken[0].startswith("nvidia accelerator 1: nvmlDeviceGet")


def test_before_the_first_answer_silence_means_no_cards(nvidia: NvidiaDetector, machine: MockMachine) -> None:
    machine.set(down=NOT_LOADED)
    found = nvidia.detect()
    assert (found.cards, found.broken) == ((), ("nvidia: nvmlInitWithFlags: Driver Not Loaded (NVML error 9)",))


def test_after_an_answer_silence_is_no_answer(nvidia: NvidiaDetector, machine: MockMachine) -> None:
    machine.cards(T4)
    nvidia.detect()
    machine.set(down=NOT_LOADED)
    with pytest.raises(DetectionError, match="Driver Not Loaded"):
        nvidia.detect()


def test_a_driver_that_suddenly_has_no_cards_is_no_answer(nvidia: NvidiaDetector, machine: MockMachine) -> None:
    machine.cards(T4)
    nvidia.detect()
    machine.cards()
    machine.set(down=NOT_LOADED)
    with pytest.raises(DetectionError):
        nvidia.detect()
    machine.set(down=None)
    with pytest.raises(DetectionError):
        nvidia.detect()


def test_without_a_card_on_the_bus_the_library_is_not_loaded(tmp_path: Path) -> None:
    found = NvidiaDetector(tmp_path / "no-such-library.so", root=tmp_path, waits=QUICK).detect()
    assert (found.cards, found.broken) == ((), ())


def test_with_a_card_on_the_bus_a_missing_library_is_told(tmp_path: Path) -> None:
    device = tmp_path / "sys/bus/pci/devices/0000:00:1e.0"
    device.mkdir(parents=True)
    (device / "vendor").write_text("0x10de\n")
    (device / "class").write_text("0x030200\n")
    (told,) = NvidiaDetector(tmp_path / "no-such-library.so", root=tmp_path, waits=QUICK).detect().broken
    assert "no-such-library.so cannot be loaded" in told
