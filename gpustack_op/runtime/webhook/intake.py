"""Takes the body of a review off the wire, or refuses it.

Guarantees   Never more than `BODY_LIMIT` bytes are held for one request, whatever its headers promise, and none for
             longer than `BODY_SECONDS`. A body that claims to be larger is refused before it is read.
Assumptions  The server leaves bodies compressed, so that none can grow while it is read.
Recovery     The refusal is the answer; the connection ends with it where the rest of the body is still under way.
"""

from __future__ import annotations

import asyncio

from aiohttp import web

JSON = "application/json"

BODY_LIMIT = 8 * 2**20
"""Bytes. The API server takes objects up to 3 MiB, and the review of an update holds the old and the new one."""

BODY_SECONDS = 10.0
"""The timeout of our registrations, after which nobody waits for the answer."""


async def read_body(request: web.Request) -> bytes:
    """The whole body; raises the HTTP refusal otherwise."""
    if request.content_type != JSON:
        raise web.HTTPBadRequest(text=f"expected content type {JSON}, not {request.content_type}")
    if (request.content_length or 0) > BODY_LIMIT:
        raise web.HTTPRequestEntityTooLarge(max_size=BODY_LIMIT, actual_size=request.content_length or 0)
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await request.read()
    except TimeoutError as error:
        raise web.HTTPRequestTimeout(text=f"the body did not arrive within {BODY_SECONDS:g} s") from error
