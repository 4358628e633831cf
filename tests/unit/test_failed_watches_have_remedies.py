from __future__ import annotations

import aiohttp
import pytest

from gpustack_op.runtime.errors import (
    BadRequest,
    Expired,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    ServerTimeout,
    TooManyRequests,
)
from gpustack_op.runtime.remedies import (
    BrokeOffError,
    Progress,
    Remedy,
    StreamingRefusedError,
    VersionsWentBackError,
    remedy,
)

REFUSED = Progress()
LISTING = Progress(listing=True, opened=True, heard=True)
SILENT = Progress(opened=True)
TALKING = Progress(opened=True, heard=True)


@pytest.mark.parametrize(
    ("error", "progress", "expected"),
    [
        pytest.param(Gone(410, "Gone", ""), TALKING, Remedy.LIST, id="the version is gone"),
        pytest.param(Expired(410, "Expired", ""), REFUSED, Remedy.LIST, id="the version has expired"),
        pytest.param(
            ServerTimeout(504, "Timeout", "Too large resource version: 7"), REFUSED, Remedy.LIST, id="version too large"
        ),
        pytest.param(ServerTimeout(504, "Timeout", "busy"), REFUSED, Remedy.RESUME, id="another timeout"),
        pytest.param(TimeoutError(), SILENT, Remedy.LIST, id="opened and silent"),
        pytest.param(TimeoutError(), TALKING, Remedy.RESUME, id="fell silent"),
        pytest.param(TimeoutError(), REFUSED, Remedy.RESUME, id="never opened"),
        pytest.param(NotFound(404, "NotFound", ""), REFUSED, Remedy.AWAIT_KIND, id="no such kind"),
        pytest.param(NotFound(404, "NotFound", "", details={"name": "a"}), REFUSED, Remedy.RESUME, id="no such object"),
        pytest.param(StreamingRefusedError(), LISTING, Remedy.USE_PAGES, id="the wish to stream was ignored"),
        pytest.param(Invalid(422, "Invalid", ""), LISTING, Remedy.USE_PAGES, id="streaming is invalid"),
        pytest.param(BadRequest(400, "BadRequest", ""), LISTING, Remedy.USE_PAGES, id="streaming is a bad request"),
        pytest.param(BadRequest(400, "BadRequest", ""), REFUSED, Remedy.RESUME, id="a bad request while watching"),
        pytest.param(VersionsWentBackError(), TALKING, Remedy.LIST_EVERYTHING, id="versions went back"),
        pytest.param(BrokeOffError(), TALKING, Remedy.RESUME, id="ended early"),
        pytest.param(Forbidden(403, "Forbidden", ""), REFUSED, Remedy.RESUME, id="forbidden"),
        pytest.param(TooManyRequests(429, "TooManyRequests", ""), REFUSED, Remedy.RESUME, id="throttled"),
        pytest.param(aiohttp.ClientPayloadError(), TALKING, Remedy.RESUME, id="connection cut"),
        pytest.param(RuntimeError(), TALKING, Remedy.RESUME, id="what nobody thought of"),
    ],
)
def test_remedy(error: Exception, progress: Progress, expected: Remedy) -> None:
    assert remedy(error, progress) is expected
