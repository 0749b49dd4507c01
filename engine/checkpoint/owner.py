"""The owner of something that a job has taken: others that want it name the owner."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Owner:
    """A job, and the process that drives it.

    >>> str(Owner("word count", "head", 17, 0.0))
    "job 'word count' (pid 17 on host head, started 1970-01-01 00:00:00 UTC)"
    """

    job: str
    host: str
    pid: int
    since: float
    """When it began, in seconds since 1970 by its own clock."""

    @classmethod
    def here(cls, job: str) -> Owner:
        """A job that this process begins to drive."""
        return cls(job, socket.gethostname(), os.getpid(), time.time())

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Owner:
        """From `to_dict`, or what JSON makes of it."""
        return cls(str(data["job"]), str(data["host"]), int(data["pid"]), float(data["since"]))

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return asdict(self)

    @property
    def is_dead(self) -> bool:
        """Whether the process is known to be dead; on another host that is never known."""
        if self.host == socket.gethostname():
            try:
                os.kill(self.pid, 0)
            except ProcessLookupError:
                return True
            except PermissionError:  # it is another user's
                return False
        return False

    def __str__(self) -> str:
        began = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(self.since))
        return f"job {self.job!r} (pid {self.pid} on host {self.host}, started {began})"
