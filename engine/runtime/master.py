"""The job master: starts the workers of one job, watches over them, and ends them all.

It works through futures alone, so it neither knows nor cares which runtime the workers are of.
The first failure decides how the job ends; everything else is then stopped.
"""

from __future__ import annotations

import contextlib
import pickle
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, InvalidStateError, wait
from dataclasses import dataclass
from typing import Any

from engine import record_registry
from engine.config import JobConfig
from engine.errors import (
    ChannelLost,
    EngineError,
    JobCancelled,
    OperatorError,
    StartError,
    WorkerLost,
)
from engine.graph.execution import ExecutionGraph, ExecutionVertex
from engine.placement import Placement
from engine.runtime.description import (
    OutputDescription,
    TaskDescription,
    TaskFailure,
    TaskStatistics,
)
from engine.runtime.imports import ImportPath
from engine.runtime.launcher import Launcher, WorkerDied, WorkerHandle
from engine.runtime.limits import Limits
from engine.runtime.needed import unneeded_sources
from engine.runtime.pickling import pickle_descriptions
from engine.runtime.reply import CallFailed, open_reply, text_of
from engine.runtime.services import plan_services
from engine.service import Peer

Observer = Callable[[Sequence[TaskStatistics]], None]


@dataclass(frozen=True)
class JobReport:
    """How a job ended that ran to its end."""

    statistics: tuple[TaskStatistics, ...]
    outputs: dict[str, list[Any]]
    """What the tasks of each driver sink gathered, by operator name, in the order of index."""


