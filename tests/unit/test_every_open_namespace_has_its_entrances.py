"""A LocalQueue to every pool in every open namespace, put back when it is lost; other people's are left alone."""

from __future__ import annotations

import pytest

from gpustack_op.api.core import NAMESPACES, Namespace, NamespaceStatus
from gpustack_op.api.kueue import CLUSTER_QUEUES, LOCAL_QUEUES, LocalQueue
from gpustack_op.operator.namespaces import is_open
from gpustack_op.operator.queue_entrance import QueueEntranceReconciler, wanted_entrance
from gpustack_op.runtime.controller import Request
from gpustack_op.runtime.errors import Forbidden, NotFound
from tests.builders import cluster_queue, metadata
from tests.memory_cluster import MemoryCluster

POOL = "a10g-12c128g"
ENTRANCE = "gpustack-fnv64-d4c0e6cd72686015"


def namespace(name: str, *, phase: str = "Active", deleting: bool = False) -> Namespace:
    ending = "2026-01-01T00:00:00Z" if deleting else None
    return Namespace(metadata=metadata(name, deletion_timestamp=ending), status=NamespaceStatus(phase=phase))


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        pytest.param(namespace("default"), True, id="the default one"),
        pytest.param(namespace("team-a"), True, id="a user's"),
        pytest.param(namespace("kubernetes"), True, id="one that only begins like a system's"),
        pytest.param(namespace("kube-system"), False, id="the system's"),
        pytest.param(namespace("kube-public"), False, id="the public one"),
        pytest.param(namespace("kube-node-lease"), False, id="that of node leases"),
        pytest.param(namespace("kueue-system"), False, id="Kueue's"),
        pytest.param(namespace("nfd"), False, id="that of Node Feature Discovery"),
        pytest.param(namespace("ours"), False, id="the operator's"),
        pytest.param(namespace("team-a", phase="Terminating"), False, id="one that ends"),
        pytest.param(namespace("team-a", deleting=True), False, id="one that is deleted"),
    ],
)
def test_open_namespaces(of: Namespace, expected: bool) -> None:
    assert is_open(of, "ours") == expected


def test_an_entrance_leads_to_its_pool_and_ends_with_it() -> None:
    assert wanted_entrance(cluster_queue(POOL), namespace("team-a")) == {
        "metadata": {
            "name": ENTRANCE,
            "namespace": "team-a",
            "labels": {"resource.gpustack.ai/type": "queue-entrance"},
            "annotations": {"schedule.gpustack.ai/queue": POOL},
            "ownerReferences": [
                {
                    "apiVersion": "kueue.x-k8s.io/v1beta2",
                    "kind": "ClusterQueue",
                    "name": POOL,
                    "uid": f"uid-of-{POOL}",
                    "controller": True,
                }
            ],
        },
        "spec": {"clusterQueue": POOL, "stopPolicy": "None"},
    }


class Stand(MemoryCluster):
    def __init__(self) -> None:
        super().__init__()
        self.reconciler = QueueEntranceReconciler(
            self.informers, self.client, self.writer(), self.recorder, system_namespace="gpustack-system"
        )
        for name in ("default", "team-a", "kube-system", "gpustack-system"):
            self.add(namespace(name))
        self.add(cluster_queue(POOL))

    async def pass_(self) -> list[str]:
        self.writes_since()
        await self.reconciler.reconcile(Request(POOL))
        return self.writes_since()

    def entrance(self, within: str = "team-a") -> LocalQueue:
        return self.read(LOCAL_QUEUES, ENTRANCE, within)

    @property
    def open(self) -> list[str]:
        return sorted(within for plural, within, _ in self.objects if plural == "localqueues")


async def test_open_namespaces_get_one_and_closed_ones_none() -> None:
    stand = Stand()
    await stand.pass_()
    assert stand.open == ["default", "team-a"]
    assert await stand.pass_() == []


async def test_a_deleted_entrance_is_put_back() -> None:
    stand = Stand()
    await stand.pass_()
    stand.remove(LOCAL_QUEUES, ENTRANCE, namespace="team-a")
    assert await stand.pass_() == [f"create {ENTRANCE}"]


async def test_an_edited_entrance_is_put_right() -> None:
    stand = Stand()
    await stand.pass_()
    stand.patch(LOCAL_QUEUES, ENTRANCE, {"spec": {"stopPolicy": "Hold"}}, namespace="team-a")
    await stand.pass_()
    assert stand.entrance().spec.stop_policy == "None"


async def test_an_entrance_of_an_earlier_pool_of_the_name_gets_its_new_owner() -> None:
    stand = Stand()
    await stand.pass_()
    stand.remove(CLUSTER_QUEUES, POOL)
    stand.put(CLUSTER_QUEUES, {"metadata": {"name": POOL, "labels": {"resource.gpustack.ai/type": "instancetypes"}}})
    await stand.pass_()
    assert stand.entrance().controlled_by(stand.queue(POOL).uid)


async def test_an_entrance_that_is_going_is_waited_for() -> None:
    stand = Stand()
    await stand.pass_()
    stand.patch(LOCAL_QUEUES, ENTRANCE, {"metadata": {"finalizers": ["a/b"]}}, namespace="team-a")
    stand.remove(LOCAL_QUEUES, ENTRANCE, namespace="team-a")
    assert await stand.pass_() == []


async def test_a_foreign_queue_of_that_name_is_left_alone_and_told_and_the_others_open() -> None:
    stand = Stand()
    theirs = {"metadata": {"name": ENTRANCE, "namespace": "default"}, "spec": {"clusterQueue": "theirs"}}
    stand.put(LOCAL_QUEUES, theirs)

    await stand.pass_()

    assert stand.entrance("default").spec.cluster_queue == "theirs"
    assert stand.entrance("team-a").spec.cluster_queue == POOL
    assert stand.told.events == [
        (
            "EntranceOccupied",
            f'LocalQueue "default/{ENTRANCE}" was not made by this operator and is left alone; '
            "delete it to open the pool to namespace default",
        )
    ]


async def test_a_namespace_that_ends_meanwhile_is_no_failure() -> None:
    stand = Stand()
    stand.trouble("create", NotFound(404, "NotFound", "namespaces default not found"))
    await stand.pass_()
    assert stand.open == ["team-a"]


async def test_a_namespace_that_refuses_does_not_close_the_others() -> None:
    stand = Stand()
    stand.trouble("create", Forbidden(403, "Forbidden", "exceeded quota: team-a"))
    with pytest.raises(Forbidden):
        await stand.reconciler.reconcile(Request(POOL))
    assert stand.open == ["team-a"]


async def test_a_pool_that_is_not_ours_gets_no_entrance() -> None:
    stand = Stand()
    stand.remove(CLUSTER_QUEUES, POOL)
    stand.put(CLUSTER_QUEUES, {"metadata": {"name": POOL}, "spec": {}})
    assert await stand.pass_() == []
    assert stand.reconciler.pools_of_namespace(stand.read(NAMESPACES, "default")) == []


async def test_a_new_namespace_wakes_every_pool_of_ours() -> None:
    stand = Stand()
    stand.put(CLUSTER_QUEUES, {"metadata": {"name": "theirs"}, "spec": {}})
    assert stand.reconciler.pools_of_namespace(namespace("new")) == [Request(POOL)]
