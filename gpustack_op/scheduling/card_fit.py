"""The verdict of the per-card check: whether the node that was chosen for a Workload has the cards it asks for.

Guarantees   Ready is said only of nodes that exist, are Ready and schedulable, still carry the labels of the flavor,
             and where everything fits beside what is in use and what is promised, in whatever order the promises are
             taken. Pods of every queue and of none are counted until they are gone. What does not fit is told in one
             sentence.
Assumptions  The Workload has a reservation and is neither admitted nor evicted. The Workloads beside it are as new as
             the last verdict. The Pods of a node are one list of all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from gpustack_op.api.core import Node, Pod
from gpustack_op.api.kueue import ResourceFlavor, Workload
from gpustack_op.api.worker import DeviceGroup
from gpustack_op.scheduling.card_budget import CardBudget, Piece, card_budget, pieces_of
from gpustack_op.scheduling.claims import claim_of
from gpustack_op.scheduling.landing import lands_in_any_order
from gpustack_op.scheduling.ledger import rebuilt
from gpustack_op.scheduling.manufacturers import MANUFACTURERS, Manufacturers
from gpustack_op.scheduling.promises import flavor_key, holds_cards, promises
from gpustack_op.scheduling.requests import Demand, assignments_of, flavor_of, pod_set_demands, workload_demands
from gpustack_op.scheduling.shortage import shortage


class Judgement(Enum):
    """READY: admit. WAIT: keep the reservation, what is in the way is on its way. HELD: give the reservation back."""

    READY = "ready"
    WAIT = "wait"
    HELD = "held"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """`candidates` are the nodes of which a new ledger may change the verdict."""

    judgement: Judgement
    sentence: str = ""
    candidates: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSight:
    """One node as it was read for a judgement. `node` is None when it is gone."""

    name: str
    node: Node | None
    groups: tuple[DeviceGroup, ...] = ()
    pods: tuple[Pod, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """`nodes` by hostname: at least those assigned; the others of the pool become candidates too.

    `others` may be all Workloads there are, this one too: only those that hold cards count.
    """

    workload: Workload
    nodes: Mapping[str, NodeSight]
    flavors: Mapping[str, ResourceFlavor] = field(default_factory=dict)
    others: Sequence[Workload] = ()
    manufacturers: Manufacturers = MANUFACTURERS


def judge(inputs: Inputs) -> Verdict:
    demands = workload_demands(inputs.workload, inputs.manufacturers)
    by_node: dict[str, list[Demand]] = {}
    for demand in demands:
        by_node.setdefault(demand.node, []).append(demand)
    found = [_judge_node(inputs, hostname, wanted) for hostname, wanted in sorted(by_node.items())]
    for judgement in (Judgement.HELD, Judgement.WAIT):
        sentences = [sentence for kind, sentence in found if kind is judgement]
        if sentences:
            return Verdict(judgement=judgement, sentence=sentences[0], candidates=_candidates(inputs, demands))
    return Verdict(judgement=Judgement.READY)


def fitting_nodes(inputs: Inputs) -> dict[str, tuple[str, ...]]:
    """By PodSet that asks for cards: the hostnames, of those given, where one of its Pods fits now."""
    workload = inputs.workload
    assignments = assignments_of(workload)
    fits: dict[str, tuple[str, ...]] = {}
    for pod_set in workload.spec.pod_sets or ():
        demands = pod_set_demands(pod_set, manufacturers=inputs.manufacturers)
        assignment = assignments.get(pod_set.name)
        key = _key(inputs, flavor_of(assignment, inputs.manufacturers)) if assignment else ""
        if demands and key:
            fits[pod_set.name] = tuple(host for host in sorted(inputs.nodes) if _fits_now(inputs, host, demands, key))
    return fits


def unusable(sight: NodeSight | None, flavor: ResourceFlavor | None = None) -> str:
    """Why a Pod cannot be placed on a node, cards aside; empty when it can."""
    if sight is None or sight.node is None or sight.node.deleting:
        return "is gone"
    if not any(c.type == "Ready" and c.status == "True" for c in sight.node.status.conditions or ()):
        return "is not Ready"
    if sight.node.spec.unschedulable:
        return "is cordoned"
    wanted = (flavor.spec.node_labels or {}) if flavor else {}
    missing = sorted(key for key, value in wanted.items() if sight.node.labels.get(key) != value)
    return f"no longer has the label {missing[0]}={wanted[missing[0]]} of its flavor" if missing else ""


def _judge_node(inputs: Inputs, hostname: str, demands: Sequence[Demand]) -> tuple[Judgement, str]:
    sight = inputs.nodes.get(hostname)
    for demand in demands:
        if doubt := _doubt(inputs, sight, demand):
            return Judgement.HELD, _roles(demand) + doubt
    if sight is None:
        return Judgement.HELD, f"node {hostname}: is gone"
    wanted = [(demand, _key(inputs, demand.flavor)) for demand in demands]
    state = _node_state(inputs, hostname, sight, sight.pods)
    short = _short(hostname, state.budget, wanted)
    if short:
        return _held_or_wait(inputs, hostname, sight, wanted, short + state.clause)
    own = [piece for demand, key in wanted for piece in pieces_of(demand, key)]
    if not lands_in_any_order(state.before, [*state.landed, *own]):
        pods = _pods(state.pods)
        return Judgement.WAIT, f"node {hostname}: it fits once {pods} that were promised cards there have taken them"
    return Judgement.READY, ""


def _held_or_wait(
    inputs: Inputs, hostname: str, sight: NodeSight, wanted: Sequence[tuple[Demand, str]], sentence: str
) -> tuple[Judgement, str]:
    """Only Pods that are ending in the way: wait for them."""
    staying = [pod for pod in sight.pods if not pod.deleting]
    leaving = len(sight.pods) - len(staying)
    if leaving and not _short(hostname, _node_state(inputs, hostname, sight, staying).budget, wanted):
        return Judgement.WAIT, f"{sentence}; waiting for {_pods(leaving)} to end"
    return Judgement.HELD, sentence


@dataclass(frozen=True, slots=True)
class _NodeState:
    """The cards `before` and (`budget`) after what is promised was taken from them."""

    before: CardBudget
    budget: CardBudget
    landed: list[tuple[Piece, int]]
    pods: int

    @property
    def clause(self) -> str:
        return (
            f"; cards promised to {_pods(self.pods)} that have not taken them yet count as taken" if self.pods else ""
        )


def _node_state(inputs: Inputs, hostname: str, sight: NodeSight, pods: Sequence[Pod]) -> _NodeState:
    ledger = rebuilt(sight.groups, map(claim_of, pods), inputs.manufacturers)
    before = card_budget(sight.groups, ledger)
    promised = promises(
        hostname=hostname,
        pods=pods,
        groups=sight.groups,
        others=[w for w in inputs.others if w.uid != inputs.workload.uid and holds_cards(w)],
        flavors=inputs.flavors,
        manufacturers=inputs.manufacturers,
    )
    budget, landed = before.after_all(piece for promise in promised for piece in promise.pieces)
    return _NodeState(before, budget, landed, sum(promise.pods for promise in promised))


def _short(hostname: str, budget: CardBudget, wanted: Iterable[tuple[Demand, str]]) -> str:
    """The sentence about the first demand that does not fit; empty when all do."""
    for demand, key in wanted:
        for piece, count in pieces_of(demand, key):
            following, landed = budget.after_all([(piece, count)])
            if landed != [(piece, count)]:
                return _roles(demand) + shortage(hostname, budget, piece, count)
            budget = following
    return ""


def _doubt(inputs: Inputs, sight: NodeSight | None, demand: Demand) -> str:
    """Why a demand cannot be judged by cards at all."""
    flavor = inputs.flavors.get(demand.flavor)
    if flavor is None:
        return (
            f"flavor {demand.flavor!r} of the admission does not exist"
            if demand.flavor
            else ("the admission does not name one flavor of cards")
        )
    if not _key(inputs, demand.flavor):
        return f"flavor {demand.flavor} does not name one sort of card; its node labels need one accelerator key"
    if not demand.node:
        return f"the admission names no node; flavor {demand.flavor} needs a topologyName with the level hostname"
    reason = unusable(sight, flavor)
    return f"node {demand.node}: {reason}" if reason else ""


def _candidates(inputs: Inputs, demands: Iterable[Demand]) -> tuple[str, ...]:
    """The nodes with a card that takes part in one of the families asked for, in use or not."""
    wanted = {(_key(inputs, demand.flavor), demand.family) for demand in demands}
    found = []
    for hostname, sight in sorted(inputs.nodes.items()):
        cards = card_budget(sight.groups, rebuilt(sight.groups, ())).cards
        if any(card.key == key and card.serves(family) for card in cards for key, family in wanted):
            found.append(hostname)
    return tuple(found)


def _fits_now(inputs: Inputs, hostname: str, demands: Sequence[Demand], key: str) -> bool:
    sight = inputs.nodes[hostname]
    if unusable(sight):
        return False
    state = _node_state(inputs, hostname, sight, sight.pods)
    return not _short(hostname, state.budget, [(demand, key) for demand in demands])


def _key(inputs: Inputs, flavor: str) -> str:
    return flavor_key(inputs.flavors.get(flavor), inputs.manufacturers)


def _roles(demand: Demand) -> str:
    return f"PodSet {', '.join(demand.pod_sets)}: " if demand.pod_sets else ""


def _pods(count: int) -> str:
    return f"{count} Pod" if count == 1 else f"{count} Pods"
