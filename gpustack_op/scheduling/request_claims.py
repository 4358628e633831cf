"""Which accelerators the containers of a Pod ask for, read from its spec as plain JSON.

Guarantees   Every key of an accelerator family is a claim, also one that sizes a slice and names none. Requests win
             over limits. A key that no manufacturer knows is no claim.
Assumptions  The API server has decoded the spec: resources are maps from names to quantities.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from gpustack_op.api.quantity import Quantity
from gpustack_op.scheduling.manufacturers import MANUFACTURERS, Family, Manufacturer, Manufacturers

Json = Mapping[str, Any]


class Group(Enum):
    """Containers that run at the same time. A sidecar is an init container that goes on running."""

    INIT = "init"
    RUNNING = "running"
    SIDECAR = "sidecar"


@dataclass(frozen=True, slots=True)
class Claim:
    """One resource of one container; `resource` is its name."""

    resource: str
    manufacturer: Manufacturer
    family: Family
    amount: Quantity


@dataclass(frozen=True, slots=True)
class ContainerClaims:
    """`path` is the container's place in the object; `claims` leaves visibility of others' accelerators out."""

    name: str
    path: str
    group: Group
    claims: tuple[Claim, ...]

    @property
    def families(self) -> frozenset[Family]:
        return frozenset(claim.family for claim in self.claims)

    def amounts(self, row: Manufacturer) -> dict[str, Quantity]:
        return {claim.resource: claim.amount for claim in self.claims if claim.manufacturer.id == row.id}

    def manufacturers(self, *families: Family) -> list[Manufacturer]:
        """Whose accelerators are claimed in one of these families, by id."""
        rows = {claim.manufacturer.id: claim.manufacturer for claim in self.claims if claim.family in families}
        return [rows[name] for name in sorted(rows)]

    def profiles(self, row: Manufacturer) -> list[str]:
        """The partition profiles that are named, sorted."""
        return sorted(profile for name in self.amounts(row) if (profile := row.profile_of(name)))

    def limit(self, resource: str) -> str:
        """The field of a claim, as messages name it."""
        return f"{self.path}.resources.limits[{resource}]"


def read_claims(spec: Json, path: str = "spec", manufacturers: Manufacturers = MANUFACTURERS) -> list[ContainerClaims]:
    """The claims of every container, init containers first. `path` is where the spec stands in its object."""
    return [
        ContainerClaims(container.get("name") or "", f"{path}.{place}", group, tuple(_claims(container, manufacturers)))
        for place, group, container in _containers(spec)
    ]


def stated(container: Json) -> dict[str, str]:
    """A container's resources, requests over limits."""
    resources = container.get("resources") or {}
    return {**(resources.get("limits") or {}), **(resources.get("requests") or {})}


def obtains(container: Json, row: Manufacturer) -> bool:
    """Whether the container is given any of the manufacturer's accelerators, or the sight of its neighbours'."""
    return any(Quantity.parse(amount).nanos > 0 for name, amount in stated(container).items() if row.family(name))


def _claims(container: Json, manufacturers: Manufacturers) -> Iterator[Claim]:
    for resource, amount in sorted(stated(container).items()):
        row = manufacturers.of_resource(resource)
        if row is not None and row.family(resource) is not Family.VISIBILITY:
            yield Claim(resource, row, row.family(resource), Quantity.parse(amount))


def _containers(spec: Json) -> Iterator[tuple[str, Group, Json]]:
    for index, container in enumerate(spec.get("initContainers") or ()):
        group = Group.SIDECAR if container.get("restartPolicy") == "Always" else Group.INIT
        yield f"initContainers[{index}]", group, container
    for index, container in enumerate(spec.get("containers") or ()):
        yield f"containers[{index}]", Group.RUNNING, container
