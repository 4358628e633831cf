"""Every controller of the operator: its reconciler, and what wakes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from gpustack_op.api.kueue import CLUSTER_QUEUES
from gpustack_op.api.nfd import NodeFeature
from gpustack_op.operator import flavor_derivation, queue
from gpustack_op.operator.admission_check import AdmissionCheckReconciler
from gpustack_op.operator.admission_judge import AdmissionJudge, gave_cards_back, ledger_moved, usability_changed
from gpustack_op.operator.devices import DevicesReconciler
from gpustack_op.operator.fit_labels import FitLabelsReconciler, fit_changed
from gpustack_op.operator.flavor_derivation import FlavorDerivationReconciler
from gpustack_op.operator.informers import Informers
from gpustack_op.operator.instance_type import InstanceTypeReconciler
from gpustack_op.operator.instance_type_flavor import InstanceTypeFlavorReconciler
from gpustack_op.operator.instance_type_status import InstanceTypeStatusReconciler
from gpustack_op.operator.node_capacity import NodeCapacityReconciler, capacity_changed
from gpustack_op.operator.node_feature import NodeFeatureReconciler, node_of
from gpustack_op.operator.node_feature_rule import NodeFeatureRuleReconciler
from gpustack_op.operator.node_states import NodeStates
from gpustack_op.operator.queue import QueueReconciler
from gpustack_op.operator.queue_entrance import QueueEntranceReconciler
from gpustack_op.operator.settings.live import LiveSettings
from gpustack_op.operator.topology import TopologyReconciler
from gpustack_op.operator.workload_fit import FitPin, WorkloadFitReconciler, may_need_pin
from gpustack_op.runtime.apply import Writer
from gpustack_op.runtime.client import Client
from gpustack_op.runtime.controller import Controller, Request, Watch, mapped, owned, primary
from gpustack_op.runtime.events import Recorder

WORKERS = 8
"""Of a controller whose keys each wait for the API server: one that is refused holds up no other, and the pools that a
setting adds at once (five, where four kinds of nodes are told apart) do not queue for a turn."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What the reconcilers share."""

    informers: Informers
    client: Client
    recorder: Recorder
    settings: LiveSettings
    states: NodeStates
    namespace: str

    def writer(self, reconciler: str) -> Writer:
        """A field manager for each reconciler, so that the API server tells their fields apart."""
        return Writer(self.client, f"gpustack-{reconciler}")


def all_controllers(parts: Parts) -> list[Controller]:
    return [
        node_feature(parts),
        node_feature_rule(parts),
        devices(parts),
        node_capacity(parts),
        fit_labels(parts),
        topology(parts),
        flavors(parts),
        queues(parts),
        entrances(parts),
        instance_types(parts),
        instance_type_status(parts),
        catalog(parts),
        admission_check(parts),
        admission_judge(parts),
        workload_fit(parts),
    ]


def node_feature(parts: Parts) -> Controller:
    informers = parts.informers
    reconciler = NodeFeatureReconciler(
        informers,
        parts.writer("node-feature"),
        parts.client,
        parts.recorder,
        parts.settings,
        namespace=parts.namespace,
    )
    controller = Controller(
        reconciler, [primary(informers.nodes), mapped(informers.node_features, node_of)], workers=WORKERS
    )
    parts.settings.subscribe(lambda _: _wake(controller, (node.name for node in informers.nodes.all())))
    return controller


def node_feature_rule(parts: Parts) -> Controller:
    reconciler = NodeFeatureRuleReconciler(parts.informers, parts.writer("node-feature-rule"))
    return _single(Controller(reconciler, [primary(parts.informers.rules)]), reconciler.ONLY)


def devices(parts: Parts) -> Controller:
    informers = parts.informers
    reconciler = DevicesReconciler(informers, parts.client, parts.writer("devices"), parts.recorder, parts.states)
    controller = Controller(
        reconciler,
        [primary(informers.devices), primary(informers.nodes), mapped(informers.node_features, node_of)],
        workers=WORKERS,
    )
    parts.states.subscribe(lambda node, _: controller.enqueue(Request(node)))
    return controller


def node_capacity(parts: Parts) -> Controller:
    informers = parts.informers
    reconciler = NodeCapacityReconciler(informers, parts.client, parts.writer("node-capacity"), parts.states)
    nodes = primary(informers.nodes, predicate=capacity_changed)
    watches: list[Watch[Any]] = [nodes, primary(informers.devices), _features(informers)]
    return _of_each_node(parts, Controller(reconciler, watches, workers=WORKERS))


def fit_labels(parts: Parts) -> Controller:
    informers = parts.informers
    reconciler = FitLabelsReconciler(informers, parts.client, parts.writer("fit-labels"), parts.states)
    nodes = primary(informers.nodes, predicate=fit_changed)
    watches: list[Watch[Any]] = [nodes, primary(informers.devices), _features(informers)]
    return _of_each_node(parts, Controller(reconciler, watches, workers=WORKERS))


def _features(informers: Informers) -> Watch[NodeFeature]:
    """Wakes nobody: that a node is managed is not known before they are read."""
    return mapped(informers.node_features, lambda _: ())


def _of_each_node(parts: Parts, controller: Controller) -> Controller:
    """Wakes a node whenever what it offers has changed."""
    parts.states.subscribe(lambda node, _: controller.enqueue(Request(node)))
    return controller


