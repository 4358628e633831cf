"""Where settings are kept in the cluster: the Secret, and a Setting object each, both in the operator's namespace."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass

from gpustack_op.api.core import SECRETS, Secret
from gpustack_op.api.worker import SETTINGS, Setting
from gpustack_op.operator.settings.catalog import CATALOG
from gpustack_op.operator.settings.verdict import Seen, Verdict, judge
from gpustack_op.runtime.cache import Caches, Informer, Selector
from gpustack_op.scheduling.names import SETTINGS_SECRET

COPIED = "gpustack.ai/copied-value"
"""Annotation of a Setting while its spec was written by the operator and its status has yet to follow."""


@dataclass(frozen=True, slots=True)
class Sources:
    """The two informers, and what they say."""

    secrets: Informer[Secret]
    settings: Informer[Setting]
    namespace: str

    @classmethod
    def of(cls, caches: Caches, namespace: str) -> Sources:
        """Asks for the one Secret and for the Settings of the operator's own namespace only."""
        only = Selector(namespace=namespace, fields=f"metadata.name={SETTINGS_SECRET}")
        return cls(
            secrets=caches.informer(SECRETS, only),
            settings=caches.informer(SETTINGS, Selector(namespace=namespace)),
            namespace=namespace,
        )

    def secret(self) -> Secret | None:
        return self.secrets.get(SETTINGS_SECRET, self.namespace)

    def setting(self, name: str) -> Setting | None:
        return self.settings.get(name, self.namespace)

    def verdicts(self, seeds: Mapping[str, str]) -> dict[str, Verdict]:
        """The verdict on every setting of the catalog, by name."""
        secret = self.secret()
        return {
            name: judge(declared, seen(name, secret, self.setting(name)), seeds[name])
            for name, declared in CATALOG.items()
        }


def seen(name: str, secret: Secret | None, setting: Setting | None) -> Seen:
    encoded = (secret.data or {}).get(name) if secret is not None else None
    stored = base64.b64decode(encoded) if encoded is not None else None
    if setting is None:
        return Seen(stored=stored)
    return Seen(
        stored=stored,
        spec=setting.spec.value,
        in_force=setting.status.value,
        copied=setting.annotations.get(COPIED),
    )


def encoded(text: str) -> str:
    """As a Secret's `data` holds it."""
    return base64.b64encode(text.encode()).decode()
