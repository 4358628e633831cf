"""Becomes a command that the kernel kills when the process that asked for it dies: `tethered.py PARENT COMMAND…`.

A program of its own because forking Python code into a process with gRPC's threads is not safe.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1

if __name__ == "__main__":
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(sys.argv[1]):
        sys.exit(1)
    os.execvp(sys.argv[2], sys.argv[2:])
