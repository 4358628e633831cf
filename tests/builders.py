"""Objects in a line: a test says only what matters to it, everything else is the plainest thing that works.

Cards are described by what is done with them (`free()`, `sliced(20)`, `partitioned(...)`) and put on a node by
`devices`; nodes, flavors and pools by the keys of the four machines that the documentation shows (`machine`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from gpustack_op.api.core import (
    Container,
    ContainerResources,
    Node,
    NodeSpec,
    NodeStatus,
    Pod,
    PodSpec,
    PodStatus,
    Taint,
)
from gpustack_op.api.kueue import (
    Admission,
    AdmissionCheckState,
    ClusterQueue,
    ClusterQueueSpec,
    ClusterQueueStatus,
    Condition,
    FlavorQuotas,
    FlavorReservation,
    LevelValues,
    PodCounts,
    PodSet,
    PodSetAssignment,
    PodTemplate,
    ReservedResource,
    ResourceFlavor,
    ResourceGroup,
    ResourceQuota,
    TopologyAssignment,
    TopologySlice,
    Workload,
    WorkloadSpec,
    WorkloadStatus,
)
from gpustack_op.api.meta import ObjectMeta
from gpustack_op.api.nfd import AttributeFeature, Features, NodeFeature, NodeFeatureSpec
from gpustack_op.api.worker import (
    Card,
    CardStatus,
    DeviceGroup,
    Devices,
    DevicesSpec,
    DevicesStatus,
    InstanceType,
    InstanceTypeSpec,
    LedgerGroup,
    LedgerRow,
    LogicalSliced,
    PhysicalProfile,
    PhysicalSliced,
    Placement,
    ProfileCount,
    UnitResources,
)
from gpustack_op.scheduling import flavors, labels, names, records
from gpustack_op.scheduling.claims import PodClaim
from gpustack_op.scheduling.device_groups import RawCard
from gpustack_op.scheduling.manufacturers import Family

CARD, SHARE, PERCENT = 1_600_000, 160_000, 16_000
LINUX = {labels.OS: "linux", labels.ARCH: "amd64"}


def metadata(name: str, *, namespace: str = "", uid: str = "", **fields: Any) -> ObjectMeta:
    return ObjectMeta(name=name, namespace=namespace, uid=uid or f"uid-of-{name}", **fields)


# --- Cards and Devices --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CardState:
    """One card, capability and account in one. `remaining` None: the ledger has no row for it."""

    mode: int = 0
    remaining: int | None = CARD
    healthy: bool = True
    slices: int = 128
    ceiling: int = 0
    profiles: tuple[PhysicalProfile, ...] = ()
    allocated: Mapping[str, int] | None = None
    left: Mapping[str, int] | None = None


def free(*, healthy: bool = True) -> CardState:
    return CardState(healthy=healthy)


def plain(*, healthy: bool = True) -> CardState:
    """A free card that cannot be divided in any way."""
    return CardState(healthy=healthy, slices=0)


def exclusive(*, healthy: bool = True) -> CardState:
    return CardState(mode=1, remaining=0, healthy=healthy)


def shared(tenants: int, *, healthy: bool = True) -> CardState:
    """A card with so many of its ten shares in use."""
    return CardState(mode=2, remaining=CARD - tenants * SHARE, healthy=healthy)


def sliced(percent: int, *, healthy: bool = True) -> CardState:
    """A card with so much of its memory in slices."""
    return CardState(mode=3, remaining=CARD - percent * PERCENT, healthy=healthy)


def partitioned(
    ceiling: int = 7,
    *,
    left: Mapping[str, int] | None = None,
    allocated: Mapping[str, int] | None = None,
    catalog: Mapping[str, int] | None = None,
    healthy: bool = True,
) -> CardState:
    """A card in a partitioning mode; `left` and `allocated` are its ledger by profile, absent when untold."""
    profiles = tuple(PhysicalProfile(name=name, count=count) for name, count in (catalog or {}).items())
    return CardState(slices=0, ceiling=ceiling, profiles=profiles, left=left, allocated=allocated, healthy=healthy)


def unaccounted(card: CardState) -> CardState:
    """The same card before the ledger has a row for it."""
    return replace(card, remaining=None)


def devices(
    node: str,
    *cards: CardState,
    key: str = "nvidia-a10g",
    general_key: str = "amd-epyc-7r32",
    managed: str = "true",
    memory: int = 24563,
    runtime: str = "13.0",
) -> Devices:
    """A node with these cards, all of one accelerator key."""
    manufacturer, _, group = key.partition("-")
    return Devices(
        metadata=metadata(node, labels=devices_labels(key, general_key=general_key, managed=managed)),
        spec=DevicesSpec(
            groups=(
                DeviceGroup(
                    id=group,
                    manufacturer=manufacturer,
                    name=group,
                    memory=memory,
                    runtime_version=runtime,
                    accelerators=tuple(_card(node, index, card) for index, card in enumerate(cards)),
                ),
            )
        ),
        status=DevicesStatus(
            groups=(
                LedgerGroup(
                    id=group,
                    manufacturer=manufacturer,
                    accelerators=tuple(
                        _row(node, index, card) for index, card in enumerate(cards) if card.remaining is not None
                    ),
                ),
            )
        ),
    )


def with_groups_of(first: Devices, second: Devices) -> Devices:
    """One node with the cards of both."""
    spec = DevicesSpec(groups=(*(first.spec.groups or ()), *(second.spec.groups or ())))
    status = DevicesStatus(groups=(*(first.status.groups or ()), *(second.status.groups or ())))
    return msgspec.structs.replace(first, spec=spec, status=status)


def devices_labels(key: str, *, general_key: str = "", managed: str = "") -> dict[str, str]:
    return labels.devices_labels(
        os="linux", arch="amd64", accelerator_keys=[key], managed=managed, general_key=general_key
    )


def raw_card(name: str = "NVIDIA A10G", **facts: Any) -> RawCard:
    """A card as its driver describes it: an A10G unless said otherwise."""
    given: dict[str, Any] = {
        "manufacturer": "nvidia",
        "uuid": f"GPU-{name}",
        "memory_mib": 23028,
        "bus_width": 384,
        "ecc_enabled": True,
        "cores": 10240,
        "compute_capability": (8, 6),
        "driver_version": "580.159.03",
        "cuda_driver_version": 13000,
    }
    return RawCard(name=name, **(given | facts))


def group(key: str, name: str = "", *, cards: int = 1, **facts: Any) -> DeviceGroup:
    """A group of Devices with so many cards."""
    manufacturer, _, group_id = key.partition("-")
    members = tuple(_card(key, index, free()) for index in range(cards))
    return DeviceGroup(id=group_id, manufacturer=manufacturer, name=name or group_id, accelerators=members, **facts)


def _card(node: str, index: int, state: CardState) -> Card:
    logical = LogicalSliced(count=state.slices, cores_percentage_overcommit=True) if state.slices else None
    physical = PhysicalSliced(count=state.ceiling, profiles=state.profiles) if state.ceiling else None
    status = CardStatus(unhealthy=not state.healthy, logical_sliced=logical, physical_sliced=physical)
    return Card(id=f"GPU-{node}-{index}", index=index, status=status)


def _row(node: str, index: int, state: CardState) -> LedgerRow:
    return LedgerRow(
        id=f"GPU-{node}-{index}",
        index=index,
        mode=state.mode,
        remaining=state.remaining or 0,
        allocated_profiles=_counts(state.allocated),
        remaining_profiles=_counts(state.left),
    )


def _counts(counts: Mapping[str, int] | None) -> tuple[ProfileCount, ...] | None:
    return None if counts is None else tuple(ProfileCount(name=name, count=count) for name, count in counts.items())


# --- Nodes --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One of the machines that the documentation shows."""

    name: str
    general_key: str
    cpu: str
    vendor: str
    family: str
    model: str
    cores: int
    card: str = ""
    cards: int = 0


