"""Kueue's configuration: credits, closed namespaces, and what is switched off."""

from __future__ import annotations

from gpustack_op.scheduling.kueue_config import kueue_config
from gpustack_op.scheduling.manufacturers import Manufacturer, Manufacturers


def test_requests_become_credits_of_their_manufacturer() -> None:
    acme = Manufacturers([Manufacturer("acme", "1234", "acme.com/gpu", "acme", "mig")])
    assert kueue_config(manufacturers=acme)["resources"] == {
        "quotaCheckStrategy": "IgnoreUndeclared",
        "transformations": [
            {"input": "acme.com/gpu", "strategy": "Replace", "outputs": {"credits.gpustack.ai/acme": "1600000"}},
            {"input": "acme.com/gpu.shared", "strategy": "Replace", "outputs": {"credits.gpustack.ai/acme": "160000"}},
            {
                "input": "acme.com/gpu.sliced.units",
                "strategy": "Replace",
                "outputs": {"credits.gpustack.ai/acme": "1"},
                "multiplyBy": "acme.com/gpu.sliced",
            },
            {
                "input": "acme.com/gpu.partitioned.units",
                "strategy": "Replace",
                "outputs": {"credits.gpustack.ai/acme": "1"},
            },
        ],
    }


def test_a_manufacturer_that_cannot_partition_has_no_partition_credits() -> None:
    acme = Manufacturers([Manufacturer("acme", "1234", "acme.com/gpu", "acme")])
    inputs = [rule["input"] for rule in kueue_config(manufacturers=acme)["resources"]["transformations"]]
    assert inputs == ["acme.com/gpu", "acme.com/gpu.shared", "acme.com/gpu.sliced.units"]


def test_the_control_plane_s_namespaces_are_closed() -> None:
    config = kueue_config(namespace="queues", system_namespace="ours", nfd_namespace="features")
    assert config["managedJobsNamespaceSelector"] == {
        "matchExpressions": [
            {
                "key": "kubernetes.io/metadata.name",
                "operator": "NotIn",
                "values": ["kube-system", "kube-public", "kube-node-lease", "ours", "features", "queues"],
            }
        ]
    }


def test_slow_pods_are_not_given_up_and_bursts_are_not_throttled() -> None:
    config = kueue_config()
    assert config["featureGates"]["DisableWaitForPodsReady"] is True
    assert "waitForPodsReady" not in config
    assert config["clientConnection"] == {"qps": 200, "burst": 400}
