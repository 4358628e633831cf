"""Pods and Jobs behind our queues: what is stored of them, and what a person reads who asks for too much."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from devcluster import state
from devcluster.cluster import Scope
from devcluster.errors import KubectlError
from devcluster.handle import RunningCluster, running
from devcluster.kubectl import Kubectl
from gpustack_op.api.core import NAMESPACES
from gpustack_op.api.worker import INSTANCE_TYPES
from gpustack_op.runtime.client import Client
from gpustack_op.scheduling import names
from tests.controlplane.judging import QUEUE, Judging, add_flavor, add_local_queue, add_type, judging
from tests.controlplane.people import ACCOUNTS, STORED, refusal
from tests.requests import (
    CORES,
    GPU,
    MIB,
    PARTITION_UNITS,
    PARTITIONED,
    PERCENT,
    SHARED,
    SLICED,
    UNITS,
    asking,
    container,
    partition,
    pod,
)
from tests.waiting import until

T4, H100, NEW, CPUS = (names.entrance(name) for name in ("t4", "h100", "new", "cpus"))
T4_DETAIL = {"memory": "16Gi"}
H100_DETAIL: dict[str, Any] = {
    "memory": "80Gi",
    "slicedDetail": {"physical": {"count": 7, "profiles": [{"name": "1g.10gb", "count": 7, "memoryMib": 9856}]}},
}
BLIND = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "none"}]
DENIED = "denied the request: "
POD, JOB = f"{DENIED}Pod ", f"{DENIED}Job.batch "


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[RunningCluster]:
    """One of its own: Pods with a queue label are refused there once the webhooks are gone."""
    with running(f"test-requests-{os.getpid()}", scope=Scope.CONTROL_PLANE, say=print) as up:
        yield up
    if not request.session.testsfailed:
        state.forget(up.layout)


@pytest.fixture
async def judge(cluster: RunningCluster) -> AsyncIterator[Judging]:
    async with judging(cluster.administrator) as client:
        await set_up(client)
        space = await client.create(NAMESPACES, {"metadata": {"generateName": "test-"}})
        await client.create(ACCOUNTS, {"metadata": {"name": "default"}}, namespace=space.name)
        yield Judging(client, space.name)


async def set_up(client: Client) -> None:
    """Three pools of accelerators and one of CPUs, once."""
    if await client.list(INSTANCE_TYPES):
        return
    await add_flavor(client, "t4-b")
    await add_type(client, "t4", "nvidia-tesla-t4", T4_DETAIL)
    await add_type(client, "h100", "nvidia-h100", H100_DETAIL)
    await add_type(client, "new", "nvidia-l4", None)
    await add_type(client, "cpus", "", None)


def amounts(stored: dict[str, Any], *path: str) -> Any:
    """Requests of the first container, which are its limits, too."""
    for step in path:
        stored = stored[step]
    resources = stored["spec"]["containers"][0]["resources"]
    assert resources["requests"] == resources["limits"]
    return resources["requests"]


async def test_a_slice_is_stored_with_its_units(judge: Judging) -> None:
    stored = await judge.pod("slice", T4, pod(asking(sliced=1, mib=1000), container("helper")))

    assert amounts(stored) == {SLICED: "1", MIB: "1k", CORES: "100", UNITS: "97656"}
    assert "env" not in stored["spec"]["containers"][0]
    assert stored["spec"]["containers"][1]["env"] == BLIND


async def test_a_partition_is_stored_with_its_units(judge: Judging) -> None:
    stored = await judge.pod("partition", H100, pod(partition("1g.10gb")))

    assert amounts(stored)[PARTITION_UNITS] == "192500"


async def test_shares_on_two_cards_go_to_nodes_with_two(judge: Judging) -> None:
    stored = await judge.pod("shares", T4, pod(asking(shared=2)))

    affinity = stored["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    key = "acceleratable.feature.gpustack.ai/nvidia-tesla-t4.count"
    assert affinity["nodeSelectorTerms"] == [{"matchExpressions": [{"key": key, "operator": "Gt", "values": ["1"]}]}]


async def test_a_pod_of_cpus_is_told_to_see_no_card(judge: Judging) -> None:
    stored = await judge.pod("cpus", CPUS, pod(asking(cpu=1)))

    assert stored["spec"]["containers"][0]["env"] == BLIND


async def test_the_template_of_a_job_is_folded_and_its_pods_pass_by_again(judge: Judging) -> None:
    stored = await judge.job("folded", T4, pod(asking(sliced=1, percent=20), container("helper")))
    template = stored["spec"]["template"]

    made = await judge.pod("of-the-job", T4, template["spec"])

    assert amounts(stored, "spec", "template") == {SLICED: "1", PERCENT: "20", CORES: "100", UNITS: "320k"}
    assert made["spec"]["containers"][0]["resources"] == template["spec"]["containers"][0]["resources"]
    assert made["spec"]["containers"][1]["env"] == BLIND


FAMILIES = "a Pod may request only one accelerator family, found [exclusive sliced]"
RESERVED = "is reserved for the agent of the Pod's node, which gives a container what it requests"


@pytest.mark.parametrize(
    ("queue", "spec", "sentence"),
    [
        pytest.param(
            T4, pod(asking("a", gpu=1), asking("b", sliced=1, percent=50)),
            f'{POD}"bad" is invalid: spec: Forbidden: {FAMILIES}', id="two families",
        ),
        pytest.param(
            T4, pod(asking("a", sliced=1, percent=50), asking("b", sliced=1, percent=50)),
            f'{POD}"bad" is invalid: spec: Forbidden: at most one container may request a slicing family, found 2',
            id="two slices",
        ),
        pytest.param(
            T4, pod(asking("main", gpu=1), init=(asking("side", sidecar=True, gpu=1),)),
            f'{POD}"bad" is invalid: spec.initContainers[0].resources.limits: Forbidden: a restartable init container '
            "(a native sidecar) may not request an accelerator; move the request to an app container",
            id="a sidecar with a card",
        ),
        pytest.param(
            T4, pod(asking(sliced=2, percent=50)),
            f'{POD}"bad" is invalid: spec.containers[0].resources.limits[{SLICED}]: Invalid value: "2": a logical '
            "slice request is always a single accelerator; multi-accelerator logical slicing is not supported yet",
            id="slices of two cards",
        ),
        pytest.param(
            T4, pod(asking(sliced=1)),
            f'{POD}"bad" is invalid: spec.containers[0].resources.limits[{PERCENT}]: Required value: a {SLICED} '
            f"request must set {PERCENT} or {MIB}",
            id="a slice of no size",
        ),
        pytest.param(
            T4, pod(asking(sliced=1, percent=20, mib=8192)),
            f'{POD}"bad" is invalid: spec.containers[0].resources.limits[{MIB}]: Forbidden: cannot set both {PERCENT} '
            f"and {MIB}",
            id="a percentage and MiB",
        ),
        pytest.param(
            T4, pod(asking(sliced=1, percent=101)),
            f'{DENIED}container "main": {PERCENT} must be within (0, 100]', id="a slice above 100 percent",
        ),
        pytest.param(
            T4, pod(asking(sliced=1, mib=16385)),
            f'{DENIED}container "main": {MIB} must not exceed the per-card VRAM (16384 MiB)', id="more than a card",
        ),
        pytest.param(
            H100, pod(partition("3g.40gb")),
            f'{DENIED}container "main": partition profile "3g.40gb" is not offered by the target pool (instance type '
            "h100)",
            id="an unknown profile",
        ),
        pytest.param(
            H100, pod(container(requests={PARTITIONED: 1})),
            f'{POD}"bad" is invalid: spec.containers[0].resources.limits[{PARTITIONED}]: Required value: a '
            f"{PARTITIONED} request must name a profile, e.g. {PARTITIONED}.mig-<profile>",
            id="no profile",
        ),
        pytest.param(
            NEW, pod(asking(sliced=1, mib=1)),
            f"{DENIED}instance type new has no per-card memory yet (detail not ready)", id="memory unknown",
        ),
        pytest.param(
            NEW, pod(partition("1g.10gb")),
            f"{DENIED}instance type new is not ready yet (accelerator detail not computed); retry",
            id="detail not computed",
        ),
        pytest.param(
            T4, pod(asking(cpu=1)),
            f'{POD}"bad" is invalid: spec: Forbidden: instance type t4 is a pool of nvidia accelerators: at least one '
            "container must request one, e.g. nvidia.com/gpu: 1",
            id="no card in a queue of cards",
        ),
        pytest.param(
            T4, pod(asking(shared=0)),
            f'{POD}"bad" is invalid: spec: Forbidden: instance type t4 is a pool of nvidia accelerators: at least one '
            "container must request one, e.g. nvidia.com/gpu: 1",
            id="no share",
        ),
        pytest.param(
            CPUS, pod(asking(gpu=1)),
            f'{POD}"bad" is invalid: spec.containers[0].resources.limits[{GPU}]: Forbidden: instance type cpus has no '
            "accelerators; use the queue of an instance type that has",
            id="a card in a queue of CPUs",
        ),
        pytest.param(
            T4, pod(asking(shared=5)),
            f'{POD}"bad" is invalid: spec.containers[0].resources.limits[{SHARED}]: Invalid value: "5": no node of '
            "instance type t4 has more than 4 accelerators",
            id="more than any node has",
        ),
        pytest.param(
            T4, pod(asking(gpu=1) | {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}),
            f'{POD}"bad" is invalid: spec.containers[0].env[NVIDIA_VISIBLE_DEVICES]: Forbidden: {RESERVED}',
            id="the variable that opens all cards",
        ),
        pytest.param(
            "gpustack-fnv64-0000000000000000", pod(asking(gpu=1)),
            f"{DENIED}no instance type fronts local queue gpustack-fnv64-0000000000000000", id="an entrance of no pool",
        ),
    ],
)  # fmt: skip
async def test_the_refusal_of_a_pod(judge: Judging, queue: str, spec: dict[str, Any], sentence: str) -> None:
    told = await refusal(judge.pod("bad", queue, spec))

    assert told.startswith('admission webhook "')
    assert told[told.index(DENIED) :] == sentence


async def test_all_reasons_are_told_in_one_line(judge: Judging) -> None:
    mounts = {"volumeMounts": [{"name": "scratch", "mountPath": "/tmp"}]}
    volumes = [{"name": "scratch", "emptyDir": {}}]
    privileged = container("root", securityContext={"privileged": True})

    told = await refusal(
        judge.pod(
            "bad",
            T4,
            pod(asking(shared=5) | mounts, privileged, volumes=volumes),
            annotations={"cdi.k8s.io/mine": "nvidia.com/gpu=all"},
        )
    )

    assert told[told.index(POD) :] == (
        f'{POD}"bad" is invalid: [spec.containers[0].resources.limits[{SHARED}]: Invalid value: "5": no node of '
        f"instance type t4 has more than 4 accelerators, metadata.annotations[cdi.k8s.io/mine]: Forbidden: {RESERVED}, "
        'spec.containers[0].volumeMounts[0].mountPath: Invalid value: "/tmp": must not be equal to, above or below '
        "/tmp/vgpu, where the agent of the Pod's node mounts, spec.containers[1].securityContext.privileged: "
        "Forbidden: a privileged container reaches every accelerator of its node; a Pod with one may request only "
        "whole ones]"
    )


async def test_kubectl_names_the_pod_and_lists_the_reasons(judge: Judging, cluster: RunningCluster) -> None:
    spec = pod(asking("a", gpu=1), asking("b", sliced=1))
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bad", "labels": {QUEUE: T4}}, "spec": spec}

    with pytest.raises(KubectlError) as refused:
        await cluster.kubectl("create", "-n", judge.namespace, "-f", "-", stdin=json.dumps(manifest))

    assert str(refused.value).endswith(
        f'The Pod "bad" is invalid: \n* spec: Forbidden: {FAMILIES}\n* spec.containers[1].resources.limits[{PERCENT}]: '
        f"Required value: a {SLICED} request must set {PERCENT} or {MIB}"
    )


@pytest.mark.parametrize(
    ("queue", "spec", "sentence"),
    [
        pytest.param(
            T4, pod(asking("a", gpu=1), asking("b", sliced=1, percent=50)),
            f'{JOB}"bad" is invalid: spec.template.spec: Forbidden: {FAMILIES}', id="two families",
        ),
        pytest.param(
            CPUS, pod(asking(gpu=1)),
            f'{JOB}"bad" is invalid: spec.template.spec.containers[0].resources.limits[{GPU}]: Forbidden: instance '
            "type cpus has no accelerators; use the queue of an instance type that has",
            id="a card in a queue of CPUs",
        ),
        pytest.param(
            H100, pod(partition("3g.40gb")),
            f'{DENIED}container "main": partition profile "3g.40gb" is not offered by the target pool (instance type '
            "h100)",
            id="an unknown profile",
        ),
    ],
)  # fmt: skip
async def test_the_refusal_of_a_job(judge: Judging, queue: str, spec: dict[str, Any], sentence: str) -> None:
    told = await refusal(judge.job("bad", queue, spec))

    assert told[told.index(DENIED) :] == sentence


async def test_a_template_may_not_bring_a_record(judge: Judging) -> None:
    annotations = {"device.gpustack.ai/accelerator.allocated": "{}"}

    told = await refusal(judge.job("bad", T4, pod(asking(gpu=1)), metadata={"annotations": annotations}))

    assert told[told.index(JOB) :] == (
        f'{JOB}"bad" is invalid: spec.template.metadata.annotations[device.gpustack.ai/accelerator.allocated]: '
        f"Forbidden: {RESERVED}"
    )


def resized(percent: int) -> dict[str, Any]:
    """A suspended Job's slice made larger or smaller."""
    resources = {"requests": {PERCENT: str(percent)}, "limits": {PERCENT: str(percent)}}
    return {"spec": {"template": {"spec": {"containers": [{"name": "main", "resources": resources}]}}}}


