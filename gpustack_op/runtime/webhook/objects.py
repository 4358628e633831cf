"""The kinds that the webhook server's own upkeep reads and writes."""

from __future__ import annotations

from typing import Any

import msgspec

from gpustack_op.api.meta import KubeObject, Resource

_GROUP, _VERSION = "admissionregistration.k8s.io", "v1"


class StoredSecret(KubeObject, frozen=True, gc=False, kw_only=True):
    """`data` values are base64 text, as on the wire."""

    data: dict[str, str] | None = None


class WebhookConfiguration(KubeObject, frozen=True, gc=False, kw_only=True):
    """Webhooks as decoded JSON: they are compared whole with what is wanted."""

    webhooks: tuple[dict[str, Any], ...] | None = None


class DefinitionSpec(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    conversion: dict[str, Any] | None = None


class ConvertedDefinition(KubeObject, frozen=True, gc=False, kw_only=True):
    """A CustomResourceDefinition, of which only the conversion is read."""

    spec: DefinitionSpec = DefinitionSpec()


STORED_SECRETS = Resource("", "v1", "secrets", "Secret", StoredSecret, namespaced=True)
MUTATING_CONFIGURATIONS = Resource(
    _GROUP, _VERSION, "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", WebhookConfiguration
)
VALIDATING_CONFIGURATIONS = Resource(
    _GROUP, _VERSION, "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", WebhookConfiguration
)
CONVERTED_DEFINITIONS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", ConvertedDefinition
)
