"""The workers of one job: the node and worker of each task, and their replacement.

It chooses nodes and starts workers through the launcher; it calls them for figures only.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import replace
from functools import partial

from engine.config import JobConfig
from engine.deployment.description import TaskStatistics
from engine.deployment.stacks import Stacks
from engine.driver.launcher import DrainingNode, Launcher, WorkerHandle
from engine.driver.moves import Departure
from engine.driver.outcomes import outcome
from engine.driver.placing import Waits, WorkersPlaced
from engine.driver.spares import Spares
from engine.driver.wiring import describe_tasks
from engine.errors import ConfigError, EngineError, PlacementError
from engine.graph.execution import ExecutionGraph
from engine.placement.nodes import Node
from engine.placement.place import Placement, place_again


class Workers:
    """One for each task, by its id, once all are placed. `statistics` may come from any thread.

    `place_all` gives each task one of the available nodes, or raises PlacementError. `warn` is
    given a line for each task that moves.
    """

    def __init__(
        self,
        graph: ExecutionGraph,
        place_all: Callable[[Sequence[Node]], Placement],
        config: JobConfig,
        launcher: Launcher,
        warn: Callable[[str], None],
    ) -> None:
        self._graph = graph
        self._place_all = place_all
        self._config = config
        self._launcher = launcher
        self._warn = warn
        nowhere = Placement(dict.fromkeys((task.id for task in graph.vertices), Node("", "", {})))
        self.tasks = describe_tasks(graph, nowhere, config)
        """As they are on the nodes that they have, once they have some."""
        self._workers: list[WorkerHandle] = []
        self._spares = Spares(launcher)
        """For tasks that are about to leave their nodes."""
        self._asking = threading.Lock()
        self._asked: dict[WorkerHandle, Future[bytes]] = {}
        self._last_statistics: dict[WorkerHandle, TaskStatistics] = {}

    def __len__(self) -> int:
        return len(self._workers)

    def __iter__(self) -> Iterator[WorkerHandle]:
        return iter(self._workers)

    def __getitem__(self, task: int) -> WorkerHandle:
        return self._workers[task]

    def hosts(self) -> dict[str, tuple[str, ...]]:
        """Where the last operators of chains are, by name."""
        found: dict[str, dict[str, None]] = {}
        for worker in self._workers:
            found.setdefault(worker.task.operators[-1].name, {})[worker.node.name] = None
        return {name: tuple(hosts) for name, hosts in found.items()}

    def reserve(self, tasks: Sequence[int]) -> Mapping[int, Node] | Waits:
        """Nodes for these tasks, or what they wait for; all are described as they are there."""
        ready = self._spares.nodes(tasks)
        found: Mapping[int, Node] | Waits = ready
        if rest := [task for task in tasks if task not in ready]:
            choose = partial(self._choose, rest, leaving=ready)
            found = self._launcher.reserve([self.tasks[task] for task in rest], choose)
            found = found if isinstance(found, Waits) else {**ready, **found}
        if not isinstance(found, Waits):
            nodes = {worker.task.id: worker.node for worker in self._workers} | dict(found)
            self.tasks = describe_tasks(self._graph, Placement(nodes), self._config)
        return found

    def start(self, nodes: Mapping[int, Node]) -> WorkersPlaced:
        """Start workers on the nodes that are reserved, in the place of those before."""
        if not self._workers:
            self._workers = list(self._launcher.launch(self.tasks, Placement(nodes)))
            return WorkersPlaced(tuple(nodes))
        with self._asking:
            for task, node in nodes.items():
                before = self._workers[task]
                if before.node.id != node.id:
                    told = f"moves from {before.node.name} to {node.name}"
                    self._warn(f"task {before.task.name} {told}")
                self._asked.pop(before, None)
                self._last_statistics.pop(before, None)
                self._launcher.end(before)
                spare = self._spares.take(task)
                self._workers[task] = spare or self._launcher.add(self.tasks[task], node)
        return WorkersPlaced(tuple(nodes))

    def leaving(self, nodes: Sequence[DrainingNode]) -> list[Departure]:
        """The job's tasks on nodes that are about to go, the first to go first.

        Workers are started for them where there is room, and where there is none, the runtime is
        told to look for it. They are also started for tasks on nodes that are out of reach, which
        may come back: it is only known later whether these are lost.
        """
        lost = {node.id for node in nodes if node.is_cut_off}
        nodes = [node for node in nodes if not node.is_cut_off]
        unheard = {each.task.id for each in self._workers if each.node.id in lost}
        found: list[Departure] = []
        moving: set[int] = set()
        fitting: set[int] = set()
        lacking: set[int] = set()
        for node in nodes:
            tasks = frozenset(each.task.id for each in self._workers if each.node.id == node.id)
            if not node.has_driver:
                moving |= tasks
            if has_room := self._has_room(moving):
                fitting = set(moving)
            else:
                lacking = set(moving)
            found.append(Departure(node.name, tasks, node.until, has_room, node.has_driver))
        self._spares.keep(moving | unheard, {*lost, *(node.id for node in nodes)})
        if self._config.checkpoints is not None:
            if self._has_room(fitting | unheard, lost):
                fitting |= unheard
            self._start_beside([task for task in sorted(fitting) if task not in self._spares], lost)
            self._launcher.want([self.tasks[task] for task in sorted(lacking)])
        return [replace(each, is_ready=self._spares.have_started(each.tasks)) for each in found]

    def _start_beside(self, tasks: Sequence[int], lost: Collection[str]) -> None:
        """Start further workers for these tasks, if nodes answer at once; on none of `lost`."""
        choose = partial(self._choose, tasks, lost=lost)
        described = [self.tasks[task] for task in tasks]
        found = self._launcher.reserve(described, choose, beside=True) if tasks else {}
        for task, node in () if isinstance(found, Waits) else found.items():
            there = replace(self.tasks[task], node=node.id, host=node.name)
            self._spares.add(self._launcher.add(there, node))

    def _choose(
        self,
        tasks: Sequence[int],
        nodes: Sequence[Node],
        *,
        leaving: Collection[int] = (),
        lost: Collection[str] = (),
    ) -> Mapping[int, Node]:
        """A node for each of the tasks; others keep theirs, but for those that are leaving it.

        What has started beside them keeps its own, too. Nothing new goes to nodes that are `lost`.
        """
        nodes = [node for node in nodes if node.id not in lost]
        if len(tasks) == len(self.tasks):
            return self._place_all(nodes).nodes
        before = {worker.task.id: worker.node.id for worker in self._workers}
        if self._config.transport in ("shm", "ipc"):  # which reach no other node
            nodes = [node for node in nodes if node.id in before.values()]
        again = [task for task in self._graph.vertices if task.id in tasks]
        stay = [task for task in self._graph.vertices if task.id not in {*tasks, *leaving}]
        beside = self._spares.nodes([*self._spares])
        kept = [(task, before[task.id]) for task in stay]
        kept += [(task, beside[task.id].id) for task in self._graph.vertices if task.id in beside]
        return place_again(again, nodes, kept, before)

    def _has_room(self, tasks: Collection[int], lost: Collection[str] = ()) -> bool:
        """Whether other nodes have room for these tasks, which leave theirs."""
        rest = [task for task in sorted(tasks) if task not in self._spares]
        names = {name for task in rest for name in self.tasks[task].resources}
        try:
            if rest:
                self._choose(rest, self._launcher.nodes(names), lost=lost)
        except PlacementError:
            return False
        return True

    def finished(self, worker: WorkerHandle, statistics: TaskStatistics) -> None:
        """Keep what a task has measured at its end."""
        self._last_statistics[worker] = statistics

    def stacks(self, task: str, seconds: float) -> Stacks:
        """Where the threads of the task with this name are, within so many seconds.

        Raises ConfigError if no task has the name, EngineError if it does not answer.
        """
        names = [each.name for each in self.tasks]
        if task not in names:
            some = ", ".join(names[:_SOME]) + (", …" if len(names) > _SOME else "")
            raise ConfigError(f"the task is {task!r:.100}, expected one of {some}")
        answer: object = "it has not started"
        if self._workers:
            call = self._workers[names.index(task)].call("stacks", seconds)
            done, _ = wait([call], timeout=seconds + _PATIENCE_SECONDS)
            answer = outcome(call) if done else "it does not answer"
        if not isinstance(answer, Stacks):
            raise EngineError(f"task {task} gave no stacks: {answer}", "try again while it runs")
        return answer

    def statistics(self) -> list[TaskStatistics]:
        """A snapshot of every task; the one before of a task that does not answer within 0.5 s."""
        with self._asking:
            for worker in self._workers:
                if worker not in self._asked or self._asked[worker].done():
                    self._asked[worker] = worker.call("statistics")
            asked = dict(self._asked)
        wait(asked.values(), timeout=_ANSWER_SECONDS)
        for worker, call in asked.items():
            if call.done() and isinstance(answer := outcome(call), TaskStatistics):
                self._last_statistics[worker] = answer
        known = self._last_statistics
        return [known[worker] for worker in self._workers if worker in known]


_ANSWER_SECONDS = 0.5
_PATIENCE_SECONDS = 10.0
_SOME = 10
