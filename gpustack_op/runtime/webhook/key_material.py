"""Hands a key pair to the TLS library, which takes files only.

Guarantees   The private key never touches a disk: the files live in memory and are gone when this returns. A pair that
             does not fit together leaves the context as it was.
Assumptions  Linux.
Recovery     None needed; connections that are open keep the pair they began with.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

from gpustack_op.runtime.webhook.certificates import Pair


def load(context: ssl.SSLContext, pair: Pair) -> None:
    """Every connection opened from now on is served with this pair."""
    with _in_memory(pair.certificate_pem) as certificate, _in_memory(pair.key_pem) as key:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
        context.load_cert_chain(certificate, key)


@contextmanager
def _in_memory(content: bytes) -> Iterator[str]:
    descriptor = os.memfd_create("pem", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
