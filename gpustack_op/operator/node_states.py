"""What every node offers to the pools, believed and up to date.

Guarantees   `of_flavor` and `state` reflect every Node and NodeFeature that the caches hold. Whoever subscribes is told
             the node and the flavors it offered before or offers now, also when only time has passed.
Assumptions  Constructed before the informers run; lives on the event loop's thread.
Recovery     Nothing is stored: a new process derives the same from the caches.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gpustack_op.api.core import Node
from gpustack_op.api.nfd import NodeFeature
from gpustack_op.operator.beliefs import Beliefs, Evidence
from gpustack_op.operator.informers import Informers
from gpustack_op.operator.node_feature import node_of, published, reported
from gpustack_op.operator.settings.live import LiveSettings
from gpustack_op.runtime.cache import Change
from gpustack_op.scheduling import labels, names
from gpustack_op.scheduling.flavors import Contribution, NodeFacts, contributions, left_out_because

PUBLISHED = (labels.MANAGED, labels.GENERAL_PREFIX, labels.ACCELERATOR_PREFIX, labels.FEATURE_PREFIX)
"""Labels of which the Node's own copy is only an echo."""

Subscriber = Callable[[str, frozenset[str]], None]


@dataclass(frozen=True, slots=True)
class NodeState:
    """One node's part in the pools. `left_out` is the sentence that says why it has none; empty otherwise."""

    managed: bool
    general_key: str
    left_out: str
    flavors: Mapping[str, Contribution]


ABSENT = NodeState(managed=False, general_key="", left_out="", flavors={})


class NodeStates:
    def __init__(
        self, informers: Informers, settings: LiveSettings, *, namespace: str, clock: Callable[[], float]
    ) -> None:
        self.informers = informers
        self.settings = settings
        self.namespace = namespace
        self.beliefs = Beliefs(clock)
        self._states: dict[str, NodeState] = {}
        self._nodes_of: dict[str, set[str]] = defaultdict(set)
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._subscribers: list[Subscriber] = []
        informers.nodes.add_handler(self._on_node)
        informers.node_features.add_handler(self._on_node_feature)
        settings.subscribe(lambda _: self.refresh_all())

    def subscribe(self, subscriber: Subscriber) -> None:
        self._subscribers.append(subscriber)

    def state(self, node: str) -> NodeState:
        return self._states.get(node, ABSENT)

    def of_flavor(self, flavor: str) -> list[Contribution]:
        """What the nodes behind a flavor offer, by node name; those that another selector would be needed for aside."""
        parts = [self._states[node].flavors[flavor] for node in sorted(self._nodes_of.get(flavor, ()))]
        return [part for part in parts if part.selector == parts[0].selector]

    def refresh_all(self) -> None:
        for node in self.informers.nodes.all():
            self.refresh(node.name)

    def refresh(self, name: str) -> None:
        """Derives one node's state anew and tells the subscribers."""
        before = self.state(name)
        after = self._derive(name)
        self._remember(name, before, after)
        if before != after or name not in self._states:
            affected = frozenset(before.flavors) | frozenset(after.flavors)
            for subscriber in self._subscribers:
                subscriber(name, affected)

    def _derive(self, name: str) -> NodeState:
        self._cancel_timer(name)
        node = self.informers.nodes.get(name)
        if node is None:
            self.beliefs.forget(name)
            return ABSENT
        worker = self.informers.node_features.get(names.worker_feature(name), self.namespace)
        agent = self.informers.node_features.get(names.agent_feature(name), self.namespace)
        believed = self._believe(node, worker, agent)
        facts = _facts(node, believed, reported(agent)[0])
        mixed = self.settings.current.instance_type_mixed_on_node
        return NodeState(
            managed=believed.get(labels.MANAGED) == labels.TRUE,
            general_key=facts.general_key,
            left_out=left_out_because(facts, mixed=mixed),
            flavors={part.flavor: part for part in contributions(facts, mixed=mixed)},
        )

    def _believe(self, node: Node, worker: NodeFeature | None, agent: NodeFeature | None) -> Mapping[str, str]:
        said = {**published(worker), **published(agent)}
        evidence = Evidence(
            published=_manual_mark(said, node), complete=None not in (worker, agent), echoed=node.labels
        )
        belief = self.beliefs.believe(node.name, evidence, grace=self.settings.current.node_labels_grace_period)
        if belief.expires_in is not None:
            loop = asyncio.get_running_loop()
            self._timers[node.name] = loop.call_later(belief.expires_in, self.refresh, node.name)
        return belief.labels

    def _remember(self, name: str, before: NodeState, after: NodeState) -> None:
        for flavor in before.flavors:
            self._nodes_of[flavor].discard(name)
        if after is ABSENT:
            self._states.pop(name, None)
        else:
            self._states[name] = after
        for flavor in after.flavors:
            self._nodes_of[flavor].add(name)

    def _cancel_timer(self, name: str) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()

    def _on_node(self, change: Change[Node]) -> None:
        self.refresh((change.new or change.old).name)  # type: ignore[union-attr]

    def _on_node_feature(self, change: Change[NodeFeature]) -> None:
        for feature in (change.old, change.new):
            for request in node_of(feature) if feature else ():
                self.refresh(request.name)


def _facts(node: Node, believed: Mapping[str, str], cpu: Mapping[str, str] | None) -> NodeFacts:
    own = {key: value for key, value in node.labels.items() if not key.startswith(PUBLISHED)}
    return NodeFacts(name=node.name, labels={**own, **believed}, cpu=cpu or {}, taints=node.spec.taints or ())


def _manual_mark(said: Mapping[str, str], node: Node) -> Mapping[str, str]:
    """In manual mode the NodeFeature says nothing of being managed: then the Node's own label is the mark."""
    if labels.MANAGED in said or labels.MANAGED not in node.labels:
        return said
    return {**said, labels.MANAGED: node.labels[labels.MANAGED]}
