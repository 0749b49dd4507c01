"""The processes of a program, found by a mark in their environment, whatever their parent is."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import NamedTuple

import psutil


class Usage(NamedTuple):
    """CPU time and memory of processes at one moment."""

    cpu_seconds: float
    """User and system time of all processes, and of ended children."""
    memory_bytes: int
    """Resident memory; shared memory counts in each process."""
    descriptors: int


class Processes:
    """All living processes that have `environment` in theirs; start the first one with it."""

    def __init__(self, mark: str) -> None:
        self._mark = mark

    @property
    def environment(self) -> dict[str, str]:
        """The environment of the first process."""
        return {_NAME: self._mark}

    def living(self) -> list[psutil.Process]:
        """The living processes."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get(_NAME) == self._mark:
                    found.append(process)
        return found

    def usage(self) -> Usage:
        """Their CPU time and memory now."""
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
        """Kill the living processes, and those that start meanwhile."""
        while living := self.living() or self._late():
            for process in living:
                with contextlib.suppress(psutil.Error):
                    process.kill()
            psutil.wait_procs(living, timeout=10)

    def _late(self) -> list[psutil.Process]:
        """The processes that live a moment later: during an exec, a process shows no mark."""
        time.sleep(_EXEC_SECONDS)
        return self.living()


_NAME = "OKA_PEER_RUN"
_EXEC_SECONDS = 0.05
