"""The controller behind the per-card check: what it writes, when it stays silent, and what a crash leaves behind.

Nodes `a` and `b` have one T4 each, unless a test says otherwise; the test plays Kueue.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from gpustack_op.api.core import NODES, PODS, Node, NodeCondition, NodeStatus, Pod
from gpustack_op.api.kueue import (
    WORKLOADS,
    AdmissionCheckRule,
    AdmissionChecksStrategy,
    Condition,
    PodSet,
    PodTemplate,
    ResourceFlavor,
    ResourceFlavorSpec,
    Workload,
)
from gpustack_op.api.worker import DEVICES, Devices, DevicesSpec
from gpustack_op.operator.admission_judge import AdmissionJudge, gave_cards_back, ledger_moved, usability_changed
from gpustack_op.operator.workload_fit import WHOLE_WORKLOADS
from gpustack_op.runtime.cache import Change
from gpustack_op.runtime.controller import DONE, Request, Result
from gpustack_op.runtime.errors import Conflict, Forbidden, InternalError
from gpustack_op.runtime.reconciler import TryAgainError
from gpustack_op.scheduling.records import Record
from tests.builders import (
    asking,
    cards_of,
    cluster_queue,
    given,
    metadata,
    placed,
    pod,
    slice_entry,
    whole_entry,
)
from tests.memory_cluster import MemoryCluster, without_nones
from tests.runtime.memory_api import ANSWER_LOST

GPU, SHARED = "nvidia.com/gpu", "nvidia.com/gpu.shared"
MARK = {"acceleratable.feature.gpustack.ai/nvidia-t4": "true"}
CHECK = "gpustack-node-devices"
ASKED_WHOLE = asking({GPU: "1"})
ASKED_SHARE = asking({SHARED: "1"})
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
FULL_A = "node a: asked for 1 whole card of nvidia-t4, but 0 of 1 cards free; card a/0 is in use (exclusive)"


def slices(percent: int) -> PodSet:
    return asking({f"{GPU}.sliced": "1", f"{GPU}.sliced.units": str(percent * 16_000)})


def marked(workload: Workload, **annotations: str) -> Workload:
    named = {f"gpustack.ai/{key}": value for key, value in annotations.items()}
    meta = msgspec.structs.replace(workload.metadata, annotations=named)
    return msgspec.structs.replace(workload, metadata=meta)


class Stand(MemoryCluster):
    def __init__(self, **cards: int) -> None:
        super().__init__()
        self.now = 100.0
        self.judge = AdmissionJudge(self.informers, self.client, self.recorder, clock=lambda: self.now)
        spec = ResourceFlavorSpec(node_labels=MARK)
        self.add(ResourceFlavor(metadata=metadata("cards"), spec=spec), pool())
        for name, number in (cards or {"a": 1, "b": 1}).items():
            self.machine(name, number)

    async def list(self, resource: Any, namespace: str = "", *, selector: Any) -> list[Pod]:
        assert resource is PODS
        node = selector.fields.removeprefix("spec.nodeName=")
        found = [msgspec.convert(body, Pod) for (plural, _, _), body in self.objects.items() if plural == "pods"]
        return [each for each in found if each.spec.node_name == node]

    def machine(self, name: str, cards: int) -> None:
        status = NodeStatus(conditions=(NodeCondition(type="Ready", status="True"),))
        marks = {**MARK, "kubernetes.io/hostname": name}
        self.add(Node(metadata=metadata(name, labels=marks), status=status))
        group = msgspec.structs.replace(cards_of("t4", cards))
        renamed = tuple(msgspec.structs.replace(card, id=f"{name}/{card.index}") for card in group.accelerators or ())
        group = msgspec.structs.replace(group, accelerators=renamed)
        self.add(Devices(metadata=metadata(name), spec=DevicesSpec(groups=(group,))))

    def uses(self, node: str, record: Record, *, name: str = "user", deleting: bool = False) -> None:
        """A Pod on the node that was given this."""
        made = pod(name, {GPU: "1"}, record=record, node=node, deleting=deleting)
        body = without_nones(msgspec.to_builtins(made))
        body["metadata"]["finalizers"] = ["kueue.x-k8s.io/managed"]
        self.put(PODS, body)

    def ends(self, name: str = "user") -> None:
        del self.objects[("pods", "default", name)]

    def came(self, name: str, asked: PodSet, node: str, *, state: str = "Pending", **facts: Any) -> None:
        self.add(placed(name, asked, at={node: 1}, checks={CHECK: state}, **facts))

    async def pass_(self, name: str = "w") -> Result:
        self.writes_since()
        return await self.judge.reconcile(Request(name, "default"))

    def workload(self, name: str = "w") -> Workload:
        return self.read(WORKLOADS, name, "default")

    def check(self, name: str = "w") -> tuple[str, str]:
        [check] = self.workload(name).status.admission_checks or ()
        return check.state, check.message

    def evicted(self, name: str = "w") -> None:
        """Kueue takes the reservation back."""
        conditions = [{"type": "QuotaReserved", "status": "False"}, {"type": "Evicted", "status": "True"}]
        self.patch(WORKLOADS, name, {"status": {"conditions": conditions, "admission": None}}, namespace="default")

    def reserved(self, node: str, asked: PodSet, name: str = "w") -> None:
        """Kueue reserves again, on this node."""
        status = msgspec.to_builtins(placed(name, asked, at={node: 1}).status)
        status.pop("admission_checks", None)
        status.pop("admissionChecks", None)
        self.patch(WORKLOADS, name, {"status": without_nones(status)}, namespace="default")

    def affinity(self, name: str = "w") -> Any:
        [pod_set] = self.read(WHOLE_WORKLOADS, name, "default").spec["podSets"]
        return pod_set["template"]["spec"].get("affinity")

    def held(self, name: str = "w") -> tuple[bool, str]:
        present = self.workload(name)
        return present.spec.active, present.annotations.get("gpustack.ai/held", "")


def pool() -> Any:
    queue = cluster_queue("pool", resource="credits.gpustack.ai/nvidia", quotas={"cards": 1})
    strategy = AdmissionChecksStrategy(admission_checks=(AdmissionCheckRule(name=CHECK),))
    return msgspec.structs.replace(queue, spec=msgspec.structs.replace(queue.spec, admission_checks_strategy=strategy))


def to(*nodes: str) -> Any:
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": list(nodes)}
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}}


# --- The verdict --------------------------------------------------------------------------------------------------


async def test_what_fits_is_ready_by_one_write() -> None:
    stand = Stand()
    stand.came("w", ASKED_WHOLE, "a")
    assert await stand.pass_() == DONE
    assert stand.writes_since() == ["apply w"]
    assert stand.check() == ("Ready", "the node has the cards")
    await stand.pass_()
    assert stand.writes_since() == []


async def test_the_verdict_is_bound_to_what_was_judged_and_tells_since_when() -> None:
    stand = Stand()
    stand.came("w", ASKED_WHOLE, "a")
    version = stand.workload().metadata.resource_version
    await stand.pass_()
    [body] = [each for each in stand.bodies if each and "status" in each]
    assert body["metadata"] == {"name": "w", "resourceVersion": version}
    assert body["status"]["admissionChecks"][0]["lastTransitionTime"].endswith("Z")


async def test_a_workload_that_changed_meanwhile_is_judged_again() -> None:
    stand = Stand()
    stand.came("w", ASKED_WHOLE, "a")
    stand.lag(WORKLOADS)
    stand.patch(WORKLOADS, "w", {"metadata": {"labels": {"a": "b"}}}, namespace="default")
    with pytest.raises(Conflict):
        await stand.pass_()
    assert stand.check()[0] == "Pending"


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param({"Evicted": "True"}, id="evicted"),
        pytest.param({"Admitted": "True"}, id="admitted"),
        pytest.param({"Finished": "True"}, id="finished"),
        pytest.param({"QuotaReserved": "False"}, id="without a reservation"),
        pytest.param({"active": False}, id="deactivated by a person"),
    ],
)
async def test_nothing_is_said(facts: Mapping[str, Any]) -> None:
    stand = Stand()
    stand.uses("a", given(whole_entry("a/0")))
    stand.came("w", ASKED_WHOLE, "a", **facts)
    assert await stand.pass_() == DONE
    assert stand.writes_since() == []


async def test_nothing_is_said_before_kueue_lists_the_check() -> None:
    stand = Stand()
    stand.add(placed("w", ASKED_WHOLE, at={"a": 1}))
    await stand.pass_()
    assert stand.writes_since() == []


async def test_only_ending_pods_in_the_way_are_waited_for() -> None:
    stand = Stand()
    stand.uses("a", given(whole_entry("a/0")), deleting=True)
    stand.came("w", ASKED_WHOLE, "a")
    assert await stand.pass_() == Result(requeue_after=30.0)
    assert stand.writes_since() == ["apply w"]
    assert stand.check() == ("Pending", f"{FULL_A}; waiting for 1 Pod to end")
    assert stand.held() == (True, "")
    stand.ends()
    await stand.pass_()
    assert stand.check()[0] == "Ready"


# --- In flight ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "first", "second"),
    [
        pytest.param(given(slice_entry("a/0", 40)), slices(60), slices(50), id="slices"),
        pytest.param({}, ASKED_WHOLE, ASKED_WHOLE, id="whole cards"),
        pytest.param({}, ASKED_WHOLE, ASKED_SHARE, id="a share on a promised card"),
        pytest.param({}, ASKED_SHARE, slices(10), id="a slice on a card with a promised share"),
    ],
)
async def test_a_promise_counts_before_anybody_sees_it(before: Record, first: PodSet, second: PodSet) -> None:
    stand = Stand(a=1)
    if before:
        stand.uses("a", before)
    stand.came("first", first, "a")
    stand.came("second", second, "a")
    stand.lag(WORKLOADS)
    await stand.pass_("first")
    await stand.pass_("second")
    assert (stand.check("first")[0], stand.check("second")[0]) == ("Ready", "Pending")
    assert "promised to 1 Pod" in stand.check("second")[1]


async def test_a_promise_counts_also_when_its_answer_is_lost() -> None:
    stand = Stand(a=1)
    stand.came("first", ASKED_WHOLE, "a")
    stand.came("second", ASKED_WHOLE, "a")
    stand.lag(WORKLOADS)
    stand.trouble("apply", ANSWER_LOST)
    with pytest.raises(ConnectionResetError):
        await stand.pass_("first")
    await stand.pass_("second")
    assert stand.check("second")[0] == "Pending"


async def test_a_promise_that_was_refused_does_not_count() -> None:
    stand = Stand(a=1)
    stand.came("first", ASKED_WHOLE, "a")
    stand.came("second", ASKED_WHOLE, "a")
    stand.trouble("apply", Conflict(409, "Conflict", "changed"))
    with pytest.raises(Conflict):
        await stand.pass_("first")
    await stand.pass_("second")
    assert stand.check("second")[0] == "Ready"


async def test_a_promise_ends_with_the_reservation() -> None:
    stand = Stand(a=1)
    stand.came("first", ASKED_WHOLE, "a")
    stand.came("second", ASKED_WHOLE, "a")
    await stand.pass_("first")
    stand.evicted("first")
    await stand.pass_("second")
    assert stand.check("second")[0] == "Ready"


async def test_kueues_webhook_that_is_down_delays_the_verdict() -> None:
    stand = Stand()
    stand.came("w", ASKED_WHOLE, "a")
    stand.trouble("apply", InternalError(500, "InternalError", "failed calling webhook"))
    with pytest.raises(InternalError):
        await stand.pass_()
    await stand.pass_()
    assert stand.check()[0] == "Ready"


async def test_ready_of_another_reservation_is_judged_anew() -> None:
    stand = Stand()
    stand.came("w", ASKED_WHOLE, "a", state="Ready")
    stand.uses("a", given(whole_entry("a/0")))
    await stand.pass_()
    assert stand.check() == ("Pending", FULL_A)


# --- Held, pinned, released ---------------------------------------------------------------------------------------


async def full_a() -> Stand:
    """Its card is in use, and `w`, sent there, is held."""
    stand = Stand()
    stand.uses("a", given(whole_entry("a/0")))
    stand.came("w", ASKED_WHOLE, "a")
    await stand.pass_()
    return stand


async def full_everywhere() -> Stand:
    stand = Stand()
    stand.uses("a", given(whole_entry("a/0")))
    stand.uses("b", given(whole_entry("b/0")), name="other")
    stand.came("w", ASKED_WHOLE, "a")
    await stand.pass_()
    stand.evicted()
    await stand.pass_()
    return stand


async def test_what_does_not_fit_gives_its_place_back_and_says_why() -> None:
    stand = await full_a()
    assert stand.writes_since() == ["apply w", "merge_patch w"]
    assert stand.check() == ("Pending", FULL_A)
    assert stand.held() == (False, FULL_A)
    assert stand.told.events == [("WaitingForCards", FULL_A)]


async def test_it_stays_held_until_kueue_has_taken_the_place_back() -> None:
    stand = await full_a()
    await stand.pass_()
    assert stand.writes_since() == []


async def test_it_is_let_back_in_where_it_fits() -> None:
    stand = await full_a()
    stand.evicted()
    await stand.pass_()
    assert stand.writes_since() == ["merge_patch w"]
    assert (stand.held(), stand.affinity()) == ((True, ""), to("b"))
    await stand.pass_()
    assert stand.writes_since() == []
    stand.reserved("b", ASKED_WHOLE)
    await stand.pass_()
    assert stand.check()[0] == "Ready"


async def test_it_waits_outside_while_it_fits_nowhere_and_comes_back_with_the_ledger() -> None:
    stand = await full_everywhere()
    assert stand.held() == (False, FULL_A)
    stand.ends("other")
    b = stand.read(DEVICES, "b")
    assert stand.judge.waiting_for_devices(b) == [Request("w", "default")]
    await stand.pass_()
    assert (stand.held(), stand.affinity()) == ((True, ""), to("b"))


async def test_the_node_that_refused_it_is_tried_again_once_its_ledger_moves() -> None:
    stand = await full_everywhere()
    stand.ends()
    await stand.pass_()
    assert stand.held()[0] is False
    stand.judge.waiting_for_devices(stand.read(DEVICES, "a"))
    await stand.pass_()
    assert stand.affinity() == to("a")


async def test_where_its_node_selector_forbids_it_to_go_is_not_tried() -> None:
    stand = Stand()
    stand.uses("a", given(whole_entry("a/0")))
    template = msgspec.structs.replace(
        ASKED_WHOLE.template.spec, node_selector={"kubernetes.io/hostname": "a", "unknown.example/label": "x"}
    )
    asked = msgspec.structs.replace(ASKED_WHOLE, template=PodTemplate(spec=template))
    stand.came("w", asked, "a")
    await stand.pass_()
    stand.evicted()
    await stand.pass_()
    assert stand.held() == (False, FULL_A)
    stand.ends()
    stand.judge.waiting_for_devices(stand.read(DEVICES, "a"))
    await stand.pass_()
    assert stand.affinity() == to("a")


async def test_it_is_let_back_in_anywhere_after_half_a_minute() -> None:
    stand = await full_everywhere()
    stand.now += 29.9
    result = await stand.pass_()
    assert stand.held()[0] is False
    assert result.requeue_after == pytest.approx(0.1)
    stand.now += 0.1
    await stand.pass_()
    assert (stand.held(), stand.affinity()) == ((True, ""), None)


async def test_a_pin_that_led_nowhere_is_taken_off_after_half_a_minute() -> None:
    stand = await full_a()
    stand.evicted()
    await stand.pass_()
    stand.now += 30
    await stand.pass_()
    assert (stand.affinity(), stand.workload().annotations) == (None, {})


async def test_a_pin_follows_the_ledgers() -> None:
    stand = await full_a()
    stand.evicted()
    await stand.pass_()
    stand.uses("b", given(whole_entry("b/0")), name="faster")
    stand.ends()
    stand.judge.waiting_for_devices(stand.read(DEVICES, "a"))
    await stand.pass_()
    assert stand.affinity() == to("a")


async def test_the_affinity_of_before_comes_back() -> None:
    stand = await full_a()
    zone = {
        "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [{"key": "z", "operator": "Exists"}]}]}}
    }
    whole = stand.read(WHOLE_WORKLOADS, "w", "default").spec
    [pod_set] = whole["podSets"]
    pod_set["template"]["spec"]["affinity"] = zone
    stand.patch(WORKLOADS, "w", {"spec": {"podSets": [pod_set]}}, namespace="default")
    stand.evicted()
    await stand.pass_()
    [pinned] = stand.affinity()["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert [each["key"] for each in pinned["matchExpressions"]] == ["z", "kubernetes.io/hostname"]
    stand.now += 30
    await stand.pass_()
    assert stand.affinity() == zone


async def test_two_that_cannot_both_go_are_not_tried_without_end() -> None:
    stand = Stand(a=2)
    stand.uses("a", given(slice_entry("a/0", 60)))
    both = msgspec.structs.replace(slices(60), count=2)
    stand.add(placed("w", both, at={"a": 2}, checks={CHECK: "Pending"}))
    await stand.pass_()
    stand.evicted()
    await stand.pass_()
    assert stand.held()[0] is False


# --- What others do meanwhile, and crashes ------------------------------------------------------------------------


async def test_a_person_may_let_it_in_at_any_time() -> None:
    stand = await full_everywhere()
    stand.patch(WORKLOADS, "w", {"spec": {"active": True}}, namespace="default")
    await stand.pass_()
    assert stand.workload().annotations == {}


async def test_a_person_may_deactivate_what_was_let_back_in() -> None:
    stand = await full_a()
    stand.evicted()
    await stand.pass_()
    stand.patch(WORKLOADS, "w", {"spec": {"active": False}}, namespace="default")
    stand.now += 60
    await stand.pass_()
    assert stand.writes_since() == []
    assert stand.held()[0] is False


async def test_a_new_process_lets_in_what_an_earlier_one_held() -> None:
    stand = await full_everywhere()
    stand.judge = AdmissionJudge(stand.informers, stand.client, stand.recorder, clock=lambda: stand.now)
    await stand.pass_()
    assert (stand.held(), stand.affinity()) == ((True, ""), None)


async def test_a_new_process_takes_off_a_pin_that_an_earlier_one_made() -> None:
    stand = await full_a()
    stand.evicted()
    await stand.pass_()
    stand.judge = AdmissionJudge(stand.informers, stand.client, stand.recorder, clock=lambda: stand.now)
    await stand.pass_()
    assert (stand.affinity(), stand.workload().annotations) == (None, {})


async def test_a_crash_between_the_sentence_and_the_hold_is_made_good() -> None:
    stand = Stand()
    stand.uses("a", given(whole_entry("a/0")))
    stand.came("w", ASKED_WHOLE, "a")
    stand.trouble("merge_patch", ConnectionResetError())
    with pytest.raises(ConnectionResetError):
        await stand.pass_()
    assert (stand.check()[1], stand.held()[0]) == (FULL_A, True)
    stand.judge = AdmissionJudge(stand.informers, stand.client, stand.recorder, clock=lambda: stand.now)
    await stand.pass_()
    assert stand.writes_since() == ["merge_patch w"]
    assert stand.held() == (False, FULL_A)


async def test_a_lost_answer_to_the_release_is_made_good() -> None:
    stand = await full_a()
    stand.evicted()
    stand.trouble("merge_patch", ANSWER_LOST)
    with pytest.raises(ConnectionResetError):
        await stand.pass_()
    await stand.pass_()
    assert stand.writes_since() == []
    assert (stand.held(), stand.affinity()) == ((True, ""), to("b"))


async def test_quota_that_comes_before_the_pin_is_met_again_later() -> None:
    stand = await full_a()
    stand.evicted()
    stand.trouble("merge_patch", Forbidden(403, "Forbidden", "field is immutable"))
    with pytest.raises(TryAgainError):
        await stand.pass_()


# --- What came unasked --------------------------------------------------------------------------------------------


def unasked(queue: str = "pool") -> Workload:
    made = placed("w", asking({"cpu": "1"}), at={"a": 1})
    admission = made.status.admission
    assert admission is not None
    bare = tuple(msgspec.structs.replace(each, flavors=None) for each in admission.pod_set_assignments or ())
    admission = msgspec.structs.replace(admission, pod_set_assignments=bare, cluster_queue=queue)
    return msgspec.structs.replace(made, status=msgspec.structs.replace(made.status, admission=admission))


async def test_what_asks_for_no_card_is_turned_away_from_cards() -> None:
    stand = Stand()
    stand.add(unasked())
    await stand.pass_()
    assert stand.held() == (False, "")
    [(reason, sentence)] = stand.told.events
    assert reason == "NoCardsAskedFor"
    assert sentence == (
        "queue pool gives out cards, and the Workload asks for none; "
        "ask for one, or use the queue of a type without accelerators"
    )
    await stand.pass_()
    assert stand.writes_since() == []


async def test_what_asks_for_no_card_is_left_alone_elsewhere() -> None:
    stand = Stand()
    stand.add(unasked("another"))
    await stand.pass_()
    assert stand.writes_since() == []


# --- What wakes it ------------------------------------------------------------------------------------------------


def condition(kind: str, status: str = "True") -> Condition:
    return Condition(type=kind, status=status)


def test_cards_given_back_wake_those_who_wait() -> None:
    holding = placed("x", ASKED_WHOLE, at={"a": 1}, checks={CHECK: "Ready"})
    waiting = placed("x", ASKED_WHOLE, at={"a": 1})
    assert gave_cards_back(Change(holding, None, initial=False))
    assert gave_cards_back(Change(holding, waiting, initial=False))
    assert not gave_cards_back(Change(waiting, holding, initial=False))


async def test_a_heartbeat_wakes_nobody() -> None:
    stand = Stand()
    before = stand.read(NODES, "a")
    stand.patch(NODES, "a", {"metadata": {"labels": {"sliced-max-free-units.fit.gpustack.ai/nvidia-t4": "0"}}})
    assert not usability_changed(Change(before, stand.read(NODES, "a"), initial=False))
    stand.patch(NODES, "a", {"spec": {"unschedulable": True}})
    assert usability_changed(Change(before, stand.read(NODES, "a"), initial=False))


async def test_marks_on_devices_wake_nobody() -> None:
    stand = Stand()
    before = stand.read(DEVICES, "a")
    stand.patch(DEVICES, "a", {"metadata": {"labels": {"a": "b"}}})
    assert not ledger_moved(Change(before, stand.read(DEVICES, "a"), initial=False))
