"""Workers as threads of this process: the launcher of `engine.testing`.

The workers, their channels and the job master are those of every runtime, so a test shows the
behaviour of a job; breakpoints and coverage work in the user's functions. Threads share the GIL and
cannot be killed, so this is no runtime for work.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Collection, Sequence
from concurrent.futures import Future
from typing import Any

from engine.deployment.description import TaskDescription
from engine.driver.launcher import Launcher, WorkerHandle
from engine.host.folder import JobFolder
from engine.host.worker import Worker
from engine.placement.nodes import Node
from engine.task.chain import Around
from engine.task.clock import SYSTEM_CLOCK
from engine.testing.virtual_clock import VirtualClock


class ThreadLauncher(Launcher):
    """One thread per call to a worker, in a folder of their own for local sockets."""

    takes_of_ray = True

    def __init__(self, clock: VirtualClock | None = None, around: Around | None = None) -> None:
        self._folder = JobFolder.create()
        self.folder = self._folder.path
        self._clock = clock
        self._around = around
        self._workers: list[ThreadWorker] = []

    def nodes(self, resources: Collection[str]) -> Sequence[Node]:
        """One node, this process."""
        return [Node("local", "127.0.0.1", dict.fromkeys(resources, math.inf))]

    def add(self, task: TaskDescription, node: Node) -> WorkerHandle:
        """Make a worker."""
        self._workers.append(ThreadWorker(task, node, self._clock, self._around))
        return self._workers[-1]

    def end(self, worker: WorkerHandle) -> None:
        """Cancel its task."""
        assert isinstance(worker, ThreadWorker)
        worker.cancel()

    def shutdown(self) -> None:
        """Cancel running tasks, wait for them, and remove the folder."""
        for worker in self._workers:
            worker.cancel()
        for worker in self._workers:
            worker.wait_ended()
        self._folder.remove()


class ThreadWorker(WorkerHandle):
    """A Worker in this process."""

    def __init__(
        self,
        task: TaskDescription,
        node: Node,
        clock: VirtualClock | None,
        around: Around | None,
    ) -> None:
        self.task = task
        self.node = node
        self._clock = clock
        self._worker = Worker(dedicated=False, clock=clock or SYSTEM_CLOCK, around=around)
        if clock is not None:
            clock.begin_task()
        self._calling = threading.Lock()
        self._threads: list[threading.Thread] = []

    def call(self, method: str, *arguments: Any) -> Future[bytes]:
        """Call the method in a thread of its own."""
        answer: Future[bytes] = Future()

        def work() -> None:
            if method == "run" and self._clock is not None:
                self._clock.run_task(self.task.id)
            reply = self._worker.answer(method, *arguments)
            if method == "run" and self._clock is not None:
                self._clock.end_task()
            answer.set_result(reply)

        thread = threading.Thread(target=work, name=f"oka-{self.task.name}", daemon=True)
        with self._calling:
            self._threads.append(thread)
            thread.start()
        return answer

    def cancel(self) -> None:
        """Cancel the task: a thread cannot be killed."""
        self._worker.cancel()

    def wait_ended(self) -> None:
        """Wait for all calls, then close the worker."""
        with self._calling:
            threads = [*self._threads]
        for thread in threads:
            thread.join()
        self._worker.close()
