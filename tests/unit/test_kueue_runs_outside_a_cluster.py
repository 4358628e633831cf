"""How Kueue's own manifests and our configuration are bent so that one process on loopback can use them."""

from __future__ import annotations

import base64
from typing import Any

from devcluster.kueue import development_configuration, registered, served_alone

AUTHORITY = b"an authority"
BUNDLE = base64.b64encode(AUTHORITY).decode()
URL = "https://127.0.0.1:1234"
SELECTOR = {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["nfd"]}]}


def crd(plural: str) -> dict[str, Any]:
    versions = [{"name": "v1beta1", "storage": False}, {"name": "v1beta2", "storage": True}]
    return {"kind": "CustomResourceDefinition", "spec": {"names": {"plural": plural}, "versions": versions}}


def webhook(name: str, group: str, resource: str) -> dict[str, Any]:
    return {
        "name": name,
        "clientConfig": {"service": {"name": "webhook-service", "namespace": "system", "path": f"/{name}"}},
        "rules": [{"apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [resource]}],
    }


def configuration(*webhooks: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": "mutating-webhook-configuration"}
    return {"kind": "MutatingWebhookConfiguration", "metadata": metadata, "webhooks": list(webhooks)}


def test_only_the_stored_version_is_served() -> None:
    served = served_alone(crd("topologies"), url=URL, authority=AUTHORITY)
    assert served["spec"] == {"names": {"plural": "topologies"}, "versions": [{"name": "v1beta2", "storage": True}]}


def test_a_kind_whose_conversion_kueue_looks_after_keeps_the_stanza() -> None:
    served = served_alone(crd("workloads"), url=URL, authority=AUTHORITY)
    assert served["spec"]["conversion"] == {
        "strategy": "Webhook",
        "webhook": {
            "conversionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://127.0.0.1:1234/convert", "caBundle": BUNDLE},
        },
    }


def test_webhooks_are_reached_by_url() -> None:
    wanted = registered(
        configuration(webhook("mclusterqueue", "kueue.x-k8s.io", "clusterqueues")),
        [],
        SELECTOR,
        url=URL,
        authority=AUTHORITY,
    )
    assert wanted["metadata"] == {"name": "kueue-mutating-webhook-configuration"}
    assert [each["clientConfig"] for each in wanted["webhooks"]] == [
        {"url": "https://127.0.0.1:1234/mclusterqueue", "caBundle": BUNDLE}
    ]


def test_webhooks_of_kinds_that_nobody_uses_are_left_out() -> None:
    given = configuration(
        webhook("mpod", "", "pods"),
        webhook("mjob", "batch", "jobs"),
        webhook("mrayjob", "ray.io", "rayjobs"),
        webhook("vworkload", "kueue.x-k8s.io", "workloads"),
    )
    wanted = registered(given, ["pod"], SELECTOR, url=URL, authority=AUTHORITY)
    assert [each["name"] for each in wanted["webhooks"]] == ["mpod", "vworkload"]


def test_only_other_peoples_kinds_are_left_alone_in_closed_namespaces() -> None:
    given = configuration(webhook("mpod", "", "pods"), webhook("vworkload", "kueue.x-k8s.io", "workloads"))
    pod, workload = registered(given, ["pod"], SELECTOR, url=URL, authority=AUTHORITY)["webhooks"]
    assert pod["namespaceSelector"] == SELECTOR
    assert "namespaceSelector" not in workload


def test_what_is_ours_in_the_configuration_stays_and_only_places_change() -> None:
    configured = {
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": ":8081"},
        "leaderElection": {"leaderElect": True, "resourceName": "x"},
        "resources": {"quotaCheckStrategy": "IgnoreUndeclared"},
    }
    developed = development_configuration(configured, health="127.0.0.1:1", webhook_port=2, certificates="/certs")
    assert developed == {
        "kind": "Configuration",
        "namespace": "kueue-system",
        "health": {"healthProbeBindAddress": "127.0.0.1:1"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": "127.0.0.1", "port": 2, "certDir": "/certs"},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {
            "enable": True,
            "webhookServiceName": "kueue-webhook-service",
            "webhookSecretName": "kueue-webhook-server-cert",
        },
        "resources": {"quotaCheckStrategy": "IgnoreUndeclared"},
    }
