"""The processes of a program, whoever is their parent: those that inherited a mark."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import NamedTuple

import psutil


class Usage(NamedTuple):
    """What processes have at a moment."""

    cpu_seconds: float
    """User and system time of all of them, and of those that they have waited for."""
    memory_bytes: int
    """Resident; what several share counts in each."""
    descriptors: int


class Processes:
    """All that live and have `environment` in theirs, which the first of them is started with."""

    def __init__(self, mark: str) -> None:
        self._mark = mark

    @property
    def environment(self) -> dict[str, str]:
        """What the first one needs."""
        return {_NAME: self._mark}

    def living(self) -> list[psutil.Process]:
        """Those that live now."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get(_NAME) == self._mark:
                    found.append(process)
        return found

    def usage(self) -> Usage:
        """What they have now."""
        each = list(self._usages())
        return Usage(
            sum(usage.cpu_seconds for usage in each),
            sum(usage.memory_bytes for usage in each),
            sum(usage.descriptors for usage in each),
        )

    def _usages(self) -> Iterator[Usage]:
        for process in self.living():
            with contextlib.suppress(psutil.Error):
                times = process.cpu_times()
                yield Usage(
                    times.user + times.system + times.children_user + times.children_system,
                    process.memory_info().rss,
                    process.num_fds(),
                )

    def kill(self) -> None:
        """Kill what lives, and what was started meanwhile."""
        while living := self.living() or self._late():
            for process in living:
                with contextlib.suppress(psutil.Error):
                    process.kill()
            psutil.wait_procs(living, timeout=10)

    def _late(self) -> list[psutil.Process]:
        """Those that live a moment later: one that is in the middle of an exec shows no mark."""
        time.sleep(_EXEC_SECONDS)
        return self.living()


_NAME = "OKA_PEER_RUN"
_EXEC_SECONDS = 0.05
