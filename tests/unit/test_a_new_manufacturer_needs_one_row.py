"""A manufacturer nobody has heard of, added as one row: its requests are folded and judged like all others'."""

from __future__ import annotations

from gpustack_op.scheduling.environment_rules import closed, environment_breaches
from gpustack_op.scheduling.manufacturers import Doors, Manufacturer, Manufacturers
from gpustack_op.scheduling.pool_facts import PoolFacts
from gpustack_op.scheduling.request_folds import folded
from gpustack_op.scheduling.request_rules import request_breaches
from tests.requests import asking, container, pod, told

DOORS = Doors(
    visible_devices="ACME_CARDS", no_devices="nothing", variables=("ACME_LIMIT_*",), paths=("/opt/acme/limits",)
)
TABLE = Manufacturers(
    [Manufacturer("acme", "abcd", "acme.example/card", "acme", "part", logical_slices=8, doors=DOORS)]
)
POOL = PoolFacts(
    name="acmes", accelerator_group="acme-one", memory=1000, detailed=True, profiles={"half": 500}, largest_node=2
)


def test_its_requests_are_folded() -> None:
    slice_ = container("a", requests={"acme.example/card.sliced": 1, "acme.example/card.sliced.memory-mib": 100})
    part = container("b", requests={"acme.example/card.partitioned": 1, "acme.example/card.partitioned.part-half": 1})

    limits = [one["resources"]["limits"] for one in folded(pod(slice_, part), POOL, TABLE)["containers"]]

    assert limits[0]["acme.example/card.sliced.units"] == "160k"
    assert limits[1]["acme.example/card.partitioned.units"] == "800k"


def test_its_requests_are_judged() -> None:
    three = pod(container(requests={"acme.example/card": 3}))

    assert told(request_breaches(three, POOL, manufacturers=TABLE)) == [
        "spec.containers[0].resources.limits[acme.example/card]: invalid: "
        "no node of instance type acmes has more than 2 accelerators"
    ]
    assert told(request_breaches(pod(asking(cpu=1)), POOL, manufacturers=TABLE)) == [
        "spec: forbidden: instance type acmes is a pool of acme accelerators: at least one container must request one, "
        "e.g. acme.example/card: 1"
    ]


def test_its_doors_are_closed() -> None:
    open_doors = container(
        env=[{"name": "ACME_LIMIT_0", "value": "1"}], volumeMounts=[{"name": "v", "mountPath": "/opt/acme"}]
    )

    assert closed(pod(container()), TABLE)["containers"][0]["env"] == [{"name": "ACME_CARDS", "value": "nothing"}]
    assert [each.field for each in environment_breaches({}, pod(open_doors), manufacturers=TABLE)] == [
        "spec.containers[0].env[ACME_LIMIT_0]",
        "spec.containers[0].volumeMounts[0].mountPath",
    ]
