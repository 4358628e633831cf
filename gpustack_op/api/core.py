"""Projections of the core kinds we only read (or of which we write single fields)."""

from __future__ import annotations

import msgspec

from gpustack_op.api.meta import KubeObject, Resource


class Taint(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    unschedulable: bool = False
    taints: tuple[Taint, ...] | None = None


class NodeCondition(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    type: str = ""
    status: str = ""


class NodeInfo(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    container_runtime_version: str = ""


class NodeStatus(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    capacity: dict[str, str] | None = None
    conditions: tuple[NodeCondition, ...] | None = None
    node_info: NodeInfo = NodeInfo()


class Node(KubeObject, frozen=True, gc=False, kw_only=True):
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class ContainerResources(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    requests: dict[str, str] | None = None
    limits: dict[str, str] | None = None


class Container(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    """`restart_policy` is `Always` on an init container that is a native sidecar."""

    name: str = ""
    resources: ContainerResources = ContainerResources()
    restart_policy: str = ""


class PodSpec(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    node_name: str = ""
    node_selector: dict[str, str] | None = None
    init_containers: tuple[Container, ...] | None = None
    containers: tuple[Container, ...] | None = None


class PodStatus(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    phase: str = ""


class Pod(KubeObject, frozen=True, gc=False, kw_only=True):
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class NamespaceStatus(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    phase: str = ""


class Namespace(KubeObject, frozen=True, gc=False, kw_only=True):
    status: NamespaceStatus = NamespaceStatus()


class Secret(KubeObject, frozen=True, gc=False, kw_only=True):
    """`data` values are base64 text, as on the wire."""

    data: dict[str, str] | None = None


NODES = Resource(
    "",
    "v1",
    "nodes",
    "Node",
    Node,
    annotations=("gpustack.ai/",),
    labels=(
        "gpustack.ai/",
        "feature.gpustack.ai/",
        "general.feature.gpustack.ai/",
        "acceleratable.feature.gpustack.ai/",
        "sliced-max-free-units.fit.gpustack.ai/",
        "shared-free-cards.fit.gpustack.ai/",
        "kubernetes.io/",
        "feature.node.kubernetes.io/cpu-model.",
    ),
)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", Namespace)
PODS = Resource(
    "",
    "v1",
    "pods",
    "Pod",
    Pod,
    namespaced=True,
    annotations=("device.gpustack.ai/", "kueue.x-k8s.io/workload"),
    labels=("kueue.x-k8s.io/",),
)
SECRETS = Resource("", "v1", "secrets", "Secret", Secret, namespaced=True)
