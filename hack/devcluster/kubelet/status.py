"""What a kubelet reports of a Pod, computed from its specification and from what is known of its containers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from devcluster.containers.interface import State
from devcluster.kubelet.pods import Json, Pod, is_sidecar, timestamp

OWN_CONDITIONS: Final = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
"""Types that the kubelet writes. Conditions of others stay as they are."""

DROPPED_WHEN_REFUSED: Final = ("Initialized", "Ready", "ContainersReady", "PodScheduled")


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a container does not run."""

    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """One container: its latest attempt and the one before, and why no other is being started."""

    latest: State | None = None
    before: State | None = None
    waiting: Waiting | None = None
    resources: tuple[Json, ...] = ()
    """Health of the devices it holds."""

    @property
    def running(self) -> bool:
        return self.latest is not None and self.latest.running

    @property
    def ended(self) -> State | None:
        return self.latest if self.latest is not None and not self.latest.running else None

    @property
    def succeeded(self) -> bool:
        return self.ended is not None and self.ended.exit_code == 0


Containers = Mapping[str, Known]

UNKNOWN: Final = Known()


def restarts(pod: Pod, container: Json, state: State) -> bool:
    """Whether a container that has ended is started again."""
    policy = "Always" if is_sidecar(container) else pod.restart_policy
    if container in pod.init_containers and not is_sidecar(container):
        return policy != "Never" and state.exit_code != 0
    return policy == "Always" or (policy == "OnFailure" and state.exit_code != 0)


def phase(pod: Pod, known: Containers, *, ending: bool) -> str:
    """`ending` says that nothing of the Pod is started any more."""
    apps = [(each, known.get(each["name"], UNKNOWN)) for each in pod.containers]
    if pod.phase in ("Succeeded", "Failed"):
        return pod.phase
    if _initialization_failed(pod, known):
        return "Failed"
    if not initialized(pod, known) or any(each.latest is None for _, each in apps):
        return _phase_of_unstarted(known, ending=ending)
    if any(each.running for _, each in apps):
        return "Running"
    again = any(restarts(pod, container, each.ended) for container, each in apps if each.ended is not None)
    if again and not ending:
        return "Running"
    return "Succeeded" if all(each.succeeded for _, each in apps) else "Failed"


def _phase_of_unstarted(known: Containers, *, ending: bool) -> str:
    """One that ends before all its containers were started has not succeeded."""
    return "Failed" if ending and not any(each.running for each in known.values()) else "Pending"


def _initialization_failed(pod: Pod, known: Containers) -> bool:
    plain = [each for each in pod.init_containers if not is_sidecar(each)]
    ended = [known[each["name"]].ended for each in plain if each["name"] in known]
    return pod.restart_policy == "Never" and any(state is not None and state.exit_code != 0 for state in ended)


def initialized(pod: Pod, known: Containers) -> bool:
    """Once an app container was started, a Pod stays initialized."""
    if any(known.get(each["name"], UNKNOWN).latest is not None for each in pod.containers):
        return True
    return all(_is_done(each, known.get(each["name"], UNKNOWN)) for each in pod.init_containers)


def _is_done(init: Json, known: Known) -> bool:
    return known.running if is_sidecar(init) else known.succeeded


def status(pod: Pod, known: Containers, previous: Json, *, ending: bool, addresses: tuple[str, str]) -> Json:
    """`previous` is what was reported last; `addresses` are the node's and the Pod's."""
    at = phase(pod, known, ending=ending)
    host, own = addresses
    return {
        "phase": at,
        "observedGeneration": pod.metadata.generation,
        "hostIP": host,
        "hostIPs": [{"ip": host}],
        "podIP": own,
        "podIPs": [{"ip": own}],
        "startTime": previous.get("startTime") or pod.status.get("startTime"),
        "initContainerStatuses": [_container_status(pod, each, known, init=True) for each in pod.init_containers],
        "containerStatuses": [_container_status(pod, each, known) for each in pod.containers],
        "conditions": _conditions(pod, known, at, previous.get("conditions") or pod.status.get("conditions") or []),
    }


