"""MIG partitions through NVIDIA's library: each step is read back, and the driver's state is what counts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gpustack_op.agent.detector.nvidia import NvidiaDetector
from gpustack_op.agent.partitions.driver import Driver, PartitionError, PartitionInUseError
from gpustack_op.agent.partitions.keeper import Keeper
from gpustack_op.agent.partitions.markers import Owner
from gpustack_op.agent.partitions.materialise import How, Wanted
from gpustack_op.agent.partitions.wiring import keepers
from gpustack_op.agent.roster import Pass
from gpustack_op.agent.sight import Look, Sight, next_sight
from gpustack_op.api.worker import Placement
from gpustack_op.scheduling.claims import PodClaim
from gpustack_op.scheduling.manufacturers import Family
from gpustack_op.scheduling.records import ContainerRecord, Entry
from tests.nvml.machine import A100_40, H100, MockMachine
from tests.runtime.nvidia.conftest import Detectors

MINE = Owner("mine", "main")


@pytest.fixture
def driver(nvidia: NvidiaDetector, machine: MockMachine) -> Driver:
    machine.cards(H100 | {"mig": 1}, A100_40 | {"mig": 1})
    nvidia.detect()
    return nvidia.partition_drivers()["nvidia"]


def at(start: int, length: int) -> Placement:
    return Placement(start=start, length=length)


def listed(driver: Driver, card: str = "GPU-0") -> list[tuple[str, int, int]]:
    return [(one.profile, one.place.start, one.place.length) for one in driver.instances(card)]


def test_a_partition_is_made_where_it_was_asked_for_and_can_be_computed_on(driver: Driver) -> None:
    made = driver.create("GPU-0", "3g.40gb", at(4, 4))
    assert (made.place, made.compute_slices, made.parts) == (at(4, 4), 3, 1)
    assert made.uuid.startswith("MIG-")
    assert driver.instances("GPU-0") == (made,)
    assert listed(driver, "GPU-1") == []


def test_the_media_profile_is_told_from_the_plain_one(driver: Driver) -> None:
    driver.create("GPU-0", "1g.10gb+me", at(0, 1))
    driver.create("GPU-0", "1g.10gb", at(1, 1))
    assert listed(driver) == [("1g.10gb+me", 0, 1), ("1g.10gb", 1, 1)]


def test_a_partition_that_is_taken_down_leaves_nothing(driver: Driver, machine: MockMachine) -> None:
    driver.destroy("GPU-0", driver.create("GPU-0", "7g.80gb", at(0, 8)))
    assert (listed(driver), machine.instances()) == ([], [])


@pytest.mark.parametrize(
    ("profile", "place", "sentence"),
    [
        pytest.param(
            "9g.90gb", at(0, 8), 'no partition profile "9g.90gb"; the card offers 1g.10gb, 2g.20gb', id="name"
        ),
        pytest.param("3g.40gb", at(2, 4), r"card GPU-0: .*\(NVML error 23\)", id="no legal place"),
    ],
)
def test_what_cannot_be_made_is_an_error(driver: Driver, profile: str, place: Placement, sentence: str) -> None:
    with pytest.raises(PartitionError, match=sentence):
        driver.create("GPU-0", profile, place)


@pytest.mark.parametrize(
    "call", ["nvmlGpuInstanceCreateComputeInstance", "nvmlGpuInstanceGetInfo", "nvmlDeviceGetMaxMigDeviceCount"]
)
def test_a_step_that_fails_undoes_those_before_it(driver: Driver, machine: MockMachine, call: str) -> None:
    machine.fails(call, 999)
    with pytest.raises(PartitionError, match=call):
        driver.create("GPU-0", "2g.20gb", at(0, 2))
    assert machine.instances() == []


def test_what_is_in_use_stays_whole_enough_to_be_tried_again(driver: Driver, machine: MockMachine) -> None:
    made = driver.create("GPU-0", "2g.20gb", at(0, 2))
    machine.card(0, {f"inUse.{made.id}": 1})
    with pytest.raises(PartitionInUseError, match="card GPU-0"):
        driver.destroy("GPU-0", made)
    assert driver.instances("GPU-0") == (made,)
    machine.card(0, {f"inUse.{made.id}": None})
    driver.destroy("GPU-0", made)


def test_a_partition_divided_by_hand_is_seen_as_such(driver: Driver, machine: MockMachine) -> None:
    machine.carve("GPU-0", 3, 9, 0, 4, parts=2)
    machine.carve("GPU-0", 4, 21, 4, 1, parts=0)
    assert [(one.id, one.profile, one.parts, bool(one.uuid)) for one in driver.instances("GPU-0")] == [
        (3, "3g.40gb", 2, True),
        (4, "", 0, False),
    ]


def test_without_an_open_library_nothing_is_made(library: Path) -> None:
    closed = NvidiaDetector(library, pci_check=False).partition_drivers()["nvidia"]
    with pytest.raises(PartitionError, match="the library is not open"):
        closed.instances("GPU-0")


def test_another_process_sees_them(driver: Driver, machine: MockMachine, library: Path) -> None:
    driver.create("GPU-0", "1g.20gb", at(2, 2))
    script = f"""