class JobMaster:
    """Runs one job. `run` blocks; `stop`, `cancel` and `statistics` may come from any thread.

    `observe` is given the statistics of all tasks once a second; `tell` is given words where
    starting or ending them takes longer than that.
    """

    def __init__(
        self,
        graph: ExecutionGraph,
        placement: Placement,
        config: JobConfig,
        launcher: Launcher,
        observe: Observer | None,
        tell: Callable[[str], None] = lambda _what: None,
    ) -> None:
        self._graph = graph
        self._placement = placement
        self._neighbours = Counter(node.id for node in placement.nodes.values())
        self._services = plan_services(graph, placement)
        self._config = config
        self._launcher = launcher
        self._observe = observe
        self._announce = tell
        self._next_word = 0.0
        self._workers: Sequence[WorkerHandle] = ()
        self._asking = threading.Lock()
        self._asked: dict[WorkerHandle, Future[bytes]] = {}
        self._last_statistics: dict[WorkerHandle, TaskStatistics] = {}
        self._limits = Limits(graph)
        self._sources = {each.id for each in graph.vertices if each.job_vertex.is_source}
        """The tasks whose source was not told to end."""
        self._stopped: Future[None] = Future()
        self._cancelled: Future[None] = Future()

    def run(self) -> JobReport:
        """Start, run to the end, tear down. Raises the EngineError that ended the job."""
        try:
            self._start()
            statistics = self._run()
            return JobReport(statistics, self._commit())
        except BaseException:
            self._tell("cancel")  # who takes longer to drop what he holds is killed
            raise
        finally:
            self._tell("close")
            self._launcher.shutdown()

    def stop(self) -> None:
        """End all sources: `run` then comes to its end as if they had no more; idempotent."""
        with contextlib.suppress(InvalidStateError):
            self._stopped.set_result(None)

    def cancel(self) -> None:
        """Stop the job: `run` raises JobCancelled within two seconds; idempotent."""
        if not self._cancelled.done():
            self._cancelled.set_result(None)

    def statistics(self) -> list[TaskStatistics]:
        """A snapshot of every task; the one before of a task that does not answer within 0.5 s."""
        with self._asking:
            for worker in self._workers:
                if worker not in self._asked or self._asked[worker].done():
                    self._asked[worker] = worker.call("statistics")
            asked = dict(self._asked)
        wait(asked.values(), timeout=_ANSWER_SECONDS)
        for worker, call in asked.items():
            if call.done() and isinstance(answer := _outcome(call), TaskStatistics):
                self._last_statistics[worker] = answer
        return list(self._last_statistics.values())

    def _start(self) -> None:
        self._next_word = time.monotonic() + _TICK_SECONDS
        descriptions = [self._describe(vertex) for vertex in self._graph.vertices]
        pickled = pickle_descriptions(descriptions)
        record_registry.trust(True)  # the driver takes records from its own workers alone
        self._workers = self._launcher.launch(descriptions, self._placement)
        # Only a worker that lives is given work: one that is killed while it starts leaves nothing.
        self._ask("process_id")
        imports = ImportPath.of_this_process()
        endpoints = self._ask(
            "bind",
            [
                (data, self._launcher.folder, worker.node.address, imports)
                for data, worker in zip(pickled, self._workers, strict=True)
            ],
        )
        self._ask(
            "connect",
            [
                (self._peers(worker.task.id, endpoints), self._others(worker.task, endpoints))
                for worker in self._workers
            ],
        )

    def _run(self) -> tuple[TaskStatistics, ...]:
        runs = [worker.call("run") for worker in self._workers]
        pending: set[Future[Any]] = set(runs)
        shown = looked = time.monotonic()
        while pending:
            period = _LOOK_SECONDS if self._limits and self._sources else _TICK_SECONDS
            signals = {self._cancelled, self._stopped} if self._sources else {self._cancelled}
            patience = max(0.0, looked + period - time.monotonic())
            done, _ = wait({*pending, *signals}, patience, FIRST_COMPLETED)
            if done & pending:
                self._raise_if_failed(runs)
                self._end_sources(unneeded_sources(self._graph, self._finished(runs)))
            if self._cancelled in done:
                raise JobCancelled(f"job {self._config.name!r} was cancelled")
            pending -= done
            if self._stopped in done:
                self._end_sources(self._sources)
            now = time.monotonic()
            if not pending or now < looked + period:
                continue
            looked = now
            if self._limits and self._sources:
                self._end_sources(self._limits.idle_sources(self.statistics()))
            if now >= shown + _TICK_SECONDS:
                shown = now
                if self._observe is not None:
                    self._observe(self.statistics())
        self._last_statistics = {
            worker: _outcome(run) for worker, run in zip(self._workers, runs, strict=True)
        }
        return tuple(self._last_statistics.values())

    def _finished(self, runs: Sequence[Future[bytes]]) -> set[int]:
        return {
            worker.task.id for worker, run in zip(self._workers, runs, strict=True) if run.done()
        }

    def _end_sources(self, tasks: Collection[int]) -> None:
        """Let these sources end, as if they had no more; once each."""
        ending = self._sources.intersection(tasks)
        self._sources -= ending
        for worker in self._workers:
            if worker.task.id in ending:
                worker.call("end_source")  # its run tells if it is gone

    def _commit(self) -> dict[str, list[Any]]:
        self._next_word = time.monotonic() + _TICK_SECONDS
        outputs: dict[str, list[Any]] = {}
        for worker, results in zip(self._workers, self._ask("commit"), strict=True):
            if isinstance(results, TaskFailure):
                raise _operator_error(worker, results)
            for name, result in results.items():
                outputs.setdefault(name, []).append(_unpickle(worker, name, result))
        return outputs

    def _ask(self, method: str, arguments: Sequence[tuple[Any, ...]] | None = None) -> list[Any]:
        """Call the method on every worker and wait for all answers; the first error is raised."""
        given = arguments or [()] * len(self._workers)
        calls = [
            worker.call(method, *each) for worker, each in zip(self._workers, given, strict=True)
        ]
        outcomes: dict[Future[Any], Any] = {}
        pending: set[Future[Any]] = set(calls)
        limit = None if method == "commit" else self._config.connect_timeout_seconds
        deadline = None if limit is None else time.monotonic() + limit
        while pending:
            until = min(self._next_word, deadline or self._next_word)
            patience = max(0.0, until - time.monotonic())
            done, pending = wait({*pending, self._cancelled}, patience, FIRST_COMPLETED)
            if self._cancelled in done:
                raise JobCancelled(f"job {self._config.name!r} was cancelled")
            pending.discard(self._cancelled)
            for worker, call in zip(self._workers, calls, strict=True):
                if call in done:
                    outcomes[call] = outcome = _outcome(call)
                    if isinstance(outcome, Exception):
                        raise _start_error(worker, method, outcome) from None
            now = time.monotonic()
            if now >= self._next_word:
                self._next_word = now + _TICK_SECONDS
                self._announce(f"{_STEPS[method]} {len(calls) - len(pending)} of {len(calls)}")
            if not done and deadline is not None and now >= deadline:
                late = [
                    w.task.name for w, c in zip(self._workers, calls, strict=True) if c in pending
                ]
                raise StartError(
                    f"{len(late)} of {len(calls)} workers did not answer {method!r} within "
                    f"{limit:g} s: {', '.join(late[:5])}",
                    "are all nodes reachable, and is what the tasks need free on them?",
                )
        return [outcomes[call] for call in calls]

    def _tell(self, method: str) -> None:
        """Call the method on every worker that lives; do not mind those that fail to answer."""
        wait([worker.call(method) for worker in self._workers], timeout=_GRACE_SECONDS)

    def _raise_if_failed(self, runs: Sequence[Future[Any]]) -> None:
        error = self._first_failure(runs)
        if isinstance(error, ChannelLost):
            # A channel breaks when its other end dies, and is often noticed first.
            wait(runs, timeout=_GRACE_SECONDS, return_when="FIRST_EXCEPTION")
            error = self._first_failure(runs)
        if error is not None:
            raise error

    def _first_failure(self, runs: Sequence[Future[Any]]) -> EngineError | None:
        """The error to report: a death before a user's error before a broken channel."""
        errors: list[EngineError] = []
        for worker, run in zip(self._workers, runs, strict=True):
            if not run.done():
                continue
            outcome = _outcome(run)
            if isinstance(outcome, Exception):
                errors.append(_lost(worker, outcome))
            elif isinstance(outcome, TaskFailure):
                if outcome.kind == "channel_lost":
                    errors.append(ChannelLost(f"task {worker.task.name}: {outcome.error}"))
                elif outcome.kind != "cancelled":
                    errors.append(_operator_error(worker, outcome))
        order: list[type[EngineError]] = [WorkerLost, OperatorError, EngineError]
        return min(
            errors,
            default=None,
            key=lambda e: next(i for i, t in enumerate(order) if isinstance(e, t)),
        )

    def _describe(self, vertex: ExecutionVertex) -> TaskDescription:
        return TaskDescription(
            id=vertex.id,
            vertex=vertex.job_vertex.name,
            index=vertex.index,
            parallelism=vertex.job_vertex.parallelism,
            operators=vertex.job_vertex.operators,
            resources=vertex.job_vertex.resources,
            inputs=tuple(channel.id for channel in self._graph.inputs(vertex)),
            outputs=tuple(
                OutputDescription(
                    edge.partitioner, tuple(channel.id for channel in channels), edge.output
                )
                for edge, channels in self._graph.outputs(vertex)
            ),
            config=self._config,
            neighbours=self._neighbours[self._placement.node(vertex).id],
            columns=any(
                getattr(operator.operator, "emits_columns", False)
                for other in self._graph.vertices
                for operator in other.job_vertex.operators
            ),
            side_inputs=tuple(channel.id for channel in self._graph.side_inputs(vertex)),
            services=self._services.get(vertex.id, ()),
            node=self._placement.node(vertex).id,
        )

    def _peers(self, task: int, endpoints: Sequence[dict[str, str]]) -> dict[int, str]:
        """For each channel of the task, the endpoint of the task at its other end."""
        peers = {}
        for channel in self._graph.channels:
            if task in (channel.source, channel.target):
                other = channel.target if task == channel.source else channel.source
                peers[channel.id] = endpoints[other][self._transport(task, other)]
        return peers

    def _others(
        self, task: TaskDescription, endpoints: Sequence[dict[str, str]]
    ) -> dict[int, Peer]:
        """The tasks that the task's services have to know."""
        known = {other for service in task.services for other in service.peers}
        return {
            other: Peer(f"task {worker.task.name} on node {worker.node.id}", endpoints[other])
            for other, worker in enumerate(self._workers)
            if other in known
        }

    def _transport(self, task: int, other: int) -> str:
        if self._config.transport != "auto":
            return self._config.transport
        same_node = self._workers[task].node == self._workers[other].node
        return "shm" if same_node else "tcp"


