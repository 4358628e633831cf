"""What is filled in for a Pod's requests: units, compute shares, and the nodes that have enough cards."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest

from gpustack_op.scheduling.pool_facts import PoolFacts
from gpustack_op.scheduling.request_folds import FoldError, folded
from tests.requests import (
    A10G,
    CORES,
    CPUS,
    H100,
    PARTITION_UNITS,
    PARTITIONED,
    UNITS,
    asking,
    container,
    mig,
    partition,
    pod,
)

COUNT = "acceleratable.feature.gpustack.ai/nvidia-a10g.count"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def with_memory(mebibytes: int) -> PoolFacts:
    return replace(A10G, memory=mebibytes)


def stated(spec: dict[str, Any], key: str) -> tuple[str, str]:
    """The request and the limit of the first container."""
    resources = spec["containers"][0]["resources"]
    return resources["requests"].get(key, "absent"), resources["limits"].get(key, "absent")


def terms(spec: dict[str, Any]) -> Any:
    return spec["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]


def with_terms(*selector_terms: Any) -> dict[str, Any]:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(selector_terms)}}}}


def more_than(cards: str) -> dict[str, Any]:
    return {"key": COUNT, "operator": "Gt", "values": [cards]}


@pytest.mark.parametrize(
    ("slice_", "pool", "units"),
    [
        pytest.param(asking(sliced=1, percent=1), A10G, "16k", id="one percent"),
        pytest.param(asking(sliced=1, percent=20), A10G, "320k", id="a fifth"),
        pytest.param(asking(sliced=1, percent=50), A10G, "800k", id="half by percent"),
        pytest.param(asking(sliced=1, percent=100), A10G, "1600k", id="all of it"),
        pytest.param(asking(sliced=1, percent=20), with_memory(0), "320k", id="percent needs no memory figure"),
        pytest.param(asking(sliced=1, mib=8192), A10G, "533333", id="a third is rounded down"),
        pytest.param(asking(sliced=1, mib=12288), A10G, "800k", id="half by MiB"),
        pytest.param(asking(sliced=1, mib=1), A10G, "65", id="one MiB"),
        pytest.param(asking(sliced=1, mib=24576), A10G, "1600k", id="all MiB"),
        pytest.param(asking(sliced=1, mib="8Ki"), A10G, "533333", id="another spelling of 8192"),
        pytest.param(asking(sliced=1, mib=10240), with_memory(81920), "200k", id="an eighth"),
        pytest.param(asking(sliced=1, mib=9856), with_memory(81920), "192500", id="an odd part"),
        pytest.param(asking(sliced=1, mib=1000), with_memory(16384), "97656", id="multiplied before divided"),
        pytest.param(asking(sliced=1, percent=50, mib=1), A10G, "800k", id="percent comes first"),
        pytest.param(asking(sliced=1, percent=50, units=1), A10G, "800k", id="the client's own units do not count"),
    ],
)
def test_units_of_a_slice(slice_: dict[str, Any], pool: PoolFacts, units: str) -> None:
    assert stated(folded(pod(slice_), pool), UNITS) == (units, units)


@pytest.mark.parametrize(
    ("profile", "units"),
    [
        pytest.param("4g.48gb", "800k", id="half of the memory"),
        pytest.param("7g.96gb", "1600k", id="all of the memory"),
        pytest.param("1g.12gb", "200k", id="an eighth of the memory"),
    ],
)
def test_units_of_a_partition(profile: str, units: str) -> None:
    assert stated(folded(pod(partition(profile)), H100), PARTITION_UNITS) == (units, units)


@pytest.mark.parametrize(
    ("slice_", "cores"),
    [
        pytest.param(asking(sliced=1, percent=50), ("100", "100"), id="left out: the whole card's"),
        pytest.param(asking(sliced=1, percent=50, cores=20), ("20", "20"), id="asked for: kept"),
        pytest.param(asking(percent=50), ("100", "100"), id="also beside a lone sub-key"),
    ],
)
def test_compute_share_of_a_slice(slice_: dict[str, Any], cores: tuple[str, str]) -> None:
    assert stated(folded(pod(slice_), A10G), CORES) == cores


@pytest.mark.parametrize(
    ("spec", "pool"),
    [
        pytest.param(pod(asking(gpu=2)), A10G, id="whole cards"),
        pytest.param(pod(asking(shared=1)), A10G, id="one share"),
        pytest.param(pod(asking(cpu=4)), A10G, id="no card"),
        pytest.param(pod(asking(sliced=1, percent=20)), CPUS, id="a slice in a queue of CPUs"),
        pytest.param(
            pod(container(requests={PARTITIONED: 1, mig("1g.12gb"): 1, mig("4g.48gb"): 1})), H100, id="two profiles"
        ),
        pytest.param(pod(container(requests={PARTITIONED: 1})), H100, id="no profile"),
        pytest.param(pod(container(requests={"amd.com/gpu.sliced": 1})), A10G, id="another manufacturer's key"),
    ],
)
def test_what_is_not_folded_stays_as_it_was(spec: dict[str, Any], pool: PoolFacts) -> None:
    assert folded(spec, pool) == spec


def test_a_slice_without_memory_gets_no_units() -> None:
    assert stated(folded(pod(asking(sliced=1)), A10G), UNITS) == ("absent", "absent")


def test_init_containers_are_folded_too() -> None:
    spec = folded(pod(asking("app", cpu=1), init=(asking("load", sliced=1, percent=20),)), A10G)

    assert spec["initContainers"][0]["resources"]["requests"][UNITS] == "320k"


def test_the_given_spec_stays_and_a_second_fold_changes_nothing() -> None:
    spec = pod(asking("a", sliced=1, mib=8192), asking("b", shared=3))
    before = copy.deepcopy(spec)

    once = folded(spec, A10G)

    assert spec == before
    assert folded(once, A10G) == once


@pytest.mark.parametrize(
    ("request_", "pool", "message"),
    [
        pytest.param(
            asking(sliced=1, percent=101), A10G,
            'container "main": nvidia.com/gpu.sliced.memory-percentage must be within (0, 100]', id="above 100 percent",
        ),
        pytest.param(
            asking(sliced=1, mib=24577), A10G,
            'container "main": nvidia.com/gpu.sliced.memory-mib must not exceed the per-card VRAM (24576 MiB)',
            id="more MiB than the card has",
        ),
        pytest.param(
            asking(sliced=1, mib=1), with_memory(2_000_000),
            'container "main": cannot derive a positive nvidia.com/gpu.sliced.units from the requested memory',
            id="less than one unit",
        ),
        pytest.param(
            asking(sliced=1, mib=1), with_memory(0),
            "instance type gpustack--nvidia-a10g-linux-amd64 has no per-card memory yet (detail not ready)",
            id="memory unknown",
        ),
        pytest.param(
            partition("1g.12gb"), replace(H100, memory=0),
            "instance type h100 has no per-card memory yet (detail not ready)", id="memory unknown, for a partition",
        ),
        pytest.param(
            partition("1g.12gb"), replace(H100, profiles={}, detailed=False),
            "instance type h100 is not ready yet (accelerator detail not computed); retry", id="detail not computed",
        ),
        pytest.param(
            partition("3g.40gb"), H100,
            'container "main": partition profile "3g.40gb" is not offered by the target pool (instance type h100)',
            id="unknown profile",
        ),
        pytest.param(
            partition("1g.12gb"), replace(H100, profiles={"1g.12gb": 0}),
            'instance type h100 is not ready yet (partition profile "1g.12gb" has no memory detail); retry',
            id="profile without memory",
        ),
        pytest.param(
            partition("tiny"), replace(H100, profiles={"tiny": 1}, memory=2_000_000),
            'container "main": cannot derive a positive nvidia.com/gpu.partitioned.units from partition profile "tiny"',
            id="a partition of less than one unit",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_folded_is_refused(request_: dict[str, Any], pool: PoolFacts, message: str) -> None:
    with pytest.raises(FoldError) as refused:
        folded(pod(request_), pool)

    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        pytest.param(pod(asking(shared=2)), [{"matchExpressions": [more_than("1")]}], id="no term yet"),
        pytest.param(
            pod(asking("a", shared=2), asking("b", shared=4)),
            [{"matchExpressions": [more_than("3")]}],
            id="the largest container decides",
        ),
        pytest.param(
            pod(asking(shared=2), **with_terms({"matchFields": ["f"]}, {"matchExpressions": ["e"]})),
            [
                {"matchFields": ["f"], "matchExpressions": [more_than("1")]},
                {"matchExpressions": ["e", more_than("1")]},
            ],
            id="every term",
        ),
        pytest.param(
            pod(asking(shared=2), **with_terms({}, {"matchExpressions": ["e"]})),
            [{}, {"matchExpressions": ["e", more_than("1")]}],
            id="but not an empty one, which selects nothing",
        ),
    ],
)
def test_several_shares_go_to_nodes_with_enough_cards(spec: dict[str, Any], wanted: Any) -> None:
    assert terms(folded(spec, A10G)) == wanted


def test_other_affinity_is_kept() -> None:
    affinity = {"podAffinity": {"p": 1}, "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": ["x"]}}

    spec = folded(pod(asking(shared=2), affinity=affinity), A10G)

    assert spec["affinity"]["podAffinity"] == {"p": 1}
    assert spec["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] == ["x"]
