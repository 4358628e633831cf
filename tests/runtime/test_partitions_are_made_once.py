"""A container gets its partition, the same at every call; what is another's is not touched; what fails is undone."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gpustack_op.agent.partitions.driver import Instance, PartitionError, PartitionInUseError
from gpustack_op.agent.partitions.keeper import Keeper
from gpustack_op.agent.partitions.markers import Marker, Markers, Owner
from gpustack_op.agent.partitions.materialise import How, Made, Wanted, Workbench
from gpustack_op.agent.partitions.world import Held, World
from gpustack_op.api.worker import PhysicalProfile, Placement
from tests.waiting import until

CARD, OTHER = "GPU-0", "GPU-1"
PROFILE = PhysicalProfile(
    name="1g.20gb",
    memory_mib=19968,
    compute_slices=1,
    memory_slices=2,
    count=4,
    placements=tuple(Placement(start=start, length=2) for start in (0, 2, 4, 6)),
)
MINE, THEIRS = Owner("mine", "main"), Owner("theirs", "main")


class FakeDriver:
    """Cards in memory. `refuses` names calls that fail."""

    def __init__(self) -> None:
        self.cards: dict[str, list[Instance]] = {}
        self.created: list[int] = []
        self.refuses: dict[str, PartitionError] = {}

    def put(self, number: int, start: int, length: int = 2, *, uuid: str = "MIG-put", parts: int = 1) -> None:
        place = Placement(start=start, length=length)
        self.cards.setdefault(CARD, []).append(
            Instance(id=number, place=place, compute_slices=1, profile="1g.20gb", uuid=uuid, parts=parts)
        )

    def instances(self, card: str) -> tuple[Instance, ...]:
        self._may("instances")
        return tuple(self.cards.get(card, ()))

    def create(self, card: str, profile: str, place: Placement) -> Instance:
        self._may("create")
        number = 100 + len(self.created)
        self.created.append(place.start)
        made = Instance(id=number, place=place, compute_slices=1, profile=profile, uuid=f"MIG-{card}-{place.start}")
        self.cards.setdefault(card, []).append(made)
        return made

    def destroy(self, card: str, instance: Instance) -> None:
        self._may("destroy")
        self.cards[card].remove(instance)

    def _may(self, call: str) -> None:
        if call in self.refuses:
            raise self.refuses[call]


class Stand:
    def __init__(self, folder: Path) -> None:
        self.driver, self.markers = FakeDriver(), Markers(folder, "nvidia-mig")
        self.folder = folder
        self.boot = "one"
        self.world: World | None = World()
        self.keeper = Keeper(
            Workbench(self.driver, self.markers, lambda: self.boot),
            lambda: {CARD: (PROFILE,), OTHER: (PROFILE,)},
            lambda: self.world,
            patience=5,
            again=0.01,
        )

    async def get(self, owner: Owner = MINE, *cards: str, place: Placement | None = None) -> tuple[Made, ...]:
        return await self.keeper.materialise(
            [
                Wanted(owner=owner, card=card, profile="1g.20gb", offered=(PROFILE,), place=place)
                for card in cards or (CARD,)
            ]
        )

    async def told(self, owner: Owner = MINE) -> tuple[How, int]:
        (made,) = await self.get(owner)
        return made.how, made.marker.start

    def mark(self, owner: Owner, number: int, uuid: str = "MIG-put", *, profile: str = "1g.20gb") -> None:
        self.markers.write(
            Marker(
                pod=owner.pod,
                container=owner.container,
                card=CARD,
                profile=profile,
                instance=number,
                uuid=uuid,
                length=2,
            )
        )

    @property
    def starts(self) -> list[int]:
        return sorted(instance.place.start for instance in self.driver.cards.get(CARD, ()))

    @property
    def owners(self) -> list[str]:
        return sorted(marker.pod for marker in self.markers)


@pytest.fixture
def stand(tmp_path: Path) -> Stand:
    return Stand(tmp_path / "pods")


async def test_an_empty_card_gets_a_partition_and_its_marker(stand: Stand) -> None:
    assert await stand.told() == (How.CREATED, 0)
    path = stand.folder / "mine/c-main/nvidia-mig-GPU-0.json"
    assert path.stat().st_mode & 0o777 == 0o644
    assert stand.markers.of(MINE, CARD) == Marker(
        pod="mine",
        container="main",
        card=CARD,
        profile="1g.20gb",
        instance=100,
        uuid="MIG-GPU-0-0",
        compute_slices=1,
        start=0,
        length=2,
        boot_id="one",
    )


async def test_anothers_partition_is_not_taken(stand: Stand) -> None:
    stand.driver.put(100, 0)
    stand.mark(THEIRS, 100)
    stand.world = World(frozenset({"theirs"}))
    assert await stand.told() == (How.CREATED, 2)


async def test_one_that_is_nobodys_and_fits_is_adopted(stand: Stand) -> None:
    stand.driver.put(7, 4)
    assert await stand.told() == (How.BOUND, 4)
    assert stand.driver.created == []


async def test_one_that_nothing_can_compute_on_is_not_adopted(stand: Stand) -> None:
    stand.driver.put(9, 0, uuid="")
    assert await stand.told() == (How.CREATED, 2)


async def test_one_that_was_divided_further_is_not_adopted(stand: Stand) -> None:
    stand.driver.put(9, 0, parts=2)
    assert await stand.told() == (How.CREATED, 2)


async def test_a_full_card_is_refused(stand: Stand) -> None:
    stand.driver.put(1, 0, 8)
    with pytest.raises(PartitionError, match="card GPU-0 has no free place for a partition of profile"):
        await stand.get()
    assert stand.driver.created == []


async def test_the_same_call_twice_gives_the_same_partition(stand: Stand) -> None:
    assert await stand.told() == (How.CREATED, 0)
    assert await stand.told() == (How.REBOUND, 0)
    assert stand.driver.created == [0]


@pytest.mark.parametrize(
    ("number", "uuid", "profile", "sentence"),
    [
        pytest.param(5, "MIG-old", "1g.20gb", "is now another, MIG-put", id="its number is another's"),
        pytest.param(42, "MIG-put", "1g.20gb", "partition MIG-put is gone", id="gone"),
        pytest.param(5, "MIG-put", "3g.40gb", "holds a 3g.40gb, and asks for a 1g.20gb", id="another profile"),
    ],
)
async def test_a_marker_that_does_not_fit_is_an_error(
    stand: Stand, number: int, uuid: str, profile: str, sentence: str
) -> None:
    stand.driver.put(5, 0)
    stand.mark(MINE, number, uuid, profile=profile)
    with pytest.raises(PartitionError, match=sentence):
        await stand.get()
    assert stand.driver.created == []


async def test_a_marker_that_cannot_be_read_is_an_error_for_its_owner_only(stand: Stand) -> None:
    stand.mark(MINE, 1)
    (stand.folder / "mine/c-main/nvidia-mig-GPU-0.json").write_text('{"podUID": "mine"}')
    with pytest.raises(PartitionError, match="cannot be read"):
        await stand.get()
    assert await stand.told(THEIRS) == (How.CREATED, 0)


async def test_four_at_once_get_four_places_and_a_sibling_card_is_independent(stand: Stand) -> None:
    owners = [Owner(f"pod-{number}", "main") for number in range(4)]
    stand.world = World(frozenset(owner.pod for owner in owners))
    made = await asyncio.gather(*(stand.get(owner) for owner in owners), stand.get(THEIRS, OTHER))
    assert sorted(one.marker.start for (one,) in made[:4]) == [0, 2, 4, 6]
    assert made[4][0].marker.start == 0


async def test_the_foreseen_place_is_taken_when_it_is_free(stand: Stand) -> None:
    (made,) = await stand.get(MINE, place=Placement(start=6, length=2))
    assert made.marker.start == 6


async def test_a_place_that_others_were_promised_is_left_to_them(stand: Stand) -> None:
    promised = (Placement(start=0, length=4),)
    wanted = Wanted(owner=MINE, card=CARD, profile="1g.20gb", offered=(PROFILE,), spoken_for=promised)
    (made,) = await stand.keeper.materialise([wanted])
    assert made.marker.start == 4


async def test_what_a_gone_pod_left_behind_makes_room_at_once(stand: Stand) -> None:
    stand.driver.put(1, 0, 8, uuid="MIG-put")
    stand.mark(THEIRS, 1)
    assert await stand.told() == (How.CREATED, 0)
    assert stand.owners == ["mine"]


async def test_what_a_gone_pod_left_behind_stays_while_it_is_unknown_who_lives(stand: Stand) -> None:
    stand.driver.put(1, 0, 8, uuid="MIG-put")
    stand.mark(THEIRS, 1)
    stand.world = None
    with pytest.raises(PartitionError, match="no free place"):
        await stand.get()
    assert stand.owners == ["theirs"]


# --- Undone -------------------------------------------------------------------------------------------------------


async def test_a_failure_on_one_card_undoes_all_cards(stand: Stand) -> None:
    stand.driver.cards[OTHER] = [Instance(id=1, place=Placement(start=0, length=8), uuid="MIG-big")]
    with pytest.raises(PartitionError, match="card GPU-1 has no free place"):
        await stand.get(MINE, CARD, OTHER)
    assert (stand.starts, stand.owners) == ([], [])


async def test_undoing_leaves_an_adopted_partition_and_one_from_before(stand: Stand) -> None:
    stand.driver.put(7, 4)
    bound = await stand.get(MINE)
    rebound = await stand.get(MINE)
    await stand.keeper.roll_back(rebound)
    assert (stand.starts, stand.owners) == ([4], ["mine"])
    await stand.keeper.roll_back(bound)
    assert (stand.starts, stand.owners) == ([4], [])


async def test_a_marker_that_cannot_be_written_undoes_the_partition(stand: Stand) -> None:
    (stand.folder / "mine/c-main/nvidia-mig-GPU-0.new").mkdir(parents=True)
    with pytest.raises(PartitionError, match="cannot be written"):
        await stand.get()
    assert stand.starts == []


# --- Naming it to a sidecar ---------------------------------------------------------------------------------------


async def test_a_sidecar_is_told_the_partition_of_its_neighbour(stand: Stand) -> None:
    await stand.get(MINE, CARD, OTHER)
    assert await stand.keeper.identify(MINE, (CARD, OTHER)) == ("MIG-GPU-0-0", "MIG-GPU-1-0")


async def test_a_sidecar_is_told_nothing_that_is_not_certain(stand: Stand) -> None:
    with pytest.raises(PartitionError, match="nobody knows"):
        await stand.keeper.identify(MINE, (CARD,))
    await stand.get()
    stand.driver.cards[CARD].clear()
    with pytest.raises(PartitionError, match="is gone"):
        await stand.keeper.identify(MINE, (CARD,))


# --- Upkeep -------------------------------------------------------------------------------------------------------


def holding(owner: Owner, uuid: str, start: int = 0) -> World:
    place = Placement(start=start, length=2)
    return World(frozenset({owner.pod}), (Held(owner, CARD, "1g.20gb", place, uuid),))


async def passes(stand: Stand, count: int) -> None:
    for _ in range(count):
        await stand.keeper.look()


async def test_what_a_gone_pod_held_is_taken_down_in_the_third_pass(stand: Stand) -> None:
    await stand.get()
    await passes(stand, 2)
    assert (stand.starts, stand.owners) == ([0], ["mine"])
    assert not await stand.keeper.look()
    assert (stand.starts, stand.owners) == ([], [])
    assert not (stand.folder / "mine").exists()


async def test_nothing_is_taken_down_before_it_is_known_who_lives(stand: Stand) -> None:
    await stand.get()
    stand.world = None
    await passes(stand, 5)
    assert stand.starts == [0]


async def test_what_is_in_use_is_tried_again(stand: Stand) -> None:
    await stand.get()
    stand.driver.refuses["destroy"] = PartitionInUseError("in use")
    await passes(stand, 9)
    assert (stand.starts, stand.owners) == ([0], ["mine"])
    stand.driver.refuses.clear()
    await passes(stand, 1)
    assert (stand.starts, stand.owners) == ([], [])


async def test_a_card_whose_driver_fails_holds_up_no_other(stand: Stand) -> None:
    await stand.get(THEIRS, OTHER)
    plain = stand.driver.instances

    def failing(card: str) -> tuple[Instance, ...]:
        if card == CARD:
            raise PartitionError("it does not answer")
        return plain(card)

    stand.driver.instances = failing  # type: ignore[method-assign]
    await passes(stand, 3)
    assert stand.driver.cards[OTHER] == []


async def test_other_files_of_a_pod_stay(stand: Stand) -> None:
    await stand.get()
    (stand.folder / "mine/c-main/tmp").mkdir()
    await passes(stand, 3)
    assert (stand.folder / "mine/c-main/tmp").exists()


async def test_after_a_reboot_a_living_pods_partition_is_made_again_in_its_place(stand: Stand) -> None:
    await stand.get(MINE, place=Placement(start=4, length=2))
    stand.world, stand.boot = holding(MINE, "MIG-GPU-0-4", 4), "two"
    stand.driver.cards.clear()
    await passes(stand, 1)
    assert (stand.starts, stand.keeper.lost) == ([4], frozenset())
    marker = stand.markers.of(MINE, CARD)
    assert marker is not None
    assert (marker.boot_id, marker.instance) == ("two", 101)


async def test_one_that_comes_back_as_another_is_lost(stand: Stand) -> None:
    stand.world = holding(MINE, "MIG-of-old")
    await passes(stand, 1)
    (lost,) = stand.keeper.lost
    assert lost.why == "after a reboot it could only be made again as MIG-GPU-0-0"
    assert (stand.starts, stand.owners) == ([], [])


async def test_one_that_somebody_took_down_is_lost(stand: Stand) -> None:
    await stand.get()
    stand.world = holding(MINE, "MIG-GPU-0-0")
    stand.driver.cards.clear()
    await passes(stand, 1)
    assert [one.why for one in stand.keeper.lost] == ["it was taken down while the machine ran"]


async def test_the_loop_passes_until_all_is_settled(stand: Stand) -> None:
    await stand.get()
    stop = asyncio.Event()
    running = asyncio.create_task(stand.keeper.run(stop))

    async def is_over() -> bool:
        return not stand.owners

    await until(is_over, every=0.01)
    stop.set()
    await asyncio.wait_for(running, 5)
    assert stand.starts == []
