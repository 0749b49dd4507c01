"""Whether the process of a job lives: its number may be that of another one by now."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any


def this_process() -> dict[str, Any]:
    """What tells this process from all others, of this machine and of others."""
    return {"host": socket.gethostname(), "pid": os.getpid(), "began": _began(os.getpid())}


def is_alive(process: object) -> bool | None:
    """Whether the process lives, as `this_process` told it; None if that is not known here."""
    if not isinstance(process, dict) or process.get("host") != socket.gethostname():
        return None
    pid = process.get("pid")
    if not isinstance(pid, int) or pid <= 0:
        return None
    began = process.get("began")
    if began is not None and Path("/proc/self/stat").exists():
        return bool(_began(pid) == began)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it is another user's
        return True
    return True


def _began(pid: int) -> str | None:
    """When it began, in ticks since this boot of the machine; None where it is not, or unknown."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # the name of the program may have spaces
    if fields[0] in "ZX":
        return None
    return f"{boot[:8]}-{fields[19]}"
