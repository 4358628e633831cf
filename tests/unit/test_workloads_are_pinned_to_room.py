"""The fit pin: what it demands of a node, where it joins what was demanded before, and whom it leaves alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from gpustack_op.api.kueue import LocalQueue, LocalQueueSpec
from gpustack_op.operator.webhooks.workload import WorkloadWebhook
from gpustack_op.operator.workload_fit import WHOLE_WORKLOADS, FitPin, WorkloadFitReconciler
from gpustack_op.runtime.controller import Request
from gpustack_op.runtime.errors import Forbidden
from gpustack_op.runtime.reconciler import TryAgainError
from gpustack_op.runtime.webhook.review import AdmissionRequest
from gpustack_op.scheduling import names
from gpustack_op.scheduling.fit_pin import fit_pinned
from gpustack_op.scheduling.node_affinity import requiring
from tests.builders import cluster_queue, instance_type, metadata
from tests.memory_cluster import MemoryCluster

GPU = "nvidia.com/gpu"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
SLICED_KEY = "sliced-max-free-units.fit.gpustack.ai/nvidia-t4"
SHARED_KEY = "shared-free-cards.fit.gpustack.ai/nvidia-t4"
ZONE = {"key": "zone", "operator": "In", "values": ["a"]}
ENTRANCE = names.entrance("t4")

Json = dict[str, Any]


def above(key: str, amount: int) -> Json:
    return {"key": key, "operator": "Gt", "values": [str(amount)]}


def terms(*found: Json) -> Json:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(found)}}}


def demanding(*expressions: Json) -> Json:
    return {"matchExpressions": list(expressions)}


def pod_set(amounts: Mapping[str, str], *, affinity: Json | None = None, name: str = "main") -> Json:
    spec: Json = {"containers": [{"name": "a", "resources": {"requests": dict(amounts)}}]}
    return {"name": name, "count": 1, "template": {"spec": spec | ({"affinity": affinity} if affinity else {})}}


def slices(units: int) -> Mapping[str, str]:
    return {f"{GPU}.sliced": "1", f"{GPU}.sliced.units": str(units)}


def affinities(pod_sets: list[Json]) -> list[Json | None]:
    return [each["template"]["spec"].get("affinity") for each in pod_sets]


@pytest.mark.parametrize(
    ("amounts", "affinity"),
    [
        pytest.param(slices(800_000), terms(demanding(above(SLICED_KEY, 799_999))), id="a slice"),
        pytest.param({f"{GPU}.shared": "2"}, terms(demanding(above(SHARED_KEY, 1))), id="two shares"),
        pytest.param({f"{GPU}.shared": "1"}, None, id="one share, as the sum tells"),
        pytest.param({GPU: "2"}, None, id="whole cards, as the sum tells"),
        pytest.param({f"{GPU}.partitioned": "1", f"{GPU}.partitioned.mig-1g.5gb": "1"}, None, id="a partition"),
        pytest.param({"cpu": "2"}, None, id="no card"),
    ],
)
def test_what_is_demanded(amounts: Mapping[str, str], affinity: Json | None) -> None:
    assert affinities(fit_pinned([pod_set(amounts)], "nvidia-t4")) == [affinity]


def test_each_pod_set_has_its_own() -> None:
    sets = [pod_set(slices(800_000)), pod_set({"cpu": "1"}, name="b"), pod_set(slices(480_000), name="c")]
    assert affinities(fit_pinned(sets, "nvidia-t4")) == [
        terms(demanding(above(SLICED_KEY, 799_999))),
        None,
        terms(demanding(above(SLICED_KEY, 479_999))),
    ]


HERE = above(SLICED_KEY, 799_999)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            terms(demanding(ZONE), demanding(above("x", 1))),
            terms(demanding(ZONE, HERE), demanding(above("x", 1), HERE)),
            id="each alternative",
        ),
        pytest.param(
            terms(demanding(above(SLICED_KEY, 999_999))),
            terms(demanding(above(SLICED_KEY, 999_999), HERE)),
            id="another demand on the same label",
        ),
        pytest.param(terms(), terms(), id="a selector without terms"),
        pytest.param(terms({}, demanding(ZONE)), terms({}, demanding(ZONE, HERE)), id="an empty term"),
        pytest.param(
            terms({"matchFields": [ZONE]}),
            terms({"matchFields": [ZONE], "matchExpressions": [HERE]}),
            id="a term about fields",
        ),
        pytest.param(terms(demanding(HERE)), terms(demanding(HERE)), id="the pin itself"),
        pytest.param({"podAffinity": {}}, {"podAffinity": {}, **terms(demanding(HERE))}, id="another affinity"),
    ],
)
def test_what_was_demanded_before_stays(before: Json, after: Json) -> None:
    assert requiring(before, [HERE]) == after


@pytest.mark.parametrize("key", [pytest.param("", id="none"), pytest.param("a/b", id="no label key")])
def test_a_group_that_makes_no_label_pins_nothing(key: str) -> None:
    assert fit_pinned([pod_set(slices(1))], key) == [pod_set(slices(1))]


class Stand(MemoryCluster):
    """The pool `t4` and its entrance in `default`."""

    def __init__(self, *, marked: bool = True, typed: bool = True, entered: bool = True) -> None:
        super().__init__()
        queue = cluster_queue("t4")
        bare = msgspec.structs.replace(queue, metadata=metadata("t4"))
        self.add(queue if marked else bare)
        if typed:
            self.add(instance_type("t4", accelerator_group="nvidia-t4"))
        if entered:
            meta = metadata(ENTRANCE, namespace="default")
            self.add(LocalQueue(metadata=meta, spec=LocalQueueSpec(cluster_queue="t4")))
        self.fit = FitPin(self.informers, self.settings)
        self.webhook = WorkloadWebhook(self.fit)
        self.reconciler = WorkloadFitReconciler(self.informers, self.client, self.fit)

    async def answered(self, *, queue: str = ENTRANCE, old: Json | None = None) -> Json | None:
        new = {"spec": {"queueName": queue, "podSets": [pod_set(slices(800_000))]}}
        asked = AdmissionRequest(uid="1", namespace="default", object=new, old_object=old)
        return affinities((await self.webhook.default(asked))["spec"]["podSets"])[0]

    def came(self, *, reserved: str = "False") -> None:
        spec = {"queueName": ENTRANCE, "podSets": [pod_set(slices(800_000))]}
        status = {"conditions": [{"type": "QuotaReserved", "status": reserved}]}
        meta = {"name": "w", "namespace": "default"}
        self.put(WHOLE_WORKLOADS, {"metadata": meta, "spec": spec, "status": status})

    async def pass_(self) -> list[str]:
        self.writes_since()
        await self.reconciler.reconcile(Request("w", "default"))
        return self.writes_since()

    def stored(self) -> Json | None:
        return affinities(self.read(WHOLE_WORKLOADS, "w", "default").spec["podSets"])[0]


PINNED = terms(demanding(HERE))


async def test_what_leads_to_a_pool_of_cards_is_pinned() -> None:
    assert await Stand().answered() == PINNED


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param({"marked": False}, id="a queue that is not ours"),
        pytest.param({"typed": False}, id="no type"),
        pytest.param({"entered": False}, id="no entrance"),
    ],
)
async def test_a_missing_link_leaves_it_unpinned(facts: dict[str, bool]) -> None:
    assert await Stand(**facts).answered() is None


async def test_another_queue_leaves_it_unpinned() -> None:
    assert await Stand().answered(queue="mine") is None


async def test_the_setting_turns_it_off() -> None:
    stand = Stand()
    stand.set(workload_fit_affinity="false")
    assert await stand.answered() is None


@pytest.mark.parametrize(
    ("status", "affinity"),
    [pytest.param("True", None, id="with quota"), pytest.param("False", PINNED, id="without quota")],
)
async def test_an_update_is_pinned_as_long_as_there_is_no_quota(status: str, affinity: Json | None) -> None:
    old = {"status": {"conditions": [{"type": "QuotaReserved", "status": status}]}}
    assert await Stand().answered(old=old) == affinity


async def test_what_came_unpinned_is_pinned_once() -> None:
    stand = Stand()
    stand.came()
    assert await stand.pass_() == ["merge_patch w"]
    assert stand.stored() == PINNED
    assert await stand.pass_() == []


async def test_what_holds_quota_is_left_alone() -> None:
    stand = Stand()
    stand.came(reserved="True")
    assert await stand.pass_() == []


async def test_quota_that_comes_meanwhile_is_met_again_later() -> None:
    stand = Stand()
    stand.came()
    stand.trouble("merge_patch", Forbidden(403, "Forbidden", "field is immutable"))
    with pytest.raises(TryAgainError, match="immutable"):
        await stand.pass_()
