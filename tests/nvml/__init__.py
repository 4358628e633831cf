"""A stand-in for NVIDIA's library: `library.c` compiled by the test run, and the machines it plays."""
