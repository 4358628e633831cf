"""The InstanceType that the operator makes of a flavor's pool. Once made, it belongs to its administrator."""

from __future__ import annotations

from typing import Any

from gpustack_op.api.kueue import ResourceFlavor
from gpustack_op.scheduling import labels, names
from gpustack_op.scheduling.flavor_facts import FlavorFacts
from gpustack_op.scheduling.manufacturers import GENERIC
from gpustack_op.scheduling.presets import unit_resources

DISPLAY_NAME_LIMIT = 64
"""Characters that the API allows in a display name."""

LOCAL_STORAGE = "100Gi"
CPU_UNIT = {"cpu": "1", "ram": "2Gi"}
ANY_CPU = "CPU-only"


def derived_type_name(flavor: ResourceFlavor, *, aware: bool) -> str:
    """The name of the pool that a flavor derives. `aware` gives each CPU pools of its own."""
    facts = FlavorFacts.of(flavor)
    return names.pool(_general_group(facts, aware=aware), facts.accelerator_group, facts.os, facts.arch)


def derived_type(flavor: ResourceFlavor, *, aware: bool) -> dict[str, Any]:
    """The whole object to create; the defaulting webhook adds labels and descriptors.

    It carries our finalizer from the start: its queue is made only then, and a later write would take a round trip.
    """
    facts = FlavorFacts.of(flavor)
    spec: dict[str, Any] = {
        "displayName": _display_name(facts, aware=aware),
        "acceleratable": facts.acceleratable,
        "acceleratorGroup": facts.accelerator_group,
        "generalGroup": _general_group(facts, aware=aware),
        "os": facts.os,
        "arch": facts.arch,
        "unitResources": _unit(facts),
        "localStorage": LOCAL_STORAGE,
    }
    return {
        "metadata": {
            "name": derived_type_name(flavor, aware=aware),
            "labels": {labels.DERIVED_FROM_NODE: labels.TRUE},
            "finalizers": [labels.CONTROLLED_FINALIZER],
        },
        "spec": {name: value for name, value in spec.items() if value != ""},
    }


def _general_group(facts: FlavorFacts, *, aware: bool) -> str:
    return facts.general_group if aware else GENERIC


def _display_name(facts: FlavorFacts, *, aware: bool) -> str:
    joins_cpus = not (facts.accelerator_group or aware)
    return ANY_CPU if joins_cpus else facts.product[:DISPLAY_NAME_LIMIT]


def _unit(facts: FlavorFacts) -> dict[str, str]:
    if not facts.accelerator_group:
        return dict(CPU_UNIT)
    tier = unit_resources(facts.manufacturer, facts.product)
    return {"cpu": tier.cpu, "ram": tier.ram}
