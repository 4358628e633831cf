"""What the API server can refuse, as one tree of exceptions.

Policy
  An answer that is no success becomes an `ApiError`, or the subclass for its reason. Callers catch the subclass they
  can deal with and let the rest travel: the controller retries with back-off.
  A connection that broke, could not be made or took too long is no answer: it stays what aiohttp and the operating
  system call it, and `NETWORK_ERRORS` names them all. Nobody else needs to know aiohttp.

Guarantees   Any body is tolerated: a Status, plain text, a proxy's HTML, nothing at all.
Assumptions  The reason in a Status says more than the HTTP code; the code decides where there is no known reason.
Recovery     None here; `retry_after` passes on what the server asked for.
"""

# Named as the API names its reasons, which callers know by heart.
# ruff: noqa: N818

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Final

import aiohttp
import msgspec

NETWORK_ERRORS: Final = (aiohttp.ClientError, OSError, TimeoutError)
"""What a request may raise when there was no answer."""

LONGEST_EXCERPT: Final = 200
"""Characters of an answer that is no Status which are worth showing."""


class ApiError(Exception):
    """The API server refused."""

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        *,
        details: Mapping[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{message} ({status} {reason})")
        self.status = status
        self.reason = reason
        self.message = message
        self.details = details
        self.retry_after = retry_after
        """Seconds that the server asked to wait."""

    @property
    def causes(self) -> list[dict[str, Any]]:
        return list((self.details or {}).get("causes") or [])


class BadRequest(ApiError):
    pass


class Unauthorized(ApiError):
    pass


class Forbidden(ApiError):
    pass


class NotFound(ApiError):
    @property
    def names_object(self) -> bool:
        """Whether the server knows the kind and misses the object; otherwise the kind itself is not served."""
        return bool((self.details or {}).get("name"))


class MethodNotAllowed(ApiError):
    pass


class NotAcceptable(ApiError):
    pass


class Conflict(ApiError):
    """The object is not, or no longer, what the request assumed."""


class AlreadyExists(Conflict):
    perhaps_ours: bool = False
    """Whether an earlier attempt of the same create got no answer, so that the object may be the one we made."""


class Gone(ApiError):
    """The version, or the page, that was asked for is no longer kept; list again."""


class Expired(Gone):
    pass


class TooLarge(ApiError):
    pass


class Unsupported(ApiError):
    """The server does not read the content type."""


class Invalid(ApiError):
    pass


class TooManyRequests(ApiError):
    pass


class InternalError(ApiError):
    pass


class ServiceUnavailable(ApiError):
    pass


class ServerTimeout(ApiError):
    @property
    def version_too_large(self) -> bool:
        """Whether the server has not yet seen the version that was asked for, or lost it in a restore."""
        return any(cause.get("reason") == "ResourceVersionTooLarge" for cause in self.causes) or (
            "Too large resource version" in self.message
        )


class MalformedAnswer(Exception):
    """A successful answer that is not what the API promises."""


_BY_REASON: Final[Mapping[str, type[ApiError]]] = {
    "BadRequest": BadRequest,
    "Unauthorized": Unauthorized,
    "Forbidden": Forbidden,
    "NotFound": NotFound,
    "MethodNotAllowed": MethodNotAllowed,
    "NotAcceptable": NotAcceptable,
    "AlreadyExists": AlreadyExists,
    "Conflict": Conflict,
    "Gone": Gone,
    "Expired": Expired,
    "RequestEntityTooLarge": TooLarge,
    "UnsupportedMediaType": Unsupported,
    "Invalid": Invalid,
    "TooManyRequests": TooManyRequests,
    "InternalError": InternalError,
    "ServiceUnavailable": ServiceUnavailable,
    "ServerTimeout": ServerTimeout,
    "Timeout": ServerTimeout,
}

_BY_STATUS: Final[Mapping[int, tuple[type[ApiError], str]]] = {
    400: (BadRequest, "BadRequest"),
    401: (Unauthorized, "Unauthorized"),
    403: (Forbidden, "Forbidden"),
    404: (NotFound, "NotFound"),
    405: (MethodNotAllowed, "MethodNotAllowed"),
    406: (NotAcceptable, "NotAcceptable"),
    409: (Conflict, "Conflict"),
    410: (Gone, "Gone"),
    413: (TooLarge, "RequestEntityTooLarge"),
    415: (Unsupported, "UnsupportedMediaType"),
    422: (Invalid, "Invalid"),
    429: (TooManyRequests, "TooManyRequests"),
    500: (InternalError, "InternalError"),
    502: (ServiceUnavailable, "BadGateway"),
    503: (ServiceUnavailable, "ServiceUnavailable"),
    504: (ServerTimeout, "Timeout"),
}


def error_from(status: int, body: bytes, headers: Mapping[str, str]) -> ApiError:
    """The exception for an answer that is no success."""
    try:
        answer = msgspec.json.decode(body)
    except ValueError:
        answer = None
    if isinstance(answer, dict) and answer.get("kind") == "Status":
        return error_from_status(answer, status=status, retry_after=_retry_after(headers))
    kind, reason = _BY_STATUS.get(status, (ApiError, "Unknown"))
    return kind(status, reason, _excerpt(body) or "no explanation", retry_after=_retry_after(headers))


def error_from_status(answer: Mapping[str, Any], *, status: int = 0, retry_after: float | None = None) -> ApiError:
    """The exception for a Status object, which also comes as the last event of a watch."""
    code = _number(answer.get("code")) or status or 500
    fallback, unknown = _BY_STATUS.get(code, (ApiError, "Unknown"))
    reason = str(answer.get("reason") or unknown)
    details = answer.get("details")
    details = details if isinstance(details, dict) else None
    return _BY_REASON.get(reason, fallback)(
        code,
        reason,
        str(answer.get("message") or "no explanation"),
        details=details,
        retry_after=retry_after if retry_after is not None else _number((details or {}).get("retryAfterSeconds")),
    )


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds, from either of the two forms HTTP allows."""
    text = headers.get("Retry-After", "").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time()) if text else None
    except ValueError:
        return None


def _excerpt(body: bytes) -> str:
    text = re.sub(r"(?s)<(script|style).*?</\1>|<[^>]*>", " ", body[: 16 * LONGEST_EXCERPT].decode(errors="replace"))
    return " ".join(text.split())[:LONGEST_EXCERPT]
