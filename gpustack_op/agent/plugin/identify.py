"""For which container the kubelet calls: it does not say.

Guarantees   A container that the kubelet says is waiting goes before one that only looks as if. Where several wait, or
             none that we know, the oldest that was not served yet and can be is taken, then one that cannot be, then
             one that was: the kubelet may have lost its checkpoint.
Assumptions  The kubelet lists a Pod before it admits it, admits one at a time, and shows a container's devices only
             once we have answered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from gpustack_op.agent.plugin.kubelet import PodName, Report
from gpustack_op.api.core import Container, Pod
from gpustack_op.api.quantity import Quantity, QuantityError
from gpustack_op.scheduling.claims import Holder
from gpustack_op.scheduling.requests import containers_of

WAITING_PHASES = frozenset({"", "Pending"})


@dataclass(frozen=True, slots=True)
class Candidate:
    """A container that asks for as many devices as the kubelet hands over."""

    pod: Pod
    container: Container

    @property
    def holder(self) -> Holder:
        return self.pod.uid, self.container.name

    @property
    def pod_name(self) -> PodName:
        return self.pod.namespace, self.pod.name


def candidates(pods: Iterable[Pod], resource: str, count: int, *, restarting: bool = False) -> list[Candidate]:
    """The oldest first. With `restarting` also containers of Pods that run: the kubelet allocates anew for a container
    that it has to start and has no record of."""
    phases = WAITING_PHASES | ({"Running"} if restarting else frozenset())
    ordered = sorted(pods, key=lambda pod: (pod.metadata.creation_timestamp, pod.namespace, pod.name))
    return [
        Candidate(pod, container)
        for pod in ordered
        if pod.status.phase in phases
        for container in containers_of(pod.spec)
        if limit(container, resource) == count
    ]


def waiting(
    found: Iterable[Candidate], report: Report, resource: str, *, is_claimed: Callable[[Candidate], bool]
) -> list[Candidate]:
    """Those that the kubelet lists without the resource. A plain init container it never lists: that one waits until
    it was served."""
    return [
        one
        for one in found
        if report.awaits(one.pod_name, one.container.name, resource)
        and not (is_plain_init(one.pod, one.container.name) and is_claimed(one))
    ]


def is_plain_init(pod: Pod, container: str) -> bool:
    """Whether it ends before the Pod's other containers begin."""
    return any(one.name == container and one.restart_policy != "Always" for one in pod.spec.init_containers or ())


def identified(
    found: Sequence[Candidate],
    wait: Sequence[Candidate],
    *,
    is_claimed: Callable[[Candidate], bool],
    is_feasible: Callable[[Candidate], bool] = lambda _: True,
) -> Candidate | None:
    if len(wait) == 1:
        return wait[0]
    return min(wait or found, key=lambda one: _tier(one, is_claimed, is_feasible), default=None)


def limit(container: Container, resource: str) -> int:
    """0 when there is none that can be read."""
    try:
        return int(Quantity.parse((container.resources.limits or {}).get(resource, "0")))
    except QuantityError:
        return 0


def _tier(one: Candidate, is_claimed: Callable[[Candidate], bool], is_feasible: Callable[[Candidate], bool]) -> int:
    if is_claimed(one):
        return 2
    return 0 if is_feasible(one) else 1
