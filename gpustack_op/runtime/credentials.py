"""Keeps the bearer token, and the certificates we trust and show, as fresh as their files.

Guarantees   A changed token is used within `interval` seconds, and at once after the server refused the old one; a
             new certificate authority is used for every connection made after that.
Assumptions  Files are swapped by a symlink or written anew; reading them does not block (a memory file system, or a
             few kilobytes of a local disk).
Recovery     A file that is empty, half-written or gone for a moment keeps what was read before; one log line says so,
             and one says when it is good again.
"""

from __future__ import annotations

import asyncio
import hashlib
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpustack_op.runtime.config import ClientConfig, ConfigError
from gpustack_op.runtime.logging import logger

log = logger("credentials")

RECHECK: Final = 20.0
"""Seconds between looks at the files. The kubelet writes a new token when a fifth of the old one's life is left."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What one request is sent with."""

    authorization: str
    tls: ssl.SSLContext | bool


class Credentials:
    def __init__(
        self, config: ClientConfig, *, interval: float = RECHECK, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._config = config
        self._interval = interval
        self._monotonic = monotonic
        self._read_at: float | None = None
        self._proof = Proof("", True)
        self._certificates = b""
        self._renewing = asyncio.Lock()
        self._failing = False

    async def current(self) -> Proof:
        """What to send now. Raises ConfigError only when nothing could ever be read."""
        if self._read_at is None or self._monotonic() - self._read_at >= self._interval:
            await self._renew(refused=False)
        return self._proof

    async def refused(self, proof: Proof) -> Proof:
        """What to send after the server refused that one; of many who were refused together one fetches it for all."""
        async with self._renewing:
            if proof.authorization == self._proof.authorization:
                await self._renew(refused=True)
        return self._proof

    async def _renew(self, *, refused: bool) -> None:
        first, self._read_at = self._read_at is None, self._monotonic()
        try:
            if self._config.refresh is not None and not first:
                self._config = await self._config.refresh(refused)
            self._proof = Proof(self._authorization(), self._tls())
        except Exception as error:
            # Whatever a credential plugin raises: the credentials at hand may well be good.
            if first:
                self._read_at = None
                raise ConfigError(f"credentials cannot be read: {error}") from error
            self._say(failing=True, error=str(error))
        else:
            self._say(failing=False)

    def _authorization(self) -> str:
        if self._config.token_file is None:
            return self._config.authorization
        token = self._config.token_file.read_text().strip()
        if not token:
            raise ConfigError(f"{self._config.token_file} is empty")
        return f"Bearer {token}"

    def _tls(self) -> ssl.SSLContext | bool:
        """A new context only for new contents: connections are pooled by their context."""
        contents = b"".join(_digest(path) for path in self._certificate_files())
        if contents != self._certificates or self._proof.tls is True:
            context = self._context()
            self._certificates = contents
            return context
        return self._proof.tls

    def _certificate_files(self) -> list[Path]:
        config = self._config
        return [path for path in (config.ca_file, config.certificate_file, config.key_file) if path is not None]

    def _context(self) -> ssl.SSLContext:
        config = self._config
        context = ssl.create_default_context(cafile=config.ca_file)
        if not config.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if config.certificate_file is not None:
            context.load_cert_chain(config.certificate_file, config.key_file)
        return context

    def _say(self, *, failing: bool, error: str = "") -> None:
        if failing and not self._failing:
            log.warning("credentials.unreadable", error=error)
        elif self._failing and not failing:
            log.info("credentials.readable")
        self._failing = failing


def _digest(path: Path) -> bytes:
    return hashlib.sha256(path.read_bytes()).digest()
