"""Projections of Node Feature Discovery's kinds."""

from __future__ import annotations

from typing import Any

import msgspec

from gpustack_op.api.meta import KubeObject, Resource


class AttributeFeature(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    elements: dict[str, str] | None = None


class FlagFeature(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    elements: dict[str, dict[str, str]] | None = None


class Features(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    attributes: dict[str, AttributeFeature] | None = None
    flags: dict[str, FlagFeature] | None = None


class NodeFeatureSpec(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    labels: dict[str, str] | None = None
    features: Features = Features()


class NodeFeature(KubeObject, frozen=True, gc=False, kw_only=True):
    spec: NodeFeatureSpec = NodeFeatureSpec()


class NodeFeatureRule(KubeObject, frozen=True, gc=False, kw_only=True):
    spec: dict[str, Any] | None = None


NODE_FEATURES = Resource("nfd.k8s-sigs.io", "v1alpha1", "nodefeatures", "NodeFeature", NodeFeature, namespaced=True)
NODE_FEATURE_RULES = Resource("nfd.k8s-sigs.io", "v1alpha1", "nodefeaturerules", "NodeFeatureRule", NodeFeatureRule)