from pathlib import Path
from gpustack_op.agent.detector.nvidia import NvidiaDetector
nvidia = NvidiaDetector(Path({str(library)!r}), pci_check=False)
nvidia.detect()
print([one.place.start for one in nvidia.partition_drivers()["nvidia"].instances("GPU-0")])
"""
    ended = subprocess.run(
        [sys.executable, "-c", script],
        env=machine.environment,
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert ended.stdout == "[2]\n"


# --- The keeper on it ---------------------------------------------------------------------------------------------


class Node:
    """A node's agent without a cluster: what its detector sees, and Pods as the test wants them."""

    def __init__(self, nvidia: NvidiaDetector, folder: Path) -> None:
        self.nvidia = nvidia
        self.folder = folder
        self.sight: Sight | None = None
        self.claims: list[PodClaim] | None = []
        (folder / "root/proc/sys/kernel/random").mkdir(parents=True, exist_ok=True)
        (folder / "root/proc/cpuinfo").write_text("processor : 0\nvendor_id : GenuineIntel\n")
        self.boots("one")

    def boots(self, boot_id: str) -> None:
        (self.folder / "root/proc/sys/kernel/random/boot_id").write_text(boot_id)

    def look(self) -> None:
        look = Look(self.nvidia.host(), self.nvidia.detect())
        self.sight = next_sight(self.sight, look, Pass(now=0, recovery=0), None)

    def keeper(self) -> Keeper:
        return keepers(self.nvidia, lambda: self.sight, lambda: self.claims, self.folder / "state")["nvidia"]

    def wanted(self, profile: str, owner: Owner = MINE) -> Wanted:
        assert self.sight is not None
        offered = self.sight.roster[0].card.profiles
        return Wanted(owner=owner, card="GPU-0", profile=profile, offered=offered)


def claim(profile: str, place: Placement, uuid: str) -> PodClaim:
    entry = Entry(
        manufacturer="nvidia",
        group="h100-80gb-hbm3",
        card="GPU-0",
        mode=Family.PARTITIONED,
        allocated=400_000,
        profile=profile,
        placements=(place,),
        partition_id=uuid,
    )
    return PodClaim(uid="mine", phase="Running", record={"main": ContainerRecord((entry,))})


async def test_the_published_name_of_a_media_profile_is_understood(
    nvidia: NvidiaDetector, machine: MockMachine, tmp_path: Path
) -> None:
    machine.cards(H100 | {"mig": 1})
    node = Node(nvidia, tmp_path)
    node.look()
    (made,) = await node.keeper().materialise([node.wanted("1g.10gb.me")])
    assert made.marker.profile == "1g.10gb+me"


async def test_places_are_chosen_so_that_large_profiles_stay_possible(
    nvidia: NvidiaDetector, machine: MockMachine, tmp_path: Path
) -> None:
    machine.cards(H100 | {"mig": 1})
    node = Node(nvidia, tmp_path)
    node.look()
    keeper = node.keeper()
    first, second = [
        (await keeper.materialise([node.wanted(profile, Owner(f"pod-{profile}", "main"))]))[0].marker
        for profile in ("1g.10gb", "3g.40gb")
    ]
    assert (first.start, second.start) == (6, 0)


async def test_an_agent_that_starts_anew_finds_what_its_predecessor_made(
    nvidia: NvidiaDetector, machine: MockMachine, tmp_path: Path
) -> None:
    machine.cards(H100 | {"mig": 1})
    node = Node(nvidia, tmp_path)
    node.look()
    (made,) = await node.keeper().materialise([node.wanted("2g.20gb")])
    (found,) = await node.keeper().materialise([node.wanted("2g.20gb")])
    assert (found.how, found.marker) == (How.REBOUND, made.marker)


async def test_a_reboot_leaves_a_pods_partition_as_it_was(
    detectors: Detectors, machine: MockMachine, tmp_path: Path
) -> None:
    machine.cards(H100 | {"mig": 1})
    machine.set(sameUuids=1)
    node = Node(detectors(), tmp_path)
    node.look()
    (made,) = await node.keeper().materialise([node.wanted("2g.20gb")])
    before = machine.instances()
    machine.reboots()
    again = Node(detectors(), tmp_path)
    again.boots("two")
    again.claims = [claim("2g.20gb", made.marker.place, made.marker.uuid)]
    again.look()
    keeper = again.keeper()
    await keeper.look()
    assert (machine.instances(), keeper.lost) == (before, frozenset())


async def test_a_sick_card_is_left_alone(nvidia: NvidiaDetector, machine: MockMachine, tmp_path: Path) -> None:
    machine.cards(H100 | {"mig": 1})
    machine.carve("GPU-0", 1, 19, 0, 1)
    machine.card(0, {"eccErrors": 1})
    node = Node(nvidia, tmp_path)
    node.look()
    keeper = node.keeper()
    for _ in range(4):
        await keeper.look()
    assert len(machine.instances()) == 2


async def test_what_was_carved_by_hand_goes_once_the_card_serves_nobody(
    nvidia: NvidiaDetector, machine: MockMachine, tmp_path: Path
) -> None:
    machine.cards(H100 | {"mig": 1})
    machine.carve("GPU-0", 1, 19, 0, 1)
    node = Node(nvidia, tmp_path)
    node.look()
    keeper = node.keeper()
    node.claims = [claim("2g.20gb", at(4, 2), "MIG-elsewhere")]
    for _ in range(4):
        await keeper.look()
    assert "GPU-0 1 -1 19 0 1 -" in machine.instances()
    node.claims = []
    for _ in range(4):
        await keeper.look()
    assert machine.instances() == []
