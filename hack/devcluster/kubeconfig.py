"""Kubeconfigs that hold everything they need, so that a person can copy one anywhere.

They are written as JSON, which is YAML that nobody reads otherwise: a cluster may be named `y`, or `12e3`.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path

from devcluster.certificates import KeyPair, write_private


def write_kubeconfig(path: Path, *, cluster: str, server: str, authority: bytes, user: str, pair: KeyPair) -> Path:
    """`server` is a URL, `authority` and `pair` are PEM. The file is the user's alone, since it holds a private key."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster, "cluster": {"server": server, "certificate-authority-data": _text(authority)}}],
        "users": [
            {
                "name": user,
                "user": {
                    "client-certificate-data": _text(pair.certificate),
                    "client-key-data": _text(pair.key),
                },
            }
        ],
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": user}}],
        "current-context": cluster,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_private(path, json.dumps(content, indent=2).encode())
    return path


def _text(pem: bytes) -> str:
    return base64.b64encode(pem).decode()
