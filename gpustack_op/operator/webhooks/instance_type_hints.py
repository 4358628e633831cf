"""What a person should know about an InstanceType that is accepted all the same.

Promises  Names are compared exactly: `nvidia-a10` is not `nvidia-a10g`. Hardware that nobody has yet is no error, since
          a node may bring it tomorrow; the hint lists what there is today.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches

from gpustack_op.api.kueue import ResourceFlavor
from gpustack_op.api.worker import InstanceTypeSpec
from gpustack_op.scheduling.catalog import candidates
from gpustack_op.scheduling.flavor_facts import live_facts
from gpustack_op.scheduling.manufacturers import GENERIC

System = tuple[str, str]
"""Operating system and architecture."""

_LISTED = 6
"""Candidates in one hint; a warning has room for 256 characters."""


def preset_hints(filled: Mapping[str, str]) -> tuple[str, ...]:
    """Tells the sizes that were filled in, since they cannot be changed later."""
    if not filled:
        return ()
    told = ", ".join(f"spec.{path}: {value}" for path, value in filled.items())
    return (f"left out and taken from the presets, immutable from now on: {told}",)


def creation_hints(
    name: str, spec: InstanceTypeSpec, flavors: Iterable[ResourceFlavor], systems: Iterable[System]
) -> tuple[str, ...]:
    """Everything about a new type that may not be what was meant. `systems` are those of the nodes."""
    found = list(flavors)
    hints = [*_groups(spec, found), *_system(spec, sorted(set(systems)))]
    return tuple(f'InstanceType "{name}": {hint}' for hint in hints)


def _groups(spec: InstanceTypeSpec, flavors: list[ResourceFlavor]) -> Iterator[str]:
    accelerator, general = spec.accelerator_group or "", spec.general_group or GENERIC
    if accelerator and not spec.acceleratable:
        yield f'spec.acceleratorGroup "{accelerator}" has no effect, since acceleratable is not true'
    elif accelerator:
        yield from _unknown("acceleratorGroup", accelerator, candidates(flavors))
    if general != GENERIC:
        yield from _unknown("generalGroup", general, sorted({facts.general_group for facts in live_facts(flavors)}))


def _unknown(field: str, group: str, known: list[str]) -> Iterator[str]:
    if group not in known:
        yield f'spec.{field} "{group}" is in no catalog row; {_listed(group, known)}'


def _listed(group: str, known: list[str]) -> str:
    """The candidates, those first that are most like what was asked for."""
    if not known:
        return "there is none yet"
    nearest = get_close_matches(group.lower(), known, n=_LISTED, cutoff=0.0)
    more = f" and {len(known) - _LISTED} more" if len(known) > _LISTED else ""
    return f"one of: {', '.join(nearest)}{more}"


def _system(spec: InstanceTypeSpec, systems: list[System]) -> Iterator[str]:
    wanted = (spec.os or "", spec.arch or "")
    if all(wanted) and systems and wanted not in systems:
        yield f"no node has {'/'.join(wanted)}; there are: {', '.join('/'.join(system) for system in systems)}"
