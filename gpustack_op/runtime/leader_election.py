"""One leader among the replicas, by a Lease.

Guarantees   Leadership ends `renew_deadline` after the last renewal was *sent*, requests that hang included, and
             others may take the lease no sooner than `duration` after they saw it: between the two nobody leads. A
             lease is judged only by how long its record has stayed unchanged on our own monotonic clock, never by the
             times in it. `lost` is called once at most. `release` writes only while we still hold.
Assumptions  Monotonic clocks of all replicas run equally fast, to within the third that separates the two limits.
             Work stops the moment `lost` is called, which is why it ends the process.
Recovery     Failed attempts are repeated every `retry`. A refusal that no retry can mend (400, 403, 422) is logged
             once as an error and shown by `problem` until an attempt succeeds.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from gpustack_op.api.meta import KubeObject, Resource
from gpustack_op.runtime.clock import WallClock, elapsed, micro_time, parse_time, wall_clock
from gpustack_op.runtime.errors import (
    NETWORK_ERRORS,
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
)
from gpustack_op.runtime.leases import LEASES, Lease, LeaseSpec
from gpustack_op.runtime.logging import logger
from gpustack_op.runtime.metrics import Metrics

T = TypeVar("T", bound=KubeObject)

REFUSED = (BadRequest, Forbidden, Invalid)
FAILED = (ApiError, *NETWORK_ERRORS)

log = logger("leader_election")


class Connection(Protocol):
    """The part of a client that an elector needs. Give it one of its own, so that no other traffic delays it."""

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T: ...
    async def create(self, resource: Resource[T], body: Mapping[str, Any], *, namespace: str = "") -> T: ...
    async def update(self, resource: Resource[T], body: Mapping[str, Any], *, namespace: str = "") -> T: ...


@dataclass(frozen=True, slots=True)
class ElectionOptions:
    """Which lease, who we are, and how long things take (seconds, client-go's defaults).

    identity        unique for a process: two replicas of one identity both lead.
    duration        default 15: how long a dead leader's lease stands. Danger: below the API server's own hiccups,
                    leaders come and go.
    renew_deadline  default 10: how long a leader goes on without a renewal. Must be well below `duration`.
    retry           default 2: pause between attempts. A standby takes over within duration + retry.
    """

    namespace: str
    name: str
    identity: str
    duration: float = 15.0
    renew_deadline: float = 10.0
    retry: float = 2.0

    def __post_init__(self) -> None:
        if not self.duration > self.renew_deadline > self.retry > 0:
            raise ValueError("leader election: duration > renew_deadline > retry > 0 must hold")


class Elector:
    """Waits for the lease, keeps it, gives it back: `acquire`, then `hold`, then `release`."""

    def __init__(
        self,
        client: Connection,
        options: ElectionOptions,
        *,
        lost: Callable[[], None],
        metrics: Metrics | None = None,
        clock: WallClock = wall_clock,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.options = options
        self.problem: str | None = None
        self._client = client
        self._lost = lost
        self._clock = clock
        self._jitter = jitter
        self._seen: Lease | None = None
        self._unchanged_since = 0.0
        self._renewed_at: float | None = None
        self._status = (
            (metrics or Metrics())
            .gauge("leader_election_master_status", "Whether this process leads (1) or not (0).", ("name",))
            .labels(name=options.name)
        )

    @property
    def leading(self) -> bool:
        return self._renewed_at is not None

    @property
    def leads_until(self) -> float | None:
        """The moment on the monotonic clock at which leadership ends unless renewed; None while not leading."""
        return None if self._renewed_at is None else self._renewed_at + self.options.renew_deadline

    async def acquire(self) -> None:
        """Return as soon as we lead."""
        while True:
            if await self._attempt(self.options.renew_deadline):
                break
            await asyncio.sleep(self.options.retry * (1 + 0.2 * self._jitter()))
        self._status.set(1)
        log.info("lease.acquired", lease=self.options.name, identity=self.options.identity)

    async def hold(self) -> None:
        """Renew until cancelled; when the lease is lost, call `lost` and return."""
        while (deadline := self.leads_until) is not None:
            await asyncio.sleep(min(self.options.retry, max(0.0, deadline - elapsed())))
            renewed = await self._attempt(deadline - elapsed())
            if not renewed and (self._taken() or elapsed() >= deadline):
                self._step_down()
                log.error("lease.lost", lease=self.options.name, holder=self._holder())
                self._lost()

    async def release(self) -> None:
        """Let the next one lead at once. Only after all work has stopped."""
        if self._renewed_at is None or self._seen is None:
            return
        self._step_down()
        record = {**self._record(self._seen), "holderIdentity": "", "leaseDurationSeconds": 1}
        try:
            async with asyncio.timeout(self.options.retry):
                await self._put(self._seen, record)
        except FAILED as error:
            log.warning("lease.not_released", lease=self.options.name, error=str(error))
        else:
            log.info("lease.released", lease=self.options.name)

    async def _attempt(self, budget: float) -> bool:
        """Try once to take or renew the lease. A request that hangs is given up early enough for another try."""
        sent_at = elapsed()
        try:
            async with asyncio.timeout(min(budget, self.options.renew_deadline / 2)):
                held = await self._take_or_renew()
        except REFUSED as error:
            self._tell(error)
            return False
        except FAILED as error:
            log.debug("lease.attempt_failed", lease=self.options.name, error=str(error))
            return False
        self.problem = None
        if held:
            self._renewed_at = sent_at
        return held

    async def _take_or_renew(self) -> bool:
        if self.leading and self._seen is not None and not self._taken():
            try:
                return await self._put(self._seen, self._record(self._seen))
            except Conflict:
                pass  # perhaps our own write, whose answer was lost: look
        try:
            lease = await self._client.get(LEASES, self.options.name, self.options.namespace)
        except NotFound:
            return await self._create()
        self._observe(lease)
        if not self._may_take(lease):
            return False
        try:
            return await self._put(lease, self._record(lease))
        except Conflict:
            return False

    async def _create(self) -> bool:
        body = {"metadata": self._metadata(), "spec": self._record(None)}
        try:
            self._observe(await self._client.create(LEASES, body, namespace=self.options.namespace))
        except AlreadyExists:
            return False
        return True

    async def _put(self, lease: Lease, record: Mapping[str, Any]) -> bool:
        version = {"resourceVersion": lease.metadata.resource_version, "uid": lease.uid}
        body = {"metadata": {**self._metadata(), **version}, "spec": record}
        self._observe(await self._client.update(LEASES, body, namespace=self.options.namespace))
        return True

    def _observe(self, lease: Lease) -> None:
        if self._seen is None or self._seen.spec != lease.spec:
            self._unchanged_since = elapsed()
        self._seen = lease

    def _may_take(self, lease: Lease) -> bool:
        """Free, ours, or unchanged for its whole duration before our eyes."""
        if not lease.spec.holder_identity or lease.spec.holder_identity == self.options.identity:
            return True
        stands_for = lease.spec.lease_duration_seconds or self.options.duration
        return not self.leading and elapsed() >= self._unchanged_since + stands_for

    def _taken(self) -> bool:
        """Whether somebody else holds the lease, as far as we have seen."""
        return bool(self._holder()) and self._holder() != self.options.identity

    def _holder(self) -> str:
        return (self._seen.spec.holder_identity if self._seen else None) or ""

    def _record(self, lease: Lease | None) -> dict[str, Any]:
        """The record that says we hold the lease from now on."""
        now = micro_time(self._clock())
        spec = lease.spec if lease else LeaseSpec()
        ours = spec.holder_identity == self.options.identity
        acquired = parse_time(spec.acquire_time) if ours else None
        return {
            "holderIdentity": self.options.identity,
            "leaseDurationSeconds": max(1, round(self.options.duration)),
            "acquireTime": micro_time(acquired) if acquired else now,
            "renewTime": now,
            "leaseTransitions": (spec.lease_transitions or 0) + (lease is not None and not ours),
        }

    def _metadata(self) -> dict[str, str]:
        return {"name": self.options.name, "namespace": self.options.namespace}

    def _step_down(self) -> None:
        self._renewed_at = None
        self._status.set(0)

    def _tell(self, error: ApiError) -> None:
        if self.problem is None:
            log.error("lease.refused", lease=self.options.name, error=str(error))
        self.problem = f"lease {self.options.namespace}/{self.options.name} refused: {error.message}"
