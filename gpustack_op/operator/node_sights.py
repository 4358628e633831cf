"""What a judgement has to see of nodes: the cards that they report, and their Pods as the API server knows them now.

Guarantees   The Pods are asked of the API server, not of a cache: a card is given away by what they hold.
Assumptions  Nodes and Devices may lag a little; what is Ready and schedulable changes rarely.
Recovery     A refused or broken list is the caller's failure: nothing is judged by half of the Pods.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from gpustack_op.api.core import NODES, PODS, Node, Pod
from gpustack_op.api.kueue import ClusterQueue, ResourceFlavor
from gpustack_op.operator.informers import Informers
from gpustack_op.operator.queue_stages import listed_flavors
from gpustack_op.runtime.client import Client
from gpustack_op.runtime.selector import Selector
from gpustack_op.scheduling import labels
from gpustack_op.scheduling.card_fit import NodeSight

HOSTNAME_INDEX = "hostname"


class NodeSights:
    def __init__(self, informers: Informers, client: Client) -> None:
        self.informers = informers
        self.client = client
        if not informers.nodes.has_index(HOSTNAME_INDEX):
            informers.nodes.add_index(HOSTNAME_INDEX, lambda node: [hostname(node)])

    def without_pods(self, hosts: Iterable[str]) -> dict[str, NodeSight]:
        return {host: self._sight(host, ()) for host in hosts}

    async def fresh(self, hosts: Iterable[str]) -> dict[str, NodeSight]:
        wanted = sorted(set(hosts) - {""})
        lists = await asyncio.gather(*(self._pods(host) for host in wanted))
        return {host: self._sight(host, pods) for host, pods in zip(wanted, lists, strict=True)}

    def hosts_of_pool(self, queue: str) -> list[str]:
        """The nodes with cards that one of the flavors of the queue selects."""
        listed = self.informers.queues.get(queue)
        flavors = self._flavors(listed) if listed else []
        nodes = (self.informers.nodes.get(devices.name) for devices in self.informers.devices.all())
        return sorted(
            hostname(node)
            for node in nodes
            if node is not None and any(labels.selects(f.spec.node_labels or {}, node.labels) for f in flavors)
        )

    def selected(self, hosts: Iterable[str], selector: Mapping[str, str]) -> tuple[str, ...]:
        """Those that a Pod's node selector allows, as far as the cache holds the labels that it names."""
        known = {key: value for key, value in selector.items() if key.startswith(NODES.labels)}
        found = ((host, self._node(host)) for host in hosts)
        return tuple(host for host, node in found if node is not None and labels.selects(known, node.labels))

    def _flavors(self, queue: ClusterQueue) -> list[ResourceFlavor]:
        found = (self.informers.flavors.get(listed.name) for listed in listed_flavors(queue))
        return [flavor for flavor in found if flavor is not None and flavor.spec.node_labels]

    def _node(self, host: str) -> Node | None:
        return next(iter(self.informers.nodes.by_index(HOSTNAME_INDEX, host)), None)

    def _sight(self, host: str, pods: Iterable[Pod]) -> NodeSight:
        node = self._node(host)
        devices = self.informers.devices.get(node.name) if node else None
        groups = (devices.spec.groups or ()) if devices else ()
        return NodeSight(name=node.name if node else host, node=node, groups=groups, pods=tuple(pods))

    async def _pods(self, host: str) -> list[Pod]:
        node = self._node(host)
        if node is None:
            return []
        return await self.client.list(PODS, selector=Selector(fields=f"spec.nodeName={node.name}"))


def hostname(node: Node) -> str:
    return node.labels.get(labels.HOSTNAME) or node.name