def topology(parts: Parts) -> Controller:
    reconciler = TopologyReconciler(parts.informers, parts.writer("topology"))
    return _single(Controller(reconciler, [primary(parts.informers.topologies)]), reconciler.ONLY)


def flavors(parts: Parts) -> Controller:
    informers = parts.informers
    reconciler = FlavorDerivationReconciler(informers, parts.client, parts.writer("flavor-derivation"), parts.states)
    controller = Controller(
        reconciler,
        [
            primary(informers.flavors),
            mapped(informers.queues, flavor_derivation.requests_of_queue),
            mapped(informers.workloads, flavor_derivation.requests_of_workload),
            mapped(informers.nodes, lambda _: ()),
            mapped(informers.node_features, lambda _: ()),
        ],
        workers=WORKERS,
    )
    parts.states.subscribe(lambda _, names: _wake(controller, names))
    return controller


def queues(parts: Parts) -> Controller:
    informers = parts.informers
    reconciler = QueueReconciler(informers, parts.client, parts.writer("queue"), parts.recorder, parts.settings)
    controller = Controller(
        reconciler,
        [
            primary(informers.types),
            primary(informers.queues),
            mapped(informers.flavors, reconciler.queues_of_flavor),
            mapped(informers.workloads, queue.requests_of_workload),
        ],
        workers=WORKERS,
    )
    parts.settings.subscribe(lambda _: _wake(controller, (t.name for t in informers.types.all())))
    return controller


def entrances(parts: Parts) -> Controller:
    informers = parts.informers
    reconciler = QueueEntranceReconciler(
        informers, parts.client, parts.writer("queue-entrance"), parts.recorder, system_namespace=parts.namespace
    )
    return Controller(
        reconciler,
        [
            primary(informers.queues),
            owned(informers.local_queues, CLUSTER_QUEUES),
            mapped(informers.namespaces, reconciler.pools_of_namespace),
        ],
        workers=WORKERS,
    )


def instance_types(parts: Parts) -> Controller:
    informers = parts.informers
    reconciler = InstanceTypeReconciler(informers, parts.client, parts.writer("instance-type"), parts.settings)
    controller = Controller(
        reconciler,
        [
            primary(informers.types),
            primary(informers.queues),
            mapped(informers.flavors, reconciler.types_of_flavor),
            mapped(informers.devices, reconciler.types_of_devices),
        ],
        workers=WORKERS,
    )
    parts.settings.subscribe(lambda _: _enqueue(controller, reconciler.everything))
    return controller


def instance_type_status(parts: Parts) -> Controller:
    informers = parts.informers
    reconciler = InstanceTypeStatusReconciler(informers, parts.writer("instance-type-status"), parts.settings)
    controller = Controller(
        reconciler,
        [
            primary(informers.types),
            primary(informers.queues, required=False),
            mapped(informers.flavors, reconciler.types_of_flavor, required=False),
            mapped(informers.devices, reconciler.types_of_devices),
        ],
        workers=WORKERS,
    )
    parts.settings.subscribe(lambda _: _wake(controller, (t.name for t in informers.types.all())))
    return controller


def catalog(parts: Parts) -> Controller:
    informers = parts.informers
    reconciler = InstanceTypeFlavorReconciler(parts.informers, parts.writer("instance-type-flavor"), parts.settings)

    def only(_: object) -> list[Request]:
        return [reconciler.ONLY]

    controller = Controller(
        reconciler,
        [mapped(informers.flavors, only), mapped(informers.devices, only), mapped(informers.catalog, only)],
    )
    parts.settings.subscribe(lambda _: controller.enqueue(reconciler.ONLY))
    return _single(controller, reconciler.ONLY)


def admission_check(parts: Parts) -> Controller:
    reconciler = AdmissionCheckReconciler(parts.informers, parts.writer("admission-check"))
    return _single(Controller(reconciler, [primary(parts.informers.checks)]), reconciler.ONLY)


def admission_judge(parts: Parts) -> Controller:
    """One worker: what is said Ready has to count when the next Workload is judged."""
    informers = parts.informers
    judge = AdmissionJudge(informers, parts.client, parts.recorder)
    watches: list[Watch[Any]] = [
        primary(informers.workloads),
        mapped(informers.workloads, judge.waiting_for_anything, predicate=gave_cards_back),
        mapped(informers.devices, judge.waiting_for_devices, predicate=ledger_moved),
        mapped(informers.nodes, judge.waiting_for_node, predicate=usability_changed),
        mapped(informers.flavors, lambda _: ()),
        mapped(informers.queues, lambda _: ()),
    ]
    return Controller(judge, watches, workers=1)


def workload_fit(parts: Parts) -> Controller:
    informers = parts.informers
    reconciler = WorkloadFitReconciler(informers, parts.client, FitPin(informers, parts.settings))
    watches: list[Watch[Any]] = [
        primary(informers.workloads, predicate=may_need_pin),
        mapped(informers.types, lambda _: ()),
        mapped(informers.queues, lambda _: ()),
        mapped(informers.local_queues, lambda _: ()),
    ]
    return Controller(reconciler, watches)


def _single(controller: Controller, only: Request) -> Controller:
    """Wakes the one key once, since an object that is missing sends no event."""
    controller.enqueue(only)
    return controller


def _wake(controller: Controller, names: Iterable[str]) -> None:
    for name in names:
        controller.enqueue(Request(name))


def _enqueue(controller: Controller, requests: Callable[[], Iterable[Request]]) -> None:
    for request in requests():
        controller.enqueue(request)
