"""How fast events are decoded and cached, and how much an object takes: `python hack/bench/cache.py [objects]`.

No network: lines as the API server writes them go through codec and informer, as the reflector hands them on.
"""

from __future__ import annotations

import asyncio
import resource
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from gpustack_op.api.core import NODES
from gpustack_op.api.meta import Resource
from gpustack_op.api.nfd import NODE_FEATURES
from gpustack_op.runtime.cache import EVERYTHING, Informer
from gpustack_op.runtime.decode import Event
from gpustack_op.runtime.lean import lean_codec
from gpustack_op.runtime.listing import Listing


def node(number: int, version: int) -> dict[str, Any]:
    """About 9 KB, most of it labels, annotations and images, as NFD and the kubelet leave them."""
    labels = {f"feature.node.kubernetes.io/cpu-cpuid.FEATURE{n}": "true" for n in range(80)}
    labels |= {"kubernetes.io/hostname": f"node-{number}", "kubernetes.io/os": "linux", "gpustack.ai/managed": "true"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": f"node-{number}",
            "uid": f"00000000-0000-0000-0000-{number:012}",
            "resourceVersion": str(version),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": labels,
            "annotations": {"nfd.node.kubernetes.io/feature-labels": ",".join(labels)},
        },
        "spec": {"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]},
        "status": {
            "capacity": {"cpu": "48", "memory": "196608Mi", "nvidia.com/gpu": "4"},
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            "images": [{"names": [f"registry.example.com/image-{n}:latest"], "sizeBytes": n} for n in range(40)],
        },
    }


def node_feature(number: int, version: int) -> dict[str, Any]:
    obj = node(number, version)
    metadata = {**obj["metadata"], "namespace": "nfd", "labels": {"nfd.node.kubernetes.io/node-name": "n"}}
    features = {"attributes": {"cpu.model": {"elements": {"vendor_id": "AMD", "family": "25", "id": "1"}}}}
    return {**obj, "metadata": metadata, "spec": {"labels": {"pci-10de.present": "true"}, "features": features}}


def lines(make: Any, count: int, type_: str, first: int) -> list[bytes]:
    return [msgspec.json.encode({"type": type_, "object": make(n, first + n)}) for n in range(count)]


async def measure(kind: Resource[Any], make: Any, count: int) -> None:
    codec, informer = lean_codec(kind), Informer(kind, EVERYTHING)
    woken = 0

    def handler(_change: Any) -> None:
        nonlocal woken
        woken += 1

    informer.add_handler(handler)
    added, changed = lines(make, count, "ADDED", 1), lines(make, count, "MODIFIED", count + 1)
    listing: Listing[Any] = Listing()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.perf_counter()
    for line in added:
        event = codec.event(line)
        assert isinstance(event, Event)
        listing.add_event(event)
    listing.version = str(count)
    decoded = time.perf_counter()
    await informer.replace(listing)
    synced = time.perf_counter()
    for line in changed:
        event = codec.event(line)
        assert isinstance(event, Event)
        informer.put(event.object)
    done = time.perf_counter()
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    print(
        f"{kind.kind:12} {len(added[0]) / 1024:5.1f} KiB a line   decode {(decoded - started) / count * 1e6:5.1f} us   "
        f"{count / (synced - started):8.0f} objects/s to synced   {count / (done - synced):8.0f} events/s   "
        f"{grown / count / 1024:5.2f} KiB an object   handled {woken}"
    )


if __name__ == "__main__":
    total = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    asyncio.run(measure(NODES, node, total))
    asyncio.run(measure(NODE_FEATURES, node_feature, total))
