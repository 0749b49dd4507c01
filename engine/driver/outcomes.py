"""Outcomes for the user: of calls of workers, and of sinks when a job ends."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from engine.deployment.description import TaskDescription, TaskFailure
from engine.deployment.reply import CallFailed, open_reply, text_of
from engine.driver.launcher import WorkerDied, WorkerHandle
from engine.driver.wiring import channel_in_words
from engine.errors import (
    ChannelLost,
    CheckpointError,
    EngineError,
    OperatorError,
    StartError,
    StorageError,
)
from engine.graph.execution import ExecutionGraph
from engine.graph.sink import FIRST_EPOCH, SinkOperator
from engine.notebook.source_lines import with_source

logger = logging.getLogger("oka")


def outcome(call: Future[bytes]) -> Any:
    """The worker's value, or the WorkerDied or CallFailed that says why there is none."""
    try:
        return open_reply(call.result())
    except (WorkerDied, CallFailed) as error:
        return error


def error_of(
    failure: TaskFailure,
    worker: WorkerHandle,
    graph: ExecutionGraph,
    tasks: Sequence[TaskDescription],
) -> EngineError:
    """The error for the user about a failed task."""
    name = worker.task.name
    if failure.kind == "channel_lost":
        text = channel_in_words(failure.error, graph, tasks)
        return ChannelLost(f"task {name} on {worker.node.name}: {text}")
    if failure.kind == "checkpoint":
        traceback = with_source(failure.traceback).rstrip()
        told = "\n\n".join(filter(None, (failure.error, traceback)))
        told = told.removeprefix("CheckpointError: ")
        return CheckpointError(f"task {name}: {told}", failure.hint)
    if failure.kind == "storage":
        told = failure.error.removeprefix("StorageError: ")
        return StorageError(f"task {name}: {told}", failure.hint, code=failure.code)
    if failure.kind == "cancelled":
        return StartError(f"task {name} was cancelled, expected it to run to its end")
    return OperatorError(
        failure.operator,
        name,
        failure.record,
        failure.error,
        with_source(failure.traceback),
        failure.hint,
        with_source(failure.full_traceback),
    )


def unpickle_result(worker: WorkerHandle, sink: str, result: bytes) -> Any:
    """The result of a driver sink. Its records may run any code of the user.

    Raises OperatorError, whatever that code raises.
    """
    try:
        return pickle.loads(result)  # noqa: S301 - sent by our own worker
    except BaseException as error:  # noqa: BLE001 - whatever it was, it is told
        what = f"its result cannot be unpickled by the driver: {type(error).__name__}"
        raise OperatorError(sink, worker.task.name, None, f"{what}: {text_of(error)}", "") from None


def committed(name: str, sink: SinkOperator[Any], results: list[Any]) -> Any:
    """The output of a sink. Its records are the user's, whose code may do anything here."""
    try:
        return sink.commit(FIRST_EPOCH, results)
    except BaseException as error:  # noqa: BLE001 - whatever it was, it is told
        text, _, hint = text_of(error).partition("\n\nhint: ")
        what = f"its result cannot be read by the driver: {type(error).__name__}: {text}"
        raise OperatorError(name, "driver", None, what, "", hint or None) from None


def abort(name: str, sink: SinkOperator[Any]) -> None:
    """Have a sink remove what is left. It may be the user's, and the job has failed anyway."""
    try:
        sink.abort()
    except Exception as error:  # noqa: BLE001 - the job's own error is the one to raise
        what = f"{type(error).__name__}: {text_of(error)}".partition("\n")[0]
        logger.warning(f"sink {name!r} may have left something behind: {what}")
