"""The room for NVIDIA's management library: nothing outside imports its bindings."""
