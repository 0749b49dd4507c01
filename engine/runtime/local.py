"""The local runtime: one process per task on this machine, no cluster.

The driver holds one socket to each worker; closing it ends the worker, so that nothing outlives
the driver, however it ends.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Collection, Sequence
from concurrent.futures import Future
from multiprocessing.connection import Connection
from typing import Any

from engine.placement import Node, Placement
from engine.runtime import imports
from engine.runtime.description import TaskDescription
from engine.runtime.launcher import Launcher, WorkerDied, WorkerHandle


class LocalLauncher(Launcher):
    """Worker processes of this machine, in a folder of their own for local sockets."""

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="oka-job-")
        self._selector = selectors.DefaultSelector()
        self._workers: list[LocalWorker] = []
        self._stop, self._stopped = socket.socketpair()
        self._selector.register(self._stopped, selectors.EVENT_READ, None)
        self._watcher = threading.Thread(target=self._watch, name="oka-watch", daemon=True)
        self._closed = False

    def nodes(self, resources: Collection[str]) -> Sequence[Node]:
        """One node, this machine: processes share what it has, however many there are."""
        return [Node("local", "127.0.0.1", dict.fromkeys(resources, math.inf))]

    def launch(
        self, tasks: Sequence[TaskDescription], placement: Placement
    ) -> Sequence[WorkerHandle]:
        """Start one process per task."""
        for task in tasks:
            worker = LocalWorker(task, placement.nodes[task.id])
            self._workers.append(worker)
            self._selector.register(worker.connection, selectors.EVENT_READ, worker.read_reply)
            self._selector.register(worker.log_pipe, selectors.EVENT_READ, worker.read_log)
        self._watcher.start()
        return self._workers

    def shutdown(self) -> None:
        """Kill what still lives, wait for it, and remove the folder."""
        if self._closed:
            return
        self._closed = True
        for worker in self._workers:
            worker.kill()
        self._stop.close()
        if self._watcher.ident is not None:
            self._watcher.join()
        for worker in self._workers:
            worker.wait_ended()
        self._selector.close()
        self._stopped.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _watch(self) -> None:
        open_ends = 2 * len(self._workers)
        patience = None
        while open_ends:
            ready = self._selector.select(patience)
            if not ready:
                return  # a process that a worker started holds its log open
            for key, _ in ready:
                if key.data is None:
                    self._selector.unregister(self._stopped)
                    patience = _LAST_WORDS_SECONDS
                elif not key.data():
                    self._selector.unregister(key.fileobj)
                    open_ends -= 1


class LocalWorker(WorkerHandle):
    """One worker process, its socket and the end of its log."""

    def __init__(self, task: TaskDescription, node: Node) -> None:
        self.task = task
        self.node = node
        self._log: deque[str] = deque(maxlen=20)
        self._numbers = itertools.count()
        self._pending: dict[int, Future[Any]] = {}
        self._lock = threading.Lock()
        self._died: WorkerDied | None = None
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    *imports.arguments("engine.runtime.process"),
                    str(theirs.fileno()),
                ],
                stdin=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self.connection = Connection(ours.detach())
        assert self._process.stderr is not None
        self.log_pipe = self._process.stderr

    def call(self, method: str, *arguments: Any) -> Future[Any]:
        """Send the call; the watcher thread completes the future."""
        future: Future[Any] = Future()
        with self._lock:
            if self._died is not None:
                future.set_exception(self._died)
                return future
            number = next(self._numbers)
            self._pending[number] = future
            with contextlib.suppress(OSError):  # it is ending: the watcher fails the future
                self.connection.send((number, method, arguments))
        return future

    def kill(self) -> None:
        """SIGKILL to the process and what it started: what must be kept is with the master."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def wait_ended(self) -> None:
        """Reap the process and close our ends."""
        self._process.wait()
        self.connection.close()
        self.log_pipe.close()

    def read_reply(self) -> bool:
        """Complete the future of one reply; False when the process is gone."""
        try:
            number, succeeded, value = self.connection.recv()
        except (EOFError, OSError):
            self._fail_pending()
            return False
        with self._lock:
            future = self._pending.pop(number)
        if succeeded:
            future.set_result(value)
        else:
            future.set_exception(value)
        return True

    def read_log(self) -> bool:
        """Pass on what the worker wrote to stderr and keep its last lines; False at its end."""
        data = os.read(self.log_pipe.fileno(), 65536)
        if not data:
            return False
        text = data.decode(errors="replace")
        self._log.extend(text.splitlines())
        sys.stderr.write(text)
        return True

    def _fail_pending(self) -> None:
        status = self._process.wait()
        with self._lock:
            self._died = WorkerDied(_status(status), "\n".join(self._log))
            pending, self._pending = self._pending, {}
        for future in pending.values():
            future.set_exception(self._died)


def _status(code: int) -> str:
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"exited with status {code}"


_LAST_WORDS_SECONDS = 0.2
"""Longest to wait for the log of a killed worker."""
