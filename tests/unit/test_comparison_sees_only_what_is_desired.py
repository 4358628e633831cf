from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gpustack_op.api.kueue import ClusterQueue
from gpustack_op.api.meta import KubeObject
from gpustack_op.api.worker import InstanceType
from gpustack_op.runtime.comparison import Owned, UnknownFieldError, differs, remainder

QUOTA = "spec.resourceGroups.*.flavors.*.resources.*.nominalQuota"


class Port(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    port: int = 0
    protocol: str = ""


class PodSpec(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    ports: tuple[Port, ...] | None = None
    termination_grace_period_seconds: int = 0
    host_network: bool = False
    limits: dict[str, str | int] | None = None
    node_selector: dict[str, str] | None = None
    namespace_selector: dict[str, Any] | None = None


class Pod(KubeObject, frozen=True, gc=False, kw_only=True):
    spec: PodSpec = PodSpec()


def pod(**spec: Any) -> Pod:
    return msgspec.convert({"metadata": {"name": "p"}, "spec": spec}, Pod)


def spec(**fields: Any) -> dict[str, Any]:
    return {"spec": fields}


@pytest.mark.parametrize(
    ("desired", "present", "same"),
    [
        pytest.param(
            spec(ports=[{"port": 80}]),
            pod(ports=[{"port": 80, "protocol": "TCP"}], terminationGracePeriodSeconds=30),
            True,
            id="what the server fills in does not count",
        ),
        pytest.param(spec(ports=[{"port": 80}]), pod(ports=[{"port": 81}]), False, id="another value in a list"),
        pytest.param(spec(ports=[{"port": 80}]), pod(ports=[{"port": 80}, {"port": 81}]), False, id="a longer list"),
        pytest.param(spec(ports=[]), pod(), True, id="an empty list is an absent one"),
        pytest.param(spec(ports=[]), pod(ports=[{"port": 80}]), False, id="a list to be emptied"),
        pytest.param(spec(hostNetwork=False), pod(), True, id="a default is an absent field"),
        pytest.param(spec(hostNetwork=True), pod(), False, id="not the default"),
        pytest.param(
            spec(terminationGracePeriodSeconds=True), pod(terminationGracePeriodSeconds=1), False, id="1 is not true"
        ),
        pytest.param(spec(nodeSelector={"a": "b"}), pod(nodeSelector={"a": "b", "c": "d"}), True, id="keys of others"),
        pytest.param(spec(nodeSelector={"a": "b"}), pod(), False, id="a map that is not there"),
        pytest.param(spec(namespaceSelector={}), pod(), False, id="an empty selector is not an absent one"),
        pytest.param(spec(namespaceSelector={}), pod(namespaceSelector={}), True, id="two empty selectors"),
        pytest.param(spec(nodeSelector=None), pod(), True, id="absent as wanted"),
        pytest.param(spec(nodeSelector=None), pod(nodeSelector={"a": "b"}), False, id="present though unwanted"),
        pytest.param({"apiVersion": "v1", "kind": "Pod", "spec": {}}, pod(), True, id="the type is no field"),
    ],
)
def test_only_desired_fields_are_compared(desired: dict[str, Any], present: Pod, same: bool) -> None:
    assert differs(desired, present) is not same


@pytest.mark.parametrize(
    ("desired", "present", "same"),
    [
        ("2048Mi", "2Gi", True),
        ("1000m", "1", True),
        ("1e3", "1k", True),
        (1, "1", True),
        ("1600000", "1600k", True),
        ("2Gi", "2G", False),
        ("1", "2", False),
        ("plenty", "plenty", True),
        ("plenty", "2Gi", False),
        (True, 1, False),
    ],
)
def test_quantities_compare_by_value(desired: object, present: object, same: bool) -> None:
    owned = Owned(quantities=("spec.limits.*",))
    present_pod = pod(limits={"memory": present})
    assert differs(spec(limits={"memory": desired}), present_pod, owned) is not same


def test_a_text_at_a_path_that_holds_no_quantity_compares_as_text() -> None:
    assert differs(spec(nodeSelector={"memory": "2Gi"}), pod(nodeSelector={"memory": "2048Mi"}))


def queue(quota: str, **spec: Any) -> ClusterQueue:
    group = {
        "coveredResources": ["cpu"],
        "flavors": [{"name": "f", "resources": [{"name": "cpu", "nominalQuota": quota}]}],
    }
    return msgspec.convert({"metadata": {"name": "q"}, "spec": {"resourceGroups": [group], **spec}}, ClusterQueue)


def test_quantities_are_found_deep_in_lists() -> None:
    desired = spec(
        resourceGroups=[{"flavors": [{"name": "f", "resources": [{"name": "cpu", "nominalQuota": "1600000"}]}]}]
    )
    assert not differs(desired, queue("1600k", stopPolicy="None"), Owned(quantities=(QUOTA,)))
    assert differs(desired, queue("1601k"), Owned(quantities=(QUOTA,)))
    assert differs(desired, queue("1600k"))


def labelled(**labels: str) -> Pod:
    return msgspec.convert(
        {"metadata": {"name": "p", "labels": {k.replace("_", "/"): v for k, v in labels.items()}}}, Pod
    )


@pytest.mark.parametrize(
    ("exact", "patch"),
    [
        pytest.param((), {}, id="others may add keys"),
        pytest.param(("metadata.labels",), {"ours/b": None, "theirs/c": None}, id="a map that is ours alone"),
        pytest.param(("metadata.labels[ours/*]",), {"ours/b": None}, id="only keys of a prefix"),
        pytest.param(("metadata.labels[none/*]",), {}, id="a prefix nobody uses"),
    ],
)
def test_what_counts_as_too_many_is_declared(exact: tuple[str, ...], patch: dict[str, None]) -> None:
    desired = {"metadata": {"name": "p", "labels": {"ours/a": "1"}}}
    present = labelled(ours_a="1", ours_b="2", theirs_c="3")
    assert remainder(desired, present, Owned(exact=exact)).get("metadata", {}).get("labels", {}) == patch


def test_a_struct_that_is_ours_alone_has_its_other_fields_removed() -> None:
    present = pod(hostNetwork=True, nodeSelector={"a": "b"})
    assert remainder(spec(nodeSelector={"a": "b"}), present, Owned(exact=("spec",))) == {"spec": {"hostNetwork": None}}


def test_a_whole_status_is_compared_to_its_last_key() -> None:
    present = msgspec.convert({"status": {"phase": "A", "views": [{"x": 1, "y": 2}], "deep": {"old": 1}}}, InstanceType)
    desired = {"status": {"phase": "A", "views": [{"x": 1}], "deep": {}}}
    assert remainder(desired, present, Owned(exact=("status.**",))) == {
        "status": {"views": [{"x": 1}], "deep": {"old": None}}
    }
    assert not differs({"status": {"phase": "A"}}, present)


def test_a_field_that_is_ignored_is_never_a_difference() -> None:
    owned = Owned(exact=("spec.nodeSelector",), ignored=("spec.nodeSelector.time",))
    assert not differs(spec(nodeSelector={"time": "now"}), pod(nodeSelector={"time": "then"}), owned)
    assert not differs(spec(nodeSelector={}), pod(nodeSelector={"time": "then"}), owned)


def owned_by(*uids: str) -> list[dict[str, Any]]:
    return [{"apiVersion": "v1", "kind": "K", "name": "n", "uid": uid} for uid in uids]


def test_owners_and_finalizers_of_others_may_stand_beside_ours() -> None:
    metadata = {"name": "p", "ownerReferences": owned_by("a", "b"), "finalizers": ["theirs", "ours"]}
    present = msgspec.convert({"metadata": metadata}, Pod)
    desired = {"metadata": {"name": "p", "ownerReferences": owned_by("b"), "finalizers": ["ours"]}}
    assert not differs(desired, present)
    missing = {"metadata": {"name": "p", "ownerReferences": owned_by("c"), "finalizers": ["new"]}}
    patch = remainder(missing, present)["metadata"]
    assert [owner["uid"] for owner in patch["ownerReferences"]] == ["a", "b", "c"]
    assert patch["finalizers"] == ["theirs", "ours", "new"]


def test_block_owner_deletion_is_written_and_not_compared() -> None:
    present = msgspec.convert({"metadata": {"ownerReferences": owned_by("a")}}, Pod)
    desired = {"metadata": {"ownerReferences": [{**owned_by("a")[0], "blockOwnerDeletion": True}]}}
    assert not differs(desired, present)


@pytest.mark.parametrize("labels", [{}, None], ids=["empty", "none"])
def test_empty_metadata_maps_are_absent_ones(labels: dict[str, str] | None) -> None:
    assert not differs({"metadata": {"name": "p", "labels": labels, "annotations": {}}}, pod())


@pytest.mark.parametrize(
    "desired",
    [spec(unknown=1), spec(ports=[{"port": 80, "name": "http"}]), {"status": {}}],
    ids=["in a struct", "in a list", "at the top"],
)
def test_a_field_that_the_projection_lacks_is_a_defect(desired: dict[str, Any]) -> None:
    with pytest.raises(UnknownFieldError, match="Pod declares no field"):
        differs(desired, pod(ports=[{"port": 80}]))
