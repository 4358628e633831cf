"""Which flavors make a pool, in which order, and with how much quota.

Guarantees   A pool is exactly the flavors that its labels select. Small nodes come first, so that large ones stay free
             for large requests. A pool lists at most 64 flavors, and a flavor that it lists already is never displaced
             by a new one.
Assumptions  Kueue takes 64 flavors in a resource group and one resource in no more than one group.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gpustack_op.api.kueue import FlavorQuotas, ResourceFlavor, ResourceQuota
from gpustack_op.api.quantity import Quantity
from gpustack_op.api.worker import InstanceTypeSpec
from gpustack_op.scheduling import labels
from gpustack_op.scheduling.credits import card_credits
from gpustack_op.scheduling.flavor_facts import FlavorFacts, is_ours
from gpustack_op.scheduling.manufacturers import GENERIC

FLAVOR_LIMIT = 64
CPU = "cpu"


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """What a queue covers. `left_out` names the flavors for which there was no place."""

    resource: str = ""
    flavors: tuple[FlavorQuotas, ...] = ()
    left_out: tuple[str, ...] = ()


def type_labels(spec: InstanceTypeSpec) -> dict[str, str]:
    """The labels of an InstanceType's pool; its spec alone decides."""
    return labels.pool_labels(
        acceleratable=bool(spec.acceleratable),
        general_group=spec.general_group or GENERIC,
        accelerator_group=spec.accelerator_group or "",
        os=spec.os or "",
        arch=spec.arch or "",
    )


def feeds(flavor: ResourceFlavor, pool_labels: Mapping[str, str]) -> bool:
    """Whether a pool with these labels is made of this flavor, among others."""
    return is_ours(flavor) and labels.selects(labels.flavor_selector(pool_labels), flavor.labels)


def offers(flavor: ResourceFlavor) -> bool:
    """Whether any node stands behind the flavor."""
    return FlavorFacts.of(flavor).capacity > 0


def pool_plan(
    pool_labels: Mapping[str, str],
    flavors: Iterable[ResourceFlavor],
    *,
    listed: Collection[str] = (),
    limit: int = FLAVOR_LIMIT,
) -> PoolPlan:
    """The plan of a pool. `listed` names the flavors that the queue lists now, `limit` the places there are."""
    feeding = [FlavorFacts.of(flavor) for flavor in flavors if not flavor.deleting and feeds(flavor, pool_labels)]
    offered = sorted((facts for facts in feeding if facts.capacity > 0), key=_size)
    if not offered:
        return PoolPlan()
    resource = covered_resource(offered[0])
    fitting = [facts for facts in offered if covered_resource(facts) == resource]
    # Those that are listed keep their places; a stable sort leaves each half in the order of size.
    by_place = sorted(fitting, key=lambda facts: facts.name not in listed)
    chosen = {facts.name for facts in by_place[:limit]}
    return PoolPlan(
        resource=resource,
        flavors=tuple(_quotas(facts, resource) for facts in fitting if facts.name in chosen),
        left_out=tuple(facts.name for facts in offered if facts.name not in chosen),
    )


def resource_groups(resource: str, flavors: Iterable[FlavorQuotas]) -> list[dict[str, Any]]:
    """The plan as a ClusterQueue spells it: one group, or none when there is no flavor."""
    entries = [
        {
            "name": flavor.name,
            "resources": [{"name": r.name, "nominalQuota": r.nominal_quota} for r in flavor.resources],
        }
        for flavor in flavors
    ]
    return [{"coveredResources": [resource], "flavors": entries}] if entries else []


def covered_resource(facts: FlavorFacts) -> str:
    """What a queue counts on such a flavor: credits where there are cards, cores where there are none."""
    return labels.credits(facts.manufacturer) if facts.accelerator_group else CPU


def _size(facts: FlavorFacts) -> tuple[int, str]:
    return facts.count, facts.name


def _quotas(facts: FlavorFacts, resource: str) -> FlavorQuotas:
    amount = card_credits(facts.capacity) if facts.accelerator_group else facts.capacity
    # Kueue stores the text it is given: only the canonical one does not change at its next write.
    quota = ResourceQuota(name=resource, nominal_quota=Quantity.of(amount).canonical())
    return FlavorQuotas(name=facts.name, resources=(quota,))
