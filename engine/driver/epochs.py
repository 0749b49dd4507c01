"""The epoch under way and its steps: a state machine without I/O or a clock.

Reports of tasks and of the log of checkpoints go in; commands come out of `following`. An epoch
goes on in steps: barriers flow until every task has acknowledged, the epoch is stored, its sinks
commit. At most one is under way.

Invariants: an epoch is stored only with what every task was at its barrier, and once it is being
stored, nothing else is until that is known; sinks commit what is stored; numbers rise, and none is
taken twice, in whichever attempt. A task that has finished is in all later epochs as it was then;
the epoch of an attempt in which all have is the last, unless one is still wanted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from engine.checkpoint import SnapshotEntry
from engine.checkpoint.requests import Stop
from engine.errors import EngineError
from engine.graph.execution import ExecutionGraph


@dataclass(frozen=True)
class SnapshotAcknowledged:
    """A task has written what it was at the barrier, or at its end: the entry says which.

    At its end, the epoch is the one behind the last whose barrier it has seen.
    """

    task: int
    attempt: int
    epoch: int
    entry: SnapshotEntry
    commits: bool
    """Whether the task has to make the epoch final, or be told that it is."""


@dataclass(frozen=True)
class CheckpointFailed:
    """A task could not write."""

    task: int
    attempt: int
    epoch: int
    error: EngineError


@dataclass(frozen=True)
class EpochStored:
    """The epoch is in the log."""

    epoch: int


@dataclass(frozen=True)
class StoreFailed:
    """Nobody knows whether the epoch is in the log: it has to be tried again."""

    epoch: int
    error: EngineError


@dataclass(frozen=True)
class EpochCommitted:
    """The sinks of a task have made the epoch final; its source knows."""

    task: int
    attempt: int
    epoch: int


@dataclass(frozen=True)
class SavepointRequested:
    """Somebody wants an epoch that is kept under a name."""

    savepoint: str
    stop: Stop = "no"
    """Whether the job ends after it: now, or when all read records are processed."""


EpochEvent: TypeAlias = (
    SnapshotAcknowledged
    | CheckpointFailed
    | EpochStored
    | StoreFailed
    | EpochCommitted
    | SavepointRequested
)


@dataclass(frozen=True)
class Barrier:
    """Have the source of a task send the barrier of an epoch."""

    task: int
    attempt: int
    epoch: int
    is_last: bool = False
    """Whether the job ends after it: later records of the source would be dropped."""


@dataclass(frozen=True)
class Store:
    """Put an epoch into the log."""

    epoch: int
    entries: Mapping[int, SnapshotEntry] = field(compare=False)
    """The entry of each task, by its id."""
    seconds: float = field(compare=False)
    """Since its barriers began."""
    savepoint: str | None = None
    """The name under which it is kept."""


@dataclass(frozen=True)
class Commit:
    """Have the sinks of a task make an epoch final, and tell its source of partitions."""

    task: int
    attempt: int
    epoch: int


@dataclass(frozen=True)
class Mark:
    """All sinks have made the epoch final."""

    epoch: int


@dataclass(frozen=True)
class Say:
    """Tell the user what goes on."""

    text: str
    is_warning: bool = False
    """Whether it goes to the log, too, which is there without a terminal."""


EpochCommand: TypeAlias = Barrier | Store | Commit | Mark | Say


class Epochs:
    """The epochs of one job. `note` what happened, then carry out what `following` says."""

    def __init__(self, graph: ExecutionGraph, interval_seconds: float, first: int = 1) -> None:
        self.last = first - 1
        """The last that has begun."""
        self.first = first
        """The first epoch of this attempt; after a failed attempt it begins at once."""
        self.stored = 0
        """The last that this driver knows to be in the log; 0 is none."""
        self._is_last_stored = False
        """Whether an epoch of this attempt is stored in which all tasks have finished."""
        self.wake: float | None = None
        """When `following` has to be called at the latest."""
        self._tasks = {each.id for each in graph.vertices}
        self._sources = [each.id for each in graph.vertices if each.job_vertex.is_source]
        self._commits: dict[int, bool] = {}
        """Whether tasks take part in the commit of an epoch, as each has said with its last."""
        self._interval = interval_seconds
        self._attempt = -1
        self._is_interrupted = False
        """Whether the attempt was given up."""
        self._next = 0.0
        """The time of the next epoch that is not requested."""
        self._earliest = 0.0
        """The earliest time of the next epoch: some time after one that was given up."""
        self._is_urgent = False
        """Whether the next begins as soon as it can, until one is stored."""
        self._told = float("-inf")
        """The last time of a warning that a task cannot write."""
        self._names = {each.id: each.name for each in graph.vertices}
        self._finished: dict[int, SnapshotEntry] = {}
        self._step: _EpochStep | None = None
        """The step of the last epoch; None if none is under way."""
        self._entries: dict[int, SnapshotEntry] = {}
        self._awaited: set[int] = set()
        """The tasks that have not committed."""
        self._began = 0.0
        self._slow: float | None = None
        """The time of a warning that the epoch is still under way."""
        self._is_slow = False
        """Whether this warning was given, and no epoch was in time since."""
        self.stopped: str | None = None
        """The savepoint after which the job ends now: it is final."""
        self._wanted: list[SavepointRequested] = []
        """Savepoints that no epoch is yet."""
        self._savepoint: SavepointRequested | None = None
        """The kind of the epoch under way."""
        self._again: float | None = None
        """When storing is tried again."""
        self.failure: EngineError | None = None
        """Why something could not be written since the last epoch that was stored."""
        self._commands: list[EpochCommand] = []

    @property
    def is_over(self) -> bool:
        """Whether an epoch is stored in which all have finished, and no other is wanted."""
        return self._is_last_stored and self._step is None and not self._wanted

    @property
    def is_storing(self) -> bool:
        """Whether an epoch may be in the log or not: nobody may go on from an earlier one."""
        return self._step == "storing"

    @property
    def is_stopping_in_vain(self) -> bool:
        """Whether sources wait at the last barrier of the job, and it could not be kept."""
        under_way = self._wanted if self._savepoint is None else [self._savepoint, *self._wanted]
        return self.failure is not None and any(each.stop == "now" for each in under_way)

    def begin_attempt(self, attempt: int, now: float) -> None:
        """All tasks begin again, from the last stored epoch."""
        assert not self.is_storing, f"epoch {self.last} may be stored"
        if attempt > 0:
            self.last += 1  # that may be the one of tasks of the attempt before which had finished
        self._attempt = attempt
        self._finished, self._step, self._commands = {}, None, []
        self._commits = {}
        self._is_last_stored = self._is_interrupted = False
        self.first = self.last + 1
        self._next = now if attempt > 0 else now + self._interval
        self._earliest = now

    def hurry(self) -> None:
        """Begin an epoch at once, unless one is under way, and again until one is stored."""
        self._is_urgent = True

    def interrupt(self) -> None:
        """The attempt is over, whatever its tasks were at."""
        self._is_interrupted = True
        if not self.is_storing:
            self._give_up()

    def _give_up(self) -> None:
        if self._step == "aligning" and self._savepoint is not None:
            self._wanted.insert(0, self._savepoint)
            self._savepoint = None
        self._end()

    def note(self, event: EpochEvent, now: float) -> None:
        """Take in what happened; events of other attempts and epochs are ignored."""
        match event:
            case SnapshotAcknowledged(task, attempt, epoch, entry, commits) if (
                attempt == self._attempt
            ):
                self._commits[task] = commits
                if entry.finished:
                    self._finished[task] = entry
                is_for_it = epoch <= self.last if entry.finished else epoch == self.last
                if self._step == "aligning" and is_for_it:
                    self._entries.setdefault(task, entry)
            case CheckpointFailed(task, attempt, epoch, error) if attempt == self._attempt:
                self.failure = error
                if self._step == "aligning" and epoch == self.last:
                    self._give_up()
                    self._earliest = now + min(self._interval, _AGAIN_SECONDS)
                    self._told = now
                    self._say(f"checkpoint {epoch} is given up", error)
                elif now - self._told >= _SILENT_SECONDS:  # one that has finished tries on
                    self._told = now
                    self._say(f"task {self._names[task]} cannot write what it keeps", error)
            case EpochStored(epoch) if self.is_storing and epoch == self.last:
                self.stored, self.failure, self._is_urgent = epoch, None, False
                self._begin_commit()
            case StoreFailed(epoch, error) if self.is_storing and epoch == self.last:
                self._again, self.failure = now + _AGAIN_SECONDS, error
                self._say(f"checkpoint {epoch} waits for its storage", error)
            case EpochCommitted(task, attempt, epoch) if attempt == self._attempt:
                if self._step == "committing" and epoch == self.last:
                    self._awaited.discard(task)
            case SavepointRequested():
                self._wanted.append(event)

    def following(self, now: float, *, running: bool = True) -> list[EpochCommand]:
        """The commands that are due now; `running` unless the tasks are about to end."""
        said, self._commands = self._commands, []
        if self.is_storing:
            if self._again is not None and now >= self._again:
                said.append(self._store(now))
        elif running:
            said += self._go_on(now)
        self.wake = self._again if self.is_storing else self._due if running else None
        if self._step in ("aligning", "committing") or self.is_over:
            self.wake = None
        if self._step is not None and self._slow is not None:
            due = max(self._slow, self._told + _SILENT_SECONDS)
            if now >= due:
                self._slow, was_slow, self._is_slow = None, self._is_slow, True
                if not was_slow:
                    said.append(Say(self._under_way(now), is_warning=True))
            else:
                self.wake = due if self.wake is None else min(self.wake, due)
        return said

    def _under_way(self, now: float) -> str:
        """The tasks that a long epoch waits for."""
        if self._step == "storing":
            what = "its storage has not answered"
        else:
            is_aligning = self._step == "aligning"
            those = self._tasks - self._entries.keys() if is_aligning else self._awaited
            name = self._names[min(those)]
            who = f"{name} has" if len(those) == 1 else f"{name} and {len(those) - 1} more have"
            what = f"{who} not {'written' if is_aligning else 'made final'} what is for it"
        return f"checkpoint {self.last} is under way for {now - self._began:.0f} s: {what}"

    def _go_on(self, now: float) -> list[EpochCommand]:
        said: list[EpochCommand] = []
        if self._step == "committing" and not self._awaited:
            said.append(Mark(self.last))
            if self._is_slow and self._slow is not None:
                self._is_slow = False
                said.append(Say(f"checkpoint {self.last} was in time again", is_warning=True))
            self._end()
        is_due = self._step is None and now >= self._due
        if is_due and not self.is_over and self.stopped is None:
            self._savepoint = self._asked
            if self._savepoint is not None:
                self._wanted.remove(self._savepoint)
            said += self._begin(now)
        if self._step == "aligning" and self._entries.keys() == self._tasks:
            said.append(self._store(now))
        return said

    @property
    def _asked(self) -> SavepointRequested | None:
        """The savepoint that the next epoch is."""
        return next(
            (it for it in self._wanted if self._have_all_finished or it.stop != "drain"), None
        )

    @property
    def _have_all_finished(self) -> bool:
        return len(self._finished) == len(self._tasks)

    @property
    def _due(self) -> float:
        """When the next epoch begins."""
        if self._is_urgent or self._have_all_finished or self._asked is not None:
            return self._earliest
        return max(self._next, self._earliest)

    def _begin(self, now: float) -> list[EpochCommand]:
        self.last += 1
        self._step, self._began = "aligning", now
        self._next = now + self._interval
        self._slow = now + max(_SLOW_SECONDS, self._interval)
        self._entries = dict(self._finished)
        is_last = self._savepoint is not None and self._savepoint.stop == "now"
        return [
            Barrier(task, self._attempt, self.last, is_last)
            for task in self._sources
            if task not in self._finished
        ]

    def _end(self) -> None:
        """The epoch is final, or will be with the job."""
        if self._savepoint is not None and self._savepoint.stop == "now":
            self.stopped = self._savepoint.savepoint
        self._step = self._savepoint = None

    def _say(self, what: str, error: EngineError) -> None:
        self._commands.append(Say(f"{what}: {error.message}", is_warning=True))

    def _store(self, now: float) -> Store:
        self._step, self._again = "storing", None
        savepoint = None if self._savepoint is None else self._savepoint.savepoint
        return Store(self.last, dict(self._entries), now - self._began, savepoint)

    def _begin_commit(self) -> None:
        """The last epoch is committed with the job; others by those who go on from it."""
        if self._is_interrupted:
            self._end()
            return
        if all(entry.finished for entry in self._entries.values()):
            self._end()
            self._is_last_stored = True
            return
        self._step = "committing"
        self._awaited = {task for task, commits in self._commits.items() if commits}
        self._commands += [Commit(task, self._attempt, self.last) for task in sorted(self._awaited)]


_EpochStep: TypeAlias = Literal["aligning", "storing", "committing"]
_AGAIN_SECONDS = 1.0
"""Between two tries to store an epoch, and behind one that a task could not write; storage tries by
itself for longer."""
_SLOW_SECONDS = 10.0
"""After which an epoch takes long, unless the interval is longer."""
_SILENT_SECONDS = 10.0
"""Between two words that a task cannot write, where no epoch is given up for it."""
