from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from gpustack_op.runtime.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Expired,
    Forbidden,
    Gone,
    InternalError,
    Invalid,
    NotFound,
    ServerTimeout,
    ServiceUnavailable,
    TooLarge,
    TooManyRequests,
    Unauthorized,
    Unsupported,
    error_from,
)
from tests.runtime.apiserver import as_json, status


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (400, "BadRequest", BadRequest),
        (401, "Unauthorized", Unauthorized),
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (409, "AlreadyExists", AlreadyExists),
        (409, "Conflict", Conflict),
        (410, "Expired", Expired),
        (410, "Gone", Gone),
        (413, "RequestEntityTooLarge", TooLarge),
        (415, "UnsupportedMediaType", Unsupported),
        (422, "Invalid", Invalid),
        (429, "TooManyRequests", TooManyRequests),
        (500, "InternalError", InternalError),
        (500, "ServerTimeout", ServerTimeout),
        (503, "ServiceUnavailable", ServiceUnavailable),
        (504, "Timeout", ServerTimeout),
        (418, "Teapot", ApiError),
    ],
)
def test_every_reason_has_its_exception(code: int, reason: str, kind: type[ApiError]) -> None:
    error = error_from(code, as_json(status(code, reason, "because", name="one")), {})
    assert type(error) is kind
    assert (error.status, error.reason, error.message) == (code, reason, "because")


@pytest.mark.parametrize(
    ("code", "body", "kind", "message"),
    [
        pytest.param(429, b"Too many requests", TooManyRequests, "Too many requests", id="plain text"),
        pytest.param(
            503,
            b"<html><head><style>p {}</style></head><body><h1>503</h1> <p>Try later</p></body></html>",
            ServiceUnavailable,
            "503 Try later",
            id="a proxy's page",
        ),
        pytest.param(502, b"", ServiceUnavailable, "no explanation", id="nothing"),
        pytest.param(500, b"\xff\xfe", InternalError, "��", id="no text"),
        pytest.param(404, b'{"message": "not ours"}', NotFound, '{"message": "not ours"}', id="other JSON"),
        pytest.param(400, b"[1]", BadRequest, "[1]", id="a list"),
    ],
)
def test_a_body_that_is_no_status_is_tolerated(code: int, body: bytes, kind: type[ApiError], message: str) -> None:
    error = error_from(code, body, {})
    assert (type(error), error.message) == (kind, message)


def test_a_long_page_is_shown_in_part() -> None:
    assert len(error_from(503, b"x" * 100_000, {}).message) == 200


def test_a_status_of_unknown_reason_goes_by_its_code() -> None:
    assert type(error_from(409, as_json(status(409, "Whatever")), {})) is Conflict


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("7", 7.0), (" 7 ", 7.0), ("0", 0.0), ("", None), ("soon", None), ("-3", None)],
)
def test_retry_after_in_seconds(header: str, seconds: float | None) -> None:
    assert error_from(429, b"", {"Retry-After": header}).retry_after == seconds


def test_retry_after_as_a_date() -> None:
    header = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    after = error_from(429, b"", {"Retry-After": header}).retry_after
    assert after is not None
    assert 25 < after <= 30


def test_retry_after_in_the_details() -> None:
    assert error_from(500, as_json(status(500, "ServerTimeout", retryAfterSeconds=2)), {}).retry_after == 2


def test_a_missing_object_is_told_from_a_kind_that_is_not_served() -> None:
    missing = error_from(404, as_json(status(404, "NotFound", name="one", kind="things")), {})
    unknown = error_from(404, b"404 page not found", {})
    nameless = error_from(404, as_json(status(404, "NotFound")), {})
    assert [error.names_object for error in (missing, unknown, nameless) if isinstance(error, NotFound)] == [
        True,
        False,
        False,
    ]


def test_a_version_too_large_is_known_by_its_cause() -> None:
    by_cause = status(504, "Timeout", "whatever", causes=[{"reason": "ResourceVersionTooLarge"}])
    error = error_from(504, as_json(by_cause), {})
    assert isinstance(error, ServerTimeout)
    assert error.version_too_large
