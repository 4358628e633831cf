"""Fills in what a Pod's requests leave to us: the units of slices and partitions, and the nodes that have enough cards.

Guarantees   The spec that is given stays as it is. What is written stands in requests and limits alike. Units are
             always computed, whatever the client wrote. Doing it twice changes nothing.
Assumptions  What is not folded here (another manufacturer's keys, two profiles, no memory) is refused by the rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpustack_op.api.quantity import NANO, Quantity
from gpustack_op.scheduling import labels
from gpustack_op.scheduling.credits import memory_units, percent_units
from gpustack_op.scheduling.manufacturers import MANUFACTURERS, Family, Manufacturer, Manufacturers
from gpustack_op.scheduling.pool_facts import PoolFacts
from gpustack_op.scheduling.request_claims import ContainerClaims, Json, read_claims

WHOLE_CARD_PERCENT = 100
NO_AMOUNT = Quantity.of(0)

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


class FoldError(ValueError):
    """A request that cannot be turned into units; the text is for the person who wrote it."""


def folded(spec: Json, pool: PoolFacts, manufacturers: Manufacturers = MANUFACTURERS) -> dict[str, Any]:
    """The Pod spec with units, compute shares and the node term, or a `FoldError`."""
    row = manufacturers.get(pool.manufacturer)
    if row is None:
        return dict(spec)
    claims = {each.path: each for each in read_claims(spec, "", manufacturers)}
    result = dict(spec)
    for field in ("initContainers", "containers"):
        if spec.get(field):
            result[field] = [
                _stating(container, _additions(claims[f".{field}[{index}]"], row, pool))
                for index, container in enumerate(spec[field])
            ]
    most = max((each.amounts(row).get(row.shared, NO_AMOUNT).ceil() for each in claims.values()), default=0)
    return with_more_cards_than(result, most - 1, pool) if most > 1 else result


def with_more_cards_than(spec: Json, cards: int, pool: PoolFacts) -> dict[str, Any]:
    """The spec bound to nodes with more cards of the pool's kind: tokens of shares hide from the scheduler how many
    cards stand behind them.
    """
    if not pool.accelerator_group:
        raise FoldError(f"instance type {pool.name} names no accelerator group")
    key = labels.accelerator(pool.accelerator_group, "count")
    expression = {"key": key, "operator": "Gt", "values": [str(cards)]}
    affinity = spec.get("affinity") or {}
    node_affinity = affinity.get("nodeAffinity") or {}
    required = node_affinity.get(_REQUIRED) or {}
    terms = [_narrowed(term, expression) for term in required.get("nodeSelectorTerms") or ()]
    required = {**required, "nodeSelectorTerms": terms or [{"matchExpressions": [expression]}]}
    return {**spec, "affinity": {**affinity, "nodeAffinity": {**node_affinity, _REQUIRED: required}}}


def _narrowed(term: Json, expression: Json) -> Json:
    """A term that is empty selects no node, and would select some with an expression in it."""
    present = term.get("matchExpressions") or []
    if expression in present or not (present or term.get("matchFields")):
        return term
    return {**term, "matchExpressions": [*present, expression]}


def _additions(container: ContainerClaims, row: Manufacturer, pool: PoolFacts) -> dict[str, int]:
    families = {claim.family for claim in container.claims if claim.manufacturer.id == row.id}
    additions: dict[str, int] = {}
    if Family.PARTITIONED in families:
        additions |= _partition(container, row, pool)
    if Family.SLICED in families:
        additions |= _slice(container, row, pool)
    return additions


def _partition(container: ContainerClaims, row: Manufacturer, pool: PoolFacts) -> dict[str, int]:
    profiles = container.profiles(row)
    if len(profiles) != 1:
        return {}
    memory = _profile_memory(container, profiles[0], pool)
    units = memory_units(memory, _card_memory(pool))
    source = f'partition profile "{profiles[0]}"'
    return {row.partitioned_units: _positive(units, container, row.partitioned_units, source)}


def _profile_memory(container: ContainerClaims, profile: str, pool: PoolFacts) -> int:
    if profile not in pool.profiles and not pool.detailed:
        raise FoldError(f"instance type {pool.name} is not ready yet (accelerator detail not computed); retry")
    if profile not in pool.profiles:
        raise FoldError(
            f'container "{container.name}": partition profile "{profile}" is not offered by the target pool '
            f"(instance type {pool.name})"
        )
    if pool.profiles[profile] <= 0:
        raise FoldError(
            f'instance type {pool.name} is not ready yet (partition profile "{profile}" has no memory detail); retry'
        )
    return pool.profiles[profile]


def _slice(container: ContainerClaims, row: Manufacturer, pool: PoolFacts) -> dict[str, int]:
    amounts = container.amounts(row)
    cores = {} if row.sliced_cores_percentage in amounts else {row.sliced_cores_percentage: WHOLE_CARD_PERCENT}
    units = _slice_units(container, row, pool, amounts)
    if units is None:
        return cores
    return cores | {row.sliced_units: _positive(units, container, row.sliced_units, "the requested memory")}


def _slice_units(
    container: ContainerClaims, row: Manufacturer, pool: PoolFacts, amounts: Mapping[str, Quantity]
) -> int | None:
    """None when no memory is asked for, or no whole amount of it, which the API server refuses."""
    percent, mebibytes = _whole(amounts, row.sliced_memory_percentage), _whole(amounts, row.sliced_memory_mib)
    if percent > WHOLE_CARD_PERCENT:
        raise FoldError(f'container "{container.name}": {row.sliced_memory_percentage} must be within (0, 100]')
    if percent > 0:
        return percent_units(percent)
    if mebibytes <= 0:
        return None
    if mebibytes > _card_memory(pool):
        raise FoldError(
            f'container "{container.name}": {row.sliced_memory_mib} must not exceed the per-card VRAM '
            f"({pool.memory} MiB)"
        )
    return memory_units(mebibytes, pool.memory)


def _whole(amounts: Mapping[str, Quantity], resource: str) -> int:
    amount = amounts.get(resource, NO_AMOUNT)
    return 0 if amount.nanos % NANO else int(amount)


def _card_memory(pool: PoolFacts) -> int:
    if pool.memory <= 0:
        raise FoldError(f"instance type {pool.name} has no per-card memory yet (detail not ready)")
    return pool.memory


def _positive(units: int, container: ContainerClaims, key: str, source: str) -> int:
    if units <= 0:
        raise FoldError(f'container "{container.name}": cannot derive a positive {key} from {source}')
    return units


def _stating(container: Json, additions: Mapping[str, int]) -> Json:
    """The container with these amounts, spelt as the API server will store them."""
    if not additions:
        return container
    resources = dict(container.get("resources") or {})
    amounts = {name: Quantity.of(amount).canonical() for name, amount in additions.items()}
    for field in ("requests", "limits"):
        resources[field] = {**(resources.get(field) or {}), **amounts}
    return {**container, "resources": resources}