MACHINES = {
    machine.name.removeprefix("node-"): machine
    for machine in (
        Machine(
            name="node-cpu", general_key="amd-epyc-7r13", cpu="AMD EPYC 7R13 Processor",
            vendor="AMD", family="25", model="1", cores=16,
        ),
        Machine(
            name="node-a10g", general_key="amd-epyc-7r32", cpu="AMD EPYC 7R32",
            vendor="AMD", family="23", model="49", cores=4, card="a10g", cards=1,
        ),
        Machine(
            name="node-t4-a", general_key="intel-xeon-platinum-8259cl",
            cpu="Intel(R) Xeon(R) Platinum 8259CL CPU @ 2.50GHz",
            vendor="Intel", family="6", model="85", cores=4, card="t4", cards=1,
        ),
        Machine(
            name="node-t4-b", general_key="intel-xeon-platinum-8259cl",
            cpu="Intel(R) Xeon(R) Platinum 8259CL CPU @ 2.50GHz",
            vendor="Intel", family="6", model="85", cores=48, card="t4", cards=4,
        ),
    )
}  # fmt: skip

CARDS: dict[str, dict[str, Any]] = {
    "a10g": {
        "name": "NVIDIA A10G", "memory": 24563, "cores": 10240, "family": "Ampere", "compute_capability": "8.6",
        "driver_version": "580.159.03", "runtime_version": "13.0",
    },
    "t4": {
        "name": "Tesla T4", "memory": 16384, "cores": 2560, "family": "Turing", "compute_capability": "7.5",
        "driver_version": "580.159.03", "runtime_version": "13.0",
    },
}  # fmt: skip
CARD_KEYS = {"a10g": "nvidia-a10g", "t4": "nvidia-tesla-t4"}


