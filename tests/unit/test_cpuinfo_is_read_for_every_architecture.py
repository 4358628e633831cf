"""The kernel's texts for AMD, Intel and Arm become the facts that the CPU key is made of."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpustack_op.agent import cpuinfo
from gpustack_op.agent.cpu import Cpu, attributes
from gpustack_op.agent.inventory import parse as parse_inventory

AMD = """\
processor\t: 0
vendor_id\t: AuthenticAMD
cpu family\t: 23
model\t\t: 49
model name\t: AMD EPYC 7R32
stepping\t: 0
cpu MHz\t\t: 2799.998
physical id\t: 0
siblings\t: 4
core id\t\t: 0
cpu cores\t: 2
clflush size\t: 64
flags\t\t: fpu vme

processor\t: 1
vendor_id\t: AuthenticAMD
core id\t\t: 1
physical id\t: 0

processor\t: 2
core id\t\t: 0
physical id\t: 0

processor\t: 3
core id\t\t: 1
physical id\t: 0
"""

INTEL = """\
processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 85
model name\t: Intel(R) Xeon(R) Platinum 8259CL CPU @ 2.50GHz
stepping\t: 7
siblings\t: 2
core id\t\t: 0
cpu cores\t: 1
physical id\t: 0
clflush size\t: 64
"""

ARM = """\
processor\t: 0
BogoMIPS\t: 243.75
Features\t: fp asimd
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x3
CPU part\t: 0xd0c
CPU revision\t: 1

processor\t: 1
CPU implementer\t: 0x41
CPU architecture: 8
CPU part\t: 0xd0c
CPU revision\t: 1

Hardware\t: Some board
Revision\t: a03111
Serial\t\t: 10000000
"""

CACHES = {
    "cache/index0/level": "1",
    "cache/index0/type": "Data",
    "cache/index0/size": "32K",
    "cache/index0/coherency_line_size": "64",
    "cache/index1/level": "1",
    "cache/index1/type": "Instruction",
    "cache/index1/size": "64K",
    "cache/index2/level": "2",
    "cache/index2/type": "Unified",
    "cache/index2/size": "512K",
    "cache/index3/level": "3",
    "cache/index3/type": "Unified",
    "cache/index3/size": "16M",
}

CLOCKS = {"cpufreq/base_frequency": "2800000", "cpufreq/cpuinfo_max_freq": "3300000"}


@pytest.mark.parametrize(
    ("text", "sysfs", "facts"),
    [
        pytest.param(
            AMD,
            CACHES | CLOCKS,
            Cpu(
                vendor="AMD",
                family=23,
                model=49,
                name="AMD EPYC 7R32",
                cores=4,
                physical_cores=2,
                threads_per_core=2,
                stepping=0,
                hz=2800000000,
                boost_freq=3300000000,
                cache_line=64,
                cache_l1i=65536,
                cache_l1d=32768,
                cache_l2=524288,
                cache_l3=16777216,
            ),
            id="AMD, with caches and clocks told by the kernel",
        ),
        pytest.param(
            INTEL,
            {},
            Cpu(
                vendor="Intel",
                family=6,
                model=85,
                name="Intel(R) Xeon(R) Platinum 8259CL CPU @ 2.50GHz",
                cores=1,
                physical_cores=1,
                threads_per_core=2,
                stepping=7,
                hz=2500000000,
                cache_line=64,
            ),
            id="Intel, whose name tells the clock",
        ),
        pytest.param(
            ARM,
            CACHES,
            Cpu(
                vendor="ARM",
                family=8,
                model=0xD0C,
                name="Neoverse-N1",
                cores=2,
                stepping=1,
                cache_line=64,
                cache_l1i=65536,
                cache_l1d=32768,
                cache_l2=524288,
                cache_l3=16777216,
            ),
            id="Arm, named by implementer and part",
        ),
        pytest.param(
            "processor\t: 0\nCPU implementer\t: 0x99\nCPU architecture: 8\nCPU part\t: 0x001\n",
            {},
            Cpu(family=8, model=1, cores=1),
            id="an Arm part that nobody knows",
        ),
        pytest.param(
            "processor : 0\nvendor_id : GenuineIntel\ncpu family : unknown\nmodel : -1\nmodel name :\n",
            {"cpufreq/cpuinfo_max_freq": "<unsupported>", "cache/index0/level": "1"},
            Cpu(vendor="Intel", cores=1),
            id="values that make no sense are unknown",
        ),
        pytest.param("", {}, Cpu(cores=1), id="an empty text is one unknown core"),
    ],
)
def test_the_facts_of_a_cpu(text: str, sysfs: dict[str, str], facts: Cpu) -> None:
    assert cpuinfo.parse(text, sysfs=sysfs) == facts


def test_the_current_clock_does_not_change_the_facts() -> None:
    faster = AMD.replace("2799.998", "3300.000")
    assert cpuinfo.parse(faster, sysfs={}) == cpuinfo.parse(AMD, sysfs={})


def test_facts_are_read_below_a_root(tmp_path: Path) -> None:
    cache = tmp_path / "sys/devices/system/cpu/cpu0/cache/index2"
    cache.mkdir(parents=True)
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text(INTEL)
    for name, text in (("level", "2\n"), ("type", "Unified\n"), ("size", "1024K\n")):
        (cache / name).write_text(text)
    facts = cpuinfo.read(tmp_path)
    assert (facts.vendor, facts.cache_l2, facts.cache_l3) == ("Intel", 1048576, None)


def test_known_facts_are_published_as_text_and_unknown_ones_are_left_out() -> None:
    assert attributes(cpuinfo.parse(INTEL, sysfs={})) == {
        "vendor_id": "Intel",
        "name": "Intel(R) Xeon(R) Platinum 8259CL CPU @ 2.50GHz",
        "family": "6",
        "physical_cores": "1",
        "threads_per_core": "2",
        "logical_cores": "1",
        "stepping": "7",
        "cache_line": "64",
        "hz": "2500000000",
    }


def test_the_facts_of_an_inventory_are_published_alike() -> None:
    machine = parse_inventory(
        "{node: n, memory: 1Gi, cpu: {vendor: AMD, family: 25, model: 1, name: AMD EPYC 7R13 Processor, cores: 16,"
        " physicalCores: 8, threadsPerCore: 2, stepping: 1, hz: 1, boostFreq: 2, cacheLine: 64, cacheL1i: 3,"
        " cacheL1d: 4, cacheL2: 5, cacheL3: 6}}",
        file="f.yaml",
    )
    assert attributes(machine.cpu) == {
        "vendor_id": "AMD",
        "name": "AMD EPYC 7R13 Processor",
        "family": "25",
        "physical_cores": "8",
        "threads_per_core": "2",
        "logical_cores": "16",
        "stepping": "1",
        "cache_line": "64",
        "hz": "1",
        "boost_freq": "2",
        "cache_l1i": "3",
        "cache_l1d": "4",
        "cache_l2": "5",
        "cache_l3": "6",
    }