def _outcome(call: Future[bytes]) -> Any:
    """What the worker returned, or the WorkerDied or CallFailed that says why it did not."""
    try:
        return open_reply(call.result())
    except (WorkerDied, CallFailed) as error:
        return error


def _unpickle(worker: WorkerHandle, sink: str, result: bytes) -> Any:
    """What a driver sink gathered. Its records are the user's, whose code may do anything here."""
    try:
        return pickle.loads(result)  # noqa: S301 - sent by our own worker
    except BaseException as error:  # noqa: BLE001 - whatever it was, it is told
        what = f"its result cannot be unpickled by the driver: {type(error).__name__}"
        raise OperatorError(sink, worker.task.name, None, f"{what}: {text_of(error)}", "") from None


def _lost(worker: WorkerHandle, error: Exception) -> EngineError:
    if isinstance(error, WorkerDied):
        return WorkerLost(worker.task.name, worker.node.id, error.status, error.log)
    return StartError(f"task {worker.task.name}: {error}")


def _start_error(worker: WorkerHandle, method: str, error: Exception) -> EngineError:
    if isinstance(error, WorkerDied):
        return _lost(worker, error)
    return StartError(f"task {worker.task.name} could not {method}: {error}")


def _operator_error(worker: WorkerHandle, failure: TaskFailure) -> OperatorError:
    return OperatorError(
        failure.operator,
        worker.task.name,
        failure.record,
        failure.error,
        failure.traceback,
        failure.hint,
        failure.full_traceback,
    )


_STEPS = {
    "process_id": "starting workers",
    "bind": "setting up workers",
    "connect": "connecting workers",
    "commit": "finishing workers",
}
"""What the calls of `_ask` are to the user."""
_TICK_SECONDS = 1.0
_LOOK_SECONDS = 0.1
"""How often a job with a limit looks whether its sources can end."""
_ANSWER_SECONDS = 0.5
_GRACE_SECONDS = 0.8
