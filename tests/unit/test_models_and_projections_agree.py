"""What the pydantic models write is what caches read: no field of a projection is missing from its model."""

from __future__ import annotations

import json
import types
from collections.abc import Iterator
from typing import Any, Union, get_args, get_origin

import msgspec
import pytest
from pydantic import BaseModel

from gpustack_op.api import worker
from gpustack_op.api.devices import Devices
from gpustack_op.api.instance_type import InstanceType
from gpustack_op.api.instance_type_flavor import InstanceTypeFlavor
from gpustack_op.api.model import CustomResource
from gpustack_op.api.setting import Setting

DEVICES = {
    "spec": {
        "groups": [
            {
                "id": "h100",
                "manufacturer": "nvidia",
                "name": "NVIDIA H100",
                "memory": 81920,
                "cores": 14592,
                "driverVersion": "580.159.03",
                "runtimeVersion": "13.0",
                "computeCapability": "9.0",
                "family": "Hopper",
                "accelerators": [
                    {
                        "id": "GPU-1",
                        "index": 3,
                        "physicalIndexes": [3],
                        "topology": {
                            "pciBusId": "0000:00:1e.0",
                            "pciRootId": "0000:00:01.0",
                            "pciClass": "0x030200",
                            "numaAffinity": "0",
                            "cpuAffinity": "0-23",
                        },
                        "status": {
                            "unhealthy": True,
                            "logicalSliced": {"count": 128, "coresPercentageOvercommit": True},
                            "physicalSliced": {
                                "count": 7,
                                "profiles": [
                                    {
                                        "name": "1g.10gb",
                                        "memoryMib": 9856,
                                        "computeSlices": 1,
                                        "memorySlices": 1,
                                        "count": 7,
                                        "placements": [{"start": 2, "length": 1}],
                                    }
                                ],
                            },
                        },
                    }
                ],
                "acceleratorSlicedDetail": {
                    "logical": {"count": 128, "coresPercentageOvercommit": True},
                    "physical": {"count": 7, "profiles": [{"name": "1g.10gb", "count": 7, "memoryMib": 9856}]},
                },
            }
        ]
    },
    "status": {
        "groups": [
            {
                "id": "h100",
                "manufacturer": "nvidia",
                "accelerators": [
                    {
                        "id": "GPU-1",
                        "index": 3,
                        "mode": 4,
                        "remaining": 1600000,
                        "allocatedSlices": 2,
                        "allocatedProfiles": [{"name": "1g.10gb", "count": 1}],
                        "remainingProfiles": [{"name": "1g.10gb", "count": 6}],
                    }
                ],
            }
        ]
    },
}
VIEW = {"capacity": "10", "onceMaxRequest": "4", "remaining": "2k"}
INSTANCE_TYPE = {
    "spec": {
        "displayName": "big",
        "description": "for training",
        "inactive": True,
        "acceleratable": True,
        "acceleratorGroup": "nvidia-a10g",
        "generalGroup": "generic",
        "os": "linux",
        "arch": "amd64",
        "manufacturer": "nvidia",
        "product": "NVIDIA-A10G",
        "family": "Ampere",
        "memory": "24Gi",
        "cores": "10240",
        "feature": {
            "logicalSliced": {"maxSize": 128, "coresPercentageOvercommit": True, "memoryPercentageStep": 1},
            "physicalSliced": {"maxSize": 0},
        },
        "unitResources": {"cpu": "8", "ram": "64Gi"},
        "localStorage": "100Gi",
    },
    "status": {
        "phase": "Active",
        "phaseMessage": "no node backs this pool",
        "entrance": "gpustack-fnv64-c4680bb149644f1c",
        "accelerator": VIEW,
        "acceleratorPartitioned": {**VIEW, "allocatedProfiles": [{"name": "1g", "count": 1}]},
        "summary": {"unit": "8/64Gi/100Gi", "accelerator": "1/1 1/10 100/100 0/0", "cpu": "0/0", "partitions": ""},
        "detail": {"manufacturer": "nvidia", "memory": "24Gi", "cpu": {"cache": {"l3": "16777216"}}},
    },
}
FLAVOR = {
    "spec": {
        "generalGroup": "generic",
        "acceleratorGroup": "nvidia-a10g",
        "acceleratable": True,
        "manufacturer": "nvidia",
        "product": "NVIDIA-A10G",
        "family": "Ampere",
        "memory": "24Gi",
        "cores": "10240",
        "sliceable": True,
    }
}
SETTING = {
    "spec": {"value": "true"},
    "status": {"value": "true", "default": "false", "type": "bool", "description": "what", "message": "why"},
}

KINDS = [
    pytest.param(Devices, worker.DEVICES, DEVICES, id="Devices"),
    pytest.param(InstanceType, worker.INSTANCE_TYPES, INSTANCE_TYPE, id="InstanceType"),
    pytest.param(InstanceTypeFlavor, worker.INSTANCE_TYPE_FLAVORS, FLAVOR, id="InstanceTypeFlavor"),
    pytest.param(Setting, worker.SETTINGS, SETTING, id="Setting"),
]


@pytest.mark.parametrize(("model", "resource", "content"), KINDS)
def test_every_field_written_arrives_in_the_projection(
    model: type[CustomResource], resource: Any, content: dict[str, Any]
) -> None:
    document = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": "n"}, **content}
    written = model.model_validate(document).wire()
    read = json.loads(msgspec.json.encode(msgspec.json.decode(json.dumps(written), type=resource.model)))
    assert written == document
    assert {part: read[part] for part in content} == content


@pytest.mark.parametrize(("model", "resource", "content"), KINDS)
def test_no_field_of_the_projection_is_unknown_to_the_model(
    model: type[CustomResource], resource: Any, content: dict[str, Any]
) -> None:
    assert sorted(strangers(resource.model, model)) == []


def strangers(struct: type[msgspec.Struct], model: type[BaseModel], path: str = "") -> Iterator[str]:
    """Wire names that only the struct has, `metadata` aside."""
    fields = {field.serialization_alias or name: field for name, field in model.model_fields.items()}
    for field in msgspec.structs.fields(struct):
        name = f"{path}.{field.encode_name}"
        if field.encode_name not in fields:
            yield name
        elif field.encode_name != "metadata":
            inner = (nested(field.type, msgspec.Struct), nested(fields[field.encode_name].annotation, BaseModel))
            if inner[0] is not None:
                assert inner[1] is not None, name
                yield from strangers(inner[0], inner[1], name)


def nested(annotation: Any, base: type) -> Any:
    """The struct or model inside an optional, a tuple or an annotation."""
    if isinstance(annotation, type) and issubclass(annotation, base):
        return annotation
    if get_origin(annotation) in {Union, types.UnionType, tuple} or hasattr(annotation, "__metadata__"):
        return next((found for part in get_args(annotation) if (found := nested(part, base)) is not None), None)
    return None
