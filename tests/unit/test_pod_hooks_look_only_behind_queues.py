"""Which Pods and Jobs the API server shows us, and when it asks us before Kueue."""

from __future__ import annotations

from typing import Any

import pytest

from gpustack_op.operator.webhooks import hooks
from gpustack_op.runtime.webhook.registration import ByUrl

QUEUED = {"matchExpressions": [{"key": "kueue.x-k8s.io/queue-name", "operator": "Exists"}]}
IS_OPEN = {
    "name": "open-namespace",
    "expression": "!request.namespace.startsWith('kube-') && !(request.namespace in ['ours', 'kueue-system', 'nfd'])",
}
CONTAINERS_ARE_NEW = {
    "name": "containers-are-new",
    "expression": "request.operation == 'CREATE'"
    " || object.spec.template.spec.containers != oldObject.spec.template.spec.containers"
    " || object.spec.template.spec.?initContainers != oldObject.spec.template.spec.?initContainers",
}


def registered(suffix: str) -> list[dict[str, Any]]:
    bodies = [each.body(ByUrl("https://127.0.0.1:1"), b"") for each in hooks.registrations("ours")]
    return [webhook for body in bodies for webhook in body["webhooks"] if webhook["name"].endswith(suffix)]


@pytest.mark.parametrize(
    ("suffix", "operations", "conditions"),
    [
        pytest.param(".pod", ["CREATE"], [IS_OPEN], id="Pods as they are made"),
        pytest.param(".job", ["CREATE", "UPDATE"], [IS_OPEN, CONTAINERS_ARE_NEW], id="Jobs, and when they are resized"),
    ],
)
def test_what_is_looked_at(suffix: str, operations: list[str], conditions: list[dict[str, str]]) -> None:
    found = [
        (each["rules"][0]["operations"], each["objectSelector"], each["matchConditions"]) for each in registered(suffix)
    ]

    assert found == [(operations, QUEUED, conditions)] * 2


def test_our_configuration_comes_before_kueues() -> None:
    assert sorted(["kueue-mutating-webhook-configuration", hooks.MUTATION])[0] == hooks.MUTATION
