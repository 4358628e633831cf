"""The container runtime of all simulated nodes: child processes that outlive the kubelet which asked for them.

`runtime` holds the processes. The cluster runs it in a process of its own (`__main__`) that listens on a socket;
kubelets reach it through `client`, and tests may use it directly. Both look like `interface.Runtime`.
"""
