"""What a kubelet reports of a Pod."""

from __future__ import annotations

from typing import Any

import pytest

from devcluster.containers.interface import State
from devcluster.kubelet.pods import Pod, PodMeta
from devcluster.kubelet.status import Known, Waiting, phase, refused, status

ADDRESSES = ("127.0.0.1", "10.244.0.5")


def pod(policy: str = "Always", *, init: list[dict[str, Any]] | None = None, at: str = "") -> Pod:
    spec = {"restartPolicy": policy, "initContainers": init or [], "containers": [{"name": "main", "image": "i"}]}
    return Pod(metadata=PodMeta(name="one", uid="1", generation=1), spec=spec, status={"phase": at} if at else {})


def runs(attempt: int = 0) -> Known:
    return Known(latest=state(attempt))


def ended(code: int, *, waiting: Waiting | None = None) -> Known:
    return Known(latest=state(0, code), waiting=waiting)


def state(attempt: int, code: int | None = None) -> State:
    return State(
        id=f"main-{attempt}",
        node="n",
        pod="1",
        container="main",
        attempt=attempt,
        log="",
        started_at=1.0,
        finished_at=None if code is None else 2.0,
        exit_code=code or 0,
    )


@pytest.mark.parametrize(
    ("policy", "main", "ending", "expected"),
    [
        pytest.param("Always", Known(), False, "Pending", id="nothing was started"),
        pytest.param("Always", runs(), False, "Running", id="it runs"),
        pytest.param("Always", runs(), True, "Running", id="it still runs"),
        pytest.param("Always", ended(0), False, "Running", id="it will be started again"),
        pytest.param("OnFailure", ended(1), False, "Running", id="it will be tried again"),
        pytest.param("OnFailure", ended(0), False, "Succeeded", id="once was enough"),
        pytest.param("Never", ended(0), False, "Succeeded", id="done"),
        pytest.param("Never", ended(1), False, "Failed", id="failed"),
        pytest.param("Always", ended(0), True, "Succeeded", id="ended well when asked to"),
        pytest.param("Always", ended(143), True, "Failed", id="ended by a signal when asked to"),
        pytest.param("Always", Known(), True, "Failed", id="ended before it began"),
    ],
)
def test_the_phase_follows_exit_codes_and_the_restart_policy(
    policy: str, main: Known, ending: bool, expected: str
) -> None:
    assert phase(pod(policy), {"main": main}, ending=ending) == expected


def test_a_phase_that_is_final_stays() -> None:
    assert phase(pod(at="Failed"), {"main": runs()}, ending=False) == "Failed"


@pytest.mark.parametrize(
    ("policy", "code", "expected"),
    [
        pytest.param("Never", 1, "Failed", id="never again"),
        pytest.param("Always", 1, "Pending", id="again"),
        pytest.param("Never", 0, "Pending", id="done"),
    ],
)
def test_a_failed_init_container_fails_a_pod_that_restarts_nothing(policy: str, code: int, expected: str) -> None:
    init = [{"name": "first"}]
    assert phase(pod(policy, init=init), {"first": ended(code), "main": Known()}, ending=False) == expected


def test_conditions_of_a_running_pod() -> None:
    told = status(pod(), {"main": runs()}, {}, ending=False, addresses=ADDRESSES)
    assert {each["type"]: each["status"] for each in told["conditions"]} == {
        "PodReadyToStartContainers": "True",
        "Initialized": "True",
        "Ready": "True",
        "ContainersReady": "True",
        "PodScheduled": "True",
    }


def test_a_container_that_is_not_ready_is_named() -> None:
    told = status(pod(), {"main": Known()}, {}, ending=False, addresses=ADDRESSES)
    ready = next(each for each in told["conditions"] if each["type"] == "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "ContainersNotReady")
    assert ready["message"] == "containers with unready status: [main]"


def test_the_time_of_a_condition_stays_as_long_as_it_says_the_same() -> None:
    before = {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "then"}]}
    told = status(pod(), {"main": runs()}, before, ending=False, addresses=ADDRESSES)
    times = {each["type"]: each["lastTransitionTime"] for each in told["conditions"]}
    assert (times["Ready"], times["Initialized"]) == ("then", None)


def test_a_container_that_waits_for_its_restart_tells_how_it_ended() -> None:
    known = ended(3, waiting=Waiting("CrashLoopBackOff", "back-off 10s"))
    (told,) = status(pod(), {"main": known}, {}, ending=False, addresses=ADDRESSES)["containerStatuses"]
    assert told["state"] == {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}
    assert told["lastState"]["terminated"]["exitCode"] == 3


def test_a_restarted_container_counts_and_tells_how_it_ended_before() -> None:
    known = Known(latest=state(1), before=state(0, 3))
    (told,) = status(pod(), {"main": known}, {}, ending=False, addresses=ADDRESSES)["containerStatuses"]
    assert (told["restartCount"], told["ready"]) == (1, True)
    assert told["lastState"]["terminated"]["exitCode"] == 3


def test_a_refused_pod_has_no_containers_and_keeps_the_conditions_of_others() -> None:
    assert refused("OutOfcpu", "too little") == {
        "phase": "Failed",
        "reason": "OutOfcpu",
        "message": "Pod was rejected: too little",
        "conditions": [
            {"$patch": "delete", "type": "Initialized"},
            {"$patch": "delete", "type": "Ready"},
            {"$patch": "delete", "type": "ContainersReady"},
            {"$patch": "delete", "type": "PodScheduled"},
        ],
    }
