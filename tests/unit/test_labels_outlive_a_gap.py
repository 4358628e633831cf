"""A node's labels outlive a gap of Node Feature Discovery, but not for ever."""

from __future__ import annotations

import pytest

from gpustack_op.operator.beliefs import Beliefs, Evidence

LABELS = {"general.feature.gpustack.ai/amd-epyc-7r32": "true", "general.feature.gpustack.ai/amd-epyc-7r32.count": "4"}
CARDS = {"acceleratable.feature.gpustack.ai/nvidia-a10g": "true"}
GRACE = 60.0


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def beliefs(clock: Clock) -> Beliefs:
    return Beliefs(clock)


def published(labels: dict[str, str], *, complete: bool = True, echoed: dict[str, str] | None = None) -> Evidence:
    return Evidence(labels, complete, labels if echoed is None else echoed)


def test_what_is_published_holds_before_the_node_echoes_it(beliefs: Beliefs) -> None:
    belief = beliefs.believe("a", published(LABELS, echoed={}), grace=GRACE)
    assert belief.labels == LABELS
    assert belief.expires_in == GRACE


def test_a_short_gap_changes_nothing(beliefs: Beliefs, clock: Clock) -> None:
    beliefs.believe("a", published(LABELS), grace=GRACE)
    beliefs.believe("a", published(LABELS, echoed={}), grace=GRACE)
    clock.now += 30
    assert beliefs.believe("a", published(LABELS, echoed={}), grace=GRACE).labels == LABELS


def test_a_long_gap_lowers_what_is_offered(beliefs: Beliefs, clock: Clock) -> None:
    beliefs.believe("a", published(LABELS, echoed={}), grace=GRACE)
    clock.now += 61
    assert beliefs.believe("a", published(LABELS, echoed={}), grace=GRACE).labels == {}


def test_labels_that_return_are_believed_and_get_a_new_grace(beliefs: Beliefs, clock: Clock) -> None:
    beliefs.believe("a", published(LABELS, echoed={}), grace=GRACE)
    clock.now += 61
    assert beliefs.believe("a", published(LABELS), grace=GRACE).labels == LABELS
    assert beliefs.believe("a", published(LABELS, echoed={}), grace=GRACE).expires_in == GRACE


def test_a_deleted_node_feature_is_remembered_for_the_grace_period(beliefs: Beliefs, clock: Clock) -> None:
    everything = {**LABELS, **CARDS}
    beliefs.believe("a", published(everything), grace=GRACE)
    gone = Evidence(LABELS, complete=False, echoed=LABELS)
    assert beliefs.believe("a", gone, grace=GRACE).labels == everything
    clock.now += 61
    assert beliefs.believe("a", gone, grace=GRACE).labels == LABELS


def test_cards_that_their_reporter_withdraws_are_gone_at_once(beliefs: Beliefs) -> None:
    beliefs.believe("a", published({**LABELS, **CARDS}), grace=GRACE)
    assert beliefs.believe("a", published(LABELS, echoed={**LABELS, **CARDS}), grace=GRACE).labels == LABELS


def test_an_opt_out_is_believed_at_once(beliefs: Beliefs) -> None:
    beliefs.believe("a", published({"gpustack.ai/managed": "true"}), grace=GRACE)
    out = Evidence({"gpustack.ai/managed": "false"}, complete=True, echoed={"gpustack.ai/managed": "true"})
    assert beliefs.believe("a", out, grace=GRACE).labels == {"gpustack.ai/managed": "false"}
