"""The table of manufacturers: resource names, families, overrides."""

from __future__ import annotations

import pytest

from gpustack_op.scheduling.manufacturers import MANUFACTURERS, Family


@pytest.mark.parametrize(
    ("resource", "family", "manufacturer"),
    [
        ("nvidia.com/gpu", Family.EXCLUSIVE, "nvidia"),
        ("nvidia.com/gpu.shared", Family.SHARED, "nvidia"),
        ("nvidia.com/gpu.sliced", Family.SLICED, "nvidia"),
        ("nvidia.com/gpu.sliced.units", Family.SLICED, "nvidia"),
        ("nvidia.com/gpu.sliced.cores-percentage", Family.SLICED, "nvidia"),
        ("nvidia.com/gpu.sliced.memory-percentage", Family.SLICED, "nvidia"),
        ("nvidia.com/gpu.sliced.memory-mib", Family.SLICED, "nvidia"),
        ("nvidia.com/gpu.partitioned", Family.PARTITIONED, "nvidia"),
        ("nvidia.com/gpu.partitioned.units", Family.PARTITIONED, "nvidia"),
        ("nvidia.com/gpu.partitioned.mig-3g.40gb", Family.PARTITIONED, "nvidia"),
        ("hygon.com/dcu.partitioned.mig-2g.15gb", Family.PARTITIONED, "hygon"),
        ("alibabacloud.com/ppu.partitioned.mig-4g.48gb", Family.PARTITIONED, "thead"),
        ("device.gpustack.ai/nvidia.visibility", Family.VISIBILITY, "nvidia"),
        ("huawei.com/npu", Family.EXCLUSIVE, "ascend"),
    ],
)
def test_a_resource_belongs_to_a_family(resource: str, family: Family, manufacturer: str) -> None:
    assert MANUFACTURERS.family(resource) is family
    owner = MANUFACTURERS.of_resource(resource)
    assert owner is not None
    assert owner.id == manufacturer


@pytest.mark.parametrize(
    "resource",
    [
        "cpu",
        "",
        "nvidia.com/gpu.",
        "nvidia.com/gpu.other",
        "nvidia.com/gpu.partitioned.mig-",
        "nvidia.com/gpu.partitioned.3g.40gb",
        "amd.com/gpu.partitioned",
        "amd.com/gpu.partitioned.units",
        "amd.com/gpu.partitioned.mig-1g.10gb",
        "device.gpustack.ai/acme.visibility",
        "device.gpustack.ai/rdma",
        "device.gpustack.ai/nvidia.shared",
        "credits.gpustack.ai/nvidia",
        "nvidia.com/gpux",
    ],
)
def test_any_other_name_is_no_accelerator(resource: str) -> None:
    assert MANUFACTURERS.family(resource) is Family.NONE
    assert MANUFACTURERS.of_resource(resource) is None


@pytest.mark.parametrize(
    ("resource", "known"),
    [
        ("credits.gpustack.ai/amd", True),
        ("credits.gpustack.ai/acme", False),
        ("credits.gpustack.ai/", False),
        ("nvidia.com/gpu", False),
        ("cpu", False),
        ("credits", False),
    ],
)
def test_credits_are_those_of_a_known_manufacturer(resource: str, known: bool) -> None:
    assert (MANUFACTURERS.of_credits(resource) is not None) is known


def test_known_manufacturers_are_sorted() -> None:
    assert MANUFACTURERS.ids() == (
        "amd", "ascend", "cambricon", "hygon", "iluvatar", "metax", "mthreads", "nvidia", "thead",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("manufacturer", "pci_vendor", "runtime", "kind", "slices", "overcommit"),
    [
        ("amd", "1002", "amd", "", 0, False),
        ("ascend", "19e5", "ascend", "", 63, True),
        ("cambricon", "cabc", "cambricon", "", 16, False),
        ("hygon", "1d94", "hygon", "mig", 4, False),
        ("iluvatar", "1e3e", "iluvatar", "", 0, False),
        ("metax", "9999", "metax", "", 16, False),
        ("mthreads", "1ed5", "mthreads", "", 16, False),
        ("nvidia", "10de", "nvidia", "mig", 128, True),
        ("thead", "1ded", "", "mig", 0, False),
    ],
)
def test_a_row_tells_what_its_cards_are(
    manufacturer: str, pci_vendor: str, runtime: str, kind: str, slices: int, overcommit: bool
) -> None:
    row = MANUFACTURERS.get(manufacturer)
    assert row is not None
    assert (row.pci_vendor, row.runtime_name, row.partition_kind) == (pci_vendor, runtime, kind)
    assert (row.logical_slices, row.cores_overcommit) == (slices, overcommit)


def test_without_a_partition_kind_there_are_no_partition_names() -> None:
    amd = MANUFACTURERS.get("amd")
    assert amd is not None
    assert (amd.partitioned, amd.partitioned_units, amd.partitioned_profile("1g.10gb")) == ("", "", "")


def test_an_administrator_renames_resources() -> None:
    overridden = MANUFACTURERS.overridden(
        {
            "GPUSTACK_NVIDIA_PCI_VENDOR_ID": "0302_10de",
            "GPUSTACK_NVIDIA_ACCELERATABLE_RESOURCE_NAME": "example.com/gpu",
            "GPUSTACK_NVIDIA_ACCELERATABLE_RUNTIME_NAME": "crun",
            "GPUSTACK_AMD_PARTITION_KIND": "part",
            "GPUSTACK_AMD_ACCELERATABLE_RESOURCE_NAME": "",
        }
    )
    nvidia, amd = overridden.get("nvidia"), overridden.get("amd")
    assert nvidia is not None
    assert amd is not None
    assert (nvidia.pci_vendor, nvidia.shared, nvidia.runtime_name) == ("10de", "example.com/gpu.shared", "crun")
    assert amd.partitioned_profile("x") == "amd.com/gpu.partitioned.part-x"
    assert overridden.family("nvidia.com/gpu") is Family.NONE


def test_pci_vendors_are_distinct_and_sorted_and_unknown_ids_add_nothing() -> None:
    assert MANUFACTURERS.pci_vendors(["nvidia", "amd", "acme", "nvidia"]) == ("1002", "10de")
