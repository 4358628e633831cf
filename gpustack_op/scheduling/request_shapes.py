"""How a slice and a partition are spelt: rules 2, 3 and 5, and what belongs to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gpustack_op.api.quantity import Quantity
from gpustack_op.scheduling.breaches import Breach, forbidden, invalid, required
from gpustack_op.scheduling.manufacturers import Family, Manufacturer
from gpustack_op.scheduling.request_claims import ContainerClaims

NONE, ONE, HUNDRED = Quantity.of(0), Quantity.of(1), Quantity.of(100)

Amounts = Mapping[str, Quantity]

_ONE_SLICE = (
    "a logical slice request is always a single accelerator; multi-accelerator logical slicing is not supported yet"
)
_ONE_PARTITION = "a partition request is always a single accelerator; request one Pod per instance"
_ONE_INSTANCE = "a partition profile request must be exactly 1 instance"
_PERCENT = "must be within (0, 100]"
_POSITIVE = "must be greater than zero"


def shapes(containers: Sequence[ContainerClaims], path: str) -> Iterator[Breach]:
    """Container by container, in their order."""
    for each in containers:
        for row in each.manufacturers(Family.SLICED):
            yield from _slice(each, row, each.amounts(row))
        for row in each.manufacturers(Family.PARTITIONED):
            yield from _partition(each, row, each.amounts(row))


def _slice(container: ContainerClaims, row: Manufacturer, amounts: Amounts) -> Iterator[Breach]:
    if row.sliced not in amounts:
        yield required(container.limit(row.sliced), f"a sliced request must set {row.sliced}")
    elif amounts[row.sliced] != ONE:
        yield invalid(container.limit(row.sliced), amounts[row.sliced], _ONE_SLICE)
    yield from _budget(container, row, amounts)
    for key in (row.sliced_memory_percentage, row.sliced_cores_percentage):
        if key in amounts and not NONE < amounts[key] <= HUNDRED:
            yield invalid(container.limit(key), amounts[key], _PERCENT)
    mebibytes = row.sliced_memory_mib
    if mebibytes in amounts and amounts[mebibytes] <= NONE:
        yield invalid(container.limit(mebibytes), amounts[mebibytes], _POSITIVE)


def _budget(container: ContainerClaims, row: Manufacturer, amounts: Amounts) -> Iterator[Breach]:
    """Exactly one way to say how much memory the slice has."""
    percentage, mebibytes = row.sliced_memory_percentage, row.sliced_memory_mib
    if percentage not in amounts and mebibytes not in amounts:
        yield required(container.limit(percentage), f"a {row.sliced} request must set {percentage} or {mebibytes}")
    if percentage in amounts and mebibytes in amounts:
        yield forbidden(container.limit(mebibytes), f"cannot set both {percentage} and {mebibytes}")


def _partition(container: ContainerClaims, row: Manufacturer, amounts: Amounts) -> Iterator[Breach]:
    base, profiles = row.partitioned, container.profiles(row)
    if base not in amounts:
        yield required(container.limit(base), f"a partition request must set {base}")
    elif amounts[base] != ONE:
        yield invalid(container.limit(base), amounts[base], _ONE_PARTITION)
    if not profiles:
        example = row.partitioned_profile("<profile>")
        yield required(container.limit(base), f"a {base} request must name a profile, e.g. {example}")
    for key in (row.partitioned_profile(profile) for profile in profiles):
        if amounts[key] != ONE:
            yield invalid(container.limit(key), amounts[key], _ONE_INSTANCE)
