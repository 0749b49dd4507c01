"""The operating system: what only Linux has, and what takes its place on others, such as macOS.

Jobs run everywhere by the same code, and what differs is asked for here: no other module looks at
the platform. A build of the Rust core with the feature `portable` does without Linux on Linux, too,
and so does all of Python: `make portable` tests that.
"""

from __future__ import annotations

import fcntl
import os
import resource
import sys
from pathlib import Path
from typing import Literal

from engine.network import is_portable

IS_LINUX = not is_portable()
"""Whether what only Linux has is used."""

LOCAL_TRANSPORT: Literal["shm", "ipc"] = "shm" if IS_LINUX else "ipc"
"""The channels between tasks of one node."""


def usable_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if IS_LINUX else os.cpu_count() or 1


def most_memory() -> int:
    """The most bytes of memory that this process has had."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def path_of(descriptor: int) -> Path:
    """The path of the open file."""
    if sys.platform == "darwin":
        found = fcntl.fcntl(descriptor, fcntl.F_GETPATH, bytes(_LONGEST_PATH))
        return Path(os.fsdecode(found.rstrip(b"\0")))
    return Path(f"/proc/self/fd/{descriptor}").readlink()


def another_path_of(descriptor: int) -> str:
    """A path by which this process opens the file again, also one without a name."""
    return f"/proc/self/fd/{descriptor}" if IS_LINUX else f"/dev/fd/{descriptor}"


_LONGEST_PATH = 1024
"""PATH_MAX of macOS."""
