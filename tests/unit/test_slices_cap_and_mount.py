"""What NVIDIA's injector puts into a container."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpustack_op.agent.injection.base import Grant, GrantedCard, Injection, InjectionError, Mount
from gpustack_op.agent.injection.cdi import Specs, takes_cdi
from gpustack_op.agent.injection.nvidia import NvidiaInjector
from gpustack_op.scheduling.manufacturers import Family
from gpustack_op.scheduling.slices import SliceRequest
from tests.builders import cards_of


def granted(*cards: str, memory: int = 24563, runtime: str = "13.0") -> tuple[GrantedCard, ...]:
    group = msgspec.structs.replace(cards_of("a", 4, memory=memory), runtime_version=runtime)
    by_id = {card.id: card for card in group.accelerators or ()}
    return tuple(GrantedCard(group, by_id[card]) for card in cards)


def grant(family: Family, *cards: GrantedCard, **facts: Any) -> Grant:
    return Grant(pod_uid="uid", container="main", family=family, cards=cards, **facts)


def injector(state: Path, *, cdi: bool = False) -> NvidiaInjector:
    return NvidiaInjector(state, cdi=lambda: cdi, specs=Specs([state / "cdi"]), locks=state / "locks")


def spec(state: Path, *cards: str) -> None:
    (state / "cdi").mkdir()
    text = "".join(f"- name: {card}\n" for card in cards)
    (state / "cdi" / "nvidia.yaml").write_text(f"cdiVersion: 0.6.0\nkind: nvidia.com/gpu\ndevices:\n{text}")


async def test_cards_are_named_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    given = await injector(tmp_path).inject(grant(Family.EXCLUSIVE, *granted("a/2", "a/0")))
    assert given == Injection(variables={"NVIDIA_VISIBLE_DEVICES": "a/0,a/2"})


async def test_a_runtime_that_takes_cdi_gets_names_alone(tmp_path: Path) -> None:
    spec(tmp_path, "a/0", "a/1")
    given = await injector(tmp_path, cdi=True).inject(grant(Family.SHARED, *granted("a/0")))
    assert given == Injection(cdi_devices=("nvidia.com/gpu=a/0",))


@pytest.mark.parametrize("cards", [(), ("a/1",)], ids=["no spec", "a spec without the card"])
async def test_without_a_spec_that_names_every_card_the_variable_does(tmp_path: Path, cards: tuple[str, ...]) -> None:
    spec(tmp_path, *cards)
    given = await injector(tmp_path, cdi=True).inject(grant(Family.EXCLUSIVE, *granted("a/0", "a/1")))
    assert given == Injection(variables={"NVIDIA_VISIBLE_DEVICES": "a/0,a/1"})


async def test_a_spec_that_cannot_be_read_names_nothing(tmp_path: Path) -> None:
    spec(tmp_path)
    (tmp_path / "cdi" / "broken.json").write_text("{")
    assert Specs([tmp_path / "cdi"]).names() == frozenset()


@pytest.mark.parametrize(
    ("runtime", "taken"),
    [
        ("containerd://2.1.4", True),
        ("containerd://1.7.27", False),
        ("cri-o://1.33.0", True),
        ("cri-o://1.22.5", False),
        ("docker://27.0.1", False),
        ("", False),
    ],
)
def test_runtimes_that_take_cdi(runtime: str, taken: bool) -> None:
    assert takes_cdi(runtime) is taken


async def test_a_slice_is_capped_and_gets_its_library(tmp_path: Path) -> None:
    given = await injector(tmp_path).inject(
        grant(Family.SLICED, *granted("a/0"), slice=SliceRequest(percent=20, cores_percent=30))
    )
    assert given.variables == {
        "NVIDIA_VISIBLE_DEVICES": "a/0",
        "CUDA_DEVICE_SM_LIMIT": "30",
        "CUDA_DEVICE_MEMORY_LIMIT_0": "4912m",
        "CUDA_DEVICE_MEMORY_SHARED_CACHE": "/tmp/vgpu/cudevshr.cache",
        "LIBCUDA_LOG_LEVEL": "0",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }
    assert given.mounts == (
        Mount("/tmp/vgpulock", f"{tmp_path}/locks"),
        Mount("/etc/ld.so.preload", f"{tmp_path}/lib/nvidia/ld.so.preload", read_only=True),
        Mount("/usr/local/vgpu/libvgpu.so", f"{tmp_path}/lib/nvidia/cuda-13/libvgpu.so", read_only=True),
        Mount("/tmp/vgpu", f"{tmp_path}/pods/uid/c-main/tmp/vgpu"),
    )
    assert (tmp_path / "pods/uid/c-main/tmp/vgpu").stat().st_mode & 0o777 == 0o777


@pytest.mark.parametrize(
    ("request_", "memory", "cap"),
    [
        pytest.param(SliceRequest(percent=20), 24564, "4912m", id="a card that is told whole"),
        pytest.param(SliceRequest(percent=50), 24564, "12282m", id="half"),
        pytest.param(SliceRequest(percent=20, mebibytes=8000), 24563, "4912m", id="percent before MiB"),
        pytest.param(SliceRequest(mebibytes=81920), 81559, "81559m", id="never more than the card"),
    ],
)
async def test_caps_follow_the_measured_card(tmp_path: Path, request_: SliceRequest, memory: int, cap: str) -> None:
    given = await injector(tmp_path).inject(grant(Family.SLICED, *granted("a/0", memory=memory), slice=request_))
    assert given.variables["CUDA_DEVICE_MEMORY_LIMIT_0"] == cap
    assert given.variables["CUDA_DEVICE_SM_LIMIT"] == "100"


async def test_a_slice_without_memory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InjectionError, match="asks for no memory"):
        await injector(tmp_path).inject(grant(Family.SLICED, *granted("a/0"), slice=SliceRequest()))


async def test_one_library_serves_one_cuda(tmp_path: Path) -> None:
    cards = (*granted("a/0", runtime="12.4"), *granted("a/1", runtime="13.0"))
    with pytest.raises(InjectionError, match="CUDA 12 and 13"):
        await injector(tmp_path).inject(grant(Family.SLICED, *cards, slice=SliceRequest(percent=10)))


async def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "pods").write_text("in the way")
    with pytest.raises(InjectionError, match="pods/uid/c-main/tmp/vgpu cannot be made"):
        await injector(tmp_path).inject(grant(Family.SLICED, *granted("a/0"), slice=SliceRequest(percent=10)))


async def test_a_partition_goes_by_its_own_id(tmp_path: Path) -> None:
    spec(tmp_path, "a/0")
    given = await injector(tmp_path, cdi=True).inject(
        grant(Family.PARTITIONED, *granted("a/0"), partitions=("MIG-1", "MIG-2"))
    )
    assert given == Injection(variables={"NVIDIA_VISIBLE_DEVICES": "MIG-1,MIG-2"})
