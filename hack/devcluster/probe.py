"""Asks a server whether it is ready."""

from __future__ import annotations

import ssl
from pathlib import Path

import aiohttp

from devcluster.process import Process
from devcluster.supervisor import Ready

TIMEOUT = aiohttp.ClientTimeout(total=2)


def http_ready(url: str, *, authority: Path | None = None) -> Ready:
    """Ready when the URL answers 200. `authority` holds the certificate that an https server is verified by."""

    context = ssl.create_default_context(cafile=authority) if authority is not None else True

    async def ready(_process: Process) -> bool:
        try:
            async with aiohttp.ClientSession(timeout=TIMEOUT) as session, session.get(url, ssl=context) as answer:
                return answer.status == 200
        except (aiohttp.ClientError, OSError, TimeoutError):
            return False

    return ready


def says(text: str) -> Ready:
    """Ready when the process has logged this, for programs that answer no question."""

    async def ready(process: Process) -> bool:
        return text in process.output()

    return ready


async def at_once(_process: Process) -> bool:
    """Ready as soon as it runs."""
    return True
