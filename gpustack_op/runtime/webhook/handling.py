"""Runs a handler on a review and turns every outcome, failures included, into one verdict.

Guarantees   Nothing a handler raises gets past here. An API server that cannot be asked is 503: the same request may
             be fine in a moment. Anything unforeseen is 500, names the object, and has its traceback in the log.
Assumptions  A handler that is cut leaves nothing behind, as it has no side effects.
Recovery     None kept; the next review is judged on its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from gpustack_op.runtime.errors import NETWORK_ERRORS, ApiError
from gpustack_op.runtime.logging import logger
from gpustack_op.runtime.webhook.patch import Operation, json_patch
from gpustack_op.runtime.webhook.review import (
    ALLOWED,
    AdmissionRequest,
    Defaulted,
    Defaulter,
    RefusalError,
    Review,
    Validator,
    Verdict,
    unavailable,
)

HANDLER_SECONDS = 9.0
"""For a handler to answer; below the registered timeout of 10 s, so that our own sentence still arrives."""

Judgement = tuple[Verdict, list[Operation]]
Handler = Callable[[Review], Awaitable[Judgement]]

log = logger("webhook")


def defaulting(defaulter: Defaulter) -> Handler:
    async def default(review: Review) -> Judgement:
        before = review.original()
        if before is None:
            return ALLOWED, []
        answer = await defaulter(review.request)
        defaulted = answer if isinstance(answer, Defaulted) else Defaulted(answer)
        return Verdict(warnings=defaulted.warnings), json_patch(before, defaulted.object)

    return default


def validating(validator: Validator) -> Handler:
    async def validate(review: Review) -> Judgement:
        return await validator(review.request), []

    return validate


async def judge(path: str, handler: Handler, review: Review) -> Judgement:
    try:
        async with asyncio.timeout(HANDLER_SECONDS):
            return await handler(review)
    except RefusalError as refused:
        return refused.verdict, []
    except Exception as error:
        return _failed(path, review.request, error), []


def _failed(path: str, request: AdmissionRequest, error: Exception) -> Verdict:
    doing = f"{request.operation} of {request.subject}"
    if isinstance(error, TimeoutError):
        log.warning("webhook.handler_too_slow", path=path, seconds=HANDLER_SECONDS)
        return unavailable(f"{doing} could not be judged within {HANDLER_SECONDS:g} s; try again")
    if isinstance(error, NETWORK_ERRORS):
        return unavailable(f"{doing} could not be judged, the API server did not answer: {error}; try again")
    if isinstance(error, ApiError):
        return unavailable(f"{doing} could not be judged, the API server answered: {error.message}; try again")
    log.error("webhook.handler_failed", path=path, operation=request.operation, name=request.name, exc_info=error)
    return Verdict(
        allowed=False,
        message=f"{doing} failed in the webhook with {type(error).__name__}; "
        "this is a defect of the operator, whose log has the details",
        code=500,
        reason="InternalError",
    )
