"""What a person is told about an InstanceType by the whole operator, its schema and kubectl."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from devcluster.handle import RunningCluster
from devcluster.kubectl import Kubectl, environment
from gpustack_op.api.kueue import CLUSTER_QUEUES
from gpustack_op.api.worker import DEVICES, INSTANCE_TYPES, SETTINGS
from gpustack_op.runtime.client import Client
from gpustack_op.runtime.config import ClientConfig
from gpustack_op.runtime.errors import Invalid
from tests.controlplane.reconcilers.players import join, known, kueue_sees
from tests.controlplane.reconcilers.program import Program, program
from tests.controlplane.reconcilers.stage import NAMESPACE

LEAD = (
    'admission webhook "{}.worker.gpustack.ai.v1.instancetype" denied the request: '
    'InstanceType.worker.gpustack.ai "bad" is invalid: '
)
WHOLE = "must be a positive integer with no unit suffix"
GI = 'must be a positive integer with a case-sensitive "Gi" suffix'
ONE = "must be 1 when acceleratable is false"


def cards(cpu: Any = "4", ram: Any = "48Gi", storage: Any = "100Gi", **more: Any) -> dict[str, Any]:
    return {
        "acceleratable": True,
        "acceleratorGroup": "nvidia-a10g",
        "os": "linux",
        "arch": "amd64",
        "unitResources": {"cpu": cpu, "ram": ram},
        "localStorage": storage,
        **more,
    }


def cores(cpu: Any = "1", ram: Any = "48Gi", storage: Any = "100Gi") -> dict[str, Any]:
    return {
        "acceleratable": False,
        "os": "linux",
        "arch": "amd64",
        "unitResources": {"cpu": cpu, "ram": ram},
        "localStorage": storage,
    }


REFUSED = {
    "ram without a unit": (cards(ram="48"), f'spec.unitResources.ram: Invalid value: "48": {GI}'),
    "ram in lower case": (cards(ram="48gi"), f'spec.unitResources.ram: Invalid value: "48gi": {GI}'),
    "ram with a fraction": (cards(ram="1.5Gi"), f'spec.unitResources.ram: Invalid value: "1.5Gi": {GI}'),
    "negative ram": (cards(ram="-1Gi"), f'spec.unitResources.ram: Invalid value: "-1Gi": {GI}'),
    "ram that is no quantity": (cards(ram="lots"), f'spec.unitResources.ram: Invalid value: "lots": {GI}'),
    "no storage": (cards(storage="0Gi"), f'spec.localStorage: Invalid value: "0Gi": {GI}'),
    "cores with a unit": (cards(cpu="4Gi"), f'spec.unitResources.cpu: Invalid value: "4Gi": {WHOLE}'),
    "half a core": (cards(cpu="0.5"), f'spec.unitResources.cpu: Invalid value: "0.5": {WHOLE}'),
    "no core": (cards(cpu="0"), f'spec.unitResources.cpu: Invalid value: "0": {WHOLE}'),
    "fewer than none": (cards(cpu="-4"), f'spec.unitResources.cpu: Invalid value: "-4": {WHOLE}'),
    "more than 31 bits of cores": (
        cards(cpu="4294967296"),
        f'spec.unitResources.cpu: Invalid value: "4294967296": {WHOLE}',
    ),
    "a unit of two cores": (cores(cpu="2"), f'spec.unitResources.cpu: Invalid value: "2": {ONE}'),
    "a unit of no core": (cores(cpu="0"), f'spec.unitResources.cpu: Invalid value: "0": {ONE}'),
    "an empty unit": (cores(cpu=""), f'spec.unitResources.cpu: Invalid value: "": {ONE}'),
    "a unit of a thousand": (cores(cpu="1000"), f'spec.unitResources.cpu: Invalid value: "1000": {ONE}'),
    "a unit of memory": (cores(cpu="1Gi"), f'spec.unitResources.cpu: Invalid value: "1Gi": {ONE}'),
    "cards of no kind": (
        cards(acceleratorGroup=""),
        "spec.acceleratorGroup: Required value: must be specified when acceleratable is true",
    ),
    "no system": (
        cards(os="", arch=""),
        "[spec.os: Required value: must be specified, spec.arch: Required value: must be specified]",
    ),
    "two things at once": (
        cards(cpu="0", storage="1"),
        f'[spec.unitResources.cpu: Invalid value: "0": {WHOLE}, spec.localStorage: Invalid value: "1": {GI}]',
    ),
}

WHO = {"ram in lower case": "mutate", "ram that is no quantity": "mutate", "an empty unit": "mutate"}
"""What is no quantity at all is refused by the defaults, before the schema can speak."""


async def machines(operator: Program, *shorts: str) -> None:
    """They join, and everything has settled."""
    for short in shorts:
        await join(operator.stage, short)
    for short in shorts:
        await known(operator.stage, short)


async def test_every_bad_value_is_refused_in_the_words_of_its_field_and_the_good_ones_go_on(
    config: ClientConfig,
) -> None:
    async with program(config) as operator:
        told = {case: await operator.refusal("bad", spec) for case, (spec, _) in REFUSED.items()}
        assert told == {
            case: LEAD.format(WHO.get(case, "validate")) + message for case, (_, message) in REFUSED.items()
        }
        assert await operator.refusal("good", cards()) == "stored"
        assert await operator.refusal("also-good", cores()) == "stored"
        await operator.stage.until_there(CLUSTER_QUEUES, "good")


async def test_a_custom_type_is_enriched_once_and_frozen(config: ClientConfig) -> None:
    async with program(config) as operator:
        await machines(operator, "a10g")
        stage = operator.stage
        await stage.until_there(INSTANCE_TYPES, "gpustack--nvidia-a10g-linux-amd64")
        await stage.until_so(DEVICES, "node-a10g", lambda d: d.labels.get("gpustack.ai/managed") == "true")

        stored = await operator.create("a10g-12c128g", cards(cpu=12, ram="128Gi", storage="200Gi"))

        assert (
            stored["metadata"]["labels"]
            | {
                "acceleratable.feature.gpustack.ai/nvidia-a10g": "true",
                "feature.gpustack.ai/acceleratable": "true",
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/os": "linux",
                "schedule.gpustack.ai/queue-entrance": "gpustack-fnv64-d4c0e6cd72686015",
            }
            == stored["metadata"]["labels"]
        )
        spec = stored["spec"]
        assert {key: spec[key] for key in ("manufacturer", "product", "family", "memory", "cores")} == {
            "manufacturer": "nvidia",
            "product": "NVIDIA-A10G",
            "family": "Ampere",
            "memory": "24Gi",
            "cores": "10240",
        }
        assert spec["unitResources"]["cpu"] == "12"
        await stage.until_there(CLUSTER_QUEUES, "a10g-12c128g")
        await kueue_sees(stage, "a10g-12c128g")
        with pytest.raises(Invalid, match="product"):
            await stage.edit(INSTANCE_TYPES, "a10g-12c128g", {"spec": {"product": "H100"}})
        renamed = await stage.edit(INSTANCE_TYPES, "a10g-12c128g", {"spec": {"displayName": "A10G, large"}})
        assert renamed.spec.product == "NVIDIA-A10G"


async def test_descriptors_that_were_unknown_come_once(config: ClientConfig) -> None:
    async with program(config) as operator:
        stored = await operator.create("early", cards())
        assert "product" not in stored["spec"]
        await machines(operator, "a10g")
        found = await operator.stage.until_so(INSTANCE_TYPES, "early", lambda t: t.spec.product and t.spec.feature)
        assert found.spec.product == "NVIDIA-A10G"
        with pytest.raises(Invalid):
            await operator.stage.edit(INSTANCE_TYPES, "early", {"spec": {"product": "Tesla-T4"}})


async def test_unknown_hardware_is_accepted_with_a_warning_that_lists_what_there_is(
    config: ClientConfig, control_plane: RunningCluster
) -> None:
    async with program(config) as operator:
        await machines(operator, "a10g", "t4-a")
        await operator.stage.until_there(INSTANCE_TYPES, "gpustack--nvidia-a10g-linux-amd64")
        await operator.stage.until_there(INSTANCE_TYPES, "gpustack--nvidia-tesla-t4-linux-amd64")
        asked = manifest("a10", "nvidia-a10", arch="arm64")

        told = await kubectl_says(control_plane, asked)

        assert told == (
            'Warning: InstanceType "a10": spec.acceleratorGroup "nvidia-a10" is in no catalog row; '
            "one of: nvidia-a10g, nvidia-tesla-t4\n"
            'Warning: InstanceType "a10": no node has linux/arm64; there are: linux/amd64\n'
        )
        sentence = "no managed node offers nvidia-a10 on linux/arm64; nothing is admitted until one does"
        await operator.stage.until_so(
            INSTANCE_TYPES, "a10", lambda type_: (type_.status or {}).get("phaseMessage") == sentence
        )


async def test_a_bad_setting_is_refused_where_it_is_written(config: ClientConfig) -> None:
    async with program(config) as operator:
        name = "node-labels-grace-period"
        await operator.stage.until_so(SETTINGS, name, lambda s: s.status.value == "60s", within=NAMESPACE)
        with pytest.raises(Invalid) as refused:
            await operator.stage.edit(SETTINGS, name, {"spec": {"value": "-5s"}}, within=NAMESPACE)
        assert refused.value.message == (
            'admission webhook "validate.gpustack.ai.v1.setting" denied the request: Setting.gpustack.ai '
            '"node-labels-grace-period" is invalid: spec.value: Invalid value: "-5s" is negative; '
            "a duration is 0s or more"
        )
        await operator.stage.edit(SETTINGS, name, {"spec": {"value": "90s"}}, within=NAMESPACE)
        await operator.stage.until_so(SETTINGS, name, lambda s: s.status.value == "90s", within=NAMESPACE)


def manifest(name: str, group: str, *, arch: str = "amd64") -> str:
    return (
        "apiVersion: worker.gpustack.ai/v1\nkind: InstanceType\n"
        f"metadata: {{name: {name}}}\n"
        f"spec: {{acceleratable: true, acceleratorGroup: {group}, os: linux, arch: {arch}, "
        'unitResources: {cpu: "4", ram: 16Gi}, localStorage: 100Gi}\n'
    )


async def kubectl_says(cluster: RunningCluster, stdin: str) -> str:
    """What kubectl complains of while it creates this."""
    process = await asyncio.create_subprocess_exec(
        str(cluster.layout.kubectl), "create", "-f", "-",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env=environment(cluster.layout),
    )  # fmt: skip
    _, complaints = await process.communicate(stdin.encode())
    return complaints.decode()


# --- The schema alone, without any webhook ------------------------------------------------------------------------

FROZEN = {
    "acceleratable": False,
    "acceleratorGroup": "nvidia-h100",
    "generalGroup": "amd-epyc-7r13",
    "os": "windows",
    "arch": "arm64",
    "localStorage": "1Gi",
    "unitResources": {"cpu": "5"},
    "product": "H100",
    "memory": "80Gi",
}


@pytest.mark.parametrize(("field", "value"), FROZEN.items())
async def test_the_schema_itself_freezes(config: ClientConfig, field: str, value: Any) -> None:
    async with Client(config) as client:
        spec = cards(generalGroup="generic", product="NVIDIA-A10G", memory="24Gi")
        await client.create(INSTANCE_TYPES, {"metadata": {"name": "frozen"}, "spec": spec})
        with pytest.raises(Invalid, match=f"{field} is immutable"):
            await client.merge_patch(INSTANCE_TYPES, "frozen", {"spec": {field: value}})


async def test_the_schema_itself_lets_descriptors_come_once(config: ClientConfig) -> None:
    async with Client(config) as client:
        await client.create(INSTANCE_TYPES, {"metadata": {"name": "growing"}, "spec": cards()})
        await client.merge_patch(INSTANCE_TYPES, "growing", {"spec": {"product": "NVIDIA-A10G"}})
        with pytest.raises(Invalid, match="product is immutable"):
            await client.merge_patch(INSTANCE_TYPES, "growing", {"spec": {"product": "H100"}})
        with pytest.raises(Invalid, match="product is immutable"):
            await client.merge_patch(INSTANCE_TYPES, "growing", {"spec": {"product": None}})


@pytest.mark.parametrize(
    "cpu",
    [
        pytest.param("a lot", id="no quantity"),
        pytest.param("1 Gi", id="a blank inside"),
        pytest.param("1gi", id="a suffix in lower case"),
        pytest.param("", id="nothing"),
    ],
)
async def test_the_schema_itself_refuses_what_is_no_quantity(config: ClientConfig, cpu: str) -> None:
    async with Client(config) as client:
        with pytest.raises(Invalid, match="cpu"):
            await client.create(INSTANCE_TYPES, {"metadata": {"name": "bad"}, "spec": cards(cpu=cpu)})


async def test_explain_reads_well(kubectl: Kubectl) -> None:
    explained = await kubectl("explain", "instancetype.spec.unitResources.cpu")
    assert " ".join(explained.split()) == (
        "GROUP: worker.gpustack.ai KIND: InstanceType VERSION: v1 FIELD: cpu <Object> DESCRIPTION: CPU cores of one "
        "unit, a whole number without a suffix, such as 8. It is 1 where the pool has no accelerators."
    )
