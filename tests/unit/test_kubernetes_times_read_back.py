from __future__ import annotations

from datetime import UTC, datetime

import pytest

from gpustack_op.runtime.clock import micro_time, parse_time

MOMENT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-02T03:04:05Z", MOMENT),
        ("2026-01-02T03:04:05.123Z", MOMENT.replace(microsecond=123000)),
        ("2026-01-02T03:04:05.123456Z", MOMENT.replace(microsecond=123456)),
        ("2026-01-02T03:04:05.123456789Z", MOMENT.replace(microsecond=123456)),
        ("2026-01-02T03:04:05+00:00", MOMENT),
        ("2026-01-02T03:04:05.123456789+00:00", MOMENT.replace(microsecond=123456)),
        ("2026-01-02T05:04:05+02:00", MOMENT),
        ("", None),
        (None, None),
        ("yesterday", None),
        ("2026-13-02T03:04:05Z", None),
        ("2026-01-02T03:04:05Z\n", None),
    ],
)
def test_every_form_of_a_time_is_read_and_nothing_else(text: str | None, moment: datetime | None) -> None:
    assert parse_time(text) == moment


def test_times_are_written_with_six_digits() -> None:
    assert micro_time(MOMENT) == "2026-01-02T03:04:05.000000Z"