async def test_a_suspended_job_that_is_resized_is_judged_again(judge: Judging) -> None:
    await judge.job("resized", T4, pod(asking(sliced=1, percent=20)))

    larger = await judge.change_job("resized", resized(50))
    told = await refusal(judge.change_job("resized", resized(101)))

    assert amounts(larger, "spec", "template")[UNITS] == "800k"
    assert told[told.index(DENIED) :] == f'{DENIED}container "main": {PERCENT} must be within (0, 100]'


async def test_a_job_starts_though_its_pool_is_gone(judge: Judging) -> None:
    await add_type(judge.client, "short-lived", "nvidia-tesla-t4", T4_DETAIL)
    await judge.job("started", names.entrance("short-lived"), pod(asking(gpu=1)))
    await judge.client.delete(INSTANCE_TYPES, "short-lived")

    started = await judge.change_job(
        "started", {"spec": {"suspend": False, "template": {"spec": {"nodeSelector": {"a": "b"}}}}}
    )

    assert started["spec"]["suspend"] is False


@pytest.mark.parametrize("queue", ["somebody-elses", "not-there-at-all"])
async def test_a_pod_outside_our_queues_keeps_its_spec_to_the_byte(
    judge: Judging, cluster: RunningCluster, queue: str
) -> None:
    await add_local_queue(judge.client, "somebody-elses", judge.namespace, "not-ours")
    sees_all = container("other", env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}])
    spec = pod(asking(sliced=1, percent=20), sees_all, automountServiceAccountToken=False)

    await judge.pod("without", "", spec)
    await judge.pod("within", queue, spec)

    assert await stored_spec(cluster.kubectl, judge, "within") == await stored_spec(cluster.kubectl, judge, "without")


async def stored_spec(kubectl: Kubectl, judge: Judging, name: str) -> str:
    return await kubectl("get", "pod", name, "-n", judge.namespace, "-o", "jsonpath={.spec}")


async def test_a_local_queue_of_another_name_is_no_way_around(judge: Judging) -> None:
    await add_local_queue(judge.client, "back-door", judge.namespace, "cpus")

    async def known() -> bool:
        told = await refusal(judge.pod("probe", "back-door", pod(asking(gpu=1))))
        if told == STORED:
            await judge.client.raw("DELETE", f"/api/v1/namespaces/{judge.namespace}/pods/probe")
        return "instance type cpus has no accelerators" in told

    await until(known)


@pytest.mark.parametrize("namespace", ["kube-public", "gpustack-system", "kueue-system", "nfd"])
async def test_closed_namespaces_are_not_looked_at(judge: Judging, namespace: str) -> None:
    await refusal(judge.client.create(ACCOUNTS, {"metadata": {"name": "default"}}, namespace=namespace))
    closed = Judging(judge.client, namespace)

    stored = await closed.pod(f"pod-{judge.namespace}", T4, pod(container()))

    assert "env" not in stored["spec"]["containers"][0]
    assert stored["metadata"]["labels"][QUEUE] == T4
