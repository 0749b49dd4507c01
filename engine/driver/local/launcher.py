"""The local runtime: one process per task on this machine, no cluster.

A fork server (`engine.host.forkserver`) starts the workers and ends them; calls and
answers go over `engine.driver.local.links`.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import pickle
import socket
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import Future
from typing import Any

from engine.deployment.description import TaskDescription
from engine.driver.launcher import Launcher, WorkerDied, WorkerHandle
from engine.driver.local.links import Links
from engine.host.folder import JobFolder
from engine.placement.nodes import Node
from engine.placement.place import Placement


class LocalLauncher(Launcher):
    """Worker processes of this machine, in a folder of their own for local sockets."""

    def __init__(self) -> None:
        self._folder: JobFolder | None = None
        """Made as late as can be: until the fork server runs, nobody removes it for the driver."""
        self._links: list[Links] = []
        """Those to the fork server that starts workers are the last; others have lost theirs."""
        self._modules: list[str] = []

    def nodes(self, resources: Collection[str]) -> Sequence[Node]:
        """One node, this machine: any number of processes share its resources."""
        return [Node("local", "127.0.0.1", dict.fromkeys(resources, math.inf))]

    def launch(
        self, tasks: Sequence[TaskDescription], placement: Placement
    ) -> Sequence[WorkerHandle]:
        """Start one process per task."""
        with _standard_descriptors_taken():
            self._folder = JobFolder.create()
            self.folder = self._folder.path
            self._modules = _modules(tasks)
        return super().launch(tasks, placement)

    def add(self, task: TaskDescription, node: Node) -> WorkerHandle:
        """Start one more process, forked like the others; by a new server where that has ended."""
        with _standard_descriptors_taken():
            if not self._links or self._links[-1].has_ended:
                self._links.append(Links(self.folder, self._modules, self.hear))
            return LocalWorker(task, node, self._links[-1])

    def end(self, worker: WorkerHandle) -> None:
        """Kill the process."""
        assert isinstance(worker, LocalWorker)
        worker.kill()

    def shutdown(self) -> None:
        """Kill what still lives, wait for it, and remove the folder."""
        for links in self._links:
            links.close()
        if self._folder is not None:
            self._folder.remove()


class LocalWorker(WorkerHandle):
    """One worker process. All but `call` happens in the thread of the loop."""

    def __init__(self, task: TaskDescription, node: Node, links: Links) -> None:
        self.task = task
        self.node = node
        self._links = links
        self._numbers = itertools.count()
        self._pending: dict[int, Future[bytes]] = {}
        self._status: str | None = None
        self._died: WorkerDied | None = None
        ours, theirs = socket.socketpair()
        log, written = os.pipe()
        self._replies = links.read_replies(ours, self)
        self._log = links.read_log(log, self._look_if_ended)
        self._number = links.start_worker(theirs, written, self)

    def call(self, method: str, *arguments: Any) -> Future[bytes]:
        """Send the call; the loop completes the future."""
        future: Future[bytes] = Future()
        message = pickle.dumps((method, arguments))
        try:
            self._links.soon(self._send, future, message)
        except RuntimeError:  # the loop is closed
            future.set_exception(WorkerDied("the job has ended"))
        return future

    def kill(self) -> None:
        """End the process, if it lives."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._links.soon(self._kill)

    def replied(self, number: int, reply: bytes) -> None:
        """Complete the future of a call."""
        if number in self._pending:
            self._pending.pop(number).set_result(reply)

    def ended(self, status: str) -> None:
        """The process is gone. Its last messages may still be on their way."""
        self._status = self._status or status
        self._look_if_ended()
        self._links.later(_LAST_WORDS_SECONDS, self._fail_pending)

    def disconnected(self) -> None:
        """Its socket was closed, as it is when the process is gone."""
        self._look_if_ended()
        self._links.later(_LAST_WORDS_SECONDS, self._fail_pending)

    def _send(self, future: Future[bytes], message: bytes) -> None:
        if self._died is not None:
            future.set_exception(self._died)
            return
        number = next(self._numbers)
        self._pending[number] = future
        self._replies.send(number, message)

    def _kill(self) -> None:
        if self._status is None:
            self._links.kill_worker(self._number)

    def _look_if_ended(self) -> None:
        if self._status is not None and self._replies.is_closed and self._log.is_closed:
            self._fail_pending()

    def _fail_pending(self) -> None:
        """Fail every call, now and later, with how the process ended and its last words."""
        if self._died is not None:
            return
        self._kill()
        self._died = WorkerDied(self._status or "closed its connection", self._log.last_lines())
        pending, self._pending = self._pending, {}
        for future in pending.values():
            future.set_exception(self._died)


def _modules(tasks: Sequence[TaskDescription]) -> list[str]:
    """Where the operators of the tasks are defined, as far as that is Oka's own code."""
    modules = {type(operator.operator).__module__ for task in tasks for operator in task.operators}
    return sorted(module for module in modules if module.startswith(_OWN))


@contextlib.contextmanager
def _standard_descriptors_taken() -> Iterator[None]:
    """Nothing that is opened inside gets a number from 0 to 2, however many of them are closed."""
    taken = [os.open(os.devnull, os.O_RDONLY)]
    while taken[-1] <= 2:
        taken.append(os.open(os.devnull, os.O_RDONLY))
    try:
        yield
    finally:
        for descriptor in taken:
            os.close(descriptor)


_LAST_WORDS_SECONDS = 0.2
"""Longest to wait for what a worker wrote before it ended."""
_OWN = ("engine.", "operators.")
