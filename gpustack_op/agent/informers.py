"""What an agent watches: its own node's objects and one setting, each by name; and, to give out cards, its Pods."""

from __future__ import annotations

import asyncio

from gpustack_op.agent.recovery_setting import RECOVERY_SETTING, recovery_period
from gpustack_op.api.core import NODES, PODS, Node, Pod
from gpustack_op.api.nfd import NODE_FEATURES, NodeFeature
from gpustack_op.api.worker import DEVICES, SETTINGS, Devices
from gpustack_op.runtime.cache import Caches
from gpustack_op.runtime.informer import Informer
from gpustack_op.runtime.selector import Selector
from gpustack_op.scheduling import names


class AgentInformers:
    """Each getter gives None for what does not exist."""

    def __init__(self, caches: Caches, *, node: str, namespace: str) -> None:
        self.namespace = namespace
        self.node_name = node
        self.nodes = caches.informer(NODES, _named(node))
        self.node_features = caches.informer(NODE_FEATURES, _named(names.agent_feature(node), namespace))
        self.all_devices = caches.informer(DEVICES, _named(node))
        self.settings = caches.informer(SETTINGS, _named(RECOVERY_SETTING, namespace))

    def watch_pods(self, caches: Caches) -> Informer[Pod]:
        """The Pods of the node; watched from now on."""
        return caches.informer(PODS, Selector(fields=f"spec.nodeName={self.node_name}"))

    def node(self) -> Node | None:
        return self.nodes.get(self.node_name)

    def node_feature(self) -> NodeFeature | None:
        return self.node_features.get(names.agent_feature(self.node_name), self.namespace)

    def devices(self) -> Devices | None:
        return self.all_devices.get(self.node_name)

    def recovery_period(self) -> float:
        return recovery_period(self.settings.get(RECOVERY_SETTING, self.namespace))

    async def wait_synced(self) -> None:
        """Until the node and its former report are known. Settings are not waited for: there is a default."""
        await asyncio.gather(self.nodes.wait_synced(), self.all_devices.wait_synced())


def _named(name: str, namespace: str = "") -> Selector:
    return Selector(fields=f"metadata.name={name}", namespace=namespace)
