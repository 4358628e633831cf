"""Puts the parts of the device plugin together for one agent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gpustack_op.agent.injection.base import Injector
from gpustack_op.agent.partitions.keeper import Keeper
from gpustack_op.agent.partitions.wiring import PODS, keepers
from gpustack_op.agent.plugin.active import ActiveLock
from gpustack_op.agent.plugin.allocator import Allocator
from gpustack_op.agent.plugin.bookkeeper import Bookkeeper, Tell
from gpustack_op.agent.plugin.books import Books, Groups
from gpustack_op.agent.plugin.desk import Counter, Desk
from gpustack_op.agent.plugin.finder import Finder
from gpustack_op.agent.plugin.instruments import Instruments
from gpustack_op.agent.plugin.kubelet import PodResourcesClient
from gpustack_op.agent.plugin.offer import Offer
from gpustack_op.agent.plugin.plugins import Plugins, families
from gpustack_op.agent.plugin.pod_book import PodBook
from gpustack_op.agent.plugin.record_writer import RecordWriter
from gpustack_op.agent.plugin.registration import USUAL, Timing
from gpustack_op.agent.plugin.work_folders import Upkeep, WorkFolders
from gpustack_op.agent.preflight import Folders
from gpustack_op.agent.sight import Sight
from gpustack_op.runtime.manager import Runnable
from gpustack_op.runtime.metrics import Metrics
from gpustack_op.scheduling.claims import PodClaim
from gpustack_op.scheduling.manufacturers import MANUFACTURERS, Manufacturers


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """All that the device plugin needs of its agent. `wake` has the node reported again."""

    folders: Folders
    detector: object
    sight: Callable[[], Sight | None]
    groups: Groups
    pods: PodBook
    writer: RecordWriter
    injectors: Mapping[str, Injector]
    wake: Callable[[], None]
    tell: Tell
    metrics: Metrics
    manufacturers: Manufacturers = MANUFACTURERS
    timing: Timing = USUAL


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicePlugin:
    """`runnables` are to be run; `stirred` is to be called when the cards or the Pods have changed."""

    books: Books
    bookkeeper: Bookkeeper
    plugins: Plugins
    keepers: Mapping[str, Keeper]
    runnables: tuple[Runnable, ...]

    def stirred(self) -> None:
        self.books.news.tell()
        for keeper in self.keepers.values():
            keeper.wake()


def device_plugin(around: Surroundings) -> DevicePlugin:
    lock = ActiveLock(around.folders.locks)
    books = Books(around.groups, around.pods, manufacturers=around.manufacturers)

    def claims() -> list[PodClaim] | None:
        return books.claims() if lock.is_held and books.pods.ready else None

    carving = keepers(around.detector, around.sight, claims, around.folders.state, manufacturers=around.manufacturers)
    instruments = Instruments(around.metrics)
    kubelet = PodResourcesClient(around.folders.pod_resources / "kubelet.sock")
    finder = Finder(books, kubelet)
    allocator = Allocator(books, finder, around.writer, around.injectors, carving)

    def desk(offer: Offer) -> Desk:
        counter = Counter(
            books=books,
            finder=finder,
            allocator=allocator,
            instruments=instruments,
            injector=around.injectors[offer.row.id],
            partitions=carving,
        )
        return Desk(counter, offer)

    plugins = Plugins(
        around.folders.plugins,
        lock,
        books,
        desk,
        instruments,
        able={
            row.id: families(row, is_carvable=row.id in carving)
            for row in around.manufacturers
            if row.id in around.injectors
        },
        on_active=around.wake,
        timing=around.timing,
    )
    upkeep = Upkeep(
        WorkFolders(around.folders.state / PODS),
        lambda: None if (known := claims()) is None else {claim.uid for claim in known},
        around.wake,
    )
    bookkeeper = Bookkeeper(
        books, kubelet, around.writer, instruments, is_active=lambda: lock.is_held, tell=around.tell
    )
    return DevicePlugin(
        books=books,
        bookkeeper=bookkeeper,
        plugins=plugins,
        keepers=carving,
        runnables=(plugins, upkeep, *carving.values()),
    )
