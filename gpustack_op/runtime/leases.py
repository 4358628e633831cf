"""The Lease object, as leader election reads and writes it."""

from __future__ import annotations

import msgspec

from gpustack_op.api.meta import KubeObject, Resource


class LeaseSpec(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    """The times are kept as text: nothing is decided by them."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(KubeObject, frozen=True, gc=False, kw_only=True):
    spec: LeaseSpec = LeaseSpec()


LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", Lease, namespaced=True)
