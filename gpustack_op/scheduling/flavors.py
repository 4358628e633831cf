"""ResourceFlavors: what each node contributes to, and the object that comes of all contributions to one name.

Guarantees   One CPU flavor and one flavor per kind of card, each with nodes of equal size. A node contributes only if
             it carries every label the flavor selects by and the flavor tolerates its taints, so that the capacity
             counts exactly the nodes a Pod can land on. Nothing depends on how pools are grouped.
Assumptions  Labels are those the node is believed to have; `.count` on the node is the source of the figure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpustack_op.api.core import Taint
from gpustack_op.scheduling import cpu_detail, labels, names
from gpustack_op.scheduling.cpu_key import CpuIdentity, general_key, known
from gpustack_op.scheduling.manufacturers import MANUFACTURERS, Manufacturers

LARGEST_COUNT = 2**31 - 1
"""Cores or cards of one node above which a figure is no figure."""

_OWN_TAINTS = "node.kubernetes.io/"
"""Taints that Kubernetes itself sets and lifts; they say how a node is, not whom it is for."""

_BARRING_EFFECTS = frozenset({"NoSchedule", "NoExecute"})
_COUNT = re.compile(r"[1-9][0-9]*")


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """One node as the flavors see it. `cpu` are the attributes its agent reports."""

    name: str
    labels: Mapping[str, str]
    cpu: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()

    @property
    def general_key(self) -> str:
        """The CPU key the node is labelled with; of several, the one its CPU facts give. Empty when there is none."""
        marked = labels.general_keys(self.labels)
        derived = general_key(CpuIdentity.of(self.labels, self.cpu))
        return derived if derived in marked else next(iter(marked), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Contribution:
    """One node's part in one flavor: `count` cores, or cards when there is an accelerator key."""

    flavor: str
    node: NodeFacts
    general_key: str
    count: int
    accelerator_key: str = ""
    pins_cpu_only: bool = False

    @property
    def key(self) -> str:
        """The key of what is counted."""
        return self.accelerator_key or self.general_key

    @property
    def selector(self) -> dict[str, str]:
        """The node labels that make a node part of the flavor."""
        selected = {labels.MANAGED: labels.TRUE, labels.general(self.general_key): labels.TRUE}
        selected |= {key: self.node.labels.get(key, "") for key in (labels.OS, labels.ARCH)}
        selected |= {self.own_label(): labels.TRUE, self.own_label("count"): str(self.count)}
        return selected | ({labels.CPU_ONLY: labels.TRUE} if self.pins_cpu_only else {})

    def own_label(self, suffix: str = "") -> str:
        build = labels.accelerator if self.accelerator_key else labels.general
        return build(self.key, suffix)

    def card_fact(self, suffix: str) -> str:
        """What the node's labels say of the card; empty on a CPU flavor."""
        return self.node.labels.get(self.own_label(suffix), "") if self.accelerator_key else ""


def contributions(
    node: NodeFacts, *, mixed: bool = True, manufacturers: Manufacturers = MANUFACTURERS
) -> tuple[Contribution, ...]:
    """The flavors a node is part of. Without `mixed`, a node with cards is part of no CPU flavor."""
    if not (node.general_key and _is_system_known(node)):
        return ()
    candidates = (_cpu(node, pins_cpu_only=not mixed), *_cards(node, manufacturers))
    return tuple(part for part in candidates if part and _takes_part(part, manufacturers))


def contributors(
    nodes: Iterable[NodeFacts], *, mixed: bool = True, manufacturers: Manufacturers = MANUFACTURERS
) -> dict[str, tuple[Contribution, ...]]:
    """The contributions of every flavor that has one, by flavor; nodes in the order of their names."""
    found: dict[str, tuple[Contribution, ...]] = {}
    for node in sorted(nodes, key=lambda node: node.name):
        for part in contributions(node, mixed=mixed, manufacturers=manufacturers):
            agreeing = found.get(part.flavor, ())
            if not agreeing or agreeing[0].selector == part.selector:
                found[part.flavor] = (*agreeing, part)
    return found


def flavor(parts: Sequence[Contribution], *, manufacturers: Manufacturers = MANUFACTURERS) -> dict[str, Any]:
    """The ResourceFlavor of these contributions, of which there is at least one."""
    told = next((part for part in parts if part.node.cpu), parts[0])
    spec: dict[str, Any] = {"nodeLabels": told.selector, "topologyName": names.TOPOLOGY}
    taint = _tolerated_taint(told, manufacturers)
    if taint:
        spec["tolerations"] = [{"key": taint, "operator": "Exists"}]
    return {
        "metadata": {"name": told.flavor, "labels": _labels(told, len(parts)), "annotations": notes(told)},
        "spec": spec,
    }


