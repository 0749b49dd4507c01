"""Workers that start beside the working ones, to be ready when these end."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import Future

from engine.driver.launcher import Launcher, WorkerHandle
from engine.placement.nodes import Node


class Spares:
    """At most one for each task, by its id, until it is taken or is of no use."""

    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher
        self._spares: dict[int, tuple[WorkerHandle, Future[bytes]]] = {}
        """With a future that reports that it has started, or died before."""

    def __contains__(self, task: int) -> bool:
        return task in self._spares

    def __iter__(self) -> Iterator[int]:
        return iter(self._spares)

    def add(self, worker: WorkerHandle) -> None:
        """Add a worker that begins to start."""
        self._spares[worker.task.id] = worker, worker.call("process_id")

    def nodes(self, tasks: Collection[int]) -> Mapping[int, Node]:
        """The nodes of the spares of these tasks."""
        return {task: self._spares[task][0].node for task in tasks if task in self._spares}

    def have_started(self, tasks: Collection[int]) -> bool:
        """Whether all of these tasks have a spare that could go on at once."""
        return all(task in self._spares and self._spares[task][1].done() for task in tasks)

    def take(self, task: int) -> WorkerHandle | None:
        """Take the spare of the task, if it has one, to replace its worker."""
        spare, _ = self._spares.pop(task, (None, None))
        return spare

    def keep(self, tasks: Collection[int], nodes: Collection[str]) -> None:
        """End the spares of other tasks, those on these nodes, and dead ones."""
        for task, (worker, started) in [*self._spares.items()]:
            has_died = started.done() and started.exception() is not None
            if task not in tasks or worker.node.id in nodes or has_died:
                del self._spares[task]
                self._launcher.end(worker)
