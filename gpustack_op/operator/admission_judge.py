"""Judges Workloads that ask for cards: the controller behind the AdmissionCheck `gpustack-node-devices`.

Owns      the state of that check in a Workload's status; `spec.active` of a Workload that it holds itself (see `holds`)
          and the pin to nodes of its PodSets.
Never     says anything while a Workload is evicted, admitted or without a reservation; touches one that a person
          deactivated; retries, rejects or preempts.
Woken by  Workloads (primary), Devices and Nodes for which a Workload waits, a Workload that gives its cards back.
Promises  Ready is said of one state of a Workload, one Workload at a time, and counts as given away from then on. What
          does not fit blocks nobody: it gives its reservation back, is tried where it fits as soon as a ledger says so,
          and anywhere after half a minute. Why it waits is told in one sentence. What came into a queue of cards
          without asking for any is deactivated.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime

from gpustack_op.api.core import Node
from gpustack_op.api.kueue import WORKLOADS, Admission, Workload
from gpustack_op.api.worker import Devices
from gpustack_op.operator.holds import HELD, PINNED, Holds, is_held, pins_of
from gpustack_op.operator.informers import Informers
from gpustack_op.operator.node_sights import NodeSights, hostname
from gpustack_op.operator.ownership import is_pool
from gpustack_op.operator.unseen_verdicts import UnseenVerdicts, our_check
from gpustack_op.operator.waiting_list import PATIENCE, Wait, WaitingList
from gpustack_op.runtime.cache import Change
from gpustack_op.runtime.client import Client
from gpustack_op.runtime.controller import DONE, Request, Result
from gpustack_op.runtime.errors import ApiError
from gpustack_op.runtime.event_objects import ObjectReference
from gpustack_op.runtime.events import Recorder
from gpustack_op.scheduling import names
from gpustack_op.scheduling.card_fit import Inputs, Judgement, NodeSight, Verdict, fitting_nodes, judge
from gpustack_op.scheduling.manufacturers import MANUFACTURERS
from gpustack_op.scheduling.promises import holds_cards, is_true
from gpustack_op.scheduling.requests import assignments_of, workload_demands

UNASKED = (
    "queue {queue} gives out cards, and the Workload asks for none; "
    "ask for one, or use the queue of a type without accelerators"
)
FITS = "the node has the cards"
"""What is said with Ready."""


class AdmissionJudge:
    name = "admission-judge"

    def __init__(
        self, informers: Informers, client: Client, recorder: Recorder, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.informers = informers
        self.client = client
        self.recorder = recorder
        self.sights = NodeSights(informers, client)
        self.holds = Holds(client)
        self.unseen = UnseenVerdicts()
        self.waiting = WaitingList(clock)
        self._ready: dict[Request, tuple[str, Admission | None]] = {}

    async def reconcile(self, request: Request) -> Result:
        workload = self.informers.workloads.get(request.name, request.namespace)
        if workload is None or workload.deleting or is_true(workload, "Finished"):
            self._forget(request)
            return DONE
        if not workload.spec.active:
            return await self._inactive(workload, request)
        if HELD in workload.annotations:
            await self.holds.disown(workload)
            return DONE
        if not is_true(workload, "QuotaReserved"):
            self._ready.pop(request, None)
            return await self._waiting_for_quota(workload)
        return DONE if is_true(workload, "Evicted") else await self._reserved(workload, request)

    async def _reserved(self, workload: Workload, request: Request) -> Result:
        if self._came_unasked(workload):
            await self._turn_away(workload)
        elif is_true(workload, "Admitted"):
            self._forget(request)
        elif (check := our_check(workload)) is not None:  # else Kueue has yet to list it
            said = self._ready.get(request) if check.state == "Ready" else None
            if said != (workload.uid, workload.status.admission):
                return await self._judge(workload, request)
        return DONE

    def _forget(self, request: Request) -> None:
        self.waiting.drop(request)
        self._ready.pop(request, None)

    # --- The verdict

    async def _judge(self, workload: Workload, request: Request) -> Result:
        assigned = {demand.node for demand in workload_demands(workload)} - {""}
        pool = self.sights.hosts_of_pool(_queue(workload))
        nodes = self.sights.without_pods(pool) | await self.sights.fresh(assigned)
        verdict = judge(self._inputs(workload, nodes))
        if verdict.judgement is Judgement.READY:
            await self._say_ready(workload)
            self._ready[request] = workload.uid, workload.status.admission
            return DONE
        self.unseen.forget(workload.uid)
        sentence = verdict.sentence.replace("%", " percent")
        self._tell(workload, "WaitingForCards", sentence)
        said = await self._say(workload, "Pending", sentence)
        await self._wait(said, verdict, assigned, sentence)
        return Result(requeue_after=PATIENCE)

    async def _wait(self, workload: Workload, verdict: Verdict, assigned: Iterable[str], sentence: str) -> None:
        candidates = {*verdict.candidates, *assigned}
        if verdict.judgement is Judgement.WAIT:
            self.waiting.put(workload, candidates)
            return
        self.waiting.put(workload, candidates, refused=assigned)
        await self.holds.hold(workload, sentence)

    async def _say_ready(self, workload: Workload) -> None:
        self.unseen.remember(workload)
        try:
            await self._say(workload, "Ready", FITS)
        except ApiError as refusal:
            if refusal.status < 500:  # certain not to have been written
                self.unseen.forget(workload.uid)
            raise

    async def _say(self, workload: Workload, state: str, message: str) -> Workload:
        """Bound to the state that was judged: a Ready without a reservation would admit the next one unjudged."""
        present = our_check(workload)
        if present is not None and (present.state, present.message) == (state, message):
            return workload
        since = present.last_transition_time if present and present.state == state else ""
        entry = {
            "name": names.NODE_DEVICES_CHECK,
            "state": state,
            "message": message,
            "lastTransitionTime": since or datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        metadata = {"name": workload.name, "resourceVersion": workload.metadata.resource_version}
        return await self.client.apply(
            WORKLOADS,
            {"metadata": metadata, "status": {"admissionChecks": [entry]}},
            namespace=workload.namespace,
            subresource="status",
            field_manager=names.NODE_DEVICES_CHECK,
        )

    def _inputs(self, workload: Workload, nodes: Mapping[str, NodeSight]) -> Inputs:
        flavors = {flavor.name: flavor for flavor in self.informers.flavors.all()}
        others = [each for each in self.unseen.overlaid(self.informers.workloads.all()) if holds_cards(each)]
        return Inputs(workload=workload, nodes=nodes, flavors=flavors, others=others)

    # --- Held, and let back in

    async def _inactive(self, workload: Workload, request: Request) -> Result:
        self._ready.pop(request, None)
        if is_held(workload):
            return await self._held(workload)
        self.waiting.drop(request)  # a person's wish, or Kueue's
        return DONE

    async def _held(self, workload: Workload) -> Result:
        if is_true(workload, "QuotaReserved"):
            return Result(requeue_after=PATIENCE)  # Kueue is still taking it back
        wait = self.waiting.get(workload)
        if wait is None:
            await self.holds.release(workload, {})
            return DONE
        pins = await self._pins(wait)
        left = self.waiting.left(wait)
        if not pins and left > 0:
            return Result(requeue_after=left)
        await self._release(workload, wait, pins)
        return Result(requeue_after=PATIENCE)

    async def _waiting_for_quota(self, workload: Workload) -> Result:
        """A pin is only as good as the ledgers it was made by."""
        if PINNED not in workload.annotations:
            return DONE
        wait = self.waiting.get(workload)
        if wait is None or self.waiting.left(wait) <= 0:
            await self.holds.release(workload, {})
            return DONE
        pins = await self._pins(wait)
        if pins and pins != pins_of(workload.annotations[PINNED]):
            await self.holds.release(workload, pins)
        return Result(requeue_after=self.waiting.left(wait))

    async def _release(self, workload: Workload, wait: Wait, pins: dict[str, tuple[str, ...]]) -> None:
        await self.holds.release(workload, pins)
        self.waiting.restart(wait)
        if not pins:
            wait.refused.clear()

    async def _pins(self, wait: Wait) -> dict[str, tuple[str, ...]]:
        """By PodSet where it may go and fits now, unless it was refused there; empty when one of them fits nowhere."""
        nodes = await self.sights.fresh(set(wait.candidates) - wait.refused)
        fits = fitting_nodes(self._inputs(wait.judged, nodes))
        selectors = {each.name: each.template.spec.node_selector or {} for each in wait.judged.spec.pod_sets or ()}
        pins = {name: self.sights.selected(hosts, selectors[name]) for name, hosts in fits.items()}
        return pins if all(pins.values()) else {}

    # --- What came unasked

    def _came_unasked(self, workload: Workload) -> bool:
        """Whether it is in a queue of cards, where the check does not apply to it, since Kueue counts nothing of it."""
        assignments = assignments_of(workload).values()
        if any(MANUFACTURERS.of_credits(name) for each in assignments for name in each.flavors or {}):
            return False
        queue = (
            self.informers.queues.get(workload.status.admission.cluster_queue) if workload.status.admission else None
        )
        if queue is None or not is_pool(queue) or our_check(workload) is not None:
            return False
        strategy = queue.spec.admission_checks_strategy
        return any(rule.name == names.NODE_DEVICES_CHECK for rule in (strategy and strategy.admission_checks) or ())

    async def _turn_away(self, workload: Workload) -> None:
        await self.holds.deactivate(workload)
        self._tell(workload, "NoCardsAskedFor", UNASKED.format(queue=_queue(workload)))

    # --- Around it

    def _tell(self, workload: Workload, reason: str, sentence: str) -> None:
        """On whoever the Workload stands for: people look there."""
        owners = workload.metadata.owner_references or ()
        for owner in owners:
            about = ObjectReference(owner.api_version, owner.kind, owner.name, workload.namespace, owner.uid)
            self.recorder.event(about, "Warning", reason, sentence, action="JudgeAdmission")
        if not owners:
            self.recorder.event(workload, "Warning", reason, sentence, action="JudgeAdmission", resource=WORKLOADS)

    def waiting_for_devices(self, devices: Devices) -> list[Request]:
        node = self.informers.nodes.get(devices.name)
        return self.waiting.moved(hostname(node)) if node else []

    def waiting_for_node(self, node: Node) -> list[Request]:
        return self.waiting.moved(hostname(node))

    def waiting_for_anything(self, _given_back: Workload) -> list[Request]:
        return self.waiting.everybody()


def _queue(workload: Workload) -> str:
    """The ClusterQueue that it has quota in."""
    return workload.status.admission.cluster_queue if workload.status.admission else ""


def gave_cards_back(change: Change[Workload]) -> bool:
    return change.old is not None and holds_cards(change.old) and not (change.new and holds_cards(change.new))


def ledger_moved(change: Change[Devices]) -> bool:
    old, new = change.old, change.new
    return old is None or new is None or old.status != new.status or old.spec != new.spec


def usability_changed(change: Change[Node]) -> bool:
    """Not the heartbeats, nor the labels that follow the ledger."""
    old, new = change.old, change.new
    if old is None or new is None:
        return True
    return _usability(old) != _usability(new)


def _usability(node: Node) -> tuple[object, ...]:
    ready = [c.status for c in node.status.conditions or () if c.type == "Ready"]
    return ready, node.spec.unschedulable, node.deleting
