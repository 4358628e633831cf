"""Variables, mounts, annotations and privileges that would open cards a container was not given."""

from __future__ import annotations

from typing import Any

import pytest

from gpustack_op.scheduling.environment_rules import closed, environment_breaches
from tests.requests import asking, container, pod, told

RESERVED = "is reserved for the agent of the Pod's node, which gives a container what it requests"
NONE = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "none"}


def with_env(name: str, value: str = "x", **requests: Any) -> dict[str, Any]:
    return asking(**requests) | {"env": [{"name": name, "value": value}]}


def mounting(path: str) -> dict[str, Any]:
    return container(volumeMounts=[{"name": "v", "mountPath": "/data"}, {"name": "v", "mountPath": path}])


@pytest.mark.parametrize(
    "name",
    [
        "NVIDIA_VISIBLE_DEVICES",
        "NVIDIA_MIG_CONFIG_DEVICES",
        "NVIDIA_MIG_MONITOR_DEVICES",
        "NVIDIA_IMEX_CHANNELS",
        "CUDA_DEVICE_SM_LIMIT",
        "CUDA_DEVICE_MEMORY_LIMIT",
        "CUDA_DEVICE_MEMORY_LIMIT_0",
        "CUDA_DEVICE_MEMORY_SHARED_CACHE",
        "CUDA_DISABLE_CONTROL",
        "LD_PRELOAD",
    ],
)
def test_a_reserved_variable_is_refused(name: str) -> None:
    assert told(environment_breaches({}, pod(with_env(name, gpu=1)))) == [
        f"spec.containers[0].env[{name}]: forbidden: {RESERVED}"
    ]


@pytest.mark.parametrize("name", ["CUDA_DEVICE_ORDER", "LIBCUDA_LOG_LEVEL", "NVIDIA_DRIVER_CAPABILITIES", "PATH"])
def test_any_other_variable_is_the_persons_own(name: str) -> None:
    assert environment_breaches({}, pod(with_env(name, gpu=1))) == []


@pytest.mark.parametrize(
    ("one", "refusals"),
    [
        pytest.param(with_env("NVIDIA_VISIBLE_DEVICES", "none", cpu=1), 0, id="what we wrote ourselves"),
        pytest.param(with_env("NVIDIA_VISIBLE_DEVICES", "none", gpu=1), 1, id="none, but a card is requested"),
        pytest.param(with_env("NVIDIA_VISIBLE_DEVICES", "all", cpu=1), 1, id="all"),
        pytest.param(with_env("NVIDIA_VISIBLE_DEVICES", "", cpu=1), 1, id="nothing at all"),
        pytest.param(container(env=[{"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {}}]), 1, id="from somewhere else"),
        pytest.param(container(env=[NONE, {**NONE, "value": "all"}]), 1, id="none first, then all"),
    ],
)
def test_blindness_may_be_written_out_where_nothing_is_requested(one: dict[str, Any], refusals: int) -> None:
    assert len(environment_breaches({}, pod(one))) == refusals


@pytest.mark.parametrize(
    ("path", "hit"),
    [
        pytest.param("/etc/ld.so.preload", "/etc/ld.so.preload", id="the file itself"),
        pytest.param("/etc", "/etc/ld.so.preload", id="the folder around it"),
        pytest.param("/", "/etc/ld.so.preload", id="everything"),
        pytest.param("/usr/local/vgpu/libvgpu.so", "/usr/local/vgpu", id="a file inside"),
        pytest.param("/tmp", "/tmp/vgpu", id="above two of them: the first is told"),
        pytest.param("/tmp/vgpulock/", "/tmp/vgpulock", id="with a slash at the end"),
        pytest.param("tmp/vgpu", "/tmp/vgpu", id="a relative path starts at the root"),
        pytest.param("//data/../tmp/vgpu", "/tmp/vgpu", id="a path in disguise"),
        pytest.param(
            "/var/run/nvidia-container-devices/all", "/var/run/nvidia-container-devices", id="a wish as a mount"
        ),
    ],
)
def test_a_mount_over_what_the_agent_mounts_is_refused(path: str, hit: str) -> None:
    assert told(environment_breaches({}, pod(mounting(path)))) == [
        f"spec.containers[0].volumeMounts[1].mountPath: invalid: must not be equal to, above or below {hit}, "
        "where the agent of the Pod's node mounts"
    ]


@pytest.mark.parametrize("path", ["/tmp/vgpu2", "/etc/ld.so.preload.d", "/var/run/secrets", "/usr/local/lib", "/data"])
def test_a_mount_beside_them_is_fine(path: str) -> None:
    assert environment_breaches({}, pod(mounting(path))) == []


def test_reserved_annotations_are_refused() -> None:
    annotations = {"cdi.k8s.io/mine": "nvidia.com/gpu=all", "device.gpustack.ai/accelerator.allocated": "{}", "a": "b"}

    assert told(environment_breaches({"annotations": annotations}, pod(container()), at="spec.template.")) == [
        f"spec.template.metadata.annotations[cdi.k8s.io/mine]: forbidden: {RESERVED}",
        f"spec.template.metadata.annotations[device.gpustack.ai/accelerator.allocated]: forbidden: {RESERVED}",
    ]


@pytest.mark.parametrize(
    ("claimer", "refusals"),
    [
        pytest.param(asking(gpu=1), [], id="whole cards"),
        pytest.param(asking(cpu=1), [], id="no card"),
        pytest.param(asking(shared=1), ["spec.containers[1].securityContext.privileged"], id="a share"),
        pytest.param(asking(sliced=1), ["spec.containers[1].securityContext.privileged"], id="a slice"),
        pytest.param(asking(partitioned=1), ["spec.containers[1].securityContext.privileged"], id="a partition"),
    ],
)
def test_a_privileged_container_goes_only_with_whole_cards(claimer: dict[str, Any], refusals: list[str]) -> None:
    privileged = container("root", securityContext={"privileged": True})

    assert [each.field for each in environment_breaches({}, pod(claimer, privileged))] == refusals


@pytest.mark.parametrize(
    ("one", "env"),
    [
        pytest.param(container(), [NONE], id="no request"),
        pytest.param(asking(gpu=0), [NONE], id="a request for nothing"),
        pytest.param(container(env=[{"name": "A"}]), [{"name": "A"}, NONE], id="beside what is there"),
        pytest.param(container(env=[NONE]), [NONE], id="once"),
        pytest.param(asking(gpu=1), None, id="a card"),
        pytest.param(asking(sliced=1), None, id="a slice"),
        pytest.param(
            container(requests={"device.gpustack.ai/nvidia.visibility": 1}), None, id="the sight of the others' card"
        ),
    ],
)
def test_who_requests_nothing_is_told_to_see_nothing(one: dict[str, Any], env: Any) -> None:
    assert closed(pod(one))["containers"][0].get("env") == env


def test_init_containers_and_sidecars_are_told_too() -> None:
    spec = closed(pod(asking(gpu=1), init=(container("load"), container("side", sidecar=True))))

    assert [one["env"] for one in spec["initContainers"]] == [[NONE], [NONE]]
