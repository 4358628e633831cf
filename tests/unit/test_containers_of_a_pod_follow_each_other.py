"""Which container is started when."""

from __future__ import annotations

from typing import Any

import pytest

from devcluster.containers.interface import State
from devcluster.kubelet.lineup import Lineup
from devcluster.kubelet.pods import Pod, PodMeta

SIDECAR = {"name": "side", "restartPolicy": "Always"}


def pod(*init: dict[str, Any], policy: str = "Always") -> Pod:
    spec = {"restartPolicy": policy, "initContainers": list(init), "containers": [{"name": "main"}, {"name": "more"}]}
    return Pod(metadata=PodMeta(name="one", namespace="default", uid="1"), spec=spec)


def state(container: str, *, attempt: int = 0, code: int | None = None, at: float = 0.0, ran: float = 0.0) -> State:
    """Without a code it runs. It has ended at this time."""
    return State(
        id=f"{container}-{attempt}",
        node="n",
        pod="1",
        container=container,
        attempt=attempt,
        log="",
        started_at=at - ran,
        finished_at=None if code is None else at,
        exit_code=code or 0,
    )


class Watch:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def due(pod: Pod, *states: State) -> list[str]:
    lineup = Lineup(10.0, Watch())
    lineup.update(states)
    return [each["name"] for each in lineup.to_start(pod)]


@pytest.mark.parametrize(
    ("init", "states", "expected"),
    [
        pytest.param([], [], ["main", "more"], id="all at once"),
        pytest.param([{"name": "a"}, {"name": "b"}], [], ["a"], id="the first init container first"),
        pytest.param([{"name": "a"}, {"name": "b"}], [state("a")], [], id="which must end"),
        pytest.param([{"name": "a"}, {"name": "b"}], [state("a", code=0)], ["b"], id="then the second"),
        pytest.param([{"name": "a"}], [state("a", code=0)], ["main", "more"], id="then the rest"),
        pytest.param([{"name": "a"}], [state("a", code=1)], ["a"], id="one that failed again"),
        pytest.param([SIDECAR, {"name": "a"}], [], ["side"], id="a sidecar in its turn"),
        pytest.param([SIDECAR, {"name": "a"}], [state("side")], ["a"], id="which need not end"),
        pytest.param([SIDECAR], [state("side")], ["main", "more"], id="the rest beside it"),
        pytest.param(
            [{"name": "a"}, SIDECAR],
            [state("main"), state("more"), state("side", code=1)],
            ["side"],
            id="init containers do not come back, sidecars do",
        ),
    ],
)
def test_containers_start_in_their_order(init: list[dict[str, Any]], states: list[State], expected: list[str]) -> None:
    assert due(pod(*init), *states) == expected


@pytest.mark.parametrize(
    ("policy", "code", "expected"),
    [
        pytest.param("Always", 0, ["main"], id="always"),
        pytest.param("OnFailure", 0, [], id="not after success"),
        pytest.param("OnFailure", 1, ["main"], id="after failure"),
        pytest.param("Never", 1, [], id="never"),
    ],
)
def test_what_has_ended_is_started_again_as_the_policy_says(policy: str, code: int, expected: list[str]) -> None:
    assert due(pod(policy=policy), state("main", code=code), state("more")) == expected


def test_the_first_restart_comes_at_once_and_each_further_one_later() -> None:
    watch = Watch()
    lineup = Lineup(10.0, watch)
    restarting = pod()

    def ends(attempt: int) -> list[str]:
        lineup.update([state("main", attempt=attempt, code=1, at=watch.now), state("more")])
        return [each["name"] for each in lineup.to_start(restarting)]

    watch.now = 100.0
    assert ends(0) == ["main"]
    assert ends(1) == []
    assert lineup.waiting["main"].message == "back-off 10s restarting failed container=main pod=one_default(1)"
    assert lineup.next_look() == 10.0
    watch.now = 110.0
    assert [each["name"] for each in lineup.to_start(restarting)] == ["main"]
    assert ends(2) == []
    assert lineup.next_look() == 20.0


def test_a_container_that_has_worked_for_long_is_forgiven() -> None:
    watch = Watch()
    lineup = Lineup(10.0, watch)
    watch.now = 1000.0
    for attempt in (0, 1):
        lineup.update([state("main", attempt=attempt, code=1, at=1000.0), state("more")])
        list(lineup.to_start(pod()))
    lineup.update([state("main", attempt=2, code=1, at=1000.0, ran=700.0), state("more")])
    assert [each["name"] for each in lineup.to_start(pod())] == ["main"]


@pytest.mark.parametrize(
    ("policy", "states", "finished"),
    [
        pytest.param("Never", [state("main", code=0), state("more", code=1)], True, id="all have ended"),
        pytest.param("Never", [state("main", code=0), state("more")], False, id="one runs"),
        pytest.param("Always", [state("main", code=0), state("more", code=0)], False, id="they come back"),
        pytest.param(
            "Never", [state("main", code=0), state("more", code=0), state("side")], True, id="sidecars do not count"
        ),
    ],
)
def test_a_pod_is_finished_when_nothing_comes_back(policy: str, states: list[State], finished: bool) -> None:
    lineup = Lineup(10.0, Watch())
    lineup.update(states)
    assert lineup.is_finished(pod(SIDECAR, policy=policy)) is finished
