"""A simulated kubelet: of one node, in a process of its own, behind the interfaces that a real one has.

What it does at the device-plugin and pod-resources sockets, to Pods and to its node is meant to be what the real one
does, neither stricter nor laxer; `docs/development-cluster.md` tells where it stops. Where the parts are:

registration, plugin    the sockets of device plugins
devices, grants, allocation, checkpoint, manager    who holds which devices
pod_resources           the socket that tells it
admission, predicates   whether a Pod may run
worker, lineup, launch, environment, given, status, reports    one Pod's life
streaming, exec, logs   kubectl exec and kubectl logs
kubelet, pods, folders, settings    all together
"""