def machine(short: str) -> Machine:
    return MACHINES[short]


def machine_labels(short: str, *, managed: str = "true") -> dict[str, str]:
    """The labels of a machine's Node once every part has had its say."""
    of = MACHINES[short]
    nfd = {labels.CPU_VENDOR: of.vendor, labels.CPU_FAMILY: of.family, labels.CPU_MODEL: of.model}
    cpu = labels.capacity_labels(of.general_key, of.cores, cpu_only=not of.card)
    cards = labels.accelerator_labels(_machine_groups(of))
    return LINUX | nfd | cpu | cards | ({labels.MANAGED: managed} if managed else {})


def node(short: str, *, extra: Mapping[str, str] | None = None, taints: Sequence[Taint] = ()) -> Node:
    """A machine's Node: `node("a10g")`. `extra` are labels that are added or replaced."""
    of = MACHINES[short]
    return Node(
        metadata=metadata(of.name, labels=machine_labels(short) | dict(extra or {})),
        spec=NodeSpec(taints=tuple(taints)),
        status=NodeStatus(capacity={"cpu": str(of.cores), "memory": "64Gi"}),
    )


def node_facts(
    short: str,
    *,
    name: str = "",
    managed: str = "true",
    taints: Sequence[Taint] = (),
    extra: Mapping[str, str] | None = None,
) -> flavors.NodeFacts:
    """A machine as the flavors see it. `extra` are labels that are added or replaced."""
    of = MACHINES[short]
    return flavors.NodeFacts(
        name=name or of.name,
        labels=machine_labels(short, managed=managed) | dict(extra or {}),
        cpu=cpu_report(short),
        taints=tuple(taints),
    )