def notes(part: Contribution) -> dict[str, str]:
    """What a flavor tells about its hardware, as annotations."""
    values = {
        "acceleratable": labels.flag(bool(part.accelerator_key)),
        "generalGroup": part.general_key,
        "acceleratorGroup": part.accelerator_key,
        "manufacturer": labels.manufacturer_of(part.key),
        "product": part.card_fact("product") if part.accelerator_key else known(part.node.cpu, "name"),
        "family": part.card_fact("family") if part.accelerator_key else known(part.node.cpu, "family"),
        "memory": part.card_fact("memory"),
        "cores": part.card_fact("cores"),
        "cpuDetail": cpu_detail.written(_cpu_detail(part)),
    }
    return {labels.note(name): value for name, value in values.items()}


def barring_taints(node: NodeFacts) -> tuple[Taint, ...]:
    """The taints that somebody has set to keep Pods off the node."""
    return tuple(
        taint for taint in node.taints if taint.effect in _BARRING_EFFECTS and not taint.key.startswith(_OWN_TAINTS)
    )


def left_out_because(node: NodeFacts, *, mixed: bool = True, manufacturers: Manufacturers = MANUFACTURERS) -> str:
    """Why a managed node with something to give is part of no flavor, as a sentence; empty when it is part of one."""
    if contributions(node, mixed=mixed, manufacturers=manufacturers) or node.labels.get(labels.MANAGED) != labels.TRUE:
        return ""
    taints = barring_taints(node)
    if taints:
        shown = ", ".join(f"{taint.key}={taint.value}:{taint.effect}" for taint in taints)
        return f'Node "{node.name}" is in no pool because of its taint {shown}; remove the taint to add the node'
    if node.general_key and not _is_system_known(node):
        shown = ", ".join(f"{key}={node.labels.get(key, '')!r}" for key in (labels.OS, labels.ARCH))
        return f'Node "{node.name}" is in no pool because of its labels {shown}; set them as the kubelet does'
    cores = node.labels.get(labels.general(node.general_key, "count"), "")
    if cores and not _count(cores):
        return (
            f'Node "{node.name}" is in no pool because its capacity of {cores} cores is no believable number; '
            f"it must be at most {LARGEST_COUNT}"
        )
    return ""


def _cpu(node: NodeFacts, *, pins_cpu_only: bool) -> Contribution | None:
    count = _count(node.labels.get(labels.general(node.general_key, "count"), ""))
    if not count:
        return None
    name = names.cpu_flavor(node.general_key, node.labels[labels.OS], node.labels[labels.ARCH], count)
    return Contribution(flavor=name, node=node, general_key=node.general_key, count=count, pins_cpu_only=pins_cpu_only)


def _cards(node: NodeFacts, manufacturers: Manufacturers) -> Iterable[Contribution]:
    for key in labels.accelerator_keys(node.labels, manufacturers):
        count = _count(node.labels.get(labels.accelerator(key, "count"), ""))
        if count:
            os, arch = node.labels[labels.OS], node.labels[labels.ARCH]
            name = names.device_flavor(node.general_key, key, os, arch, count)
            yield Contribution(flavor=name, node=node, general_key=node.general_key, accelerator_key=key, count=count)


def _takes_part(part: Contribution, manufacturers: Manufacturers) -> bool:
    tolerated = _tolerated_taint(part, manufacturers)
    return labels.selects(part.selector, part.node.labels) and all(
        taint.key == tolerated for taint in barring_taints(part.node)
    )


def _tolerated_taint(part: Contribution, manufacturers: Manufacturers) -> str:
    row = manufacturers.get(labels.manufacturer_of(part.accelerator_key))
    return row.taint if row else ""


def _labels(part: Contribution, nodes: int) -> dict[str, str]:
    system = {key: part.node.labels[key] for key in (labels.OS, labels.ARCH)}
    return system | {
        labels.ACCELERATABLE: labels.flag(bool(part.accelerator_key)),
        labels.general(part.general_key): labels.TRUE,
        part.own_label(): labels.TRUE,
        part.own_label("count"): str(part.count),
        part.own_label("capacity"): str(part.count * nodes),
        labels.RESOURCE_TYPE: labels.TYPE_FLAVOR,
    }


def _cpu_detail(part: Contribution) -> cpu_detail.Detail:
    detail = cpu_detail.cpu_detail(part.node.cpu)
    if not part.accelerator_key:
        return detail
    return cpu_detail.with_identity(detail, general_key=part.general_key, reported=part.node.cpu)


def _is_system_known(node: NodeFacts) -> bool:
    """Whether operating system and architecture can stand in an object's name as they are."""
    system = (node.labels.get(labels.OS, ""), node.labels.get(labels.ARCH, ""))
    return all(value and names.object_name(value) == value for value in system)


def _count(text: str) -> int:
    """A positive count as our own labels spell it; 0 for anything else."""
    if not _COUNT.fullmatch(text) or len(text) > len(str(LARGEST_COUNT)):
        return 0
    return int(text) if int(text) <= LARGEST_COUNT else 0
