"""The end of a worker's pod: Ray drains the node, and running tasks have some time to leave."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path


def drain(seconds: int, processes: Path = Path("/proc")) -> None:
    """Tell Ray that this node ends in so many seconds.

    Return when no task is left, or at that time.
    """
    end = time.monotonic() + seconds
    subprocess.run([*DRAIN_NODE, str(seconds)], check=False)
    while time.monotonic() < end and _has_tasks(processes):
        time.sleep(min(1.0, max(0.0, end - time.monotonic())))


def _has_tasks(processes: Path) -> bool:
    for path in processes.glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().startswith(b"ray::Worker"):  # what Ray calls Oka's actors
                return True
        except OSError:  # it has ended
            continue
    return False


DRAIN_NODE = (
    "ray", "drain-node", "--reason=DRAIN_NODE_REASON_PREEMPTION",
    "--reason-message=the pod is ending", "--deadline-remaining-seconds",
)  # fmt: skip
