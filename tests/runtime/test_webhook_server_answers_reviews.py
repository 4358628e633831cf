"""The webhook server over real TLS: patches, verdicts, refusals of broken requests, and metrics."""

from __future__ import annotations

import asyncio
import gzip
import tracemalloc
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from gpustack_op.runtime.errors import ServiceUnavailable
from gpustack_op.runtime.webhook import handling
from gpustack_op.runtime.webhook.field_errors import invalid, judged, required
from gpustack_op.runtime.webhook.review import (
    ALLOWED,
    AdmissionRequest,
    Defaulted,
    RefusalError,
    Verdict,
    unavailable,
)
from tests.runtime.webhook_stand import (
    JSON_HEADERS,
    Stand,
    local_keyring,
    new_server,
    patch_of,
    patched,
    review,
    standing,
)

PLAIN = {"metadata": {"name": "w1"}, "spec": {"size": 1}}


async def add_card(request: AdmissionRequest) -> dict[str, Any]:
    """Changes the object it was given, as handlers may."""
    assert request.object is not None
    metadata = request.object["metadata"]
    metadata["annotations"] = (metadata.get("annotations") or {}) | {"example.com/card-id": "7"}
    return request.object


async def warn(request: AdmissionRequest) -> Defaulted:
    return Defaulted(request.object or {}, warnings=("the size was guessed", "x" * 1000))


async def refuse_size(request: AdmissionRequest) -> Verdict:
    causes = [invalid("spec.size", "big", "must be a number"), required("spec.colour", "must be specified")]
    return judged(request.kind, request.name or "w1", causes)


async def crash(request: AdmissionRequest) -> Verdict:
    raise KeyError("spec")


async def not_yet(request: AdmissionRequest) -> Verdict:
    raise RefusalError(unavailable("the catalog is not read yet; try again"))


async def unreachable(request: AdmissionRequest) -> Verdict:
    raise ServiceUnavailable(503, "ServiceUnavailable", "etcd is away")


async def cut_off(request: AdmissionRequest) -> Verdict:
    raise ConnectionResetError("connection reset")


async def hang(request: AdmissionRequest) -> Verdict:
    await asyncio.Event().wait()
    return ALLOWED


async def remember(request: AdmissionRequest) -> Verdict:
    return Verdict(
        message="", warnings=(f"{request.operation} {request.subject} {request.dry_run} {request.user.name}",)
    )


@pytest.fixture
async def stand() -> AsyncIterator[Stand]:
    server, metrics = new_server()
    server.add_defaulter("/card", add_card)
    server.add_defaulter("/warn", warn)
    validators = {
        "/refuse": refuse_size,
        "/crash": crash,
        "/not-yet": not_yet,
        "/unreachable": unreachable,
        "/cut-off": cut_off,
        "/hang": hang,
        "/remember": remember,
    }
    for path, validator in validators.items():
        server.add_validator(path, validator)
    async with standing(server, local_keyring(), metrics) as started:
        yield started


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param({}, id="no annotations"),
        pytest.param({"annotations": None}, id="null annotations"),
        pytest.param({"annotations": {}}, id="empty annotations"),
        pytest.param({"annotations": {"other": "kept"}}, id="one annotation"),
        pytest.param({"generateName": "w-"}, id="a generated name"),
    ],
)
async def test_a_defaulted_object_comes_back_as_a_patch(stand: Stand, metadata: dict[str, Any]) -> None:
    answer = await stand.ask("/card", review({"metadata": metadata}, name="", dryRun=True))

    result: Any = {"metadata": metadata}
    for operation in patch_of(answer):
        result = patched(result, operation)
    assert answer["response"]["uid"] == "review-1"
    assert answer["response"]["patchType"] == "JSONPatch"
    assert result["metadata"]["annotations"] == (metadata.get("annotations") or {}) | {"example.com/card-id": "7"}


async def test_an_object_that_needs_no_default_gets_no_patch(stand: Stand) -> None:
    done = {"metadata": {"annotations": {"example.com/card-id": "7"}}}

    answer = await stand.ask("/card", review(done))

    assert answer["response"] == {"uid": "review-1", "allowed": True}


async def test_a_deletion_is_not_defaulted(stand: Stand) -> None:
    answer = await stand.ask("/card", review(None, old=PLAIN, operation="DELETE"))

    assert answer["response"] == {"uid": "review-1", "allowed": True}


async def test_warnings_travel_and_are_shortened(stand: Stand) -> None:
    answer = await stand.ask("/warn", review(PLAIN))

    assert answer["response"]["warnings"] == ["the size was guessed", "x" * 255 + "…"]


async def test_a_refusal_tells_every_field(stand: Stand) -> None:
    answer = await stand.ask("/refuse", review(PLAIN))

    assert answer["response"]["status"] == {
        "status": "Failure",
        "code": 422,
        "reason": "Invalid",
        "message": 'Widget.example.com "w1" is invalid: [spec.size: Invalid value: "big": must be a number, '
        "spec.colour: Required value: must be specified]",
        "details": {
            "name": "w1",
            "group": "example.com",
            "kind": "Widget",
            "causes": [
                {
                    "reason": "FieldValueInvalid",
                    "field": "spec.size",
                    "message": 'Invalid value: "big": must be a number',
                },
                {
                    "reason": "FieldValueRequired",
                    "field": "spec.colour",
                    "message": "Required value: must be specified",
                },
            ],
        },
    }