def refused(reason: str, text: str) -> Json:
    """For good: no containers, and of the conditions only those of others."""
    return {
        "phase": "Failed",
        "reason": reason,
        "message": f"Pod was rejected: {text}",
        "conditions": [{"$patch": "delete", "type": each} for each in DROPPED_WHEN_REFUSED],
    }


def _conditions(pod: Pod, known: Containers, at: str, previous: Iterable[Json]) -> list[Json]:
    done = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(at)
    not_ready = _named(pod.long_running, known, lambda each: each.running)
    not_begun = [] if initialized(pod, known) else _incomplete(pod, known)
    ready: tuple[str, str, str]
    if done:
        ready = ("False", done, "")
    elif not_ready:
        ready = ("False", "ContainersNotReady", f"containers with unready status: [{' '.join(not_ready)}]")
    else:
        ready = ("True", "", "")
    first = ("False", "ContainersNotInitialized", f"containers with incomplete status: [{' '.join(not_begun)}]")
    verdicts = {
        "PodReadyToStartContainers": ("False" if done else "True", "", ""),
        "Initialized": first if not_begun else ("True", done if at == "Succeeded" and done else "", ""),
        "Ready": ready,
        "ContainersReady": ready,
        "PodScheduled": ("True", "", ""),
    }
    earlier = {condition["type"]: condition for condition in previous}
    return [_condition(kind, *verdict, earlier.get(kind, {})) for kind, verdict in verdicts.items()]


def _condition(kind: str, value: str, reason: str, message: str, earlier: Json) -> Json:
    """Nulls remove what an earlier report has said. The time of the change is left to whoever writes it."""
    same = earlier.get("status") == value
    return {
        "type": kind,
        "status": value,
        "reason": reason or None,
        "message": message or None,
        "lastTransitionTime": earlier.get("lastTransitionTime") if same else None,
    }


def _named(containers: Sequence[Json], known: Containers, is_well: Any) -> list[str]:
    return [each["name"] for each in containers if not is_well(known.get(each["name"], UNKNOWN))]


def _incomplete(pod: Pod, known: Containers) -> list[str]:
    return [each["name"] for each in pod.init_containers if not _is_done(each, known.get(each["name"], UNKNOWN))]


def _container_status(pod: Pod, container: Json, all_known: Containers, *, init: bool = False) -> Json:
    known = all_known.get(container["name"], UNKNOWN)
    plain_init = init and not is_sidecar(container)
    told: Json = {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": "",
        "ready": known.succeeded if plain_init else known.running,
        "started": known.running,
        "restartCount": known.latest.attempt if known.latest is not None else 0,
        "state": _state(pod, known),
        "lastState": _terminated(known.before) if known.before is not None else {},
    }
    if known.latest is not None:
        told["containerID"] = container_id(known.latest)
    if known.latest is not None and known.waiting is not None and known.ended is not None:
        told["lastState"] = _terminated(known.latest)
    if known.resources:
        told["allocatedResourcesStatus"] = list(known.resources)
    return told


def _state(pod: Pod, known: Known) -> Json:
    if known.running and known.latest is not None:
        return {"running": {"startedAt": timestamp(known.latest.started_at)}}
    if known.waiting is not None:
        message = {"message": known.waiting.message} if known.waiting.message else {}
        return {"waiting": {"reason": known.waiting.reason, **message}}
    if known.latest is not None:
        return _terminated(known.latest)
    return {"waiting": {"reason": "PodInitializing" if pod.init_containers else "ContainerCreating"}}


def _terminated(state: State) -> Json:
    return {
        "terminated": {
            "exitCode": state.exit_code,
            "reason": "Completed" if state.exit_code == 0 else "Error",
            "startedAt": timestamp(state.started_at),
            "finishedAt": timestamp(state.finished_at or state.started_at),
            "containerID": container_id(state),
        }
    }


def container_id(state: State) -> str:
    return f"simulated://{state.id}"
