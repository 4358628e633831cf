"""The admission policies on a real API server: who may write a Pod's record, and that nobody leaves a queue."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec
import pytest

from devcluster.kubectl import Kubectl
from gpustack_op.api.core import NODES, PODS
from gpustack_op.api.meta import PartialObject, Resource
from gpustack_op.operator.webhooks.job import JOBS
from gpustack_op.runtime.client import Client
from gpustack_op.runtime.config import ClientConfig
from gpustack_op.runtime.errors import AlreadyExists
from gpustack_op.scheduling.labels import ALLOCATED
from tests.controlplane.people import ACCOUNTS, STORED, holding_token, refusal
from tests.waiting import until

QUEUE = "kueue.x-k8s.io/queue-name"
ENTRANCE, OTHER_ENTRANCE = "gpustack-fnv64-0000000000000001", "gpustack-fnv64-0000000000000002"
GATE = "kueue.x-k8s.io/admission"
KUEUE = ("--as=system:serviceaccount:kueue-system:kueue-controller-manager", "--as-group=system:masters")
ROLES = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", PartialObject)
ROLE_BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", PartialObject)
BINDINGS = "/api/v1/namespaces/{}/pods/{}/binding"
AGENT = {"kind": "ServiceAccount", "name": "gpustack-agent", "namespace": "gpustack-system"}
RECORD = {"metadata": {"annotations": {ALLOCATED: "{}"}}}

RECORD_REFUSED = (
    f"annotation {ALLOCATED} is the record of the accelerators a Pod was given: "
    "only the agent of the Pod's own node may write it"
)


def moved(old: str, new: str) -> str:
    return (
        f'label {QUEUE} cannot be changed from "{old}" to "{new}": what is in a queue of a pool stays there; '
        "delete it and create it anew"
    )


def pod(name: str, *, labels: Mapping[str, str] | None = None, **fields: Any) -> dict[str, Any]:
    metadata = {"name": name, "labels": dict(labels or {})}
    spec = {"containers": [{"name": "main", "image": "pause"}], **fields}
    return {"metadata": metadata, "spec": spec}


def job(name: str, labels: Mapping[str, str]) -> dict[str, Any]:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "pause"}]}}
    return {"metadata": {"name": name, "labels": dict(labels)}, "spec": {"suspend": True, "template": template}}


@pytest.fixture
async def home(client: Client, namespace: str) -> str:
    """A namespace in which Pods can be made, and where the policies are in force."""
    await client.create(ACCOUNTS, {"metadata": {"name": "default"}}, namespace=namespace)

    async def in_force() -> bool:
        forged = pod("probe") | {"metadata": {"name": "probe", "annotations": {ALLOCATED: "{}"}}}
        told = await refusal(client.create(PODS, forged, namespace=namespace))
        if told == STORED:
            await client.delete(PODS, "probe", namespace)
        return told != STORED

    await until(in_force)
    return namespace


@pytest.fixture
async def nodes(client: Client, namespace: str) -> dict[str, dict[str, str]]:
    """Two nodes, as a token is bound to them."""
    made = {}
    for name in (f"one-{namespace}", f"two-{namespace}"):
        node = await client.create(NODES, {"metadata": {"name": name}})
        made[name] = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node.uid}
    return made


@pytest.fixture
async def agents(
    administrator: ClientConfig, client: Client, nodes: dict[str, dict[str, str]]
) -> AsyncIterator[list[Client]]:
    """The agents of both nodes, and one that does not say where it lives. They may write Pods, if no policy minds."""
    everything = {"apiGroups": [""], "resources": ["pods", "pods/status"], "verbs": ["get", "patch"]}
    name = "test-agents-write-pods"
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    for resource, body in (
        (ROLES, {"rules": [everything]}),
        (ROLE_BINDINGS, {"roleRef": reference, "subjects": [AGENT]}),
    ):
        await refusal_or_there(client, resource, {"metadata": {"name": name}, **body})
    first, second = nodes.values()
    async with (
        holding_token(administrator, AGENT["namespace"], AGENT["name"], bound_to=first) as at_first,
        holding_token(administrator, AGENT["namespace"], AGENT["name"], bound_to=second) as at_second,
        holding_token(administrator, AGENT["namespace"], AGENT["name"]) as nowhere,
    ):
        yield [at_first, at_second, nowhere]


async def refusal_or_there(client: Client, resource: Resource[PartialObject], body: dict[str, Any]) -> None:
    try:
        await client.create(resource, body)
    except AlreadyExists:
        return


def denied(policy: str, sentence: str, subject: str) -> str:
    by = f"ValidatingAdmissionPolicy '{policy}' with binding '{policy}'"
    return f"{subject} is forbidden: {by} denied request: {sentence}"


async def test_a_pod_that_brings_its_own_record_is_refused(client: Client, home: str) -> None:
    forged = pod("forged")
    forged["metadata"]["annotations"] = {ALLOCATED: '{"main": {}}'}

    assert await refusal(client.create(PODS, forged, namespace=home)) == denied(
        "gpustack-accelerator-record", f"{RECORD_REFUSED}; leave it out", 'pods "forged"'
    )


@pytest.mark.parametrize("subresource", ["", "status"])
async def test_an_administrator_cannot_write_a_record_either(client: Client, home: str, subresource: str) -> None:
    await client.create(PODS, pod("plain"), namespace=home)

    told = await refusal(client.merge_patch(PODS, "plain", RECORD, namespace=home, subresource=subresource))

    assert told == denied("gpustack-accelerator-record", RECORD_REFUSED, 'pods "plain"')


async def test_the_agent_of_the_node_writes_and_takes_away_the_record(
    client: Client, home: str, nodes: dict[str, Any], agents: list[Client]
) -> None:
    await client.create(PODS, pod("here", nodeName=next(iter(nodes))), namespace=home)
    removal = {"metadata": {"annotations": {ALLOCATED: None}}}

    await agents[0].merge_patch(PODS, "here", RECORD, namespace=home, subresource="status")
    written = await client.get(PODS, "here", home)
    by_others = await refusal(client.merge_patch(PODS, "here", removal, namespace=home))
    await agents[0].merge_patch(PODS, "here", removal, namespace=home, subresource="status")
    removed = await client.get(PODS, "here", home)

    assert written.annotations == {ALLOCATED: "{}"}
    assert by_others == denied("gpustack-accelerator-record", RECORD_REFUSED, 'pods "here"')
    assert removed.annotations == {}


@pytest.mark.parametrize("agent", [pytest.param(1, id="of another node"), pytest.param(2, id="of no node it tells")])
@pytest.mark.parametrize("subresource", ["", "status"])
async def test_any_other_agent_is_refused(
    client: Client, home: str, nodes: dict[str, Any], agents: list[Client], agent: int, subresource: str
) -> None:
    await client.create(PODS, pod("elsewhere", nodeName=next(iter(nodes))), namespace=home)

    told = await refusal(agents[agent].merge_patch(PODS, "elsewhere", RECORD, namespace=home, subresource=subresource))

    assert told == denied("gpustack-accelerator-record", RECORD_REFUSED, 'pods "elsewhere"')


async def test_an_agent_that_tells_no_node_has_no_power_over_pods_without_one(
    client: Client, home: str, agents: list[Client]
) -> None:
    await client.create(PODS, pod("nowhere"), namespace=home)

    told = await refusal(agents[2].merge_patch(PODS, "nowhere", RECORD, namespace=home, subresource="status"))

    assert told == denied("gpustack-accelerator-record", RECORD_REFUSED, 'pods "nowhere"')


async def test_a_binding_brings_no_record(client: Client, home: str, nodes: dict[str, Any]) -> None:
    await client.create(PODS, pod("bound"), namespace=home)
    target = {"apiVersion": "v1", "kind": "Node", "name": next(iter(nodes))}
    metadata = {"name": "bound", "annotations": {ALLOCATED: "{}"}}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}

    told = await refusal(client.raw("POST", BINDINGS.format(home, "bound"), body=msgspec.json.encode(body)))
    del metadata["annotations"]
    without = await refusal(client.raw("POST", BINDINGS.format(home, "bound"), body=msgspec.json.encode(body)))

    assert f"{RECORD_REFUSED}; leave it out" in told
    assert without == STORED


async def test_what_carries_a_record_may_be_edited_otherwise(
    client: Client, home: str, nodes: dict[str, Any], agents: list[Client]
) -> None:
    await client.create(PODS, pod("held", nodeName=next(iter(nodes))), namespace=home)
    await agents[0].merge_patch(PODS, "held", RECORD, namespace=home, subresource="status")

    edited = await client.merge_patch(PODS, "held", {"metadata": {"labels": {"team": "vision"}}}, namespace=home)

    assert edited.annotations == {ALLOCATED: "{}"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(ENTRANCE, OTHER_ENTRANCE, id="into another pool"),
        pytest.param(ENTRANCE, "somebody-elses", id="into a foreign queue"),
        pytest.param(ENTRANCE, "", id="out of all queues"),
        pytest.param("somebody-elses", ENTRANCE, id="from a foreign queue into a pool"),
        pytest.param("", ENTRANCE, id="into a pool after its creation"),
    ],
)
@pytest.mark.parametrize("subresource", ["", "status"])
async def test_nothing_moves_into_or_out_of_our_queues(
    client: Client, home: str, old: str, new: str, subresource: str
) -> None:
    present = {QUEUE: old} if old else {}
    await client.create(PODS, pod("mover", labels=present), namespace=home)
    await client.create(JOBS, job("mover", present), namespace=home)
    patch = {"metadata": {"labels": {QUEUE: new or None}}}

    told = [
        await refusal(client.merge_patch(resource, "mover", patch, namespace=home, subresource=subresource))
        for resource in (PODS, JOBS)
    ]

    assert told == [
        denied("gpustack-queue-name", moved(old, new), 'pods "mover"'),
        denied("gpustack-queue-name", moved(old, new), 'jobs.batch "mover"'),
    ]


async def test_between_foreign_queues_everything_may_move(client: Client, home: str) -> None:
    await client.create(PODS, pod("free", labels={QUEUE: "a"}), namespace=home)

    moved_pod = await client.merge_patch(PODS, "free", {"metadata": {"labels": {QUEUE: "b"}}}, namespace=home)

    assert moved_pod.labels[QUEUE] == "b"


async def test_a_gate_of_kueue_is_lifted_by_kueue_alone(client: Client, kubectl: Kubectl, home: str) -> None:
    gates = [{"name": GATE}, {"name": "example.com/other"}]
    await client.create(PODS, pod("gated", schedulingGates=gates), namespace=home)
    patch = {"spec": {"schedulingGates": [{"name": "example.com/other"}]}}

    told = await refusal(client.merge_patch(PODS, "gated", patch, namespace=home))
    lifted = '[{"op": "remove", "path": "/spec/schedulingGates/0"}]'
    await kubectl("patch", "pod", "gated", "-n", home, "--type=json", "-p", lifted, *KUEUE)
    left = await kubectl("get", "pod", "gated", "-n", home, "-o", "jsonpath={.spec.schedulingGates}")

    assert told == denied(
        "gpustack-queue-gates", f"scheduling gate {GATE} is lifted by Kueue alone, once the Pod is admitted",
        'pods "gated"',
    )  # fmt: skip
    assert left == '[{"name":"example.com/other"}]'


async def test_other_gates_are_anybodys(client: Client, home: str) -> None:
    await client.create(PODS, pod("open", schedulingGates=[{"name": "example.com/other"}]), namespace=home)

    assert (
        await refusal(client.merge_patch(PODS, "open", {"spec": {"schedulingGates": None}}, namespace=home)) == STORED
    )
