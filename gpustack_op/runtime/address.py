"""Where a server listens, as people write it."""

from __future__ import annotations


def split_address(text: str) -> tuple[str, int]:
    """`host:port`, `:port` or `[::]:port`."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError(f'address "{text}" is not host:port, such as 127.0.0.1:8080')
    return host.strip("[]") or "0.0.0.0", int(port)
