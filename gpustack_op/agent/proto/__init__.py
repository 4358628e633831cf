"""The kubelet's interfaces for device plugins and for what Pods hold: our own protocol files and their stubs.

Everything but the `.proto` files is generated: `hack/generate protos`.
"""
