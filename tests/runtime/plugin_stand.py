"""A node's allocator over an API server in memory and a kubelet that says what a test lets it say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from gpustack_op.agent.injection.base import Grant, Injection
from gpustack_op.agent.plugin.allocator import Allocator, Partitions
from gpustack_op.agent.plugin.bookkeeper import Bookkeeper
from gpustack_op.agent.plugin.books import Books
from gpustack_op.agent.plugin.desk import Counter, Desk
from gpustack_op.agent.plugin.finder import Finder
from gpustack_op.agent.plugin.instruments import Instruments
from gpustack_op.agent.plugin.kubelet import KubeletError, Report
from gpustack_op.agent.plugin.offer import Offer
from gpustack_op.agent.plugin.pod_book import PodBook
from gpustack_op.agent.plugin.record_writer import RecordWriter
from gpustack_op.agent.plugin.reservations import Reservations
from gpustack_op.agent.plugin.visibility import PartitionNames
from gpustack_op.api.core import PODS, Pod
from gpustack_op.api.worker import DeviceGroup, LedgerRow
from gpustack_op.runtime.metrics import Metrics
from gpustack_op.scheduling import labels, records
from gpustack_op.scheduling.manufacturers import MANUFACTURERS, Family
from tests.builders import PERCENT
from tests.memory_cluster import without_nones
from tests.runtime.memory_api import MemoryApi

RESOURCES = {
    Family.EXCLUSIVE: "nvidia.com/gpu",
    Family.SHARED: "nvidia.com/gpu.shared",
    Family.SLICED: "nvidia.com/gpu.sliced",
    Family.PARTITIONED: "nvidia.com/gpu.partitioned",
    Family.VISIBILITY: "device.gpustack.ai/nvidia.visibility",
}


def whole(number: int = 1) -> dict[str, str]:
    return {RESOURCES[Family.EXCLUSIVE]: str(number)}


def shares(number: int = 1) -> dict[str, str]:
    return {RESOURCES[Family.SHARED]: str(number)}


def slices(percent: int, number: int = 1) -> dict[str, str]:
    return {RESOURCES[Family.SLICED]: str(number), "nvidia.com/gpu.sliced.memory-percentage": str(percent)}


def ids(*cards: str, index: int = 0) -> list[str]:
    """Tokens of cards named `<group>/<number>`."""
    return [f"{card.partition('/')[0]}:{card}:{index:04d}" for card in cards]


class Kubelet:
    """`held` by Pod, container and resource; a Pod that is listed with nothing waits."""

    def __init__(self) -> None:
        self.pods: dict[tuple[str, str], dict[str, dict[str, frozenset[str]]]] = {}
        self.is_away = False
        self.calls = 0

    async def report(self) -> Report:
        self.calls += 1
        if self.is_away:
            raise KubeletError("nobody listens")
        return Report(self.pods)

    def admits(self, name: str) -> None:
        self.pods.setdefault(("default", name), {})

    def holds(self, name: str, family: Family, held: Sequence[str], *, container: str = "main") -> None:
        containers = self.pods.setdefault(("default", name), {})
        containers.setdefault(container, {})[RESOURCES[family]] = frozenset(held)


class Cache:
    """An informer of Pods; with `lag` it stays as it was."""

    synced = True

    def __init__(self, api: MemoryApi) -> None:
        self._api = api
        self._frozen: list[Pod] | None = None
        self._frozen_at = 0

    @property
    def processed(self) -> int:
        """The version up to which it has been told everything."""
        return self._frozen_at if self._frozen is not None else self._api._version

    def all(self) -> list[Pod]:
        return self.present() if self._frozen is None else self._frozen

    def present(self) -> list[Pod]:
        return [
            msgspec.convert(body, Pod) for (plural, _, _), body in self._api.objects.items() if plural == PODS.plural
        ]

    def lag(self) -> None:
        self._frozen, self._frozen_at = self.present(), self._api._version

    def catch_up(self) -> None:
        self._frozen = None


class Tray:
    """An injector that hands over what was granted, or fails."""

    def __init__(self) -> None:
        self.grants: list[Grant] = []
        self.trouble: BaseException | None = None

    async def inject(self, grant: Grant) -> Injection:
        if self.trouble is not None:
            trouble, self.trouble = self.trouble, None
            raise trouble
        self.grants.append(grant)
        return Injection(variables={"CARDS": ",".join(one.card.id for one in grant.cards)})


class Stand:
    def __init__(self, *groups: DeviceGroup, partitions: object = None) -> None:
        self.groups: Sequence[DeviceGroup] | None = groups
        self.api = MemoryApi()
        self.kubelet = Kubelet()
        self.cache = Cache(self.api)
        self.tray = Tray()
        self.metrics = Metrics()
        self.told: list[str] = []
        self.now = 1000.0
        self.partitions = {"nvidia": partitions} if partitions else {}
        self.restart()

    def restart(self, *, patience: float = 5.0) -> None:
        """A new process: nothing in memory survives."""
        self.books = Books(
            lambda: self.groups, PodBook(self.cache, self._read), reservations=Reservations(lambda: self.now)
        )
        finder = Finder(self.books, self.kubelet, again=0)
        writer = RecordWriter(self.api, "agent", pause=0, patience=patience)
        instruments = Instruments(self.metrics)
        keepers = cast(Mapping[str, Any], self.partitions)
        self.allocator = Allocator(
            self.books, finder, writer, {"nvidia": self.tray}, cast(Mapping[str, Partitions], keepers)
        )
        self.bookkeeper = Bookkeeper(
            self.books, self.kubelet, writer, instruments, tell=lambda _pod, sentence: self.told.append(sentence)
        )
        self.counter = Counter(
            books=self.books,
            finder=finder,
            allocator=self.allocator,
            instruments=instruments,
            injector=self.tray,
            partitions=cast(Mapping[str, PartitionNames], keepers),
        )

    async def _read(self) -> Sequence[Pod]:
        return self.cache.present()

    def desk(self, family: Family) -> Desk:
        row = MANUFACTURERS.get("nvidia")
        assert row is not None
        return Desk(self.counter, Offer(row, family))

    # --- what others do

    def add(self, *pods: Pod) -> None:
        for each in pods:
            self.api.put(PODS, without_nones(msgspec.to_builtins(each)))

    def remove(self, name: str) -> None:
        del self.api.objects[(PODS.plural, "default", name)]
        self.kubelet.pods.pop(("default", name), None)

    def phase(self, name: str, phase: str) -> None:
        body = self.api.objects[(PODS.plural, "default", name)]
        self.api.put(PODS, {**body, "status": {"phase": phase}})

    async def admit(self, name: str, family: Family, tokens: Sequence[str], *, container: str = "main") -> Injection:
        """As the kubelet does it: the Pod is listed, we are called, what was given is kept."""
        self.kubelet.admits(name)
        given = await self.desk(family).allocate(list(tokens))
        self.kubelet.holds(name, family, tokens, container=container)
        return given

    # --- what came of it

    def record(self, name: str) -> records.Record:
        return records.record_of(self.api.read(PODS, name, "default"))

    def annotation(self, name: str) -> str | None:
        return self.api.read(PODS, name, "default").annotations.get(labels.ALLOCATED)

    def row(self, card: str) -> LedgerRow:
        standing = self.books.standing()
        assert standing is not None
        return standing.ledger.rows[card]

    def percent(self, card: str) -> int:
        """Of a card that is in use."""
        return 100 - self.row(card).remaining // PERCENT
