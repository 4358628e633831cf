"""Whether a Pod is in the right queue: the eighth rule, and how many cards one Pod can ever get there.

A queue counts only what its pool is made of. Whoever asks for nothing of it would enter unmetered and unjudged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpustack_op.scheduling.breaches import Breach, forbidden, invalid
from gpustack_op.scheduling.manufacturers import Family, Manufacturer, Manufacturers
from gpustack_op.scheduling.pool_facts import PoolFacts
from gpustack_op.scheduling.request_claims import Claim, ContainerClaims, Group

Containers = Sequence[ContainerClaims]


def serves_its_own_family(
    containers: Containers, path: str, pool: PoolFacts, manufacturers: Manufacturers
) -> Iterator[Breach]:
    wanted = [(each, claim) for each in containers for claim in each.claims if claim.amount.nanos > 0]
    for each, claim in wanted:
        if claim.manufacturer.id != pool.manufacturer:
            yield forbidden(each.limit(claim.resource), _offer(pool))
    if pool.accelerator_group and not any(claim.manufacturer.id == pool.manufacturer for _, claim in wanted):
        yield forbidden(
            path,
            f"instance type {pool.name} is a pool of {pool.manufacturer} accelerators: at least one container must "
            f"request one{_example(manufacturers.get(pool.manufacturer))}",
        )


def bounds(containers: Containers, path: str, pool: PoolFacts, manufacturers: Manufacturers) -> Iterator[Breach]:
    """While no node is known the Pod waits for one that may come."""
    row = manufacturers.get(pool.manufacturer)
    if row is None or pool.largest_node <= 0:
        return
    sentence = f"no node of instance type {pool.name} has more than {_accelerators(pool.largest_node)}"
    too_large = [(each, claim) for each, claim in _counted(containers, row) if claim.amount.ceil() > pool.largest_node]
    for each, claim in too_large:
        yield invalid(each.limit(claim.resource), claim.amount, sentence)
    together = sum(
        claim.amount.ceil()
        for each, claim in _counted(containers, row)
        if each.group is Group.RUNNING and claim.family is Family.EXCLUSIVE
    )
    if together > pool.largest_node and not too_large:
        yield forbidden(path, f"its containers request {_accelerators(together)} together, but {sentence}")


def _counted(containers: Containers, row: Manufacturer) -> Iterator[tuple[ContainerClaims, Claim]]:
    """Claims whose amount is a number of cards of one node: whole ones, or ones that give a share each."""
    for each in containers:
        for claim in each.claims:
            if claim.resource in {row.base_resource, row.shared}:
                yield each, claim


def _offer(pool: PoolFacts) -> str:
    if not pool.accelerator_group:
        return f"instance type {pool.name} has no accelerators; use the queue of an instance type that has"
    return f"instance type {pool.name} has {pool.manufacturer} accelerators only"


def _example(row: Manufacturer | None) -> str:
    return f", e.g. {row.base_resource}: 1" if row else ""


def _accelerators(number: int) -> str:
    return f"{number} accelerator" if number == 1 else f"{number} accelerators"
