"""The names in the admission policies, which are plain files, are those that the programs use."""

from __future__ import annotations

from typing import Any

import pytest

from devcluster.install import read_manifests
from devcluster.kueue import ACCOUNT
from devcluster.paths import MANIFESTS
from gpustack_op.scheduling import labels, names

POLICIES = {
    each["metadata"]["name"]: each["spec"]
    for each in read_manifests(MANIFESTS / "policies")
    if each["kind"] == "ValidatingAdmissionPolicy"
}
BINDINGS = [
    each for each in read_manifests(MANIFESTS / "policies") if each["kind"] == "ValidatingAdmissionPolicyBinding"
]


def variable(policy: str, name: str) -> Any:
    return next(each["expression"] for each in POLICIES[policy]["variables"] if each["name"] == name)


@pytest.mark.parametrize(
    ("policy", "key"),
    [("gpustack-accelerator-record", labels.ALLOCATED), ("gpustack-queue-name", labels.KUEUE_QUEUE_NAME)],
)
def test_the_key_that_is_guarded(policy: str, key: str) -> None:
    assert variable(policy, "key") == f"'{key}'"


def test_the_prefix_of_our_entrances() -> None:
    prefix = names.entrance("a pool").removesuffix(names.entrance("a pool")[-16:])

    assert POLICIES["gpustack-queue-name"]["validations"][0]["expression"].count(f"'{prefix}'") == 2


def test_the_agents_account() -> None:
    account = f"'system:serviceaccount:{names.SYSTEM_NAMESPACE}:gpustack-agent'"

    assert account in variable("gpustack-accelerator-record", "byAgentOfItsNode")


def test_kueues_account() -> None:
    assert f"'{ACCOUNT}'" in POLICIES["gpustack-queue-gates"]["matchConditions"][0]["expression"]


def test_every_policy_is_bound_and_denies() -> None:
    bound = {each["spec"]["policyName"] for each in BINDINGS if each["spec"]["validationActions"] == ["Deny"]}

    assert bound == POLICIES.keys()
