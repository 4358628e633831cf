"""What the API server is told about our webhooks: the two configuration objects, made from the hooks themselves.

Guarantees   A configuration lists exactly the hooks it is made from, every field written out, so that a difference from
             what is stored is a difference that matters.
Assumptions  The operator owns these objects whole. Names are unique within a kind.
Recovery     None needed: pure functions; the keeper puts back what others change.
"""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol
from urllib.parse import urlsplit

from gpustack_op.api.meta import KubeObject, Resource
from gpustack_op.runtime.webhook.objects import (
    MUTATING_CONFIGURATIONS,
    VALIDATING_CONFIGURATIONS,
    WebhookConfiguration,
)
from gpustack_op.runtime.webhook.patch import same
from gpustack_op.runtime.webhook.review import API_VERSION

TIMEOUT_SECONDS = 10
"""Of a review, the API server's own default and a third of what it allows."""


@dataclass(frozen=True, slots=True)
class Hook:
    """One webhook: what it looks at and where it is served.

    `when` maps names to CEL conditions that must all hold; `labelled` names labels that the object must carry. What
    they exclude never reaches us, also while we are away. The labels are cheaper to ask for than a condition.
    `name` has at least three dotted parts, as Kubernetes demands.
    """

    name: str
    path: str
    resource: Resource[KubeObject]
    operations: tuple[str, ...] = ("CREATE", "UPDATE")
    when: tuple[tuple[str, str], ...] = ()
    labelled: tuple[str, ...] = ()
    failure_policy: Literal["Fail", "Ignore"] = "Fail"
    """`Ignore` lets the object pass while nobody answers, for what something else makes good later."""


class Address(Protocol):
    """How the API server reaches the server."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """What the serving certificate must name, the one the API server asks for first."""
        ...

    def client_config(self, path: str) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class ByService:
    """For a server that runs in the cluster."""

    name: str
    namespace: str
    port: int = 443

    @property
    def hosts(self) -> tuple[str, ...]:
        within = f"{self.name}.{self.namespace}"
        return f"{within}.svc", f"{within}.svc.cluster.local", within, self.name

    def client_config(self, path: str) -> dict[str, Any]:
        return {"service": {"name": self.name, "namespace": self.namespace, "port": self.port, "path": path}}


@dataclass(frozen=True, slots=True)
class ByUrl:
    """For a server outside the cluster: `url` is `https://host:port`, without a path."""

    url: str

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme != "https" or not parts.hostname or parts.query or parts.fragment or parts.username:
            raise ValueError(f'webhook URL "{self.url}" must be https://host:port')

    @property
    def hosts(self) -> tuple[str, ...]:
        return (_canonical(urlsplit(self.url).hostname or ""),)

    def client_config(self, path: str) -> dict[str, Any]:
        return {"url": self.url.rstrip("/") + path}


@dataclass(frozen=True, slots=True)
class Registration:
    """One configuration object: its kind, its name and the hooks it lists."""

    resource: Resource[WebhookConfiguration]
    name: str
    hooks: tuple[Hook, ...]

    @property
    def hook_names(self) -> frozenset[str]:
        return frozenset(hook.name for hook in self.hooks)

    def body(self, address: Address, bundle: bytes) -> dict[str, Any]:
        """The object to apply, less apiVersion and kind."""
        webhooks = [_webhook(hook, address, bundle) for hook in self.hooks]
        return {"metadata": {"name": self.name}, "webhooks": webhooks}


def mutating(name: str, hooks: Sequence[Hook]) -> Registration:
    return Registration(MUTATING_CONFIGURATIONS, name, tuple(hooks))


def validating(name: str, hooks: Sequence[Hook]) -> Registration:
    return Registration(VALIDATING_CONFIGURATIONS, name, tuple(hooks))


def ca_bundle(bundle: bytes) -> str:
    return base64.b64encode(bundle).decode()


def registered(wanted: Sequence[Mapping[str, Any]], present: Sequence[Mapping[str, Any]]) -> bool:
    """Whether these webhooks are stored, and no others. Fields that only the API server fills in do not count."""
    stored = {webhook.get("name"): webhook for webhook in present}
    return len(stored) == len(wanted) and all(
        webhook["name"] in stored and _covers(webhook, stored[webhook["name"]]) for webhook in wanted
    )


def trusting_patch(names: Container[str], present: Sequence[Mapping[str, Any]], bundle: bytes) -> list[dict[str, Any]]:
    """The JSON patch that corrects nothing but the `caBundle` of these webhooks."""
    patch: list[dict[str, Any]] = []
    for index, webhook in enumerate(present):
        stored = webhook.get("clientConfig", {}).get("caBundle")
        if webhook.get("name") in names and stored != ca_bundle(bundle):
            here = f"/webhooks/{index}"
            patch.append({"op": "test", "path": f"{here}/name", "value": webhook["name"]})
            patch.append({"op": "add", "path": f"{here}/clientConfig/caBundle", "value": ca_bundle(bundle)})
    return patch


def conversion_patch(conversion: Mapping[str, Any], bundle: bytes) -> list[dict[str, Any]]:
    """The same for a CustomResourceDefinition that converts through a webhook; empty when it does not."""
    client = (conversion.get("webhook") or {}).get("clientConfig")
    if client is None or client.get("caBundle") == ca_bundle(bundle):
        return []
    return [{"op": "add", "path": "/spec/conversion/webhook/clientConfig/caBundle", "value": ca_bundle(bundle)}]


def _covers(wanted: Any, present: Any) -> bool:
    if isinstance(wanted, Mapping) and isinstance(present, Mapping):
        return all(key in present and _covers(value, present[key]) for key, value in wanted.items())
    if isinstance(wanted, list) and isinstance(present, list | tuple):
        return len(wanted) == len(present) and all(map(_covers, wanted, present))
    return same(wanted, present)


def _webhook(hook: Hook, address: Address, bundle: bytes) -> dict[str, Any]:
    resource = hook.resource
    webhook: dict[str, Any] = {
        "name": hook.name,
        "admissionReviewVersions": [API_VERSION.rpartition("/")[2]],
        "clientConfig": address.client_config(hook.path) | {"caBundle": ca_bundle(bundle)},
        "rules": [
            {
                "apiGroups": [resource.group],
                "apiVersions": [resource.version],
                "resources": [resource.plural],
                "operations": list(hook.operations),
                "scope": "Namespaced" if resource.namespaced else "Cluster",
            }
        ],
        "matchConditions": [{"name": name, "expression": expression} for name, expression in hook.when],
        "failurePolicy": hook.failure_policy,
        "matchPolicy": "Equivalent",
        "sideEffects": "None",
        "timeoutSeconds": TIMEOUT_SECONDS,
    }
    if not hook.when:
        del webhook["matchConditions"]
    if hook.labelled:
        expressions = [{"key": key, "operator": "Exists"} for key in hook.labelled]
        webhook["objectSelector"] = {"matchExpressions": expressions}
    return webhook


def _canonical(host: str) -> str:
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return host