def cpu_report(short: str) -> dict[str, str]:
    """What a machine's agent reports of its CPU."""
    of = MACHINES[short]
    return {"name": of.cpu, "family": of.family, "physical_cores": str(of.cores // 2), "threads_per_core": "2"}


def taint(key: str, effect: str = "NoSchedule", value: str = "") -> Taint:
    return Taint(key=key, value=value, effect=effect)


def node_feature(
    node_name: str,
    published: Mapping[str, str] | None = None,
    *,
    part: str = "worker",
    cpu: Mapping[str, str] | None = None,
) -> NodeFeature:
    """A NodeFeature of ours: `part` is `worker` (the operator's) or `device-manager` (the agent's)."""
    attributes = {labels.CPU_FEATURE: AttributeFeature(elements=dict(cpu))} if cpu is not None else None
    return NodeFeature(
        metadata=metadata(
            f"{node_name}-gpustack-{part}",
            namespace=names.SYSTEM_NAMESPACE,
            labels={labels.NFD_NODE_NAME: node_name, labels.PART_OF: f"gpustack-operator-{part}"},
        ),
        spec=NodeFeatureSpec(labels=dict(published or {}), features=Features(attributes=attributes)),
    )


def bare_node(short: str, *, cpu: str = "", extra: Mapping[str, str] | None = None) -> Node:
    """A machine's Node as the kubelet and Node Feature Discovery leave it. `cpu` replaces its capacity."""
    of = MACHINES[short]
    nfd = {labels.CPU_VENDOR: of.vendor, labels.CPU_FAMILY: of.family, labels.CPU_MODEL: of.model}
    return Node(
        metadata=metadata(of.name, labels=LINUX | nfd | dict(extra or {})),
        status=NodeStatus(capacity={"cpu": cpu or str(of.cores), "memory": "64Gi"}),
    )


def agent_feature(short: str) -> NodeFeature:
    """What a machine's agent reports of it."""
    of = MACHINES[short]
    cards = labels.accelerator_labels(_machine_groups(of))
    return node_feature(of.name, cards, part="device-manager", cpu=cpu_report(short))


def worker_feature(short: str, *, managed: str = "true") -> NodeFeature:
    """What the operator has to say of a machine once its agent has reported."""
    of = MACHINES[short]
    cpu = labels.capacity_labels(of.general_key, of.cores, cpu_only=not of.card)
    return node_feature(of.name, cpu | ({labels.MANAGED: managed} if managed else {}))


def _machine_groups(of: Machine) -> list[DeviceGroup]:
    return [group(CARD_KEYS[of.card], cards=of.cards, **CARDS[of.card])] if of.card else []


# --- Flavors and pools --------------------------------------------------------------------------------------------


def flavor(
    short: str, *, cards: bool = False, count: int = 0, nodes: int = 1, name: str = "", deleting: bool = False
) -> ResourceFlavor:
    """The flavor of so many nodes like a machine: its CPU flavor, or with `cards` that of its cards."""
    key = labels.accelerator(CARD_KEYS[MACHINES[short].card]) if cards else labels.general(MACHINES[short].general_key)
    amount = {f"{key}.count": str(count)} if count else {}
    facts = [node_facts(short, name=f"{short}-{number}", extra=amount) for number in range(nodes)]
    parts = next(parts for parts in flavors.contributors(facts).values() if bool(parts[0].accelerator_key) == cards)
    return stored_flavor(flavors.flavor(parts), name=name, deleting=deleting)


def stored_flavor(body: Mapping[str, Any], *, name: str = "", deleting: bool = False) -> ResourceFlavor:
    """A desired flavor as a cache would hold it."""
    stored = msgspec.convert(body, ResourceFlavor)
    meta = metadata(
        name or stored.name,
        labels=dict(stored.labels),
        annotations=dict(stored.annotations),
        deletion_timestamp="2026-01-01T00:00:00Z" if deleting else None,
    )
    return msgspec.structs.replace(stored, metadata=meta)


def walkthrough_flavors() -> list[ResourceFlavor]:
    """The seven flavors of the four machines."""
    found = flavors.contributors(node_facts(short) for short in MACHINES)
    return [stored_flavor(flavors.flavor(parts)) for parts in found.values()]


def walkthrough_devices() -> list[Devices]:
    """The cards of the three machines that have any, all free."""
    return [
        devices(
            of.name, *[free()] * of.cards, key=CARD_KEYS[of.card], general_key=of.general_key,
            memory=CARDS[of.card]["memory"],
        )
        for of in MACHINES.values()
        if of.card
    ]  # fmt: skip


def cluster_queue(
    name: str = "pool",
    *,
    resource: str = "cpu",
    quotas: Mapping[str, str | int] | None = None,
    reserved: Mapping[str, str | int] | None = None,
    stop_policy: str = "None",
    pool_labels: Mapping[str, str] | None = None,
) -> ClusterQueue:
    """A queue with these quotas and reservations by flavor."""
    entries = tuple(
        FlavorQuotas(name=flavor, resources=(ResourceQuota(name=resource, nominal_quota=str(quota)),))
        for flavor, quota in (quotas or {}).items()
    )
    groups = (ResourceGroup(covered_resources=(resource,), flavors=entries),) if entries else None
    reservations = tuple(
        FlavorReservation(name=flavor, resources=(ReservedResource(name=resource, total=str(total)),))
        for flavor, total in (reserved or {}).items()
    )
    return ClusterQueue(
        metadata=metadata(name, labels=dict(pool_labels or {}) | {labels.RESOURCE_TYPE: labels.TYPE_POOL}),
        spec=ClusterQueueSpec(resource_groups=groups, stop_policy=stop_policy),
        status=ClusterQueueStatus(flavors_reservation=reservations),
    )


def type_spec(
    *, accelerator_group: str = "", general_group: str = "generic", unit: str = "1/2Gi/100Gi", **fields: Any
) -> InstanceTypeSpec:
    """The spec of an InstanceType; `unit` is CPU/RAM/storage as the table prints it."""
    cpu, ram, storage = unit.split("/")
    given: dict[str, Any] = {
        "acceleratable": bool(accelerator_group),
        "accelerator_group": accelerator_group,
        "general_group": general_group,
        "os": "linux",
        "arch": "amd64",
        "unit_resources": UnitResources(cpu=cpu, ram=ram),
        "local_storage": storage,
    }
    return InstanceTypeSpec(**(given | fields))


def instance_type(name: str = "a-type", **fields: Any) -> InstanceType:
    """An InstanceType with `type_spec` of these fields."""
    return InstanceType(metadata=metadata(name), spec=type_spec(**fields))


def workload(flavor: str, *, name: str = "a-workload", queue: str = "pool", **conditions: str) -> Workload:
    """A Workload with quota on a flavor, in a queue: `workload("f", QuotaReserved="True")`."""
    assignment = PodSetAssignment(name="main", flavors={"cpu": flavor})
    return Workload(
        metadata=metadata(name, namespace="default"),
        status=WorkloadStatus(
            conditions=tuple(Condition(type=kind, status=status) for kind, status in conditions.items()),
            admission=Admission(cluster_queue=queue, pod_set_assignments=(assignment,)),
        ),
    )


# --- Pods, their records and their places -------------------------------------------------------------------------


def containers(*resources: Mapping[str, str]) -> tuple[Container, ...]:
    """Containers with these limits; the first is `main`, the others `c1`, `c2` and so on."""
    named = enumerate(resources)
    return tuple(
        Container(name=f"c{number}" if number else "main", resources=ContainerResources(limits=dict(limits)))
        for number, limits in named
    )


def pod(
    name: str,
    *resources: Mapping[str, str],
    record: records.Record | str | None = None,
    phase: str = "Running",
    node: str = "node",
    workload: str = "",
    deleting: bool = False,
    created: str = "",
    namespace: str = "default",
) -> Pod:
    """A Pod on a node: `pod("p", {"nvidia.com/gpu": "1"}, record=given(...))`. A text is the raw annotation."""
    text = records.written(record) if isinstance(record, Mapping) else record
    annotations = ({labels.ALLOCATED: text} if text is not None else {}) | (
        {labels.KUEUE_WORKLOAD: workload} if workload else {}
    )
    return Pod(
        metadata=metadata(
            name,
            namespace=namespace,
            annotations=annotations,
            labels={labels.KUEUE_POD_SET: "main"} if workload else {},
            creation_timestamp=created,
            deletion_timestamp="2026-01-01T00:00:00Z" if deleting else None,
        ),
        spec=PodSpec(node_name=node, containers=containers(*(resources or ({},)))),
        status=PodStatus(phase=phase),
    )


def claim(name: str, held: records.Record, *, phase: str = "Running", **facts: Any) -> PodClaim:
    """A Pod with this record."""
    return PodClaim(uid=f"uid-of-{name}", namespace="default", name=name, phase=phase, record=held, **facts)


def given(
    *entries: records.Entry, container: str = "main", ids: Sequence[str] = ()
) -> dict[str, records.ContainerRecord]:
    """The record of a Pod with one container that holds these."""
    return {container: records.ContainerRecord(entries, tuple(ids))}


def whole_entry(card: str) -> records.Entry:
    return entry(card, Family.EXCLUSIVE, CARD)


def share_entry(card: str) -> records.Entry:
    return entry(card, Family.SHARED, SHARE)


def slice_entry(card: str, percent: int, *, manufacturer: str = "nvidia") -> records.Entry:
    return entry(card, Family.SLICED, percent * PERCENT, manufacturer=manufacturer)


def partition_entry(card: str, profile: str, start: int, length: int, units: int = 0) -> records.Entry:
    return entry(card, Family.PARTITIONED, units, profile=profile, placements=(Placement(start=start, length=length),))


def entry(card: str, mode: Family, units: int, *, manufacturer: str = "nvidia", **facts: Any) -> records.Entry:
    """What a record says of a card named `<group>/<index>`."""
    group_id, _, index = card.partition("/")
    return records.Entry(
        manufacturer=manufacturer, group=group_id, card=card, index=int(index), mode=mode, allocated=units, **facts
    )


def cards_of(
    group_id: str,
    number: int,
    *,
    profiles: Sequence[PhysicalProfile] = (),
    slices: int = 128,
    sick: Sequence[int] = (),
    memory: int = 24563,
    manufacturer: str = "nvidia",
    first: int = 0,
) -> DeviceGroup:
    """A group of cards named `<group>/<index>`; with profiles, in a partitioning mode."""
    ceiling = max((profile.count for profile in profiles), default=0)
    logical = LogicalSliced(count=slices, cores_percentage_overcommit=True) if slices and not profiles else None
    physical = PhysicalSliced(count=ceiling, profiles=tuple(profiles)) if profiles else None
    return DeviceGroup(
        id=group_id,
        manufacturer=manufacturer,
        name=group_id,
        memory=memory,
        accelerators=tuple(
            Card(
                id=f"{group_id}/{index}",
                index=index,
                status=CardStatus(unhealthy=index in sick, logical_sliced=logical, physical_sliced=physical),
            )
            for index in range(first, first + number)
        ),
    )


def profile(name: str, memory: int, compute: int, length: int, starts: Sequence[int]) -> PhysicalProfile:
    return PhysicalProfile(
        name=name,
        memory_mib=memory,
        compute_slices=compute,
        memory_slices=length,
        count=len(starts),
        placements=tuple(Placement(start=start, length=length) for start in starts),
    )


H100_PROFILES = (
    profile("1g.10gb", 9856, 1, 1, range(7)),
    profile("1g.20gb", 19968, 1, 2, (0, 2, 4, 6)),
    profile("2g.20gb", 19968, 2, 2, (0, 2, 4)),
    profile("3g.40gb", 39936, 3, 4, (0, 4)),
    profile("4g.40gb", 39936, 4, 4, (0,)),
    profile("7g.80gb", 79872, 7, 8, (0,)),
)


def placed(
    name: str,
    *pod_sets: PodSet,
    at: Mapping[str, int] | None = None,
    flavor: str = "cards",
    checks: Mapping[str, str] | None = None,
    active: bool = True,
    namespace: str = "default",
    **conditions: str,
) -> Workload:
    """A Workload whose Pods Kueue has put on these nodes, so many on each: `placed("w", asking(...), at={"a": 2})`."""
    nodes = dict(at or {})
    topology = TopologyAssignment(
        levels=(labels.HOSTNAME,),
        slices=tuple(
            TopologySlice(
                domain_count=1,
                pod_counts=PodCounts(universal=count),
                values_per_level=(LevelValues(universal=host),),
            )
            for host, count in nodes.items()
        ),
    )
    assignments = tuple(
        PodSetAssignment(
            name=pod_set.name,
            flavors={labels.credits("nvidia"): flavor},
            count=sum(nodes.values()),
            topology_assignment=topology,
        )
        for pod_set in pod_sets
    )
    stated = {"QuotaReserved": "True"} | conditions
    return Workload(
        metadata=metadata(name, namespace=namespace),
        spec=WorkloadSpec(active=active, pod_sets=pod_sets),
        status=WorkloadStatus(
            conditions=tuple(Condition(type=kind, status=status) for kind, status in stated.items()),
            admission=Admission(cluster_queue="pool", pod_set_assignments=assignments),
            admission_checks=tuple(AdmissionCheckState(name=n, state=s) for n, s in (checks or {}).items()),
        ),
    )


def asking(*resources: Mapping[str, str], name: str = "main", count: int = 1) -> PodSet:
    """A PodSet of so many Pods whose containers ask for these."""
    return PodSet(name=name, count=count, template=PodTemplate(spec=PodSpec(containers=containers(*resources))))
