"""The fork server of a local job: it starts the workers, and no process below it outlives the job.

It imports the engine once, and then forks a worker in milliseconds. As the parent of all workers
and a subreaper it adopts processes that their functions leave behind. It watches the driver's
process itself: a forked child of the driver may hold a copy of a socket. It needs no answer of the
workers, which may be stopped or hold their GIL. When the driver ends the job or is gone, every
process below the server is killed and the job's folder removed. Should the server itself be killed,
its workers are, too (`lineage`).
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import shutil
import signal
import socket
import struct
import sys
import time
from dataclasses import dataclass
from typing import NoReturn

from engine.host import lineage, process

REQUEST = struct.Struct("=i")
"""A request with the number of a worker: start it if its socket and its stderr come along; else
kill it."""

REPORT = struct.Struct("=ii")
"""A report with the number and the wait status of a worker that has ended."""


def main() -> None:
    """Serve the driver. Arguments: requests, reports, the driver's process, the job's folder."""
    requests, reports, driver, folder = sys.argv[-4:]
    while os.open(os.devnull, os.O_RDWR) <= 2:  # descriptors that were closed in the driver
        pass
    _ForkServer(socket.socket(fileno=int(requests)), int(reports), int(driver), folder).serve()


@dataclass
class _Child:
    number: int
    control: socket.socket
    """The worker's end of its socket: shut down, it tells the worker that its job is over."""


class _ForkServer:
    def __init__(self, requests: socket.socket, reports: int, driver: int, folder: str) -> None:
        self._requests = requests
        self._reports = reports
        self._lineage = lineage.of(driver)
        self._folder = folder
        self._children: dict[int, _Child] = {}
        """The workers that live, by process id."""
        self._wakes, self._wake = os.pipe()
        os.set_blocking(self._wakes, False)
        os.set_blocking(self._wake, False)

    def serve(self) -> None:
        """Start and kill workers as the driver asks, until it ends the job or is gone."""
        signal.signal(signal.SIGCHLD, lambda *_: None)  # its number goes to the pipe
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        gc.freeze()  # memory that is not looked at stays shared with the workers
        poll = select.poll()
        for descriptor in (self._requests.fileno(), self._wakes, *self._lineage.descriptors):
            poll.register(descriptor, select.POLLIN)
        ready: list[int] = []
        while not self._lineage.is_orphan():
            if self._requests.fileno() in ready and not self._answer_request():
                return self._end(0.0)
            if self._wakes in ready:
                self._reap()
            ready = [descriptor for descriptor, _ in poll.poll(self._lineage.patience_ms)]
        return self._end(_ABORT_SECONDS)

    def _answer_request(self) -> bool:
        """Start or kill a worker; False when the driver has ended the job."""
        message, descriptors, _, _ = socket.recv_fds(self._requests, REQUEST.size, 2)
        if not message:
            return False
        (number,) = REQUEST.unpack(message)
        if descriptors:
            control, log = descriptors
            self._start(_Child(number, socket.socket(fileno=control)), log)
        else:
            for pid, child in self._children.items():
                if child.number == number:
                    os.kill(pid, signal.SIGKILL)
        return True

    def _start(self, child: _Child, log: int) -> None:
        server = os.getpid()
        pid = os.fork()
        if pid == 0:
            try:
                self._become(child, log, server)
            finally:
                os._exit(1)
        os.close(log)
        self._children[pid] = child

    def _become(self, child: _Child, log: int, server: int) -> NoReturn:
        """In the forked process: release the server's resources, and become a worker."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        self._lineage.end_with(server)
        if numbers := sys.modules.get("numpy.random"):
            numbers.seed()  # else all workers would draw the same numbers
        os.dup2(log, 2)
        descriptors = (log, self._wakes, self._wake, self._reports, *self._lineage.descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        self._requests.close()
        for other in self._children.values():
            other.control.close()
        process.serve(child.control)

    def _reap(self) -> None:
        """Tell the driver which workers have ended, and reap the children that they left."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self._wakes, 512):
                pass
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG)) != (0, 0):
                self._report(*ended)

    def _report(self, pid: int, status: int) -> None:
        child = self._children.pop(pid, None)
        if child is not None:
            self._lineage.has_ended(pid)
            child.control.close()
            with contextlib.suppress(OSError):  # the driver is gone
                os.write(self._reports, REPORT.pack(child.number, status))

    def _end(self, patience: float) -> None:
        """End all workers; their sinks have `patience` seconds to drop their output."""
        for child in self._children.values():
            with contextlib.suppress(OSError):
                child.control.shutdown(socket.SHUT_RDWR)
        deadline = time.monotonic() + patience
        while self._children and (left := deadline - time.monotonic()) > 0:
            select.select([self._wakes], [], [], left)
            self._reap()
        self._lineage.kill(self._children)
        shutil.rmtree(self._folder, ignore_errors=True)


_ABORT_SECONDS = 1.0
"""Seconds that workers have to remove temporary files after the driver was killed."""
