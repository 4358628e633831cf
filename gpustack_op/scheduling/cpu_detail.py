"""The `cpuDetail` note: what an agent reported of a CPU, as JSON on a ResourceFlavor.

Promises  Every leaf is a text and none is empty; the same facts always give the same bytes; a note that is missing or
          malformed reads as nothing known.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from gpustack_op.scheduling.cpu_key import known
from gpustack_op.scheduling.labels import manufacturer_of

_FIELDS = {
    "physicalCores": "physical_cores",
    "threadsPerPhysicalCore": "threads_per_core",
    "logicalCores": "logical_cores",
    "stepping": "stepping",
    "clockSpeed": "hz",
    "maxClockSpeed": "boost_freq",
    "cacheLine": "cache_line",
}
_CACHES = {"l1i": "cache_l1i", "l1d": "cache_l1d", "l2": "cache_l2", "l3": "cache_l3"}

Detail = dict[str, str | dict[str, str]]


def cpu_detail(reported: Mapping[str, str]) -> Detail:
    """The detail of a CPU from its agent's attributes: clocks in Hz, caches in bytes."""
    detail: Detail = {}
    detail |= _present(reported, _FIELDS)
    caches = _present(reported, _CACHES)
    return detail | ({"cache": caches} if caches else {})


def with_identity(detail: Detail, *, general_key: str, reported: Mapping[str, str]) -> Detail:
    """The same beside an accelerator, where manufacturer, product and family of the CPU are told nowhere else."""
    identity: Detail = {"manufacturer": manufacturer_of(general_key)}
    identity |= _present(reported, {"product": "name", "family": "family"})
    return identity | detail


def written(detail: Detail) -> str:
    return json.dumps(detail, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def read(note: str) -> Detail:
    try:
        decoded = json.loads(note)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(decoded, dict):
        return {}
    detail: Detail = {}
    cache = decoded.pop("cache", None)
    detail |= _texts(decoded)
    caches = _texts(cache) if isinstance(cache, dict) else {}
    return detail | ({"cache": caches} if caches else {})


def _present(reported: Mapping[str, str], fields: Mapping[str, str]) -> dict[str, str]:
    found = {field: known(reported, attribute) for field, attribute in fields.items()}
    return {field: value for field, value in found.items() if value}


def _texts(decoded: Mapping[object, object]) -> dict[str, str]:
    return {
        field: value for field, value in decoded.items() if isinstance(field, str) and isinstance(value, str) and value
    }
