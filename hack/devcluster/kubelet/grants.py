"""Who holds which devices: Pod, container and resource to ids and the plugin's answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from google.protobuf.message import DecodeError

from devcluster.kubelet.checkpoint import Entry
from gpustack_op.agent.proto.deviceplugin_pb2 import ContainerAllocateResponse

Ids = frozenset[str]


@dataclass(frozen=True, slots=True)
class Grant:
    """Ids by NUMA node, and what their container is given for them."""

    devices: Mapping[int, tuple[str, ...]]
    answer: ContainerAllocateResponse

    @property
    def ids(self) -> Ids:
        return frozenset(device for ids in self.devices.values() for device in ids)


class Grants:
    def __init__(self) -> None:
        self._pods: dict[str, dict[str, dict[str, Grant]]] = {}

    def of(self, pod: str, container: str) -> Mapping[str, Grant]:
        """By resource."""
        return self._pods.get(pod, {}).get(container, {})

    def ids(self, pod: str, container: str, resource: str) -> Ids | None:
        """None when nothing is recorded."""
        grant = self.of(pod, container).get(resource)
        return None if grant is None else grant.ids

    def record(self, pod: str, container: str, resource: str, grant: Grant) -> None:
        self._pods.setdefault(pod, {}).setdefault(container, {})[resource] = grant

    def keep_only(self, pods: Iterable[str]) -> bool:
        """Drops what other Pods hold; whether there was any."""
        gone = self._pods.keys() - set(pods)
        for pod in gone:
            del self._pods[pod]
        return bool(gone)

    def has(self, pod: str) -> bool:
        return pod in self._pods

    def held(self) -> dict[str, set[str]]:
        """Ids by resource."""
        found: dict[str, set[str]] = {}
        for entry, grant in self._all():
            found.setdefault(entry[2], set()).update(grant.ids)
        return found

    def holder(self, device: str) -> str | None:
        """UID of a Pod that holds an id of this name, of whatever resource."""
        return next((entry[0] for entry, grant in self._all() if device in grant.ids), None)

    def entries(self) -> tuple[Entry, ...]:
        return tuple(
            Entry(
                pod=pod,
                container=container,
                resource=resource,
                devices=grant.devices,
                answer=grant.answer.SerializeToString(),
            )
            for (pod, container, resource), grant in self._all()
        )

    def restore(self, entries: Iterable[Entry]) -> None:
        """An entry whose answer cannot be read is left out."""
        for entry in entries:
            try:
                answer = ContainerAllocateResponse.FromString(entry.answer)
            except DecodeError:
                continue
            self.record(entry.pod, entry.container, entry.resource, Grant(entry.devices, answer))

    def _all(self) -> Iterator[tuple[tuple[str, str, str], Grant]]:
        for pod, containers in self._pods.items():
            for container, resources in containers.items():
                for resource, grant in resources.items():
                    yield (pod, container, resource), grant
