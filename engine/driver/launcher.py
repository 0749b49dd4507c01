"""The job master's interface to a runtime: nodes, and workers that answer calls with futures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from engine.deployment.description import TaskDescription
from engine.driver.placing import Waits
from engine.placement.nodes import Node
from engine.placement.place import Placement


class WorkerDied(Exception):
    """The process of a worker is gone. `status` says how it ended, `log` its last lines."""

    def __init__(self, status: str, log: str = "") -> None:
        super().__init__(status)
        self.status = status
        self.log = log


class WorkerHandle(ABC):
    """The master's end of one worker."""

    task: TaskDescription
    node: Node

    @abstractmethod
    def call(self, method: str, *arguments: Any) -> Future[bytes]:
        """Call a method of the Worker; the reply is for `engine.deployment.reply.open_reply`.

        The future raises WorkerDied if the worker dies first, and CallFailed if the runtime could
        not call it.
        """

    def last_words(self) -> str:
        """The last lines of its log, if they were unknown when it died.

        This is called once, for a dead worker, and takes a few seconds at most.
        """
        return ""


@dataclass(frozen=True)
class DrainingNode:
    """A node that is about to go, and where nothing is started any more."""

    id: str
    name: str
    """Its name in messages."""
    until: float | None = None
    """The time, by `time.monotonic`; None: unknown."""
    has_driver: bool = False
    """Whether this process is on it, without which nothing of the job lives."""
    is_cut_off: bool = False
    """Whether it is only out of reach, and may come back."""


class Launcher(ABC):
    """Starts the workers of one job, and removes all their traces at the end."""

    hear: Callable[[str], None] = staticmethod(lambda _text: None)
    """Is given what workers write to their stderr, as far as it comes through this process."""
    folder: str
    """Path of the job's folder for local sockets, on every node."""
    takes_of_ray = False
    """Whether its workers get ObjectRefs and handles of actors, beside what is pickled."""
    has_draining = False
    """Whether nodes may go one by one, of which `draining` knows."""

    @abstractmethod
    def nodes(self, resources: Collection[str]) -> Sequence[Node]:
        """Where tasks can run, with what each has of these resources that no other job has taken.

        A node that is about to go is left out.
        """

    def kinds(self, resources: Collection[str]) -> Sequence[Mapping[str, float]] | None:  # noqa: ARG002
        """These resources of each kind of node that the cluster can start by itself.

        None: no further node will ever join.
        """
        return None

    def reserve(
        self,
        tasks: Sequence[TaskDescription],
        choose: Callable[[Sequence[Node]], Mapping[int, Node]],
        *,
        beside: bool = False,  # noqa: ARG002 - for those that take something away
    ) -> Mapping[int, Node] | Waits:
        """Reserve nodes for these tasks, which have no usable worker; or report what is lacking.

        With `beside` their workers still work, and keep their resources until they end. `choose`
        picks the node of each from those given, or raises PlacementError. Returns at once, and is
        called again until there are nodes.
        """
        return choose(self.nodes({name for task in tasks for name in task.resources}))

    def launch(
        self, tasks: Sequence[TaskDescription], placement: Placement
    ) -> Sequence[WorkerHandle]:
        """Start one worker per task, on the node that the placement says."""
        return [self.add(task, placement.nodes[task.id]) for task in tasks]

    @abstractmethod
    def add(self, task: TaskDescription, node: Node) -> WorkerHandle:
        """Start one more worker for a task, also while others work."""

    def end(self, worker: WorkerHandle) -> None:  # noqa: B027 - a worker may end by itself
        """End a worker that is no longer needed, though it may live, and free its resources."""

    def want(self, tasks: Sequence[TaskDescription]) -> None:  # noqa: B027 - most find none
        """Have the runtime look for room for these tasks, which have to leave their nodes.

        Called again and again; without tasks, the runtime stops looking.
        """

    def draining(self) -> Sequence[DrainingNode]:
        """The nodes that are about to go, the first to go first, or may be gone; from any thread.

        Raises DriverLost once that of this process is gone, and StartError where the process has
        left the cluster.
        """
        return ()

    @abstractmethod
    def shutdown(self) -> None:
        """End every worker that still lives and remove the job's files; idempotent."""
