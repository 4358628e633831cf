"""The Setting webhook, and who may write the catalog."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gpustack_op.operator.webhooks.identity import OwnIdentity
from gpustack_op.operator.webhooks.instance_type_flavor import InstanceTypeFlavorWebhook
from gpustack_op.operator.webhooks.setting import SettingWebhook
from gpustack_op.runtime.webhook.review import AdmissionRequest, Kind, User, Verdict

SETTING = Kind("gpustack.ai", "v1", "Setting")
FLAVOR = Kind("worker.gpustack.ai", "v1", "InstanceTypeFlavor")
AWARE = "instance-type-aware-cpu-manufacturer"


def setting(value: Any) -> dict[str, Any]:
    return {"metadata": {"name": AWARE}, "spec": {"value": value}}


async def judged(value: Any, *, old: Any = None, name: str = AWARE, namespace: str = "gpustack-system") -> Verdict:
    request = AdmissionRequest(
        uid="1",
        kind=SETTING,
        name=name,
        namespace=namespace,
        object=setting(value),
        old_object=None if old is None else setting(old),
    )
    return await SettingWebhook("gpustack-system").validate(request)


@pytest.mark.parametrize("value", ["true", "F", " false\n", None])
async def test_a_good_value_is_accepted(value: Any) -> None:
    assert (await judged(value)).allowed


async def test_a_bad_value_is_refused_with_what_is_accepted() -> None:
    verdict = await judged("maybe", old="true")

    assert (verdict.allowed, verdict.code, verdict.reason) == (False, 422, "Invalid")
    assert verdict.message == (
        'Setting.gpustack.ai "instance-type-aware-cpu-manufacturer" is invalid: '
        'spec.value: Invalid value: "maybe" is no boolean; write true or false'
    )


async def test_a_bad_value_that_was_there_before_blocks_no_other_change() -> None:
    assert (await judged("maybe", old="maybe")).allowed


async def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    verdict = await judged("true", name="instance-type-aware-cpu-manufacturers")

    assert verdict.message == (
        'Setting.gpustack.ai "instance-type-aware-cpu-manufacturers" is invalid: metadata.name: Invalid value: '
        '"instance-type-aware-cpu-manufacturers": there is no setting "instance-type-aware-cpu-manufacturers"; '
        "did you mean instance-type-aware-cpu-manufacturer?"
    )


async def test_a_setting_elsewhere_has_no_effect_and_is_refused() -> None:
    verdict = await judged("true", namespace="default")

    assert verdict.message == (
        'Setting.gpustack.ai "instance-type-aware-cpu-manufacturer" is invalid: '
        'metadata.namespace: Forbidden: settings have an effect in namespace "gpustack-system" only'
    )


class Answering:
    """An API server that says who we are, and counts how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    async def raw(self, method: str, path: str, *, body: bytes | None = None) -> bytes:
        self.asked += 1
        return msgspec.json.encode({"status": {"userInfo": {"username": "dev-admin"}}})


async def flavor_verdict(user: str, operation: str = "UPDATE") -> Verdict:
    webhook = InstanceTypeFlavorWebhook(OwnIdentity(Answering(), "gpustack-system"))
    request = AdmissionRequest(
        uid="1", kind=FLAVOR, operation=operation, name="gpustack--nvidia-a10g", user=User(name=user)
    )
    return await webhook.validate(request)


@pytest.mark.parametrize(
    "user",
    [
        pytest.param("system:serviceaccount:gpustack-system:gpustack-operator", id="the operator"),
        pytest.param("dev-admin", id="an operator outside the cluster"),
        pytest.param("system:serviceaccount:kube-system:generic-garbage-collector", id="the garbage collector"),
    ],
)
async def test_the_catalog_is_written_by_the_operator(user: str) -> None:
    assert (await flavor_verdict(user)).allowed


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE", "DELETE"])
@pytest.mark.parametrize("user", ["jane", "system:serviceaccount:default:gpustack-operator", ""])
async def test_the_catalog_is_written_by_nobody_else(user: str, operation: str) -> None:
    verdict = await flavor_verdict(user, operation)

    assert (verdict.allowed, verdict.code) == (False, 403)
    assert verdict.message == (
        'InstanceTypeFlavor "gpustack--nvidia-a10g" is written by the operator from what the nodes offer: there is '
        "nothing to edit here; to offer a pool of your own, create an InstanceType that names a row's groups"
    )


async def test_the_api_server_is_asked_once_who_we_are() -> None:
    api = Answering()
    identity = OwnIdentity(api, "gpustack-system")

    assert not await identity.is_own(User(name="jane"))
    assert await identity.is_own(User(name="dev-admin"))
    assert api.asked == 1
