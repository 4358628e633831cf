"""What a Pod behind one of our queues may ask for, and the words of each refusal."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpustack_op.scheduling.pool_facts import PoolFacts
from gpustack_op.scheduling.request_rules import request_breaches
from tests.requests import A10G, CPUS, H100, PARTITIONED, asking, container, mig, partition, pod, told

NAME = "gpustack--nvidia-a10g-linux-amd64"
LIMITS = "spec.containers[0].resources.limits"
ONE_GROUP = (
    "spec.initContainers: forbidden: a Pod's accelerator requests must all sit in one container group; "
    "spec.initContainers must give up its request, since its devices stay held for the Pod's whole life while the "
    "scheduler charges once"
)
ONE_SLICE = (
    "a logical slice request is always a single accelerator; multi-accelerator logical slicing is not supported yet"
)
SIDECAR = (
    "a restartable init container (a native sidecar) may not request an accelerator; "
    "move the request to an app container"
)
MISSING = (
    f"spec: forbidden: instance type {NAME} is a pool of nvidia accelerators: at least one container must request one, "
    "e.g. nvidia.com/gpu: 1"
)


def slice_of(percent: int, name: str = "main") -> dict[str, Any]:
    return asking(name, sliced=1, percent=percent)


def sees(name: str) -> dict[str, Any]:
    return container(name, requests={"device.gpustack.ai/nvidia.visibility": 1})


@pytest.mark.parametrize(
    ("spec", "pool"),
    [
        pytest.param(pod(asking("a", gpu=1), asking("b", gpu=1)), A10G, id="two containers with a card each"),
        pytest.param(pod(asking("a", shared=1), asking("b", shared=1)), A10G, id="two containers with a share each"),
        pytest.param(pod(asking(gpu=2)), A10G, id="two cards"),
        pytest.param(pod(slice_of(50)), A10G, id="a slice"),
        pytest.param(pod(asking(sliced=1, mib=8192, cores=20)), A10G, id="a slice by MiB with a compute share"),
        pytest.param(pod(asking(sliced=1, percent=50, cores=20)), A10G, id="less compute than memory"),
        pytest.param(pod(slice_of(50, "main"), sees("sshd")), A10G, id="a slice, seen by another container"),
        pytest.param(pod(partition("1g.12gb")), H100, id="a partition"),
        pytest.param(
            pod(asking(gpu=1), init=(asking("side", sidecar=True, cpu=1),)), A10G, id="a sidecar without a card"
        ),
        pytest.param(pod(asking(cpu=1), init=(asking("load", gpu=1),)), A10G, id="a card in an init container"),
        pytest.param(
            pod(container(requests={"nvidia.com/gpu": 1, "device.gpustack.ai/rdma.shared": 1})), A10G,
            id="a card and a network device",
        ),
        pytest.param(pod(asking("a", gpu=1), asking("b", gpu=0)), A10G, id="nothing asked for beside a card"),
        pytest.param(pod(asking(cpu=1)), CPUS, id="no card in a queue of CPUs"),
        pytest.param(pod(asking(gpu=0)), CPUS, id="nothing asked for in a queue of CPUs"),
        pytest.param(pod(asking(gpu=9)), A10G, id="any number while no node is known"),
        pytest.param(pod(asking(gpu=4)), replace(A10G, largest_node=4), id="as many cards as the largest node has"),
        pytest.param(
            pod(asking("a", shared=4), asking("b", shared=4)), replace(A10G, largest_node=4),
            id="two containers with shares on the same cards",
        ),
        pytest.param(
            pod(asking(cpu=1), init=(asking("x", gpu=3), asking("y", gpu=3))), replace(A10G, largest_node=4),
            id="init containers, one after the other",
        ),
    ],
)  # fmt: skip
def test_accepted(spec: dict[str, Any], pool: PoolFacts) -> None:
    assert request_breaches(spec, pool) == []


@pytest.mark.parametrize(
    ("spec", "pool", "refusals"),
    [
        pytest.param(
            pod(asking("a", gpu=1), slice_of(50, "b")), A10G,
            ["spec: forbidden: a Pod may request only one accelerator family, found [exclusive sliced]"],
            id="1: two families in a Pod",
        ),
        pytest.param(
            pod(asking(gpu=1, sliced=1, percent=50)), A10G,
            ["spec: forbidden: a Pod may request only one accelerator family, found [exclusive sliced]"],
            id="1: two families in a container",
        ),
        pytest.param(
            pod(asking(gpu=1, percent=50)), A10G,
            [
                "spec: forbidden: a Pod may request only one accelerator family, found [exclusive sliced]",
                f"{LIMITS}[nvidia.com/gpu.sliced]: required: a sliced request must set nvidia.com/gpu.sliced",
            ],
            id="1: the size of a slice beside a whole card",
        ),
        pytest.param(
            pod(asking(gpu=1), init=(asking("load", gpu=1),)), A10G, [ONE_GROUP],
            id="1: an init and an app container",
        ),
        pytest.param(
            pod(asking(sliced=2, percent=50)), A10G,
            [f"{LIMITS}[nvidia.com/gpu.sliced]: invalid: {ONE_SLICE}"],
            id="2: slices of two cards",
        ),
        pytest.param(
            pod(asking(sliced="1m", percent=50)), A10G,
            [f"{LIMITS}[nvidia.com/gpu.sliced]: invalid: {ONE_SLICE}"],
            id="2: a thousandth of a slice",
        ),
        pytest.param(
            pod(asking(sliced=1)), A10G,
            [
                f"{LIMITS}[nvidia.com/gpu.sliced.memory-percentage]: required: a nvidia.com/gpu.sliced request must "
                "set nvidia.com/gpu.sliced.memory-percentage or nvidia.com/gpu.sliced.memory-mib"
            ],
            id="2: a slice of no size",
        ),
        pytest.param(
            pod(asking(sliced=1, percent=50, mib=8192)), A10G,
            [
                f"{LIMITS}[nvidia.com/gpu.sliced.memory-mib]: forbidden: cannot set both "
                "nvidia.com/gpu.sliced.memory-percentage and nvidia.com/gpu.sliced.memory-mib"
            ],
            id="2: a slice of two sizes",
        ),
        pytest.param(
            pod(asking(sliced=1, percent=101, cores=0)), A10G,
            [
                f"{LIMITS}[nvidia.com/gpu.sliced.memory-percentage]: invalid: must be within (0, 100]",
                f"{LIMITS}[nvidia.com/gpu.sliced.cores-percentage]: invalid: must be within (0, 100]",
            ],
            id="2: percentages out of bounds",
        ),
        pytest.param(
            pod(asking(sliced=1, mib=0)), A10G,
            [f"{LIMITS}[nvidia.com/gpu.sliced.memory-mib]: invalid: must be greater than zero"],
            id="2: no MiB",
        ),
        pytest.param(
            pod(container(requests={PARTITIONED: 2, mig("1g.12gb"): 1})), H100,
            [
                f"{LIMITS}[nvidia.com/gpu.partitioned]: invalid: a partition request is always a single accelerator; "
                "request one Pod per instance"
            ],
            id="3: two partitions",
        ),
        pytest.param(
            pod(container(requests={PARTITIONED: 1})), H100,
            [
                f"{LIMITS}[nvidia.com/gpu.partitioned]: required: a nvidia.com/gpu.partitioned request must name a "
                "profile, e.g. nvidia.com/gpu.partitioned.mig-<profile>"
            ],
            id="3: a partition of no profile",
        ),
        pytest.param(
            pod(container(requests={mig("1g.12gb"): 1})), H100,
            [
                f"{LIMITS}[nvidia.com/gpu.partitioned]: required: a partition request must set "
                "nvidia.com/gpu.partitioned"
            ],
            id="3: a profile alone",
        ),
        pytest.param(
            pod(container(requests={PARTITIONED: 1, mig("3g.40gb"): 1, mig("1g.10gb"): 1})), H100,
            [
                "spec: forbidden: a Pod may request only one partition profile, found [1g.10gb 3g.40gb]",
                f"{LIMITS}[nvidia.com/gpu.partitioned]: forbidden: a container may request only one partition "
                "profile, found [1g.10gb 3g.40gb]",
            ],
            id="4: two profiles in a container",
        ),
        pytest.param(
            pod(container(requests={PARTITIONED: 1, mig("1g.12gb"): 2})), H100,
            [
                f"{LIMITS}[nvidia.com/gpu.partitioned.mig-1g.12gb]: invalid: a partition profile request must be "
                "exactly 1 instance"
            ],
            id="5: a profile twice",
        ),
        pytest.param(
            pod(slice_of(50, "a"), slice_of(50, "b")), A10G,
            ["spec: forbidden: at most one container may request a slicing family, found 2"],
            id="6: two slices",
        ),
        pytest.param(
            pod(partition("1g.12gb", "a"), partition("4g.48gb", "b")), H100,
            [
                "spec: forbidden: at most one container may request a slicing family, found 2",
                "spec: forbidden: a Pod may request only one partition profile, found [1g.12gb 4g.48gb]",
            ],
            id="6: two partitions of two profiles",
        ),
        pytest.param(
            pod(slice_of(50), init=(slice_of(50, "load"),)), A10G,
            [ONE_GROUP, "spec: forbidden: at most one container may request a slicing family, found 2"],
            id="6: also when one of them is an init container",
        ),
        pytest.param(
            pod(asking(gpu=1), init=(asking("side", sidecar=True, sliced=2),)), A10G,
            [f"spec.initContainers[0].resources.limits: forbidden: {SIDECAR}"],
            id="7: a sidecar, which no other rule looks at",
        ),
        pytest.param(
            pod(asking(cpu=1)), A10G, [MISSING], id="8: no card in a queue of cards",
        ),
        pytest.param(
            pod(asking(shared=0)), A10G, [MISSING], id="8: no share in a queue of cards",
        ),
        pytest.param(
            pod(sees("main")), A10G, [MISSING], id="8: to see is not to request",
        ),
        pytest.param(
            pod(asking(gpu=1), container("b", requests={"amd.com/gpu": 1})), A10G,
            [
                "spec.containers[1].resources.limits[amd.com/gpu]: forbidden: "
                f"instance type {NAME} has nvidia accelerators only"
            ],
            id="8: another manufacturer's card beside one of the pool",
        ),
        pytest.param(
            pod(asking(gpu=1)), CPUS,
            [
                f"{LIMITS}[nvidia.com/gpu]: forbidden: instance type gpustack--generic-linux-amd64 has no "
                "accelerators; use the queue of an instance type that has"
            ],
            id="8: a card in a queue of CPUs",
        ),
        pytest.param(
            pod(asking(gpu=5)), replace(A10G, largest_node=4),
            [f"{LIMITS}[nvidia.com/gpu]: invalid: no node of instance type {NAME} has more than 4 accelerators"],
            id="more cards than any node has",
        ),
        pytest.param(
            pod(asking(shared=2)), replace(A10G, largest_node=1),
            [f"{LIMITS}[nvidia.com/gpu.shared]: invalid: no node of instance type {NAME} has more than 1 accelerator"],
            id="shares on more cards than any node has",
        ),
        pytest.param(
            pod(asking("a", gpu=3), asking("b", gpu=3)), replace(A10G, largest_node=4),
            [
                "spec: forbidden: its containers request 6 accelerators together, but "
                f"no node of instance type {NAME} has more than 4 accelerators"
            ],
            id="more cards together than any node has",
        ),
    ],
)  # fmt: skip
def test_refused(spec: dict[str, Any], pool: PoolFacts, refusals: list[str]) -> None:
    assert told(request_breaches(spec, pool)) == refusals


def test_all_that_is_wrong_is_told_at_once_and_in_order() -> None:
    spec = pod(slice_of(50, "a"), asking("b", gpu=1), init=(asking("side", sidecar=True, gpu=1), asking("c", sliced=1)))

    assert [each.field for each in request_breaches(spec, A10G)] == [
        "spec.initContainers[0].resources.limits",
        "spec",
        "spec.initContainers",
        "spec",
        "spec.initContainers[1].resources.limits[nvidia.com/gpu.sliced.memory-percentage]",
    ]


def test_a_template_is_judged_at_its_own_path() -> None:
    spec = pod(asking(sliced=2, percent=50), init=(asking("load", gpu=1),))

    assert [each.field for each in request_breaches(spec, A10G, path="spec.template.spec")] == [
        "spec.template.spec",
        "spec.template.spec.initContainers",
        "spec.template.spec.containers[0].resources.limits[nvidia.com/gpu.sliced]",
    ]


def test_a_request_counts_before_its_limit() -> None:
    resources = {"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "9"}}

    assert request_breaches(pod(container(resources=resources)), replace(A10G, largest_node=4)) == []
