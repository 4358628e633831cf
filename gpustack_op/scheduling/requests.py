"""What a Pod or a Workload asks of accelerators, family by family.

Guarantees   Never an error: what no accelerator is behind is left out, a negative amount is none, and counts stop at
             the largest 32-bit number. Demands that differ in nothing but their number are one, and their order is the
             order to serve them in: partitions first, then by what they take of a card.
Assumptions  Requests win over limits, as in the kubelet's own defaulting. The webhooks have folded memory into units
             before a Workload is made; a Pod outside the queues is folded here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from gpustack_op.api.core import Container, PodSpec
from gpustack_op.api.kueue import LevelValues, PodSet, PodSetAssignment, TopologyAssignment, TopologySlice, Workload
from gpustack_op.api.quantity import Quantity, QuantityError
from gpustack_op.scheduling import labels
from gpustack_op.scheduling.credits import CARD, SHARE
from gpustack_op.scheduling.manufacturers import MANUFACTURERS, Family, Manufacturer, Manufacturers
from gpustack_op.scheduling.slices import folded, slice_request

LARGEST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Tenants:
    """So many containers that each want a share on so many different cards of one node."""

    cards: int
    containers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """So many cards, slices or partitions (`cards`), each taking `units` of its card.

    `node` is a hostname, empty when none is assigned; `flavor` is empty when there is no single one.
    """

    family: Family
    manufacturer: str
    cards: int
    units: int
    profile: str = ""
    tenants: tuple[Tenants, ...] = ()
    flavor: str = ""
    node: str = ""
    pod_sets: tuple[str, ...] = ()


def asked(container: Container) -> dict[str, int]:
    """A container's resources as whole numbers, requests over limits; unreadable and negative ones are 0."""
    stated = (container.resources.limits or {}) | (container.resources.requests or {})
    return {name: _amount(text) for name, text in stated.items()}


def containers_of(spec: PodSpec) -> tuple[Container, ...]:
    return (*(spec.init_containers or ()), *(spec.containers or ()))


def card_resources(row: Manufacturer) -> dict[Family, str]:
    """The resource whose amount is a number of cards, slices or partitions, by family."""
    names = {Family.EXCLUSIVE: row.base_resource, Family.SHARED: row.shared, Family.SLICED: row.sliced}
    return names | ({Family.PARTITIONED: row.partitioned} if row.partition_kind else {})


def asks_for_cards(container: Container, manufacturers: Manufacturers = MANUFACTURERS) -> bool:
    amounts = asked(container)
    return any(amounts.get(name) for row in manufacturers for name in card_resources(row).values())


def pod_demands(
    containers: Iterable[Container],
    *,
    pods: int = 1,
    card_mebibytes: int = 0,
    manufacturers: Manufacturers = MANUFACTURERS,
) -> tuple[Demand, ...]:
    """What so many Pods with these containers ask for. The card's memory turns MiB into units where nobody has yet."""
    amounts = [amount for amount in map(asked, containers) if any(amount.values())]
    found = (
        _demand(row, family, name, amounts, card_mebibytes)
        for row in manufacturers
        for family, name in card_resources(row).items()
    )
    return merged(_times(demand, pods) for demand in found if demand and pods > 0)


def workload_demands(workload: Workload, manufacturers: Manufacturers = MANUFACTURERS) -> tuple[Demand, ...]:
    """What a Workload with a reservation asks for, node by node. Its PodSets are named when there are several."""
    pod_sets = workload.spec.pod_sets or ()
    assignments = assignments_of(workload)
    found: list[Demand] = []
    for pod_set in pod_sets:
        assignment = assignments.get(pod_set.name, PodSetAssignment(name=pod_set.name, count=pod_set.count))
        named = (pod_set.name,) if len(pod_sets) > 1 else ()
        for node, pods in pods_by_node(assignment).items():
            demands = pod_set_demands(pod_set, pods=pods, manufacturers=manufacturers)
            found += [
                replace(d, flavor=flavor_of(assignment, manufacturers), node=node, pod_sets=named) for d in demands
            ]
    return merged(found)


def pod_set_demands(
    pod_set: PodSet, *, pods: int = 1, manufacturers: Manufacturers = MANUFACTURERS
) -> tuple[Demand, ...]:
    return pod_demands(containers_of(pod_set.template.spec), pods=pods, manufacturers=manufacturers)


def assignments_of(workload: Workload) -> dict[str, PodSetAssignment]:
    """By PodSet; empty without a reservation."""
    admission = workload.status.admission
    return {assignment.name: assignment for assignment in (admission.pod_set_assignments or ())} if admission else {}


