"""A simulated kubelet with a real API server: Pods that are bound to its node."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from devcluster.containers.client import RuntimeClient
from devcluster.kubelet.folders import Folders
from devcluster.kubelet.kubelet import Kubelet
from devcluster.kubelet.pods import PODS
from devcluster.kubelet.settings import Timing
from devcluster.node import NODES, SimulatedNode
from devcluster.paths import MACHINES, REPOSITORY
from gpustack_op.agent import inventory
from gpustack_op.runtime.client import Client
from gpustack_op.runtime.errors import NotFound
from tests.runtime.kubelet.plugin import FakePlugin, devices
from tests.waiting import until

CARD = "example.com/card"
QUICK = Timing(status_period=0.2, backoff=0.2, retry=0.2)

Object = dict[str, Any]


class Stage:
    """One node with its kubelet, and a namespace for its Pods."""

    def __init__(self, client: Client, runtime: RuntimeClient, folders: Folders, machine: Path, namespace: str) -> None:
        self.client = client
        self.runtime = runtime
        self.folders = folders
        self.namespace = namespace
        self.node = inventory.load(machine).node
        self.said: list[str] = []
        self._machine = machine
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        kubelet = Kubelet(
            self._machine, self.folders, self.client, self.runtime, say=self.said.append, timing=QUICK, seed=1
        )
        ready = asyncio.Event()
        self._running = asyncio.create_task(kubelet.run(ready.set))
        waiting = asyncio.create_task(ready.wait())
        await asyncio.wait([self._running, waiting], return_when=asyncio.FIRST_COMPLETED)
        if self._running.done():
            self._running.result()

    async def stop(self) -> None:
        if self._running is not None:
            self._running.cancel()
            with suppress(asyncio.CancelledError):
                await self._running

    async def create(self, name: str, *command: str, grace: int = 1, restart: str = "Always", **container: Any) -> None:
        spec = {
            "nodeName": self.node,
            "restartPolicy": restart,
            "terminationGracePeriodSeconds": grace,
            "automountServiceAccountToken": False,
            "containers": [{"name": "main", "image": "none", "command": list(command), **container}],
        }
        await self.client.create(PODS, {"metadata": {"name": name}, "spec": spec}, namespace=self.namespace)

    async def status(self, name: str) -> Object:
        return (await self.client.get(PODS, name, self.namespace)).status

    async def phase(self, name: str) -> str:
        return str((await self.status(name)).get("phase"))

    async def reaches(self, name: str, phase: str) -> None:
        async def reached() -> bool:
            return await self.phase(name) == phase

        await until(reached)

    async def container(self, name: str) -> Object:
        statuses = (await self.status(name)).get("containerStatuses") or [{}]
        return dict(statuses[0])

    async def delete(self, name: str) -> None:
        await self.client.delete(PODS, name, self.namespace)

    async def is_gone(self, name: str) -> bool:
        try:
            await self.client.get(PODS, name, self.namespace)
        except NotFound:
            return True
        return False

    async def plugin(self, *ids: str) -> FakePlugin:
        """Registered, and offered by the node."""
        made = FakePlugin(self.folders.plugins, CARD)
        await made.serve()
        await made.register()
        made.offer(devices(*ids))
        await until(lambda: self.offers(str(len(ids))))
        return made

    async def offers(self, amount: str) -> bool:
        return (await self.client.get(NODES, self.node)).status.allocatable.get(CARD) == amount

    def log(self, uid: str) -> str:
        return (self.folders.container(uid, "main") / "0.log").read_text()


@pytest.fixture
async def stage(client: Client, namespace: str, tmp_path: Path) -> AsyncIterator[Stage]:
    machine = tmp_path / "machine.yaml"
    text = (MACHINES / "node-cpu.yaml").read_text()
    machine.write_text(text.replace("node: node-cpu", f"node: {namespace.replace('test', 'node')}"))
    node = SimulatedNode(machine, inventory.load(machine), client, print)
    await node.join()
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    await client.raw("POST", path, body=msgspec.json.encode(account))
    with tempfile.TemporaryDirectory(prefix="gpk-") as folder:
        async with running_runtime(Path(folder) / "runtime.sock") as runtime:
            made = Stage(client, runtime, Folders(Path(folder)), machine, namespace)
            await made.start()
            yield made
            await made.stop()
    await node.leave()


@asynccontextmanager
async def running_runtime(socket: Path) -> AsyncIterator[RuntimeClient]:
    """In a process of its own, since containers cannot safely be forked off one in which gRPC runs."""
    paths = {"PYTHONPATH": f"{REPOSITORY / 'hack'}:{REPOSITORY}"}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "devcluster.containers", str(socket)),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, **paths},
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"listening\n"
    yield RuntimeClient(socket)
    process.terminate()
    await process.communicate()


@pytest.fixture
async def plugin(stage: Stage) -> AsyncIterator[Callable[..., Any]]:
    """Makes plugins, and ends them."""
    plugins: list[FakePlugin] = []

    async def make(*ids: str) -> FakePlugin:
        plugins.append(await stage.plugin(*ids))
        return plugins[-1]

    yield make
    for each in plugins:
        await each.stop()


def wants(count: int) -> Object:
    return {"resources": {"limits": {CARD: str(count)}, "requests": {CARD: str(count)}}}


async def test_a_pod_runs_its_command_and_what_it_prints_is_kept(stage: Stage) -> None:
    await stage.create("one", "sh", "-c", "echo $WHO; exec sleep 600", env=[{"name": "WHO", "value": "me"}])
    await stage.reaches("one", "Running")
    pod = await stage.client.get(PODS, "one", stage.namespace)
    conditions = {each["type"]: each["status"] for each in pod.status["conditions"]}
    assert conditions["Ready"] == "True"

    async def printed() -> bool:
        return stage.log(pod.uid) == "me\n"

    await until(printed)


@pytest.mark.parametrize(
    ("code", "phase", "reason"),
    [pytest.param("0", "Succeeded", "Completed", id="well"), pytest.param("3", "Failed", "Error", id="badly")],
)
async def test_a_pod_ends_as_its_container_does(stage: Stage, code: str, phase: str, reason: str) -> None:
    await stage.create("one", "sh", "-c", f"exit {code}", restart="Never")
    await stage.reaches("one", phase)
    terminated = (await stage.container("one"))["state"]["terminated"]
    assert (terminated["exitCode"], terminated["reason"]) == (int(code), reason)


async def test_a_container_that_crashes_is_restarted_in_place(stage: Stage) -> None:
    await stage.create("one", "sh", "-c", "exit 3")

    async def restarted() -> bool:
        return int((await stage.container("one")).get("restartCount", 0)) >= 2

    await until(restarted)
    assert await stage.phase("one") == "Running"
    assert (await stage.container("one"))["lastState"]["terminated"]["exitCode"] == 3


async def test_a_deleted_pod_ends_within_its_grace_period_and_only_then_goes(stage: Stage) -> None:
    await stage.create("one", "sh", "-c", "trap 'exit 0' TERM; while true; do sleep 0.05; done", grace=20)
    await stage.reaches("one", "Running")
    await stage.delete("one")
    await until(lambda: stage.is_gone("one"))
    assert (await stage.runtime.snapshot(stage.node)).states == []


async def test_what_does_not_listen_is_killed_when_the_grace_period_is_over(stage: Stage) -> None:
    await stage.create("one", "sh", "-c", "trap '' TERM; while true; do sleep 0.05; done", grace=1)
    await stage.reaches("one", "Running")
    await stage.delete("one")
    await until(lambda: stage.is_gone("one"))


async def test_a_finalizer_of_others_keeps_the_object_but_not_the_containers(stage: Stage) -> None:
    await stage.create("one", "sleep", "600")
    await stage.reaches("one", "Running")
    held = {"metadata": {"finalizers": ["example.com/held"]}}
    await stage.client.merge_patch(PODS, "one", held, namespace=stage.namespace)
    await stage.delete("one")
    await stage.reaches("one", "Failed")
    assert not await stage.is_gone("one")
    await stage.client.merge_patch(PODS, "one", {"metadata": {"finalizers": None}}, namespace=stage.namespace)
    await until(lambda: stage.is_gone("one"))


async def test_a_variable_that_is_not_there_yet_is_waited_for(stage: Stage) -> None:
    source = {"configMapKeyRef": {"name": "late", "key": "A"}}
    await stage.create("one", "sleep", "600", env=[{"name": "A", "valueFrom": source}])

    async def waits() -> bool:
        waiting = (await stage.container("one")).get("state", {}).get("waiting", {})
        return bool(waiting.get("reason") == "CreateContainerConfigError")

    await until(waits)
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late"}, "data": {"A": "1"}}
    path = f"/api/v1/namespaces/{stage.namespace}/configmaps"
    await stage.client.raw("POST", path, body=msgspec.json.encode(body))
    await stage.reaches("one", "Running")


async def test_containers_outlive_their_kubelet_and_are_found_again(stage: Stage) -> None:
    await stage.create("one", "sleep", "600")
    await stage.reaches("one", "Running")
    before = await stage.container("one")
    await stage.stop()
    await stage.start()
    await stage.create("two", "sleep", "600")
    await stage.reaches("two", "Running")
    assert await stage.container("one") == before


async def test_a_container_that_ended_while_the_kubelet_was_away_is_noticed(stage: Stage) -> None:
    await stage.create("one", "sh", "-c", "sleep 0.3; exit 5", restart="Never")
    await stage.reaches("one", "Running")
    await stage.stop()

    async def ended() -> bool:
        return all(not state.running for state in (await stage.runtime.snapshot(stage.node)).states)

    await until(ended)
    await stage.start()
    await stage.reaches("one", "Failed")
    assert (await stage.container("one"))["state"]["terminated"]["exitCode"] == 5


async def test_a_pod_gets_its_devices_and_gives_them_back(stage: Stage, plugin: Callable[..., Any]) -> None:
    cards = await plugin("a")
    await stage.create("one", "sh", "-c", "echo $IDS; exec sleep 600", **wants(1))
    await stage.reaches("one", "Running")
    pod = await stage.client.get(PODS, "one", stage.namespace)

    async def printed() -> bool:
        return stage.log(pod.uid) == "a\n"

    await until(printed)
    status = (await stage.container("one"))["allocatedResourcesStatus"]
    assert status == [{"name": CARD, "resources": [{"resourceID": "a", "health": "Healthy"}]}]
    await stage.delete("one")
    await until(lambda: stage.is_gone("one"))
    await stage.create("two", "sleep", "600", **wants(1))
    await stage.reaches("two", "Running")
    assert cards.asked("allocate") == [["a"], ["a"]]


async def test_a_refusal_of_a_plugin_fails_the_pod_for_good(stage: Stage, plugin: Callable[..., Any]) -> None:
    cards = await plugin("a")
    cards.refuses = "card a is taken"
    await stage.create("one", "sleep", "600", **wants(1))
    await stage.reaches("one", "Failed")
    status = await stage.status("one")
    text = "Allocate failed due to rpc error: code = FailedPrecondition desc = card a is taken, which is unexpected"
    assert (status["reason"], status["message"]) == ("UnexpectedAdmissionError", f"Pod was rejected: {text}")
    assert status.get("containerStatuses") is None
    assert [each["type"] for each in status.get("conditions", []) if each["type"] != "PodReadyToStartContainers"] == []

    async def told() -> list[Object]:
        events = await stage.client.raw("GET", f"/apis/events.k8s.io/v1/namespaces/{stage.namespace}/events")
        return [each for each in msgspec.json.decode(events)["items"] if each["regarding"]["name"] == "one"]

    async def is_told() -> bool:
        return bool(await told())

    await until(is_told)
    assert [(each["type"], each["reason"], each["note"]) for each in await told()] == [
        ("Warning", "UnexpectedAdmissionError", text)
    ]


async def test_devices_come_before_the_predicates(stage: Stage, plugin: Callable[..., Any]) -> None:
    cards = await plugin("a")
    too_much = wants(1)
    too_much["resources"]["requests"]["cpu"] = "1000"
    too_much["resources"]["limits"]["cpu"] = "1000"
    await stage.create("one", "sleep", "600", **too_much)
    await stage.reaches("one", "Failed")
    assert (await stage.status("one"))["reason"] == "OutOfcpu"
    assert cards.asked("allocate") == [["a"]]
    await stage.create("two", "sleep", "600", **wants(1))
    await stage.reaches("two", "Running")


async def test_a_running_pod_whose_label_has_gone_is_refused_at_the_next_start(stage: Stage) -> None:
    label = {"metadata": {"labels": {"example.com/zone": "x"}}}
    await stage.client.merge_patch(NODES, stage.node, label)
    spec = {
        "nodeName": stage.node,
        "nodeSelector": {"example.com/zone": "x"},
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        "containers": [{"name": "main", "image": "none", "command": ["sleep", "600"]}],
    }
    await stage.client.create(PODS, {"metadata": {"name": "one"}, "spec": spec}, namespace=stage.namespace)
    await stage.reaches("one", "Running")
    await stage.client.merge_patch(NODES, stage.node, {"metadata": {"labels": {"example.com/zone": None}}})
    await stage.stop()
    await stage.start()
    await stage.reaches("one", "Failed")
    status = await stage.status("one")
    assert status["reason"] == "NodeAffinity"

    async def ended() -> bool:
        return all(not state.running for state in (await stage.runtime.snapshot(stage.node)).states)

    await until(ended)


async def test_while_a_plugin_hangs_no_other_pod_is_admitted(stage: Stage, plugin: Callable[..., Any]) -> None:
    cards = await plugin("a")
    hanging, go_on = asyncio.Event(), asyncio.Event()

    async def hang() -> None:
        hanging.set()
        await go_on.wait()

    cards.holds = hang
    await stage.create("one", "sleep", "600", **wants(1))
    await asyncio.wait_for(hanging.wait(), 20)
    await stage.create("two", "sleep", "600")
    assert await stage.phase("two") == "Pending"
    go_on.set()
    await stage.reaches("two", "Running")
    await stage.reaches("one", "Running")


async def test_the_resource_of_a_plugin_that_has_ended_offers_nothing(stage: Stage, plugin: Callable[..., Any]) -> None:
    cards = await plugin("a", "b")
    await cards.stop()
    await until(lambda: stage.offers("0"))
    assert (await stage.client.get(NODES, stage.node)).status.capacity[CARD] == "2"
