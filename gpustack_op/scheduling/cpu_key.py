"""The general key: which CPU a node has, as one word for labels and names.

Guarantees   A key is `<manufacturer>-<identity>`, at most 54 characters (room for `.capacity` in a label's name) and
             legal there; never a bare manufacturer: of a CPU nobody has described yet the key is None, not a guess.
Assumptions  The manufacturer comes from Node Feature Discovery's label, the product name from the node's own agent.
             Whoever publishes a key waits for both (`CpuIdentity.complete`) or for the end of its patience.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpustack_op.scheduling import labels
from gpustack_op.scheduling.manufacturers import GENERIC
from gpustack_op.scheduling.names import short_hash
from gpustack_op.scheduling.sanitise import LABEL_LIMIT, slug

KEY_LIMIT = LABEL_LIMIT - len(".capacity")
"""Characters in a key whose longest sibling label still fits."""

_MANUFACTURER_LIMIT = 20
"""Leaves room for an identity whatever a vendor label holds; the known vendors have at most 13 characters."""

_UNRESOLVED = "@"
"""How a value starts that is a reference nobody has resolved."""


@dataclass(frozen=True, slots=True)
class CpuIdentity:
    """What is known of a node's CPU; empty is unknown. `model` is the number that vendors give within a family."""

    vendor: str = ""
    name: str = ""
    family: str = ""
    model: str = ""

    @staticmethod
    def of(node_labels: Mapping[str, str], reported: Mapping[str, str]) -> CpuIdentity:
        """From the Node's labels and the attributes of its agent's report."""
        return CpuIdentity(
            vendor=node_labels.get(labels.CPU_VENDOR, ""),
            name=known(reported, "name"),
            family=node_labels.get(labels.CPU_FAMILY, ""),
            model=node_labels.get(labels.CPU_MODEL, ""),
        )

    @property
    def complete(self) -> bool:
        """Whether both reporters have spoken, so that the key will not change with the next one."""
        return bool(self.vendor and self.name)


def general_key(facts: CpuIdentity) -> str | None:
    """The best key these facts give: by product name, else by family and model, else none."""
    manufacturer = _manufacturer(facts.vendor)
    identity = _identity(facts, manufacturer)
    return f"{manufacturer}-{identity}" if identity else None


def known(attributes: Mapping[str, str], attribute: str) -> str:
    """A reported attribute; empty when it is absent or an unresolved reference."""
    value = attributes.get(attribute, "")
    return "" if value.startswith(_UNRESOLVED) else value


def _manufacturer(vendor: str) -> str:
    # No dash may survive: a key's manufacturer is what stands before its first one.
    word = "".join(character for character in slug(vendor) if character.isalnum())[:_MANUFACTURER_LIMIT]
    return GENERIC if word in {"", "vendorunknown"} else word


def _identity(facts: CpuIdentity, manufacturer: str) -> str:
    budget = KEY_LIMIT - len(manufacturer) - 1
    name = "" if facts.name.startswith(_UNRESOLVED) else facts.name
    by_name = slug(name, prefix=manufacturer, limit=budget, cruft=True)
    if by_name:
        return by_name
    if facts.family and facts.model:
        return slug(f"{facts.family}-{facts.model}", limit=budget)
    return f"cpu-{short_hash(name)}" if name.strip() else ""
