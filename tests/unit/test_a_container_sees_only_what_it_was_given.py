"""Variables and commands of simulated containers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from devcluster.kubelet.environment import STAND_IN, ConfigurationError, command, environment
from devcluster.kubelet.given import expanded
from devcluster.kubelet.pods import Pod, PodMeta

POD = Pod(
    metadata=PodMeta(name="one", namespace="default", uid="1", labels={"app": "x"}, annotations={"note": "y"}),
    spec={"nodeName": "node-a"},
)
OWN = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "HOSTNAME": "one"}
STORED = {("configmaps", "map"): {"A": "1", "B": "2"}, ("secrets", "secret"): {"A": "hidden"}}


async def lookup(kind: str, namespace: str, name: str) -> Mapping[str, str] | None:
    return STORED.get((kind, name))


async def seen(container: Mapping[str, Any], **plugins: str) -> dict[str, str]:
    address = ("127.0.0.1", "10.244.0.5")
    return await environment(POD, dict(container), plugins=plugins, address=address, lookup=lookup)


async def test_nothing_else_is_seen() -> None:
    assert await seen({}) == OWN


async def test_a_containers_own_variables_beat_those_of_plugins() -> None:
    container = {"env": [{"name": "VISIBLE", "value": "all"}], "envFrom": [{"configMapRef": {"name": "map"}}]}
    assert await seen(container, VISIBLE="card-1", A="plugin", OTHER="stays") == {
        **OWN,
        "VISIBLE": "all",
        "A": "1",
        "B": "2",
        "OTHER": "stays",
    }


@pytest.mark.parametrize(
    ("source", "value"),
    [
        pytest.param({"fieldRef": {"fieldPath": "metadata.name"}}, "one", id="name"),
        pytest.param({"fieldRef": {"fieldPath": "metadata.labels['app']"}}, "x", id="label"),
        pytest.param({"fieldRef": {"fieldPath": "metadata.annotations['note']"}}, "y", id="annotation"),
        pytest.param({"fieldRef": {"fieldPath": "spec.nodeName"}}, "node-a", id="node"),
        pytest.param({"fieldRef": {"fieldPath": "status.podIP"}}, "10.244.0.5", id="address"),
        pytest.param({"resourceFieldRef": {"resource": "limits.cpu"}}, "2", id="limit"),
        pytest.param({"configMapKeyRef": {"name": "map", "key": "B"}}, "2", id="config map"),
        pytest.param({"secretKeyRef": {"name": "secret", "key": "A"}}, "hidden", id="secret"),
    ],
)
async def test_values_come_from_everywhere(source: dict[str, Any], value: str) -> None:
    container = {"env": [{"name": "X", "valueFrom": source}], "resources": {"limits": {"cpu": "2"}}}
    assert (await seen(container))["X"] == value


async def test_an_optional_value_that_is_not_there_is_left_out() -> None:
    source = {"secretKeyRef": {"name": "none", "key": "A", "optional": True}}
    assert await seen({"env": [{"name": "X", "valueFrom": source}]}) == OWN


@pytest.mark.parametrize(
    ("source", "text"),
    [
        pytest.param({"secretKeyRef": {"name": "none", "key": "A"}}, 'secret "none" not found', id="no such object"),
        pytest.param(
            {"configMapKeyRef": {"name": "map", "key": "Z"}},
            'couldn\'t find key Z in configmap "map"',
            id="no such key",
        ),
    ],
)
async def test_a_value_that_is_not_there_is_waited_for(source: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        await seen({"env": [{"name": "X", "valueFrom": source}]})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("$(A)-$(B)", "1-2", id="by their names"),
        pytest.param("$(C)", "$(C)", id="unknown"),
        pytest.param("$$(A) $A $", "$(A) $A $", id="plain dollar signs"),
        pytest.param("$(A", "$(A", id="never closed"),
    ],
)
def test_references_are_expanded(text: str, expected: str) -> None:
    assert expanded(text, {"A": "1", "B": "2"}) == expected


def test_a_command_of_this_machine_is_run_with_its_references_expanded() -> None:
    assert command({"command": ["sh", "-c"], "args": ["echo $(A)"]}, {"A": "1"}) == (["sh", "-c", "echo 1"], "")


@pytest.mark.parametrize(
    ("container", "why"),
    [
        pytest.param({}, "the image's own command is not known", id="none is named"),
        pytest.param({"command": ["no-such-program"]}, "this machine has no no-such-program", id="not of this machine"),
    ],
)
def test_for_any_other_command_something_stands_in(container: dict[str, Any], why: str) -> None:
    assert command(container, {}) == (list(STAND_IN), why)
