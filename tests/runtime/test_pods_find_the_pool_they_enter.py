"""Which pool a queue name leads to, with caches that know it, do not know it yet, or have not been read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
import pytest

from gpustack_op.api.kueue import LOCAL_QUEUES, RESOURCE_FLAVORS, LocalQueue, LocalQueueSpec
from gpustack_op.api.worker import INSTANCE_TYPES, InstanceType
from gpustack_op.operator.informers import Informers
from gpustack_op.operator.webhooks import fronting as fronting_module
from gpustack_op.operator.webhooks.fronting import Fronting
from gpustack_op.runtime.informer import Informer
from gpustack_op.runtime.listing import Listing
from gpustack_op.runtime.selector import EVERYTHING, Selector
from gpustack_op.runtime.webhook.review import RefusalError
from gpustack_op.scheduling import names
from tests import builders
from tests.runtime.catalog_caches import listing

ENTRANCE = names.entrance("t4")


def fronted(name: str, entrance: str = "") -> InstanceType:
    made = builders.instance_type(name, accelerator_group="nvidia-tesla-t4")
    labels = {"schedule.gpustack.ai/queue-entrance": entrance or names.entrance(name)}
    return msgspec.structs.replace(made, metadata=builders.metadata(name, labels=labels))


@dataclass
class Caches:
    types: Informer[Any] = field(default_factory=lambda: Informer(INSTANCE_TYPES, EVERYTHING))
    flavors: Informer[Any] = field(default_factory=lambda: Informer(RESOURCE_FLAVORS, EVERYTHING))
    local_queues: Informer[Any] = field(default_factory=lambda: Informer(LOCAL_QUEUES, EVERYTHING))

    async def read(self, types: Sequence[InstanceType] = (), queues: Sequence[LocalQueue] = ()) -> None:
        await self.types.replace(listing(types))
        await self.flavors.replace(listing(builders.walkthrough_flavors()))
        found: Listing[Any] = Listing()
        found.version = "9"
        found.objects |= {(queue.namespace, queue.name): queue for queue in queues}
        await self.local_queues.replace(found)


@dataclass
class Server:
    """Lists these types, and remembers by which selectors it was asked."""

    types: Sequence[InstanceType] = ()
    asked: list[str] = field(default_factory=list)

    async def list(self, resource: Any, *, selector: Selector) -> list[InstanceType]:
        self.asked.append(selector.labels)
        return list(self.types)


def finding(caches: Caches, server: Server) -> Fronting:
    return Fronting(cast(Informers, caches), cast(Any, server))


def leading(name: str, pool: str) -> LocalQueue:
    return LocalQueue(metadata=builders.metadata(name, namespace="default"), spec=LocalQueueSpec(cluster_queue=pool))


async def test_the_cache_knows_the_type() -> None:
    caches, server = Caches(), Server()
    await caches.read([fronted("t4"), fronted("other")])

    pool = await finding(caches, server).pool(ENTRANCE, "default")

    assert pool is not None
    assert (pool.name, pool.largest_node) == ("t4", 4)
    assert server.asked == []


async def test_a_type_too_new_for_the_cache_is_asked_of_the_server() -> None:
    caches, server = Caches(), Server([fronted("t4")])
    await caches.read()

    pool = await finding(caches, server).pool(ENTRANCE, "default")

    assert pool is not None
    assert pool.name == "t4"
    assert server.asked == [f"schedule.gpustack.ai/queue-entrance={ENTRANCE}"]


@pytest.mark.parametrize(
    ("types", "message"),
    [
        pytest.param([], f"no instance type fronts local queue {ENTRANCE}", id="none"),
        pytest.param(
            [fronted("t4"), fronted("twin", ENTRANCE)],
            f"more than one instance type fronts local queue {ENTRANCE}",
            id="two",
        ),
    ],
)
async def test_an_entrance_that_is_not_one_types_is_refused(types: list[InstanceType], message: str) -> None:
    caches = Caches()
    await caches.read(types)

    with pytest.raises(RefusalError) as refused:
        await finding(caches, Server()).pool(ENTRANCE, "default")

    assert (refused.value.verdict.message, refused.value.verdict.code) == (message, 403)


@pytest.mark.parametrize(
    ("queue", "pool"),
    [
        pytest.param("mine", "t4", id="a queue of another name leads into a pool"),
        pytest.param("theirs", None, id="a queue leads elsewhere"),
        pytest.param("unknown", None, id="nobody knows the queue"),
    ],
)
async def test_a_queue_that_is_no_entrance(queue: str, pool: str | None) -> None:
    caches, server = Caches(), Server()
    await caches.read([fronted("t4")], [leading("mine", "t4"), leading("theirs", "elsewhere")])

    found = await finding(caches, server).pool(queue, "default")

    assert (found.name if found else None) == pool
    assert server.asked == []


async def test_a_queue_of_that_name_in_another_namespace_does_not_count() -> None:
    caches = Caches()
    await caches.read([fronted("t4")], [leading("mine", "t4")])

    assert await finding(caches, Server()).pool("mine", "elsewhere") is None


async def test_nothing_is_judged_by_caches_that_have_not_been_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fronting_module, "SYNC_SECONDS", 0.05)

    with pytest.raises(RefusalError) as refused:
        await finding(Caches(), Server()).pool(ENTRANCE, "default")

    assert refused.value.verdict.code == 503
    assert refused.value.verdict.message == (
        f"local queue {ENTRANCE} cannot be judged yet: still reading instancetypes.worker.gpustack.ai, "
        "resourceflavors.kueue.x-k8s.io, localqueues.kueue.x-k8s.io; try again"
    )
