"""The catalog: one InstanceTypeFlavor for each kind of hardware, whatever the number of nodes and their system.

Promises  One row a name. Without CPU awareness all CPUs are one row and a card is one row on every CPU; with it each
          CPU, and each card on each CPU, is a row of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gpustack_op.api.kueue import ResourceFlavor
from gpustack_op.api.quantity import Quantity, QuantityError
from gpustack_op.api.worker import Card, Devices
from gpustack_op.scheduling import labels, names
from gpustack_op.scheduling.accelerator_key import accelerator_key
from gpustack_op.scheduling.flavor_facts import FlavorFacts, live_facts
from gpustack_op.scheduling.hardware import is_sliceable
from gpustack_op.scheduling.manufacturers import GENERIC

Row = dict[str, Any]


def catalog_rows(flavors: Iterable[ResourceFlavor], devices: Iterable[Devices], *, aware: bool) -> list[Row]:
    """The rows as objects to apply. `aware` tells CPUs apart."""
    nodes = tuple(devices)
    rows: dict[str, Row] = {}
    for facts in live_facts(flavors):
        if facts.general_group or facts.accelerator_group:
            spec = _spec(facts, nodes, aware=aware)
            name = names.catalog_row(spec.get("generalGroup", ""), spec.get("acceleratorGroup", ""))
            rows.setdefault(name, {"metadata": {"name": name}, "spec": spec})
    return sorted(rows.values(), key=_position)


def candidates(flavors: Iterable[ResourceFlavor]) -> list[str]:
    """The accelerator groups that an InstanceType can name, sorted."""
    return sorted({facts.accelerator_group for facts in live_facts(flavors) if facts.accelerator_group})


def _spec(facts: FlavorFacts, nodes: Sequence[Devices], *, aware: bool) -> dict[str, Any]:
    if not (facts.accelerator_group or aware):
        return {"generalGroup": GENERIC, "acceleratable": False, "manufacturer": GENERIC}
    general_group = facts.general_group if aware else ""
    spec = {
        "generalGroup": general_group,
        "acceleratorGroup": facts.accelerator_group,
        "manufacturer": facts.manufacturer,
        "product": facts.product,
        "family": facts.family,
        "memory": facts.memory,
        "cores": facts.cores,
    }
    known: dict[str, Any] = {name: value for name, value in spec.items() if value}
    known["acceleratable"] = bool(facts.accelerator_group)
    cards = _cards(facts.accelerator_group, general_group, nodes)
    return known | ({"sliceable": any(map(is_sliceable, cards))} if cards else {})


def _cards(key: str, general_group: str, nodes: Sequence[Devices]) -> list[Card]:
    """The managed cards of a row; none for a row of CPUs."""
    wanted = {labels.MANAGED: labels.TRUE} | ({labels.general(general_group): labels.TRUE} if general_group else {})
    return [
        card
        for node in nodes
        if key and labels.selects(wanted, node.labels)
        for group in node.spec.groups or ()
        if accelerator_key(group.manufacturer, group.id) == key
        for card in group.accelerators or ()
    ]


def _position(row: Row) -> tuple[object, ...]:
    """By manufacturer, product, memory as an amount, then by the groups."""
    spec = row["spec"]
    ordered = [
        spec.get(field, "") for field in ("manufacturer", "product", "memory", "generalGroup", "acceleratorGroup")
    ]
    return (*ordered[:2], _memory(ordered[2]), *ordered[2:])


def _memory(text: str) -> Quantity:
    try:
        return Quantity.parse(text)
    except QuantityError:
        return Quantity.of(-1)