def flavor_of(assignment: PodSetAssignment, manufacturers: Manufacturers = MANUFACTURERS) -> str:
    """The flavor that a PodSet's cards come from; empty when there is not exactly one manufacturer's."""
    flavors = [flavor for name, flavor in (assignment.flavors or {}).items() if manufacturers.of_credits(name)]
    return flavors[0] if len(flavors) == 1 else ""


def pods_by_node(assignment: PodSetAssignment) -> dict[str, int]:
    """How many Pods go where; all of them to the node without a name when Kueue assigned none."""
    nodes = topology_nodes(assignment.topology_assignment) if assignment.topology_assignment else None
    return {"": assignment.count} if nodes is None else nodes


def topology_nodes(assignment: TopologyAssignment) -> dict[str, int] | None:
    """Pods by hostname; None when the lowest level is not the node."""
    if not assignment.levels or assignment.levels[-1] != labels.HOSTNAME:
        return None
    counts: Counter[str] = Counter()
    for part in assignment.slices:
        for node, pods in zip(_nodes(part), _pods(part), strict=False):
            counts[node] += pods
    return dict(counts)


def merged(demands: Iterable[Demand]) -> tuple[Demand, ...]:
    """Equal demands as one, in the order to serve them in."""
    found: dict[Demand, Demand] = {}
    for demand in demands:
        kind = replace(demand, cards=0, tenants=(), pod_sets=())
        before = found.get(kind, kind)
        found[kind] = replace(
            before,
            cards=min(before.cards + demand.cards, LARGEST),
            tenants=_merged_tenants((*before.tenants, *demand.tenants)),
            pod_sets=tuple(dict.fromkeys((*before.pod_sets, *demand.pod_sets))),
        )
    return tuple(sorted(found.values(), key=_order))


def _order(demand: Demand) -> tuple[bool, int, int, str, str, str, str]:
    first = demand.family is not Family.PARTITIONED
    rest = demand.node, demand.manufacturer, demand.profile, demand.flavor
    return first, -demand.units, int(demand.family), *rest


def _demand(
    row: Manufacturer, family: Family, name: str, amounts: Iterable[Mapping[str, int]], card_mebibytes: int
) -> Demand | None:
    claims = [amount for amount in amounts if amount.get(name)]
    if not claims:
        return None
    tenants = tuple(Tenants(amount[name], 1) for amount in claims) if family is Family.SHARED else ()
    profiles = sorted(profile for amount in claims for profile in _profiles(row, amount))
    return Demand(
        family=family,
        manufacturer=row.id,
        cards=min(sum(amount[name] for amount in claims), LARGEST),
        units=max(_units(row, family, amount, card_mebibytes) for amount in claims),
        profile=profiles[0] if family is Family.PARTITIONED and profiles else "",
        tenants=_merged_tenants(tenants),
    )


def _units(row: Manufacturer, family: Family, amount: Mapping[str, int], card_mebibytes: int) -> int:
    if family is Family.SLICED:
        request = slice_request(amount, row)
        return request.units or folded(request, card_mebibytes)
    if family is Family.PARTITIONED:
        return amount.get(row.partitioned_units, 0)
    return CARD if family is Family.EXCLUSIVE else SHARE


def _profiles(row: Manufacturer, amount: Mapping[str, int]) -> Iterator[str]:
    return (profile for name in amount if (profile := row.profile_of(name)))


def _times(demand: Demand, pods: int) -> Demand:
    tenants = tuple(Tenants(t.cards, min(t.containers * pods, LARGEST)) for t in demand.tenants)
    return replace(demand, cards=min(demand.cards * pods, LARGEST), tenants=tenants)


def _merged_tenants(tenants: Iterable[Tenants]) -> tuple[Tenants, ...]:
    """By cards, the largest first."""
    counts: Counter[int] = Counter()
    for same in tenants:
        counts[same.cards] += same.containers
    return tuple(Tenants(cards, min(number, LARGEST)) for cards, number in sorted(counts.items(), reverse=True))


def _nodes(part: TopologySlice) -> list[str]:
    """The hostnames of one part of an assignment."""
    lowest = part.values_per_level[-1] if part.values_per_level else LevelValues()
    if lowest.universal is not None:
        return [lowest.universal] * part.domain_count
    told = lowest.individual
    return [told.prefix + root + told.suffix for root in told.roots] if told else []


def _pods(part: TopologySlice) -> list[int]:
    if part.pod_counts.universal is not None:
        return [part.pod_counts.universal] * part.domain_count
    return list(part.pod_counts.individual or ())


def _amount(text: str) -> int:
    try:
        return min(max(int(Quantity.parse(text)), 0), LARGEST)
    except QuantityError:
        return 0
