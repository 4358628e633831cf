"""The objects an agent wants to see of its node, as JSON: the NodeFeature and the Devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpustack_op.agent.cpu import Cpu, attributes
from gpustack_op.agent.recall import SEEN_IN_BOOT, seen_in_boot
from gpustack_op.agent.roster import Roster
from gpustack_op.api.core import NODES, Node
from gpustack_op.api.worker import DeviceGroup
from gpustack_op.scheduling import labels, names
from gpustack_op.scheduling.accelerator_key import accelerator_key
from gpustack_op.scheduling.device_groups import groups_json

Body = dict[str, Any]


def node_feature(node: Node, cpu: Cpu, groups: Sequence[DeviceGroup], *, namespace: str) -> Body:
    """CPU facts always; what says that there are accelerators only if there are."""
    flags: Body = {labels.DEVICE_FEATURE: {"elements": {"present": {}}}} if groups else {}
    return {
        "metadata": {
            "name": names.agent_feature(node.name),
            "namespace": namespace,
            "labels": {labels.NFD_NODE_NAME: node.name, labels.PART_OF: names.DEVICE_MANAGER_PART_OF},
            "ownerReferences": [_owned_by(node)],
        },
        "spec": {
            "labels": labels.accelerator_labels(groups),
            "features": {"attributes": {labels.CPU_FEATURE: {"elements": attributes(cpu)}}, "flags": flags},
        },
    }


def devices(node: Node, groups: Sequence[DeviceGroup], roster: Roster) -> Body:
    """`spec.groups` holds our groups only; those of other agents are theirs to state."""
    marks = labels.devices_labels(
        os=node.labels.get(labels.OS, ""),
        arch=node.labels.get(labels.ARCH, ""),
        accelerator_keys=[accelerator_key(group.manufacturer, group.id) for group in groups if group.accelerators],
    )
    return {
        "metadata": {
            "name": node.name,
            "labels": marks,
            "annotations": {SEEN_IN_BOOT: seen_in_boot(roster)},
            "ownerReferences": [_owned_by(node)],
        },
        "spec": {"groups": groups_json(groups)},
    }


def _owned_by(node: Node) -> Mapping[str, object]:
    """The Node owns what is told of it, so that both end together; it need not wait for that."""
    return {
        "apiVersion": NODES.api_version,
        "kind": NODES.kind,
        "name": node.name,
        "uid": node.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }
