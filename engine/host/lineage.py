"""How the processes of a local job end with those that started them.

On Linux the kernel sees to it: it gives the fork server what a worker's functions leave behind,
kills a worker whose server was killed, and tells the server when the driver is gone. Elsewhere a
process looks again and again whether it still has the parent that it began with, and what a worker
has started is found by the worker's process group, unless it has left that.
"""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from engine.system import IS_LINUX


class Lineage(ABC):
    """The relatives of a fork server: the driver, its parent, and its workers, its children."""

    descriptors: Collection[int] = ()
    """What to wait for beside other things, and to close in a worker: ready, the driver is gone."""
    patience_ms: int | None = None
    """The longest to wait before asking `is_orphan`."""

    def __init__(self, driver: int) -> None:
        self._driver = driver

    def is_orphan(self) -> bool:
        """Whether the driver is gone."""
        return os.getppid() != self._driver

    @abstractmethod
    def end_with(self, server: int) -> None:
        """In a new worker: it is killed should that server, its parent, be."""

    @abstractmethod
    def has_ended(self, worker: int) -> None:
        """A worker has ended. Who will not find later what it has started kills that now."""

    @abstractmethod
    def kill(self, workers: Collection[int]) -> None:
        """Kill every process below the server: these workers, and what they have started."""


class _OfLinux(Lineage):
    def __init__(self, driver: int) -> None:
        super().__init__(driver)
        with suppress(ProcessLookupError):  # the driver is gone already: `is_orphan` says so
            self.descriptors = (os.pidfd_open(driver),)
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)

    def end_with(self, server: int) -> None:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != server:
            os._exit(1)

    def has_ended(self, worker: int) -> None:
        """Nothing: the server is the parent of what it left behind."""

    def kill(self, workers: Collection[int]) -> None:  # noqa: ARG002 - the kernel knows them
        children = Path(f"/proc/self/task/{os.getpid()}/children")
        deadline = time.monotonic() + _KILL_SECONDS
        while time.monotonic() < deadline:
            for pid in children.read_text().split():
                os.kill(int(pid), signal.SIGKILL)  # not reaped yet: its number is not reused
            if _reap_all():
                return
            time.sleep(0.002)


class _Elsewhere(Lineage):
    patience_ms = 200

    def end_with(self, server: int) -> None:
        def watch() -> None:
            while os.getppid() == server:
                time.sleep(_LOOK_SECONDS)
            os.killpg(0, signal.SIGKILL)

        threading.Thread(target=watch, name="oka-lineage", daemon=True).start()

    def has_ended(self, worker: int) -> None:
        _kill_group(worker)

    def kill(self, workers: Collection[int]) -> None:
        for worker in workers:
            _kill_group(worker)
            with suppress(OSError):  # it has no group of its own yet
                os.kill(worker, signal.SIGKILL)
        deadline = time.monotonic() + _KILL_SECONDS
        while time.monotonic() < deadline and not _reap_all():
            time.sleep(0.002)


def of(driver: int) -> Lineage:
    """The lineage of this process, a fork server, whose parent is that driver."""
    return _OfLinux(driver) if IS_LINUX else _Elsewhere(driver)


def _kill_group(leader: int) -> None:
    with suppress(OSError):  # nobody of it is left
        os.killpg(leader, signal.SIGKILL)


def _reap_all() -> bool:
    """Reap the children that have ended; whether none is left."""
    try:
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
    except ChildProcessError:
        return True
    return False


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}) failed")


_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h

CONTINUE_WITHOUT_PARENT = (
    f"import ctypes; ctypes.CDLL(None).prctl({_PR_SET_PDEATHSIG}, {signal.SIGCONT:d})"
    if IS_LINUX
    else ""
)
"""The first line of a fork server: it may be stopped when the driver is killed, and has its work to
do then. Elsewhere it stays stopped."""

_KILL_SECONDS = 5.0
"""Seconds after which it leaves a process that the kernel cannot end, such as one that waits for a
dead disk."""
_LOOK_SECONDS = 0.5
"""Between two looks of a worker for its server."""
