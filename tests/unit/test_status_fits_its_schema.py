"""Whatever status is written, the CRD's schema has every field of it; what it lacks, the API server would refuse."""

from __future__ import annotations

from typing import Any

import pytest

from gpustack_op.api.instance_type_status import InstanceTypeStatus
from gpustack_op.operator.instance_type_phase import Phase, PhaseReport
from gpustack_op.operator.instance_type_status import wanted_status
from gpustack_op.scheduling.detail import detail
from gpustack_op.scheduling.pool_views import pool_views
from tests.builders import cluster_queue, instance_type, walkthrough_devices, walkthrough_flavors


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({}, id="a pool of any CPU"),
        pytest.param({"general_group": "amd-epyc-7r13"}, id="a pool of one CPU"),
        pytest.param({"acceleratable": True, "accelerator_group": "nvidia-a10g"}, id="a pool of cards on any CPU"),
        pytest.param(
            {
                "acceleratable": True,
                "accelerator_group": "nvidia-tesla-t4",
                "general_group": "intel-xeon-platinum-8259cl",
            },
            id="a pool of cards on one CPU",
        ),
    ],
)
def test_every_field_is_in_the_schema(spec: dict[str, Any]) -> None:
    type_ = instance_type(**spec)
    devices = walkthrough_devices()
    views = pool_views(
        accelerator_group=spec.get("accelerator_group", ""), queue=cluster_queue(), devices=devices, overcommit=True
    )
    told = detail(type_.spec, walkthrough_flavors(), devices)
    status = wanted_status(type_, views, told, PhaseReport(Phase.ACTIVE))
    assert InstanceTypeStatus.model_validate(status).wire() == status
