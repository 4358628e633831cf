"""Keeps the NodeFeatureRule by which NFD marks nodes that have no accelerator.

Owns      the NodeFeatureRule `gpustack-cpu-info`.
Never     copies CPU facts by a rule: NFD resolves no template in annotations, so the agents report them.
Woken by  NodeFeatureRules.
Promises  a deleted or edited rule is put back; a settled cluster sees no write.
"""

from __future__ import annotations

from typing import Any

from gpustack_op.api.nfd import NodeFeatureRule
from gpustack_op.operator.informers import Informers
from gpustack_op.operator.single_object import SingleObjectReconciler
from gpustack_op.runtime.apply import Writer
from gpustack_op.runtime.controller import Request
from gpustack_op.scheduling import labels, names
from gpustack_op.scheduling.manufacturers import MANUFACTURERS, PCI_CLASSES

HAS_DEVICES = "has-acceleratable-devices"


def wanted_rule() -> dict[str, Any]:
    """A rule's label beats a NodeFeature's, so the agent's flag has to be a match of the rule itself."""
    vendors = sorted({manufacturer.pci_vendor for manufacturer in MANUFACTURERS})
    on_the_bus = {
        "feature": "pci.device",
        "matchExpressions": {
            "class": {"op": "InRegexp", "value": [f"^{prefix}" for prefix in PCI_CLASSES]},
            "vendor": {"op": "In", "value": vendors},
        },
    }
    told_by_agent = {"feature": labels.DEVICE_FEATURE, "matchExpressions": {"present": {"op": "Exists"}}}
    nothing_found = {"feature": "rule.matched", "matchExpressions": {HAS_DEVICES: {"op": "DoesNotExist"}}}
    return {
        "metadata": {"name": names.NODE_FEATURE_RULE, "labels": {labels.PART_OF: "gpustack-operator"}},
        "spec": {
            "rules": [
                {
                    "name": "acceleratable devices",
                    "vars": {HAS_DEVICES: labels.TRUE},
                    "matchAny": [{"matchFeatures": [on_the_bus]}, {"matchFeatures": [told_by_agent]}],
                },
                {
                    "name": "no acceleratable device",
                    "labels": {labels.ACCELERATABLE: labels.FALSE},
                    "matchFeatures": [nothing_found],
                },
            ]
        },
    }


class NodeFeatureRuleReconciler(SingleObjectReconciler[NodeFeatureRule]):
    name = "node-feature-rule"
    ONLY = Request(names.NODE_FEATURE_RULE)

    def __init__(self, informers: Informers, writer: Writer) -> None:
        super().__init__(informers.rules, writer, wanted_rule())
