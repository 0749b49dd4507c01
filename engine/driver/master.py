"""The job master: starts the workers of one job, tells them what to do, and ends them all.

It works through futures alone, so it does not depend on the runtime of the workers. It decides
nothing: events go to the `Coordinator`, whose commands it carries out.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from engine.checkpoint import Answer, Request
from engine.config import JobConfig
from engine.deployment.description import (
    ChannelBroke,
    LimitReached,
    Remark,
    SnapshotFailed,
    SnapshotWritten,
    SourceProgress,
    TaskFailure,
    TaskStatistics,
)
from engine.deployment.pickling import PickledDescription, PickledTasks
from engine.deployment.reply import CallFailed
from engine.deployment.stacks import Stacks
from engine.driver.checkpoints import Checkpoints
from engine.driver.coordinator import Coordinator
from engine.driver.epochs import (
    Barrier,
    CheckpointFailed,
    Commit,
    EpochCommitted,
    Mark,
    Say,
    SnapshotAcknowledged,
    Store,
)
from engine.driver.events import (
    AttemptRequested,
    Call,
    Cancelled,
    Command,
    EndSource,
    Event,
    LimitPassed,
    MasterFailed,
    NodesDraining,
    RaiseLimit,
    SourceProgressed,
    Step,
    StepDone,
    StepFailed,
    StopRequested,
    Verify,
    WorkerGone,
)
from engine.driver.launcher import DrainingNode, Launcher, WorkerDied, WorkerHandle
from engine.driver.node_watch import NodeWatch
from engine.driver.outcomes import error_of, outcome, unpickle_result
from engine.driver.placing import Place, Waits
from engine.driver.wiring import channel_peers, service_peers
from engine.driver.workers import Workers
from engine.errors import (
    EngineError,
    StartError,
    StorageError,
    WorkerLost,
)
from engine.graph.execution import ExecutionGraph
from engine.host.imports import ImportPath
from engine.placement.nodes import Node
from engine.placement.place import Placement
from engine.record import registry as record_registry


@dataclass(frozen=True)
class JobReport:
    """How a job ended that ran to its end."""

    statistics: tuple[TaskStatistics, ...]
    outputs: dict[str, list[Any]]
    """The results of the tasks of each driver sink, by operator name, in the order of index."""
    hosts: Mapping[str, tuple[str, ...]]
    """Where the tasks of each sink were at the end, by operator name."""


class JobMaster:
    """Runs one job. `run` blocks; `stop`, `cancel` and `statistics` may come from any thread.

    `place` gives each task one of the available nodes, or raises PlacementError. `tell` is given
    words where starting or ending tasks takes longer than a second, `warn` those of failures that
    the job goes on after; `check_parallelism` raises EngineError where the job cannot be rescaled
    to so many tasks; `observe` is given all events and commands, in the thread of `run`.
    """

    def __init__(
        self,
        graph: ExecutionGraph,
        place: Callable[[Sequence[Node]], Placement],
        config: JobConfig,
        launcher: Launcher,
        tell: Callable[[str], None] = lambda _what: None,
        warn: Callable[[str], None] = lambda _what: None,
        check_parallelism: Callable[[int], object] = lambda _parallelism: None,
        observe: Callable[[Sequence[Event], Sequence[Command]], None] = lambda _events, _said: None,
    ) -> None:
        self._graph = graph
        self._config = config
        self._launcher = launcher
        self._tell, self._warn, self._observe = tell, warn, observe
        self._workers = Workers(graph, place, config, launcher, warn)
        self._tasks = PickledTasks(self._workers.tasks, of_ray=launcher.takes_of_ray)
        self._news: queue.SimpleQueue[Callable[[], Event | None]] = queue.SimpleQueue()
        """Events for the thread of `run`."""
        self._checkpoints = (
            None
            if config.checkpoints is None
            else Checkpoints(
                config,
                self._workers.tasks,
                warn,
                lambda wanted: self._news.put(lambda: wanted),
                check_parallelism,
            )
        )
        first = 1 if self._checkpoints is None else self._checkpoints.first_epoch
        self._coordinator = Coordinator(graph, config, first)
        self._arguments: dict[Step, Callable[[WorkerHandle], tuple[Any, ...]]] = {
            "deploy": self._of_deploy,
            "connect": self._of_connect,
        }
        self._pickled: list[PickledDescription] = []
        self._imports = ImportPath.of_this_process()
        self._answers: dict[Step, dict[int, Any]] = {"deploy": {}, "commit": {}}
        """The workers' answers, by the task's id, in the last attempt."""

    def run(self) -> JobReport:
        """Start, run to the end, tear down. Raises the EngineError that ended the job."""
        watch = NodeWatch(
            self._launcher,
            lambda nodes: self._news.put(partial(self._draining, nodes)),
            lambda error: self._news.put(lambda: MasterFailed(error)),
        )
        try:
            record_registry.trust(True)  # the driver takes records from its own workers alone
            self._drive()
            self._hear_last_words()
        finally:
            watch.close()
            self._launcher.shutdown()
            if self._checkpoints is not None:
                is_away = isinstance(self._coordinator.error, StorageError)
                self._checkpoints.close(is_away=is_away)
        if self._coordinator.error is not None:
            raise self._coordinator.error
        found: dict[str, list[Any]] = {}
        statistics = []
        for worker in self._workers:
            results, measured = self._answers["commit"][worker.task.id]
            statistics.append(measured)
            for name, result in results.items():
                found.setdefault(name, []).append(unpickle_result(worker, name, result))
        return JobReport(tuple(self._measured(statistics)), found, self._workers.hosts())

    def _hear_last_words(self) -> None:
        """Have the error say what a worker wrote last that died on another host."""
        error = self._coordinator.error
        if isinstance(error, WorkerLost) and not error.log:
            (worker,) = (each for each in self._workers if each.task.name == error.task)
            if log := worker.last_words():
                told = WorkerLost(error.task, error.node, error.status, log)
                self._coordinator.error = told

    def stop(self) -> None:
        """End all sources: `run` then comes to its end as if they had no more; idempotent."""
        self._news.put(StopRequested)

    def savepoint(self, request: Request) -> Future[Answer]:
        """Have a savepoint made; what became of it."""
        answered: Future[Answer] = Future()
        if self._checkpoints is None:
            answered.set_result(Answer(error="it has no checkpoints"))
        else:
            self._checkpoints.ask(request, answered.set_result)
        return answered

    @property
    def rescaled(self) -> Request | None:
        """The request that ended `run`, if the job is to go on with another parallelism."""
        is_stopped = self._coordinator.epochs is not None and self._coordinator.epochs.stopped
        return self._checkpoints.rescaled if self._checkpoints and is_stopped else None

    @property
    def is_waiting(self) -> bool:
        """Whether no task works, since some tasks have no place."""
        return self._coordinator.is_waiting

    def cancel(self) -> None:
        """Stop the job: `run` raises JobCancelled within two seconds; idempotent."""
        self._news.put(Cancelled)

    def statistics(self) -> list[TaskStatistics]:
        """A snapshot of every task; the one before of a task that does not answer within 0.5 s."""
        return self._measured(self._workers.statistics())

    def stacks(self, task: str, seconds: float) -> Stacks:
        """Where the threads of a task are, within so many seconds; raises as `Workers.stacks`."""
        return self._workers.stacks(task, seconds)

    def _measured(self, tasks: Iterable[TaskStatistics]) -> list[TaskStatistics]:
        """These statistics; the first also gets what the driver has measured."""
        found = list(tasks)
        if found and self._checkpoints is not None:
            measured = self._checkpoints.metrics()
            found[0] = replace(found[0], restarts=self._coordinator.restarts.count, **measured)
        return found

    def _drive(self) -> None:
        """Carry out what the coordinator says, until it has no step left."""
        coordinator = self._coordinator
        events: list[Event] = [AttemptRequested()]
        while True:
            commands = coordinator.handle(events, time.monotonic())
            self._observe(events, commands)
            events = [event for each in commands if (event := self._carry_out(each)) is not None]
            if coordinator.step is None:
                return
            events += self._happened(0.0 if events else coordinator.wake)

    def _carry_out(self, command: Command) -> Event | None:
        """Carry out a command; returns the events that it causes at once."""
        try:
            match command:
                case Call(task, step, attempt):
                    worker = self._workers[task]
                    given = self._arguments[step](worker) if step in self._arguments else ()
                    which = () if step in _OF_NO_ATTEMPT else (attempt,)
                    call = worker.call(step, *which, *given)
                    answered = partial(self._answered, worker, command)
                    call.add_done_callback(lambda call: self._news.put(partial(answered, call)))
                case EndSource(task, attempt):
                    # Its run tells if it is gone.
                    self._workers[task].call("end_source", attempt)
                case RaiseLimit(task, attempt, limit_us):
                    self._workers[task].call("raise_limit", attempt, limit_us)
                case Barrier(task, attempt, epoch, is_last):
                    self._workers[task].call("barrier", attempt, epoch, is_last)
                case Commit(task, attempt, epoch):
                    worker = self._workers[task]
                    call = worker.call("commit_epoch", attempt, epoch)
                    committed = partial(self._committed, worker, command)
                    call.add_done_callback(lambda call: self._news.put(partial(committed, call)))
                case Store():
                    assert self._checkpoints is not None
                    self._checkpoints.store(
                        command, lambda outcome: self._news.put(lambda: outcome)
                    )
                case Mark(epoch):
                    assert self._checkpoints is not None
                    self._checkpoints.mark(epoch)
                case Verify():
                    assert self._checkpoints is not None
                    self._checkpoints.verify(lambda outcome: self._news.put(lambda: outcome))
                case Place(tasks):
                    return self._place(tasks)
                case Say(text, is_warning):
                    (self._warn if is_warning else self._tell)(text)
        except BaseException as error:  # noqa: BLE001 - the workers are ended all the same
            return MasterFailed(error)
        return None

    def _happened(self, wake: float | None) -> list[Event]:
        """The new events; waits for one until the given time."""
        events: list[Event] = []
        patience = None if wake is None else max(0.0, wake - time.monotonic())
        try:
            news = self._news.get(timeout=patience)
            while True:
                if (event := news()) is not None:
                    events.append(event)
                news = self._news.get_nowait()
        except queue.Empty:
            return events

    def _answered(self, worker: WorkerHandle, command: Call, call: Future[bytes]) -> Event | None:
        """The coordinator's event for the end of a call."""
        task, step, attempt = worker.task, command.step, command.attempt
        answer = outcome(call)
        match answer:
            case WorkerDied():
                return self._lost(worker, answer)
            case CallFailed():
                intent = "" if step == "run" else f" could not {step}"
                refused = StartError(f"task {task.name}{intent}: {answer}")
                return StepFailed(task.id, step, attempt, refused)
            case TaskFailure():
                return StepFailed(task.id, step, attempt, self._error(worker, answer))
        if attempt == self._coordinator.attempt:
            if step in self._answers:
                self._answers[step][task.id] = answer
            elif step == "run":
                self._workers.finished(worker, answer)
        return StepDone(task.id, step, attempt)

    def _committed(
        self, worker: WorkerHandle, command: Commit, call: Future[bytes]
    ) -> Event | None:
        """The coordinator's event for the end of a commit, while the task runs."""
        task, attempt = command.task, command.attempt
        match outcome(call):
            case WorkerDied() as died:
                return self._lost(worker, died)
            case CallFailed() as failed:
                refused = StartError(f"task {worker.task.name} could not commit: {failed}")
                return StepFailed(task, "run", attempt, refused)
            case TaskFailure() as failure:
                return StepFailed(task, "run", attempt, self._error(worker, failure))
        return EpochCommitted(task, attempt, command.epoch)

    def _place(self, tasks: Sequence[int]) -> Event:
        """Start a worker for each of these tasks, in the place of the one before, if there is room.

        What the others are told of their nodes and services changes with it.
        """
        found = self._workers.reserve(tasks)
        if isinstance(found, Waits):
            return found
        if self._checkpoints is not None and self._config.runtime == "ray":
            self._checkpoints.look_from([self._workers.tasks[task] for task in tasks])
        kept = {} if self._checkpoints is None else self._checkpoints.classes
        self._pickled = self._tasks.placed(self._workers.tasks, kept)
        placed = self._workers.start(found)
        for task in placed.tasks:
            self._listen(self._workers[task])
        return placed

    def _draining(self, nodes: Sequence[DrainingNode]) -> NodesDraining | None:
        """The coordinator's event for nodes that are about to go."""
        if self._coordinator.step == "place":  # what is free changes; it is told again
            return None
        return NodesDraining(tuple(self._workers.leaving(nodes)))

    def _lost(self, worker: WorkerHandle, died: WorkerDied) -> WorkerGone | None:
        """That a worker is gone; nothing, if another has its place."""
        if self._workers[worker.task.id] is not worker:
            return None
        lost = WorkerLost(worker.task.name, worker.node.name, died.status, died.log)
        return WorkerGone(worker.task.id, lost)

    def _listen(self, worker: WorkerHandle) -> None:
        """Ask the worker for its next report."""
        told = partial(self._told_unasked, worker)
        call = worker.call("listen")
        call.add_done_callback(lambda call: self._news.put(partial(told, call)))

    def _told_unasked(self, worker: WorkerHandle, call: Future[bytes]) -> Event | None:
        """The coordinator's event for a worker's report, or for its death at any time."""
        task = worker.task
        match outcome(call):
            case WorkerDied() as died:
                return self._lost(worker, died)
            case ChannelBroke(attempt, failure):
                self._listen(worker)
                return StepFailed(task.id, "run", attempt, self._error(worker, failure))
            case LimitReached(attempt, operator):
                self._listen(worker)
                return LimitPassed(task.id, attempt, operator)
            case Remark(text):
                self._listen(worker)
                self._warn(text)
            case SourceProgress(attempt, watermark_us):
                self._listen(worker)
                return SourceProgressed(task.id, attempt, watermark_us)
            case SnapshotWritten(attempt, epoch, entry, commits):
                self._listen(worker)
                return SnapshotAcknowledged(task.id, attempt, epoch, entry, commits)
            case SnapshotFailed(attempt, epoch, error):
                self._listen(worker)
                return CheckpointFailed(task.id, attempt, epoch, error)
        return None

    def _error(self, worker: WorkerHandle, failure: TaskFailure) -> EngineError:
        """The error for the user."""
        return error_of(failure, worker, self._graph, self._workers.tasks)

    def _of_deploy(self, worker: WorkerHandle) -> tuple[Any, ...]:
        pickled = self._pickled[worker.task.id]
        given = pickled, self._launcher.folder, worker.node.address, self._imports
        if self._checkpoints is None:
            return given
        assert self._coordinator.epochs is not None
        return (*given, self._checkpoints.start(worker.task.id, self._coordinator.epochs.last))

    def _of_connect(self, worker: WorkerHandle) -> tuple[Any, ...]:
        task, endpoints = worker.task, self._answers["deploy"]
        return (
            channel_peers(self._graph, task, self._workers.tasks, endpoints),
            service_peers(task, self._workers.tasks, endpoints),
        )


_OF_NO_ATTEMPT = ("process_id", "close")
