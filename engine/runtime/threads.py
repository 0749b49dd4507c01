"""Workers as threads of this process: the launcher of `engine.testing`.

The workers, their channels and the job master are those of every runtime, so a test sees what a job
would do; breakpoints and coverage work in the user's functions. Threads share the GIL and cannot be
killed, so this is no runtime for work.
"""

from __future__ import annotations

import math
import shutil
import tempfile
import threading
from collections.abc import Collection, Sequence
from concurrent.futures import Future
from typing import Any

from engine.placement import Node, Placement
from engine.runtime.description import TaskDescription
from engine.runtime.launcher import Launcher, WorkerHandle
from engine.runtime.worker import Worker


class ThreadLauncher(Launcher):
    """One thread per call to a worker, in a folder of their own for local sockets."""

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="oka-job-")
        self._workers: list[ThreadWorker] = []

    def nodes(self, resources: Collection[str]) -> Sequence[Node]:
        """One node, this process."""
        return [Node("local", "127.0.0.1", dict.fromkeys(resources, math.inf))]

    def launch(
        self, tasks: Sequence[TaskDescription], placement: Placement
    ) -> Sequence[WorkerHandle]:
        """Make one worker per task."""
        self._workers = [ThreadWorker(task, placement.nodes[task.id]) for task in tasks]
        return self._workers

    def shutdown(self) -> None:
        """Cancel what still runs, wait for it, and remove the folder."""
        for worker in self._workers:
            worker.kill()
        for worker in self._workers:
            worker.wait_ended()
        shutil.rmtree(self.folder, ignore_errors=True)


class ThreadWorker(WorkerHandle):
    """A Worker in this process."""

    def __init__(self, task: TaskDescription, node: Node) -> None:
        self.task = task
        self.node = node
        self._worker = Worker(dedicated=False)
        self._threads: list[threading.Thread] = []

    def call(self, method: str, *arguments: Any) -> Future[Any]:
        """Call the method in a thread of its own."""
        answer: Future[Any] = Future()

        def work() -> None:
            try:
                answer.set_result(getattr(self._worker, method)(*arguments))
            except Exception as error:  # noqa: BLE001 - the master decides what it means
                answer.set_exception(error)

        thread = threading.Thread(target=work, name=f"oka-{self.task.name}", daemon=True)
        self._threads.append(thread)
        thread.start()
        return answer

    def kill(self) -> None:
        """Cancel the task: a thread cannot be killed."""
        self._worker.cancel()

    def wait_ended(self) -> None:
        """Wait for all calls, then close the worker."""
        for thread in self._threads:
            thread.join()
        self._worker.close()
