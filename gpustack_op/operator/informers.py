"""Every collection the operator watches, named once, so that reconcilers share one informer a kind."""

from __future__ import annotations

from dataclasses import dataclass

from gpustack_op.api.core import NAMESPACES, NODES, Namespace, Node
from gpustack_op.api.kueue import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    RESOURCE_FLAVORS,
    TOPOLOGIES,
    WORKLOADS,
    AdmissionCheck,
    ClusterQueue,
    LocalQueue,
    ResourceFlavor,
    Topology,
    Workload,
)
from gpustack_op.api.nfd import NODE_FEATURE_RULES, NODE_FEATURES, NodeFeature, NodeFeatureRule
from gpustack_op.api.worker import (
    DEVICES,
    INSTANCE_TYPE_FLAVORS,
    INSTANCE_TYPES,
    Devices,
    InstanceType,
    InstanceTypeFlavor,
)
from gpustack_op.runtime.cache import Caches, Informer
from gpustack_op.runtime.selector import Selector


@dataclass(frozen=True, slots=True)
class Informers:
    nodes: Informer[Node]
    node_features: Informer[NodeFeature]
    rules: Informer[NodeFeatureRule]
    devices: Informer[Devices]
    flavors: Informer[ResourceFlavor]
    topologies: Informer[Topology]
    queues: Informer[ClusterQueue]
    local_queues: Informer[LocalQueue]
    checks: Informer[AdmissionCheck]
    workloads: Informer[Workload]
    namespaces: Informer[Namespace]
    types: Informer[InstanceType]
    catalog: Informer[InstanceTypeFlavor]

    @classmethod
    def of(cls, caches: Caches, namespace: str) -> Informers:
        """`namespace` is the operator's own: NodeFeatures elsewhere are other people's."""
        return cls(
            nodes=caches.informer(NODES),
            node_features=caches.informer(NODE_FEATURES, Selector(namespace=namespace)),
            rules=caches.informer(NODE_FEATURE_RULES),
            devices=caches.informer(DEVICES),
            flavors=caches.informer(RESOURCE_FLAVORS),
            topologies=caches.informer(TOPOLOGIES),
            queues=caches.informer(CLUSTER_QUEUES),
            local_queues=caches.informer(LOCAL_QUEUES),
            checks=caches.informer(ADMISSION_CHECKS),
            workloads=caches.informer(WORKLOADS),
            namespaces=caches.informer(NAMESPACES),
            types=caches.informer(INSTANCE_TYPES),
            catalog=caches.informer(INSTANCE_TYPE_FLAVORS),
        )
