"""The job master: starts the workers of one job, watches over them, and ends them all.

It works through futures alone, so it neither knows nor cares which runtime the workers are of.
The first failure decides how the job ends; everything else is then stopped.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
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
from engine.runtime.launcher import Launcher, WorkerDied, WorkerHandle
from engine.runtime.pickling import pickle_descriptions
from engine.runtime.relay import BlobPeers, blob_roles, model_tasks

Observer = Callable[[Sequence[TaskStatistics]], None]


@dataclass(frozen=True)
class JobReport:
    """How a job ended that ran to its end."""

    statistics: tuple[TaskStatistics, ...]
    outputs: dict[str, list[Any]]
    """What the tasks of each driver sink gathered, by operator name, in the order of index."""


class JobMaster:
    """Runs one job. `run` blocks; `cancel` and `statistics` may come from any thread.

    `observe` is given the statistics of all tasks once a second.
    """

    def __init__(
        self,
        graph: ExecutionGraph,
        placement: Placement,
        config: JobConfig,
        launcher: Launcher,
        observe: Observer | None,
    ) -> None:
        self._graph = graph
        self._placement = placement
        self._neighbours = Counter(node.id for node in placement.nodes.values())
        self._model_tasks = model_tasks(graph)
        self._blob_roles = blob_roles(graph, placement)
        self._config = config
        self._launcher = launcher
        self._observe = observe
        self._workers: Sequence[WorkerHandle] = ()
        self._cancelled: Future[None] = Future()

    def run(self) -> JobReport:
        """Start, run to the end, tear down. Raises the EngineError that ended the job."""
        try:
            try:
                self._start()
            except BaseException:
                self._tell("close")  # some have opened their endpoints already
                raise
            statistics = self._run()
            outputs = self._commit()
            self._tell("close")
            return JobReport(statistics, outputs)
        finally:
            self._launcher.shutdown()

    def cancel(self) -> None:
        """Stop the job: `run` raises JobCancelled within two seconds; idempotent."""
        if not self._cancelled.done():
            self._cancelled.set_result(None)

    def statistics(self) -> list[TaskStatistics]:
        """A snapshot of every task that answers within half a second."""
        asked = [worker.call("statistics") for worker in self._workers]
        answered, _ = wait(asked, timeout=_ANSWER_SECONDS)
        return [
            future.result() for future in asked if future in answered and future.exception() is None
        ]

    def _start(self) -> None:
        descriptions = [self._describe(vertex) for vertex in self._graph.vertices]
        pickled = pickle_descriptions(descriptions)
        record_registry.trust(True)  # the driver takes records from its own workers alone
        self._workers = self._launcher.launch(descriptions, self._placement)
        # Only a worker that lives is given work: one that is killed while it starts leaves nothing.
        self._ask("process_id")
        endpoints = self._ask(
            "bind",
            [
                (data, self._launcher.folder, worker.node.address, sys.path)
                for data, worker in zip(pickled, self._workers, strict=True)
            ],
        )
        self._ask(
            "connect",
            [
                (self._peers(worker.task.id, endpoints), self._blob_peers(worker.task, endpoints))
                for worker in self._workers
            ],
        )

    def _run(self) -> tuple[TaskStatistics, ...]:
        runs = [worker.call("run") for worker in self._workers]
        pending = set(runs)
        tick = time.monotonic() + _TICK_SECONDS
        while pending:
            done, _ = wait(
                {*pending, self._cancelled}, max(0.0, tick - time.monotonic()), FIRST_COMPLETED
            )
            self._raise_if_failed(runs)
            if self._cancelled in done:
                self._stop_all()
                raise JobCancelled(f"job {self._config.name!r} was cancelled")
            pending -= done
            if pending and time.monotonic() >= tick:
                if self._observe is not None:
                    self._observe(self.statistics())
                tick = time.monotonic() + _TICK_SECONDS
        return tuple(run.result() for run in runs)

    def _commit(self) -> dict[str, list[Any]]:
        outputs: dict[str, list[Any]] = {}
        for worker, results in zip(self._workers, self._ask("commit"), strict=True):
            if isinstance(results, TaskFailure):
                raise _operator_error(worker, results)
            for name, result in results.items():
                outputs.setdefault(name, []).append(result)
        return outputs

    def _ask(self, method: str, arguments: Sequence[tuple[Any, ...]] | None = None) -> list[Any]:
        """Call the method on every worker and wait for all answers; the first error is raised."""
        given = arguments or [()] * len(self._workers)
        calls = [
            worker.call(method, *each) for worker, each in zip(self._workers, given, strict=True)
        ]
        pending = set(calls)
        limit = None if method == "commit" else self._config.connect_timeout_seconds
        deadline = None if limit is None else time.monotonic() + limit
        while pending:
            patience = None if deadline is None else max(0.0, deadline - time.monotonic())
            done, pending = wait({*pending, self._cancelled}, patience, FIRST_COMPLETED)
            if self._cancelled in done:
                raise JobCancelled(f"job {self._config.name!r} was cancelled")
            pending.discard(self._cancelled)
            for worker, call in zip(self._workers, calls, strict=True):
                if call in done and (error := call.exception()) is not None:
                    raise _start_error(worker, method, error) from None
            if not done:
                late = [
                    w.task.name for w, c in zip(self._workers, calls, strict=True) if c in pending
                ]
                raise StartError(
                    f"{len(late)} of {len(calls)} workers did not answer {method!r} within "
                    f"{limit:g} s: {', '.join(late[:5])}",
                    "are all nodes reachable, and is what the tasks need free on them?",
                )
        return [call.result() for call in calls]

    def _tell(self, method: str) -> None:
        """Call the method on every worker that lives; do not mind those that fail to answer."""
        wait([worker.call(method) for worker in self._workers], timeout=_GRACE_SECONDS)

    def _stop_all(self) -> None:
        """Let the tasks drop what they hold; whoever takes longer is killed by the shutdown."""
        self._tell("cancel")
        self._tell("close")

    def _raise_if_failed(self, runs: Sequence[Future[Any]]) -> None:
        error = self._first_failure(runs)
        if isinstance(error, ChannelLost):
            # A channel breaks when its other end dies, and is often noticed first.
            wait(runs, timeout=_GRACE_SECONDS, return_when="FIRST_EXCEPTION")
            error = self._first_failure(runs)
        if error is not None:
            self._stop_all()
            raise error

    def _first_failure(self, runs: Sequence[Future[Any]]) -> EngineError | None:
        """The error to report: a death before a user's error before a broken channel."""
        errors: list[EngineError] = []
        for worker, run in zip(self._workers, runs, strict=True):
            if not run.done():
                continue
            if (error := run.exception()) is not None:
                errors.append(_lost(worker, error))
            elif isinstance(failure := run.result(), TaskFailure):
                if failure.kind == "channel_lost":
                    errors.append(ChannelLost(f"task {worker.task.name}: {failure.error}"))
                elif failure.kind != "cancelled":
                    errors.append(_operator_error(worker, failure))
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
                OutputDescription(edge.partitioner, tuple(channel.id for channel in channels))
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
            models=vertex.id in self._model_tasks,
            blobs=self._blob_roles.get(vertex.id),
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

    def _blob_peers(
        self, task: TaskDescription, endpoints: Sequence[dict[str, str]]
    ) -> BlobPeers | None:
        """The other ends of the task's part in the relays; None if it takes none."""
        if task.blobs is None:
            return None
        names = {
            other: f"task {self._workers[other].task.name} on node {self._workers[other].node.id}"
            for other in (*task.blobs.chain, *task.blobs.peers)
        }
        return BlobPeers.of(task.blobs, dict(enumerate(endpoints)), names)

    def _transport(self, task: int, other: int) -> str:
        if self._config.transport != "auto":
            return self._config.transport
        same_node = self._workers[task].node == self._workers[other].node
        return "shm" if same_node else "tcp"


def _lost(worker: WorkerHandle, error: BaseException) -> EngineError:
    if isinstance(error, WorkerDied):
        return WorkerLost(worker.task.name, worker.node.id, error.status, error.log)
    return StartError(f"task {worker.task.name}: {type(error).__name__}: {error}")


def _start_error(worker: WorkerHandle, method: str, error: BaseException) -> EngineError:
    if isinstance(error, WorkerDied):
        return _lost(worker, error)
    return StartError(
        f"task {worker.task.name} could not {method}: {type(error).__name__}: {error}"
    )


def _operator_error(worker: WorkerHandle, failure: TaskFailure) -> OperatorError:
    return OperatorError(
        failure.operator, worker.task.name, failure.record, failure.error, failure.traceback
    )


_TICK_SECONDS = 1.0
_ANSWER_SECONDS = 0.5
_GRACE_SECONDS = 0.8
