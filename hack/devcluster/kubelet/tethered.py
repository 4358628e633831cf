"""Becomes a command that the kernel kills when the process that asked for it dies: `tethered.py PARENT COMMAND…`.

A program of its own because forking Python code into a process with gRPC's threads is not safe.
"""

import ctypes
import os
import signal
import sys
from pathlib import Path

PR_SET_PDEATHSIG = 1

if __name__ == "__main__":
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(sys.argv[1]):
        sys.exit(1)
    # Python itself adds to its environment when it starts; the kernel shows what it was given.
    given = Path("/proc/self/environ").read_bytes().split(b"\0")
    os.execvpe(sys.argv[2], sys.argv[2:], dict(each.split(b"=", 1) for each in given if b"=" in each))
