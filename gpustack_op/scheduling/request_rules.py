"""What a Pod behind one of our queues may ask for, told all at once.

Guarantees   The seven rules of shape look at the Pod alone; the eighth, and the bounds, at the pool it enters. A
             sidecar that claims an accelerator is told so and judged by no other rule.
Assumptions  The spec has been folded (`request_folds`). Amounts compare exactly: `1m` is not 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from gpustack_op.scheduling.breaches import Breach, forbidden
from gpustack_op.scheduling.manufacturers import MANUFACTURERS, Family, Manufacturers
from gpustack_op.scheduling.pool_facts import PoolFacts
from gpustack_op.scheduling.pool_rules import bounds, serves_its_own_family
from gpustack_op.scheduling.request_claims import ContainerClaims, Group, Json, read_claims
from gpustack_op.scheduling.request_shapes import shapes

SLICING = (Family.SLICED, Family.PARTITIONED)

Containers = Sequence[ContainerClaims]


def request_breaches(
    spec: Json, pool: PoolFacts, *, path: str = "spec", manufacturers: Manufacturers = MANUFACTURERS
) -> list[Breach]:
    """Everything that speaks against the Pod spec, which stands at `path` of its object."""
    everyone = [each for each in read_claims(spec, path, manufacturers) if each.claims]
    judged = [each for each in everyone if each.group is not Group.SIDECAR]
    rules: tuple[Callable[[Containers, str], Iterator[Breach]], ...] = (
        one_family,
        one_group,
        one_slice,
        one_profile,
        shapes,
    )
    found = list(no_sidecar(everyone))
    for rule in rules:
        found += rule(judged, path)
    found += serves_its_own_family(judged, path, pool, manufacturers)
    return found + list(bounds(judged, path, pool, manufacturers))


def no_sidecar(containers: Containers) -> Iterator[Breach]:
    """Rule 7: it would hold its accelerator as long as the Pod lives, beside those of the app containers."""
    for each in containers:
        if each.group is Group.SIDECAR:
            yield forbidden(
                f"{each.path}.resources.limits",
                "a restartable init container (a native sidecar) may not request an accelerator; "
                "move the request to an app container",
            )


def one_family(containers: Containers, path: str) -> Iterator[Breach]:
    """Rule 1, first half."""
    families = sorted({family.name.lower() for each in containers for family in each.families})
    if len(families) > 1:
        yield forbidden(path, f"a Pod may request only one accelerator family, found [{' '.join(families)}]")


def one_group(containers: Containers, path: str) -> Iterator[Breach]:
    """Rule 1, second half."""
    if {each.group for each in containers} >= {Group.INIT, Group.RUNNING}:
        yield forbidden(
            f"{path}.initContainers",
            f"a Pod's accelerator requests must all sit in one container group; {path}.initContainers must give up its "
            "request, since its devices stay held for the Pod's whole life while the scheduler charges once",
        )


def one_slice(containers: Containers, path: str) -> Iterator[Breach]:
    """Rule 6."""
    slicing = [each for each in containers if each.families & set(SLICING)]
    if len(slicing) > 1:
        yield forbidden(path, f"at most one container may request a slicing family, found {len(slicing)}")


def one_profile(containers: Containers, path: str) -> Iterator[Breach]:
    """Rule 4."""
    named = [(each, row, each.profiles(row)) for each in containers for row in each.manufacturers(Family.PARTITIONED)]
    everywhere = sorted({profile for _, _, profiles in named for profile in profiles})
    if len(everywhere) > 1:
        yield forbidden(path, f"a Pod may request only one partition profile, found [{' '.join(everywhere)}]")
    for each, row, profiles in named:
        if len(profiles) > 1:
            yield forbidden(
                each.limit(row.partitioned),
                f"a container may request only one partition profile, found [{' '.join(profiles)}]",
            )
