"""Writes the agent's share of its node's Devices: the groups of its manufacturers, in spec and in the ledger.

Guarantees   Groups of other manufacturers, and fields that none of us states, are neither compared nor changed. Within
             our own groups nothing stays that we did not state, and their order is the canonical one. A settled object
             is not written.
Assumptions  One agent writes the groups of a manufacturer. What a group may hold is what its struct declares, so that
             the groups of others survive being written back.
Recovery     Where an apply alone does not suffice (somebody added a card to a group of ours), the whole list is put
             right by a patch that is bound to the version just seen; whoever wrote in between causes a retry, no loss.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeVar

import msgspec

from gpustack_op.agent.ledger import ledger_json
from gpustack_op.api.worker import DEVICES, Devices, DevicesSpec, DevicesStatus
from gpustack_op.runtime.apply import Connection, Owned, differs
from gpustack_op.scheduling import labels
from gpustack_op.scheduling.device_groups import groups_json

Part = Literal["spec", "status"]
Body = Mapping[str, Any]

OWNED: Mapping[Part, Owned] = {
    "spec": Owned(exact=(f"metadata.labels[{labels.ACCELERATOR_PREFIX}*]", "spec.groups.**")),
    "status": Owned(exact=("status.groups.**",)),
}


class DevicesWriter:
    """`field_manager` names the agent in `managedFields`. `ours` are the manufacturers whose groups we state."""

    def __init__(self, client: Connection, field_manager: str) -> None:
        self._client = client
        self._field_manager = field_manager

    async def converge_spec(self, desired: Body, present: Devices | None, *, ours: Collection[str]) -> Devices | None:
        """Create or update; the new object, or None when nothing had to be written."""
        return await self._converge("spec", desired, present, ours)

    async def converge_ledger(
        self, groups: Sequence[Body], present: Devices, *, ours: Collection[str]
    ) -> Devices | None:
        desired = {"metadata": {"name": present.name}, "status": {"groups": groups}}
        return await self._converge("status", desired, present, ours)

    async def _converge(
        self, part: Part, desired: Body, present: Devices | None, ours: Collection[str]
    ) -> Devices | None:
        if present is not None and not differs(desired, _narrowed(present, ours), OWNED[part]):
            return None
        applied = await self._apply(part, desired, present)
        if not differs(desired, _narrowed(applied, ours), OWNED[part]):
            return applied
        return await self._replace(part, desired, applied, ours)

    async def _apply(self, part: Part, desired: Body, present: Devices | None) -> Devices:
        """The UID keeps a later object of that name from being taken for the one that was seen."""
        identity = {"uid": present.uid} if present else {}
        return await self._client.apply(
            DEVICES,
            {**desired, "metadata": {**desired["metadata"], **identity}},
            subresource=_subresource(part),
            field_manager=self._field_manager,
        )

    async def _replace(self, part: Part, desired: Body, applied: Devices, ours: Collection[str]) -> Devices:
        metadata: dict[str, Any] = {"uid": applied.uid, "resourceVersion": applied.metadata.resource_version}
        if part == "spec":
            metadata["labels"] = _surplus_labels(desired, applied)
        groups = [*desired[part]["groups"], *_others(part, applied, ours)]
        return await self._client.merge_patch(
            DEVICES,
            applied.name,
            {"metadata": metadata, part: {"groups": groups}},
            subresource=_subresource(part),
            field_manager=self._field_manager,
        )


class _Group(Protocol):
    @property
    def manufacturer(self) -> str: ...


G = TypeVar("G", bound=_Group)


def _narrowed(present: Devices, ours: Collection[str]) -> Devices:
    """The object as it would be without the groups of others."""
    return msgspec.structs.replace(
        present,
        spec=DevicesSpec(groups=_split(present.spec.groups, ours)[0]),
        status=DevicesStatus(groups=_split(present.status.groups, ours)[0]),
    )


def _others(part: Part, present: Devices, ours: Collection[str]) -> list[dict[str, Any]]:
    if part == "spec":
        return groups_json(_split(present.spec.groups, ours)[1])
    return ledger_json(_split(present.status.groups, ours)[1])


def _split(groups: Sequence[G] | None, ours: Collection[str]) -> tuple[tuple[G, ...], tuple[G, ...]]:
    """Our groups and those of others."""
    groups = groups or ()
    return (
        tuple(group for group in groups if group.manufacturer in ours),
        tuple(group for group in groups if group.manufacturer not in ours),
    )


def _surplus_labels(desired: Body, applied: Devices) -> dict[str, None]:
    wanted = desired["metadata"]["labels"]
    return {key: None for key in applied.labels if key.startswith(labels.ACCELERATOR_PREFIX) and key not in wanted}


def _subresource(part: Part) -> str:
    return "status" if part == "status" else ""
