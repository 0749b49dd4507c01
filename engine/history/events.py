"""The events and commands of a job's coordinator, as records of its history. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from engine.driver.epochs import (
    Barrier,
    CheckpointFailed,
    EpochStored,
    Mark,
    SavepointRequested,
    SnapshotAcknowledged,
    Store,
    StoreFailed,
)
from engine.driver.events import (
    Call,
    Cancelled,
    Command,
    Event,
    LimitPassed,
    MasterFailed,
    NodesDraining,
    Step,
    StepDone,
    StepFailed,
    StopRequested,
    WorkerGone,
)
from engine.driver.placing import Place
from engine.errors import ChannelLost, EngineError
from engine.graph.execution import ExecutionGraph
from engine.history.errors import told
from engine.history.retention import Record


class Events:
    """Takes what the coordinator is told and what it says, and makes records of it.

    Of a checkpoint there are several records, whose fields add up: one when it begins, when it is
    stored, and when all sinks have committed.
    """

    def __init__(self, graph: ExecutionGraph) -> None:
        self._names = [each.name for each in graph.vertices]
        self._step: tuple[Step, int] | None = None
        self._errors = 0
        """Those of this attempt."""
        self._gone: set[int] = set()
        """Tasks whose workers are lost in this attempt."""
        self._epoch: Record = {}
        """The checkpoint that is under way."""

    def records(
        self, events: Sequence[Event], commands: Sequence[Command], t: float
    ) -> Iterator[Record]:
        """The records of what happened at this time, and of what is done about it."""
        t = round(t, 3)
        for kind, record in (*self._of_events(events, t), *self._of_commands(commands, t)):
            yield {"kind": kind, "t": t, **record}

    def _of_events(self, events: Sequence[Event], t: float) -> Iterator[tuple[str, Record]]:
        done: dict[tuple[Step, int], list[int]] = defaultdict(list)
        for event in events:
            match event:
                case StepDone(task, step, attempt):
                    done[step, attempt].append(task)
                case StepFailed(task, step, attempt, error):
                    done[step, attempt].append(task)
                    yield from self._error(error, task)
                case WorkerGone(task, error):
                    if task not in self._gone:  # each call to it tells
                        self._gone.add(task)
                        yield from self._error(error, task)
                case CheckpointFailed(task, _, epoch, error):
                    yield "checkpoint", {"epoch": epoch, "failed": error.message[:_LONGEST]}
                    yield from self._error(error, task)
                case MasterFailed(EngineError() as error):
                    yield from self._error(error, None)
                case _:
                    yield from self._of_others(event, t)
        for (step, attempt), tasks in done.items():
            yield "done", {"step": step, "attempt": attempt, "tasks": tasks}

    def _of_others(self, event: Event, t: float) -> Iterator[tuple[str, Record]]:
        match event:
            case SnapshotAcknowledged(task, _, epoch) if epoch == self._epoch.get("epoch"):
                self._epoch["written_ms"][task] = round(1000 * (t - self._epoch["began"]))
            case EpochStored(epoch) if epoch == self._epoch.get("epoch"):
                yield "checkpoint", {**self._epoch, "stored": t}
            case StoreFailed(epoch, error):
                yield "checkpoint", {"epoch": epoch, "failed": error.message[:_LONGEST]}
            case SavepointRequested(name, stop):
                yield "event", {"event": "savepoint requested", "name": name, "stop": stop}
            case LimitPassed(task, _, operator):
                at = {"operator": operator, "task": self._names[task]}
                yield "event", {"event": "limit reached", **at}
            case StopRequested():
                yield "event", {"event": "stop requested"}
            case Cancelled():
                yield "event", {"event": "cancel requested"}
            case NodesDraining(nodes) if nodes:
                names = [each.node for each in nodes]
                yield "event", {"event": "nodes are about to go", "nodes": names}

    def _of_commands(self, commands: Sequence[Command], t: float) -> Iterator[tuple[str, Record]]:
        for command in commands:
            match command:
                case Call(_, step, attempt):
                    yield from self._begins(step, attempt)
                case Place():
                    yield from self._begins("place", 0 if self._step is None else -1)
                case Barrier(_, _, epoch) if epoch != self._epoch.get("epoch"):
                    self._begin_epoch(epoch, t)
                    yield "checkpoint", {"epoch": epoch, "began": t}
                case Store(epoch, entries, seconds, savepoint):
                    if epoch != self._epoch.get("epoch"):  # all tasks had finished
                        self._begin_epoch(epoch, round(t - seconds, 3))
                    self._epoch["aligned"] = t
                    self._epoch["bytes"] = sum(entry.written for entry in entries.values())
                    if savepoint is not None:
                        self._epoch["savepoint"] = savepoint
                case Mark(epoch):
                    yield "checkpoint", {"epoch": epoch, "committed": t}

    def _begins(self, step: Step, attempt: int) -> Iterator[tuple[str, Record]]:
        """A step of all tasks; that of placing them is the first of the attempt that follows."""
        if attempt < 0:
            if self._step is not None and self._step[0] == "place":
                return
            attempt = 1 + (0 if self._step is None else self._step[1])
        if (step, attempt) == self._step:
            return
        if self._step is None or attempt != self._step[1]:
            self._errors = 0
            self._gone.clear()
        self._step = step, attempt
        yield "step", {"step": step, "attempt": attempt}

    def _begin_epoch(self, epoch: int, t: float) -> None:
        self._epoch = {"epoch": epoch, "began": t, "written_ms": [0] * len(self._names)}

    def _error(self, error: EngineError, task: int | None) -> Iterator[tuple[str, Record]]:
        """The error of a task. Channels of all others break with it, of which it is told later."""
        if isinstance(error, ChannelLost) or error.message.endswith(_AS_A_RESULT):
            return
        self._errors += 1
        if self._errors <= _MOST_ERRORS:
            names = {} if task is None else {"task": self._names[task]}
            yield "error", {**names, **told(error)}


_AS_A_RESULT = "was cancelled, expected it to run to its end"
_MOST_ERRORS = 10
"""Those of one attempt that are kept."""
_LONGEST = 500
