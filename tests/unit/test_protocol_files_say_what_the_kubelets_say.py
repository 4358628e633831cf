"""Our protocol files beside the facts that were read from the kubelet's own."""

from __future__ import annotations

import json
from pathlib import Path

from google.protobuf.descriptor_pb2 import FileDescriptorProto

from devcluster.protocols import Facts, facts
from gpustack_op.agent.proto import deviceplugin_pb2, podresources_pb2

KUBELET: Facts = json.loads(Path(__file__).with_name("kubelet_facts.json").read_text())


def test_packages_services_messages_fields_numbers_and_types_are_the_kubelets() -> None:
    plugin, resources = FileDescriptorProto(), FileDescriptorProto()
    deviceplugin_pb2.DESCRIPTOR.CopyToProto(plugin)
    podresources_pb2.DESCRIPTOR.CopyToProto(resources)
    assert facts(plugin) | facts(resources) == KUBELET


def test_what_two_sides_agree_on_is_told_in_one_line_each() -> None:
    assert KUBELET["v1beta1.DevicePlugin.ListAndWatch"] == "v1beta1.Empty -> stream v1beta1.ListAndWatchResponse"
    assert KUBELET["v1beta1.ContainerAllocateResponse.envs"] == (
        "repeated v1beta1.ContainerAllocateResponse.EnvsEntry 1"
    )
    assert KUBELET["v1beta1.ContainerAllocateResponse.EnvsEntry.value"] == "string 2"
    assert KUBELET["v1.ClaimResource.share_id"] == "optional string 5"
