"""Decides the next step of the job master: a state machine without I/O, threads or a clock.

Events go in, with the time; commands come out. A job takes its steps in order, each in all of its
tasks at once, and takes the next one when every task has finished the one before. The first failure
decides how it ends: living tasks are then cancelled and closed.

All steps up to `commit` are those of an attempt. They may begin again in the same workers: the
attempt before is cancelled, and its answers are ignored. So a job with checkpoints goes on after a
failure, as far as `Restarts` allows: a task whose worker died or does not answer gets another one,
and all begin after the last epoch that `Epochs` knows to be stored. Its step `run` is over when the
epoch is stored in which all tasks have finished. An attempt also begins anew when tasks are to
leave a node that is about to go (`Moves`); they get other workers as if theirs had died, and no
failure is counted.

The first step of an attempt, `place`, is over when all tasks have workers. No task works during it,
so its time is not limited, and a further death costs no further restart.

Invariants: no command to a worker that died, but that its task be placed; each of the others is
told to close exactly once, and before that to cancel, once in each attempt, if the attempt or the
job failed; of the failures that are known when the job ends, the error is a death before a user's
error before a broken channel; a job ends, whatever its workers do or leave undone once they are
told to cancel.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from engine.config import JobConfig
from engine.driver.epochs import (
    Barrier,
    CheckpointFailed,
    Commit,
    EpochEvent,
    Epochs,
    Mark,
    SavepointRequested,
    Say,
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
from engine.driver.failures import GRACE_SECONDS, Failures
from engine.driver.last_checkpoint import LastCheckpoint
from engine.driver.limits import Limits
from engine.driver.moves import Moves
from engine.driver.needed import unneeded_sources
from engine.driver.placing import Placing, Waits, WorkersPlaced
from engine.driver.restarts import Restarts
from engine.driver.source_alignment import SourceAlignment
from engine.errors import (
    EngineError,
    JobCancelled,
    JobStopped,
    StartError,
    StorageError,
)
from engine.graph.execution import ExecutionGraph


class Coordinator:
    """One job, from its first call to its last. Call `handle` with what happened, and by `wake`.

    The first that happens is `AttemptRequested`.
    """

    def __init__(self, graph: ExecutionGraph, config: JobConfig, first_epoch: int = 1) -> None:
        self.attempt = -1
        """Which deployment of the tasks this is, from 0."""
        self.step: Step | None = None
        """The step that is being taken; None before the first and after the last."""
        self.error: BaseException | None = None
        """Why the job failed, or is going to end without having run to its end."""
        self.wake: float | None = None
        """When `handle` has to be called at the latest."""
        self._graph = graph
        self._config = config
        self._limits = Limits(graph)
        self._alignment = SourceAlignment(graph)
        self._raised: dict[int, int] = {}
        """New limits of sources that they have not got yet."""
        self._sources: set[int] = set()
        """The tasks whose source has not been ended."""
        self._alive: list[int] = []
        self._new: set[int] = set()
        """The tasks with a worker that is new in this attempt."""
        self._placing = Placing(config.start_timeout_seconds, config.connect_timeout_seconds)
        self._awaited: set[int] = set()
        """The tasks that are not done with the step."""
        self._failures = Failures()
        """The tasks in this step."""
        self._deadline: float | None = None
        """Of the step."""
        self._restart: float | None = None
        """When the attempt after the one that failed begins."""
        self.restarts = Restarts(config.restarts, config.checkpoint_timeout_seconds)
        self.epochs = (
            None
            if config.checkpoints is None
            else Epochs(graph, config.checkpoint_interval_seconds, first_epoch)
        )
        """None of a job without checkpoints, which fails with its first attempt."""
        self._moves = Moves(has_checkpoints=config.checkpoints is not None)
        self._last_checkpoint = LastCheckpoint(config.checkpoint_timeout_seconds)
        self._next_word = 0.0
        self._words: list[Command] = []
        self._unwanted: set[int] = set()
        """The tasks whose records end at an operator with a limit."""
        self._owes_no_savepoint = False
        """Whether it is to stop, and not behind a savepoint."""
        self._is_new = first_epoch == 1
        """Whether it does not go on from a checkpoint."""
        self._is_started = self._is_stopped = self._is_cancelled = False

    def handle(self, events: Sequence[Event], now: float) -> list[Command]:
        """Take the events since the last call; all of them count in the next decision."""
        for event in events:
            if isinstance(event, EpochEvent):
                self._note_epoch(event, now)
            elif isinstance(event, NodesDraining):
                self._moves.note(event.nodes, now)
            else:
                self._note(event)
        self._look_at_storage(now)
        commands: list[Command] = [*self._moves.say()]
        commands += self._start(now) if self._is_due(now) else []
        while self.step is not None and (following := self._following(now)) != self.step:
            commands += self._begin(following, now)
        commands += self._go_on(now)
        if self.epochs is not None and self.epochs.stopped is not None and self._is_running:
            self.wake = now
        return commands

    @property
    def is_waiting(self) -> bool:
        """Whether no task works, since some tasks have no place."""
        return self._placing.is_waiting

    def _is_due(self, now: float) -> bool:
        """Whether another attempt begins: not without a worker that died."""
        is_storing = self.epochs is not None and self.epochs.is_storing
        is_wanted = self._is_started or self._moves_now(now)
        is_open = self.error is None and not self._failures.has_deaths
        return is_wanted and is_open and not is_storing

    def _moves_now(self, now: float) -> bool:
        """Whether tasks leave nodes that are about to go; sees to the checkpoint before that."""
        epochs = self.epochs
        if epochs is None or not self._is_running or epochs.is_over or epochs.stopped is not None:
            return False
        if self._moves.want_checkpoint(now, epochs.stored):
            epochs.hurry()
        return self._moves.is_due(now, epochs.stored)

    def _start(self, now: float) -> list[Command]:
        """The first step of a new attempt. No task is cancelled later than it is called anew."""
        before = [] if self.step is None else self._call("cancel")
        if self.epochs is not None and self.step is not None:
            self.epochs.interrupt()
        self._is_started = False
        return [*before, *self._begin("place", now)]

    def _begin_attempt(self, now: float) -> list[Command]:
        """Reset the steps of the tasks. Another driver may have caused their failure."""
        self.attempt += 1
        self._restart = None
        self._placing.begin(now)
        self._limits = Limits(self._graph)
        self._alignment, self._raised = SourceAlignment(self._graph), {}
        self._unwanted = set()
        self._sources = {each.id for each in self._graph.vertices if each.job_vertex.is_source}
        if self.epochs is not None:
            self.epochs.begin_attempt(self.attempt, now)
        return [Verify()] if self.epochs is not None and self.attempt > 0 else []

    def _call(self, step: Step) -> list[Command]:
        return [Call(task, step, self.attempt) for task in self._alive]

    def _following(self, now: float) -> Step | None:
        """The step to take next; the same as long as it is not over."""
        assert self.step is not None
        is_over = not self._awaited
        if self.step in _ENDING:
            is_over |= self._deadline is not None and now >= self._deadline
            if self._restart is not None and not self._is_cancelled and self.error is None:
                return "place" if is_over and self._is_ready(now) else self.step
            if self._restart is not None:
                self.error = self.error or self._cancelled()
        else:
            error = None if self.error else self._verdict(now)
            if error is not None and not self._goes_on(error, now):
                self.error = error
            if self.error is not None or self._restart is not None:
                return "cancel"
            if self.step == "run" and self.epochs is not None:
                is_over = is_over and self.epochs.is_over
                if self.epochs.stopped is not None and not self.epochs.is_over:
                    self.error = self._stopped(self.epochs.stopped)
                    return "cancel"
            if self.step == "process_id" and len(self._alive) < len(self._graph.vertices):
                return "place"
        return _NEXT.get(self.step) if is_over else self.step

    def _look_at_storage(self, now: float) -> None:
        """End a job that waits for nothing but its storage, and has for too long."""
        epochs = self.epochs
        if epochs is None or self.error is not None:
            return
        if self.step == "run":
            is_over = not self._awaited and not epochs.is_over
            is_awaited = is_over or epochs.is_stopping_in_vain
        else:
            is_awaited = self._restart is not None and epochs.is_storing
        self.error = self._last_checkpoint.look(is_awaited, now, epochs.failure)

    def _is_ready(self, now: float) -> bool:
        """Whether the next attempt can begin: it is known which epoch is the last."""
        assert self._restart is not None
        assert self.epochs is not None
        return now >= self._restart and not self.epochs.is_storing

    def _goes_on(self, error: EngineError, now: float) -> bool:
        """Whether there is to be another attempt."""
        if self.epochs is None or self._is_cancelled:
            return False
        delay = self.restarts.delay_after(error, now)
        if delay is not None:
            self._restart = now + delay
            told = error.message.partition("\n")[0]
            what = f"restart {self.restarts.words} in {delay:g} s: {told}"
            self._words.append(Say(what, is_warning=True))
        return delay is not None

    def _begin(self, step: Step | None, now: float) -> list[Command]:
        commands = self._words
        self._words = []
        if self.step == "place":
            commands += self._placing.end(now, placed=step == "process_id")
            self._next_word = now + _TICK_SECONDS
        if step == "place":
            # A worker that does not answer a cancel is of no use any more.
            silent = self._awaited if self.step == "cancel" else set()
            left = silent | self._moves.begin(now)
            self._alive = [task for task in self._alive if task not in left]
            commands += self._begin_attempt(now)
        elif self.epochs is not None and step == "cancel":
            self.epochs.interrupt()
        elif self.epochs is not None and self.step == "commit" and self.error is None:
            commands.append(Mark(self.epochs.last))
        self.step = step
        self._awaited = set() if step is None else set(self._alive)
        self._failures = Failures()
        self._deadline = None
        if step == "place":
            self._awaited = {task.id for task in self._graph.vertices}.difference(self._alive)
            self._new |= self._awaited
            return commands
        if step in _ENDING:
            self._deadline = now + (GRACE_SECONDS if self._restart is None else _SILENT_SECONDS)
        elif step in _STARTING:
            self._deadline = now + self._config.connect_timeout_seconds
        elif step in _WORDS:
            self._next_word = now + _TICK_SECONDS
        elif step == "run":
            self._new = set()
        return commands if step is None else commands + self._call(step)

    def _note_epoch(self, event: EpochEvent, now: float) -> None:
        assert self.epochs is not None, f"{event} of a job without checkpoints"
        stored = self.epochs.stored
        match event:
            case SavepointRequested(_, "drain"):
                self._is_stopped = True
            case CheckpointFailed(task, attempt, _, error) if not isinstance(error, StorageError):
                if (attempt, self.step) == (self.attempt, "run"):
                    self._failures.note(task, error)  # what cannot be encoded cannot be so later
        self.epochs.note(event, now)
        if self.epochs.stored not in (stored, self.epochs.first):
            self.restarts.progressed()  # the first is stored however soon the job fails again

    def _note(self, event: Event) -> None:
        current = (self.step, self.attempt)
        match event:
            case AttemptRequested() if self.step not in _FINAL:
                self._is_started = True
            case WorkersPlaced(tasks):
                self._awaited.difference_update(tasks)
                self._alive = sorted({*self._alive, *tasks})
            case Waits():
                self._placing.note(event)
            case StepDone(task, step, attempt) if (step, attempt) == current:
                self._awaited.discard(task)
            case StepFailed(task, step, attempt, error) if (step, attempt) == current:
                self._awaited.discard(task)
                self._failures.note(task, error)
            case WorkerGone(task, error):
                is_at_work = task in self._awaited or task in self._failures
                is_done = self.step == "commit" and not is_at_work
                # Nobody is at work: it is one more to be placed, of the failure that is known.
                is_of_before = self.step == "process_id" and task not in self._new
                is_of_before &= self.epochs is not None
                if self.step != "place":
                    self._awaited.discard(task)
                if task in self._alive:
                    self._alive.remove(task)
                    if self.step == "place":
                        self._awaited.add(task)
                    elif not is_done and not is_of_before:
                        self._failures.note(task, error)
            case LimitPassed(task, attempt, operator) if ("run", attempt) == current:
                self._unwanted |= self._limits.reached(task, operator)
            case SourceProgressed(task, attempt, time) if ("run", attempt) == current:
                self._raised |= self._alignment.progressed(task, time)
            case StopRequested():
                self._is_stopped = self._owes_no_savepoint = True
            case Cancelled():
                self._is_cancelled = True
            case MasterFailed(error) if self.step not in _ENDING or self._restart is not None:
                self.error = self.error or error

    def _verdict(self, now: float) -> EngineError | None:
        """Why the job cannot go on, if that is clear by now."""
        assert self.step is not None
        error = self._failures.verdict(self.step, now, is_over=not self._awaited)
        if error is not None:
            return error
        if self._is_cancelled or (self._owes_no_savepoint and self._has_never_had_room):
            return self._cancelled()
        if self.step == "place":
            return self._placing.error(now) if self._awaited else None
        if self._awaited and self._deadline is not None and now >= self._deadline:
            return self._late()
        return None

    @property
    def _has_never_had_room(self) -> bool:
        """Whether the job waits for nodes and nothing of it has begun, now or before."""
        is_first = self.attempt == 0 and self._is_new
        return is_first and self.step == "place" and self._placing.has_no_room

    def _cancelled(self) -> JobCancelled:
        return JobCancelled(f"job {self._config.name!r} was cancelled")

    def _stopped(self, savepoint: str) -> JobStopped:
        return JobStopped(
            f"job {self._config.name!r} was stopped with the savepoint {savepoint!r}",
            f"--resume {savepoint} (resume={savepoint!r}) goes on from it",
            savepoint,
        )

    def _late(self) -> StartError:
        late = [task.name for task in self._graph.vertices if task.id in self._awaited]
        return StartError(
            f"{len(late)} of {len(self._graph.vertices)} workers did not answer {self.step!r} "
            f"within {self._config.connect_timeout_seconds:g} s: {', '.join(late[:5])}",
            "are all nodes reachable, and is what the tasks need free on them?",
        )

    def _go_on(self, now: float) -> list[Command]:
        """The commands that are due during a step, and the time of the next ones."""
        commands: list[Command] = []
        if self.epochs is not None:
            commands += self._of_epochs(self.epochs, now)
        due = [self._deadline, self._failures.grace, self._restart, self._last_checkpoint.deadline]
        if self.epochs is not None:
            due += [self.epochs.wake, self._moves.wake(now)]
        wakes = [each for each in due if each is not None and each > now]
        if self.step == "place":
            commands += self._placing.following(self._awaited, now)
            wakes.append(self._placing.wake)
        elif self._is_running:
            commands += self._steer()
        elif self.step in _WORDS:
            if now >= self._next_word:
                self._next_word = now + _TICK_SECONDS
                total = len(self._graph.vertices)
                done = total - len(self._awaited)
                commands.append(Say(f"{_WORDS[self.step]} {done} of {total}"))
            wakes.append(self._next_word)
        self.wake = min(wakes, default=None)
        return commands

    def _of_epochs(self, epochs: Epochs, now: float) -> list[Command]:
        """The commands of checkpoints that are due, for living tasks."""
        said = epochs.following(now, running=self._is_running)
        return [
            each
            for each in said
            if not isinstance(each, Barrier | Commit) or each.task in self._alive
        ]

    @property
    def _is_running(self) -> bool:
        return self.step == "run" and not self._failures

    def _steer(self) -> list[Command]:
        """End the sources that no operator needs, and let others read on."""
        finished = {task.id for task in self._graph.vertices}.difference(self._awaited)
        commands = self._end_sources(unneeded_sources(self._graph, finished) if finished else ())
        commands += self._end_sources(self._sources if self._is_stopped else self._unwanted)
        raised, self._raised = self._raised, {}
        alive = ((task, limit_us) for task, limit_us in raised.items() if task in self._alive)
        return commands + [RaiseLimit(task, self.attempt, limit_us) for task, limit_us in alive]

    def _end_sources(self, tasks: Collection[int]) -> list[Command]:
        """Let these sources end; once each."""
        ending = self._sources.intersection(tasks)
        self._sources -= ending
        return [EndSource(task, self.attempt) for task in self._alive if task in ending]


_STARTING: tuple[Step | None, ...] = ("process_id", "deploy", "connect")
_ENDING: tuple[Step | None, ...] = ("cancel", "close")
_FINAL: tuple[Step | None, ...] = ("commit", "cancel", "close")
"""No attempt begins in these: what sinks have made final would come twice, or the job is over."""
_NEXT: dict[Step, Step] = {
    "place": "process_id",
    "process_id": "deploy",
    "deploy": "connect",
    "connect": "run",
    "run": "commit",
    "commit": "close",
    "cancel": "close",
}
_WORDS: dict[Step | None, str] = {
    "process_id": "starting workers",
    "deploy": "setting up workers",
    "connect": "connecting workers",
    "commit": "finishing workers",
}
"""The names of steps for the user."""
_TICK_SECONDS = 1.0
_SILENT_SECONDS = 1.0
"""So long a task that lives may take to answer that it is cancelled."""
