"""What the kubelet says of who holds which devices.

Guarantees   Several blocks of one resource are one set of ids, empty blocks are none. A Pod that is told twice is told
             as ambiguous, since the kubelet gives no UIDs. What fails is a KubeletError; nothing waits longer than
             `PATIENCE`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from grpc import aio

from gpustack_op.agent.proto.podresources_pb2 import ListPodResourcesRequest, PodResources
from gpustack_op.agent.proto.podresources_pb2_grpc import PodResourcesListerStub

PATIENCE: Final = 2.0
"""Seconds for one look-up. Allocate waits for it, and the whole node for Allocate."""

LARGEST: Final = 16 << 20
"""Bytes of an answer: the limit of the kubelet's own client."""

AUTHORITY: Final = ("grpc.default_authority", "localhost")
"""Servers written in Go refuse the authority that a socket's path makes."""

PodName = tuple[str, str]
"""Namespace and name."""


class KubeletError(Exception):
    """The kubelet could not be asked."""


Held = Mapping[str, frozenset[str]]
"""Ids by resource."""


@dataclass(frozen=True, slots=True)
class Report:
    """`pods` gives the containers of each active Pod that the kubelet lists, and what they hold."""

    pods: Mapping[PodName, Mapping[str, Held]] = field(default_factory=dict)
    ambiguous: frozenset[PodName] = frozenset()

    def awaits(self, pod: PodName, container: str, resource: str) -> bool:
        """Whether the Pod is listed and its container has no device of the resource yet."""
        containers = self.pods.get(pod)
        return containers is not None and not containers.get(container, {}).get(resource)


class PodResourcesClient:
    """Dials anew for each look-up: the kubelet may have restarted in between."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    async def report(self) -> Report:
        options = (AUTHORITY, ("grpc.max_receive_message_length", LARGEST), ("grpc.use_local_subchannel_pool", 1))
        try:
            async with aio.insecure_channel(f"unix:{self._socket}", options=options) as channel:
                answer = await PodResourcesListerStub(channel).List(ListPodResourcesRequest(), timeout=PATIENCE)
        except aio.AioRpcError as error:
            raise KubeletError(f"{self._socket}: {error.code().name}: {error.details()}") from error
        return report_of(answer.pod_resources)


def report_of(told: Iterable[PodResources]) -> Report:
    listed = list(told)
    times = Counter((pod.namespace, pod.name) for pod in listed)
    return Report(
        {(pod.namespace, pod.name): _containers(pod) for pod in listed},
        frozenset(name for name, number in times.items() if number > 1),
    )


def _containers(pod: PodResources) -> dict[str, Held]:
    found: dict[str, dict[str, frozenset[str]]] = {}
    for container in pod.containers:
        held = found.setdefault(container.name, {})
        for block in container.devices:
            ids = frozenset(block.device_ids)
            if ids:
                held[block.resource_name] = held.get(block.resource_name, frozenset()) | ids
    return dict(found)
