"""The file in which the kubelet remembers who holds which devices.

The content is the real kubelet's. The checksum is not: the real one prints Go structures to compute it.
"""

from __future__ import annotations

import base64
import json
import os
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from devcluster.kubelet.folders import Folders

NO_NODE = -1
"""The NUMA node of devices that have none."""


class CheckpointError(Exception):
    """The file cannot be read, or is not what was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """`devices` are ids by NUMA node, `answer` is the plugin's answer as bytes."""

    pod: str
    container: str
    resource: str
    devices: Mapping[int, tuple[str, ...]]
    answer: bytes


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """`registered` are the healthy ids of each resource."""

    entries: tuple[Entry, ...]
    registered: Mapping[str, tuple[str, ...]]


def encode(checkpoint: Checkpoint) -> bytes:
    data = {
        "PodDeviceEntries": [_encoded(entry) for entry in checkpoint.entries] or None,
        "RegisteredDevices": {resource: list(ids) for resource, ids in checkpoint.registered.items()},
    }
    return json.dumps({"Data": data, "Checksum": _checksum(data)}, separators=(",", ":")).encode()


def decode(content: bytes) -> Checkpoint:
    try:
        whole = json.loads(content)
        data = whole["Data"]
        entries = tuple(_decoded(entry) for entry in data["PodDeviceEntries"] or ())
        registered = {resource: tuple(ids or ()) for resource, ids in (data["RegisteredDevices"] or {}).items()}
        expected = whole["Checksum"]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"no checkpoint: {error!r}") from error
    if _checksum(data) != expected:
        raise CheckpointError("checkpoint is corrupted")
    return Checkpoint(entries, registered)


def write(folders: Folders, checkpoint: Checkpoint) -> None:
    """Whole or not at all; an OSError says why not."""
    folders.unfinished_checkpoint.write_bytes(encode(checkpoint))
    os.replace(folders.unfinished_checkpoint, folders.checkpoint)


def read(folders: Folders) -> Checkpoint | None:
    """None when there is no file."""
    try:
        content = folders.checkpoint.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CheckpointError(str(error)) from error
    return decode(content)


def by_node(ids: Iterable[str], nodes: Mapping[str, tuple[int, ...]]) -> dict[int, tuple[str, ...]]:
    """The ids by NUMA node. One that belongs to several stands under each of them."""
    found: dict[int, tuple[str, ...]] = {}
    for device in ids:
        for node in nodes.get(device) or (NO_NODE,):
            found[node] = (*found.get(node, ()), device)
    return found


def _encoded(entry: Entry) -> dict[str, Any]:
    return {
        "PodUID": entry.pod,
        "ContainerName": entry.container,
        "ResourceName": entry.resource,
        "DeviceIDs": {str(node): list(ids) for node, ids in entry.devices.items()},
        "AllocResp": base64.b64encode(entry.answer).decode(),
    }


def _decoded(entry: dict[str, Any]) -> Entry:
    return Entry(
        pod=entry["PodUID"],
        container=entry["ContainerName"],
        resource=entry["ResourceName"],
        devices={int(node): tuple(ids) for node, ids in entry["DeviceIDs"].items()},
        answer=base64.b64decode(entry["AllocResp"] or ""),
    )


def _checksum(data: Any) -> int:
    return zlib.crc32(json.dumps(data, sort_keys=True).encode())
