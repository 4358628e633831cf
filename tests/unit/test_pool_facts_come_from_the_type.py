"""What the request rules learn of a pool from its InstanceType and its flavors."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gpustack_op.api.worker import InstanceType
from gpustack_op.scheduling.pool_facts import PoolFacts
from tests import builders


def with_status(type_: InstanceType, status: dict[str, object] | None) -> InstanceType:
    return msgspec.structs.replace(type_, status=status)


T4 = builders.instance_type("t4", accelerator_group="nvidia-tesla-t4")
CPUS = builders.instance_type("cpus")
DETAIL: dict[str, Any] = {
    "memory": "16Gi",
    "slicedDetail": {"physical": {"profiles": [{"name": "1g.4gb", "memoryMib": 4096}, {"name": "untold"}]}},
}


@pytest.mark.parametrize(
    ("type_", "flavors", "facts"),
    [
        pytest.param(
            with_status(T4, {"detail": DETAIL}), builders.walkthrough_flavors(),
            PoolFacts(
                name="t4", accelerator_group="nvidia-tesla-t4", memory=16384, detailed=True,
                profiles={"1g.4gb": 4096, "untold": 0}, largest_node=4,
            ),
            id="everything known",
        ),
        pytest.param(
            T4, [], PoolFacts(name="t4", accelerator_group="nvidia-tesla-t4"), id="nothing known yet",
        ),
        pytest.param(
            with_status(T4, {"detail": {"manufacturer": "nvidia"}}), [],
            PoolFacts(name="t4", accelerator_group="nvidia-tesla-t4", detailed=True),
            id="a driver that tells no memory",
        ),
        pytest.param(
            with_status(CPUS, {"phase": "Active"}), builders.walkthrough_flavors(), PoolFacts(name="cpus"),
            id="a pool of CPUs",
        ),
        pytest.param(
            builders.instance_type("odd", accelerator_group="nvidia-tesla-t4", acceleratable=False), [],
            PoolFacts(name="odd"), id="a group without effect",
        ),
    ],
)  # fmt: skip
def test_facts(type_: InstanceType, flavors: Any, facts: PoolFacts) -> None:
    assert PoolFacts.of(type_, flavors) == facts


def test_a_flavor_without_nodes_has_no_largest_node() -> None:
    gone = builders.flavor("t4-b", cards=True)
    empty = msgspec.structs.replace(gone, metadata=msgspec.structs.replace(gone.metadata, labels={
        key: "0" if key.endswith(".capacity") else value for key, value in gone.labels.items()
    }))  # fmt: skip

    assert PoolFacts.of(T4, [empty]).largest_node == 0


def test_the_manufacturer_is_read_from_the_group() -> None:
    assert [PoolFacts.of(T4, []).manufacturer, PoolFacts.of(CPUS, []).manufacturer] == ["nvidia", ""]
