"""The facts of a node's CPU, and the spelling in which they are published for the CPU key and the catalog."""

from __future__ import annotations

from typing import Annotated

import msgspec

Count = Annotated[int, msgspec.Meta(ge=0)]
Positive = Annotated[int, msgspec.Meta(ge=1)]

LONGEST_TEXT = 1024
"""Characters kept of a name or a vendor: the longest annotation that Node Feature Discovery takes."""


class Cpu(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """`cores` counts logical cores. Cache sizes are bytes, `hz` and `boost_freq` hertz; None or empty is unknown."""

    vendor: str = ""
    family: Count | None = None
    model: Count | None = None
    name: str = ""
    cores: Positive
    physical_cores: Positive | None = None
    threads_per_core: Positive | None = None
    stepping: Count | None = None
    hz: Count | None = None
    boost_freq: Count | None = None
    cache_line: Count | None = None
    cache_l1i: Count | None = msgspec.field(default=None, name="cacheL1i")
    cache_l1d: Count | None = msgspec.field(default=None, name="cacheL1d")
    cache_l2: Count | None = None
    cache_l3: Count | None = None


def attributes(cpu: Cpu) -> dict[str, str]:
    """The elements of the published feature, all text. What is not known is left out."""
    facts: dict[str, str | int | None] = {
        "vendor_id": cpu.vendor[:LONGEST_TEXT],
        "name": cpu.name[:LONGEST_TEXT],
        "family": cpu.family,
        "physical_cores": cpu.physical_cores,
        "threads_per_core": cpu.threads_per_core,
        "logical_cores": cpu.cores,
        "stepping": cpu.stepping,
        "cache_line": cpu.cache_line,
        "hz": cpu.hz,
        "boost_freq": cpu.boost_freq,
        "cache_l1i": cpu.cache_l1i,
        "cache_l1d": cpu.cache_l1d,
        "cache_l2": cpu.cache_l2,
        "cache_l3": cpu.cache_l3,
    }
    return {name: str(fact) for name, fact in facts.items() if fact not in {None, ""}}
