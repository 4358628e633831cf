from __future__ import annotations

import pytest

from gpustack_op.runtime.metrics import Metrics


def test_metrics_can_be_built_twice_in_one_process() -> None:
    first, second = Metrics(), Metrics()
    first.counter("apples_total", "Apples.").inc()
    second.counter("apples_total", "Apples.")
    assert (first.value("apples_total"), second.value("apples_total")) == (1, 0)


def test_asking_twice_for_an_instrument_gives_the_same_one() -> None:
    metrics = Metrics()
    assert metrics.gauge("depth", "Depth.", ("kind",)) is metrics.gauge("depth", "Depth.", ("kind",))


def test_requests_are_counted_under_the_name_of_client_go() -> None:
    metrics = Metrics()
    metrics.rest_client_requests().labels(code="200", method="GET", host="api").inc()
    assert metrics.value("rest_client_requests_total", code="200", method="GET", host="api") == 1


@pytest.mark.parametrize(
    ("value", "escaped"),
    [('a"b', 'a\\"b'), ("a\\b", "a\\\\b"), ("a\nb", "a\\nb")],
    ids=["quote", "backslash", "newline"],
)
def test_the_text_stays_parseable_whatever_a_label_holds(value: str, escaped: str) -> None:
    metrics = Metrics()
    metrics.gauge("depth", "Depth.", ("kind",)).labels(kind=value).set(1)
    assert f'depth{{kind="{escaped}"}} 1.0' in metrics.render().decode().splitlines()


def test_series_of_objects_that_are_gone_are_gone() -> None:
    metrics = Metrics()
    gauge = metrics.gauge("free", "Free.", ("type",))
    names = [f"type-{number}" for number in range(1000)]
    before = len(metrics.render().splitlines())
    for name in names:
        gauge.labels(type=name).set(1)
    for name in names:
        gauge.remove(name)
    assert len(metrics.render().splitlines()) == before


def test_no_series_tells_when_a_counter_was_created() -> None:
    metrics = Metrics()
    metrics.counter("apples_total", "Apples.").inc()
    assert "_created" not in metrics.render().decode()
