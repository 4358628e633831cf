"""Pods as a kubelet reads them: the whole specification and status, as they stand on the wire."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from devcluster.kubelet.allocation import Claimant
from gpustack_op.api.meta import KubeObject, ObjectMeta, Resource
from gpustack_op.api.quantity import Quantity, QuantityError

Json = dict[str, Any]

TERMINAL: Final = ("Succeeded", "Failed")

DEFAULT_GRACE: Final = 30


class PodMeta(ObjectMeta, frozen=True, kw_only=True, rename="camel"):
    deletion_grace_period_seconds: int | None = None


class Pod(KubeObject, frozen=True, kw_only=True, gc=True):
    metadata: PodMeta = PodMeta()
    spec: Json = msgspec.field(default_factory=dict)
    status: Json = msgspec.field(default_factory=dict)

    @property
    def phase(self) -> str:
        return str(self.status.get("phase") or "Pending")

    @property
    def containers(self) -> list[Json]:
        return list(self.spec.get("containers") or [])

    @property
    def init_containers(self) -> list[Json]:
        return list(self.spec.get("initContainers") or [])

    @property
    def all_containers(self) -> list[Json]:
        """In the order in which they are allocated and started."""
        return [*self.init_containers, *self.containers]

    @property
    def long_running(self) -> list[Json]:
        """Sidecars and app containers."""
        return [*(each for each in self.init_containers if is_sidecar(each)), *self.containers]

    @property
    def restart_policy(self) -> str:
        return str(self.spec.get("restartPolicy") or "Always")

    @property
    def grace(self) -> float:
        """Seconds from the request to end until the end is forced."""
        if self.metadata.deletion_grace_period_seconds is not None:
            return self.metadata.deletion_grace_period_seconds
        grace = self.spec.get("terminationGracePeriodSeconds")
        return DEFAULT_GRACE if grace is None else float(grace)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


PODS: Final = Resource("", "v1", "pods", "Pod", Pod, namespaced=True)


def is_sidecar(container: Mapping[str, Any]) -> bool:
    """Of init containers."""
    return container.get("restartPolicy") == "Always"


def claimants(pod: Pod) -> Iterator[Claimant]:
    """Its containers in the order in which they are allocated."""
    for container in pod.init_containers:
        yield claimant(pod, container, init=not is_sidecar(container))
    for container in pod.containers:
        yield claimant(pod, container)


def claimant(pod: Pod, container: Json, *, init: bool = False) -> Claimant:
    limits = (container.get("resources") or {}).get("limits") or {}
    whole = {resource: amount.ceil() for resource, amount in amounts(limits).items()}
    return Claimant(pod=pod.uid, name=container["name"], limits=whole, init=init)


def amounts(resources: Mapping[str, Any]) -> dict[str, Quantity]:
    """What cannot be read is left out; the API server lets nothing of the kind through."""
    found = {}
    for resource, text in resources.items():
        try:
            found[resource] = Quantity.parse(text)
        except QuantityError:
            continue
    return found


def timestamp(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