@pytest.mark.parametrize(
    ("path", "code", "message"),
    [
        pytest.param(
            "/crash",
            500,
            'CREATE of Widget "w1" failed in the webhook with KeyError; '
            "this is a defect of the operator, whose log has the details",
            id="an exception is a defect",
        ),
        pytest.param("/not-yet", 503, "the catalog is not read yet; try again", id="not ready is worth another try"),
        pytest.param(
            "/unreachable",
            503,
            'CREATE of Widget "w1" could not be judged, the API server answered: etcd is away; try again',
            id="an API server in trouble is worth another try",
        ),
        pytest.param(
            "/cut-off",
            503,
            'CREATE of Widget "w1" could not be judged, the API server did not answer: connection reset; try again',
            id="a lost connection is worth another try",
        ),
    ],
)
async def test_a_failing_handler_refuses_with_one_message(stand: Stand, path: str, code: int, message: str) -> None:
    answer = await stand.ask(path, review(PLAIN))

    status = answer["response"]["status"]
    assert (answer["response"]["allowed"], status["code"], status["message"]) == (False, code, message)


async def test_a_handler_that_hangs_is_cut(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handling, "HANDLER_SECONDS", 0.05)

    answer = await stand.ask("/hang", review(PLAIN))

    assert answer["response"]["status"]["code"] == 503
    assert answer["response"]["status"]["message"].endswith("could not be judged within 0.05 s; try again")


async def test_a_handler_knows_who_asks_for_what(stand: Stand) -> None:
    unnamed = {"metadata": {"generateName": "w-"}}

    answer = await stand.ask("/remember", review(unnamed, dryRun=True))

    assert answer["response"]["warnings"] == ['CREATE Widget "w-" True jane']


@pytest.mark.parametrize("megabytes", [1.5, 6])
async def test_a_large_review_is_answered(stand: Stand, megabytes: float) -> None:
    half = {"metadata": {"name": "w1"}, "spec": {"blob": "b" * int(megabytes * 500_000)}}

    answer = await stand.ask("/remember", review(half, old=half))

    assert answer["response"]["allowed"] is True


async def twenty_megabytes() -> AsyncIterator[bytes]:
    for _ in range(320):
        yield b"x" * 62_500


async def test_a_huge_body_is_refused_unread_and_the_server_stays_up(stand: Stand) -> None:
    tracemalloc.start()

    status, _ = await stand.post("/remember", twenty_megabytes(), headers=JSON_HEADERS | {"Content-Length": "20000000"})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert status == 413
    assert peak < 4_000_000
    assert (await stand.ask("/remember", review(PLAIN)))["response"]["allowed"] is True


async def test_a_huge_body_of_unknown_length_is_refused(stand: Stand) -> None:
    status, _ = await stand.post("/remember", twenty_megabytes())

    assert status == 413
    assert (await stand.ask("/remember", review(PLAIN)))["response"]["allowed"] is True


GOOD = msgspec.json.encode(review(PLAIN))


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        pytest.param(GOOD, {"Content-Type": "text/plain"}, id="wrong content type"),
        pytest.param(b"", JSON_HEADERS, id="empty body"),
        pytest.param(b"{", JSON_HEADERS, id="broken JSON"),
        pytest.param(b"[" * 100_000, JSON_HEADERS, id="endless nesting"),
        pytest.param(b'{"apiVersion": "v1", "kind": "Pod"}', JSON_HEADERS, id="another kind"),
        pytest.param(GOOD.replace(b"k8s.io/v1", b"k8s.io/v1beta1"), JSON_HEADERS, id="an older version"),
        pytest.param(b"\xff" + GOOD, JSON_HEADERS, id="no text"),
        pytest.param(gzip.compress(GOOD), JSON_HEADERS | {"Content-Encoding": "gzip"}, id="compressed"),
    ],
)
async def test_a_broken_request_gets_400_and_the_server_stays_up(
    stand: Stand, body: bytes, headers: dict[str, str]
) -> None:
    status, _ = await stand.post("/remember", body, headers=headers)

    assert status == 400
    assert (await stand.ask("/remember", review(PLAIN)))["response"]["allowed"] is True


async def test_requests_are_counted_by_path_and_status(stand: Stand) -> None:
    await stand.ask("/remember", review(PLAIN))
    await stand.ask("/crash", review(PLAIN))
    await stand.post("/remember", b"")
    await stand.post("/unknown", GOOD)

    def counted(webhook: str, code: str) -> float | None:
        return stand.metrics.value("controller_runtime_webhook_requests_total", webhook=webhook, code=code)

    assert counted("/remember", "200") == 1
    assert counted("/remember", "400") == 1
    assert counted("/crash", "200") == 1
    assert counted("/unknown", "404") is None
    assert stand.metrics.value("controller_runtime_webhook_latency_seconds_count", webhook="/remember") == 2
    assert stand.metrics.value("controller_runtime_webhook_requests_in_flight", webhook="/remember") == 0
