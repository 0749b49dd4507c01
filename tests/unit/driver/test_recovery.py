"""A job with checkpoints in a world of the test's: whoever dies, each record is final once."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cache, partial
from random import Random
from typing import Any

import pytest

from engine.config import JobConfig
from engine.driver.coordinator import Coordinator
from engine.driver.epochs import (
    Barrier,
    CheckpointFailed,
    Commit,
    EpochCommitted,
    EpochStored,
    Mark,
    SavepointRequested,
    Say,
    SnapshotAcknowledged,
    Store,
    StoreFailed,
)
from engine.driver.events import (
    AttemptRequested,
    Call,
    Cancelled,
    EndSource,
    MasterFailed,
    NodesDraining,
    StepDone,
    StepFailed,
    Verify,
    WorkerGone,
)
from engine.driver.moves import Departure
from engine.driver.placing import Place, Waits, WorkersPlaced
from engine.driver.restarts import Restarts
from engine.errors import (
    ChannelLost,
    CheckpointError,
    EngineError,
    JobCancelled,
    OperatorError,
    PlacementError,
    StorageError,
    WorkerLost,
)
from engine.graph import chain, logical_graph
from engine.graph.execution import ExecutionGraph, expand
from operators import source
from operators.sinks import Collect
from operators.sources import Collection
from tests.faults.test_chaos import seeds

RECORDS = 100
"""Of each source; all of them go to one sink, which has the same index."""


@cache
def graph(parallelism: int) -> ExecutionGraph:
    numbers = source(Collection([1])).rebalance().map(str)
    return expand(chain(logical_graph(numbers.sink(Collect())), parallelism))


def config(**settings: Any) -> JobConfig:
    return JobConfig(
        name="tried",
        connect_timeout_seconds=5.0,
        checkpoints="folder",
        **{"checkpoint_interval_seconds": 1.0, "restarts": 1000, **settings},
    )


@dataclass(frozen=True)
class Entry:
    """What a task was, as far as anybody looks at it."""

    finished: bool
    position: int
    """Of the source; of a sink, up to where it has taken records."""
    prepared: tuple[tuple[int, range], ...] = ()


@dataclass
class Worker:
    """One task in one attempt."""

    attempt: int
    last: int
    """The last epoch that it has taken part in."""
    position: int = 0
    prepared: list[tuple[int, range]] = field(default_factory=list)
    finished: Entry | None = None
    runs: bool = False
    barriers: dict[int, int] = field(default_factory=dict)
    """Of a source, where it was at each."""


class World:
    """Workers and a log that do what chance has them do."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.width = self.random.randint(1, 3)
        self.coordinator = Coordinator(
            graph(self.width),
            config(checkpoint_interval_seconds=self.random.choice([0.1, 1.0])),
        )
        self.trouble = self.random.choice([0, 1, 3, 12])
        """Failures that are still to come."""
        self.now = 100.0
        self.coming: list[tuple[float, int, Any]] = []
        self.order = 0
        self.log: dict[int, dict[int, Entry]] = {}
        self.trying: Store | None = None
        self.marked: list[int] = []
        self.begun: list[int] = []
        self.dead: set[int] = set()
        self.workers: dict[int, Worker] = {}
        self.final: dict[tuple[int, int], range] = {}
        """What is final, by sink and the epoch for which it was prepared."""
        self.wanted: set[str] = set()
        self.savepoints: set[str] = set()
        self.failures = 0
        """What the job may count as a restart."""
        self.nodes = {task: task % 3 for task in range(2 * self.width)}
        """Where the tasks are; there are others, without end."""
        self.draining: dict[int, float] = {}
        """When nodes go that have been told to."""
        self.has_room = self.random.random() < 0.8

    def run(self) -> None:
        self.carry_out(self.coordinator.handle([AttemptRequested()], self.now))
        for _ in range(self.random.choice([0, 0, 1, 2, 5])):
            self.later(self.drain, 3.0)
        for name in "abc"[: self.random.randint(0, 3)]:
            self.later(partial(self.want, name), 10.0)
        for _ in range(20_000):
            if self.coordinator.step is None:
                return
            self.go_on()
        raise AssertionError("the job does not end")

    def go_on(self) -> None:
        wake = self.coordinator.wake
        self.coming.sort(key=lambda each: each[:2])
        assert self.coming or wake is not None, "it waits for nothing"
        first = self.coming[0][0] if self.coming else float("inf")
        self.now = max(self.now, min(first, float("inf") if wake is None else wake))
        due = [each for at, _, each in self.coming if at <= self.now]
        self.coming = [each for each in self.coming if each[0] > self.now]
        events = [event for each in due for event in (each() if callable(each) else [each])]
        self.carry_out(self.coordinator.handle(events, self.now))

    def want(self, name: str) -> list[Any]:
        """A savepoint, unless the job is about to end."""
        assert self.coordinator.epochs is not None
        if self.coordinator.epochs.is_over:
            return []
        self.wanted.add(name)
        return [SavepointRequested(name, self.random.choice(["no", "drain"]))]

    def drain(self) -> list[Any]:
        """A node, with tasks or without, is about to go."""
        node = self.random.choice([*set(self.nodes.values()), -1])
        seconds = self.random.choice([0.5, 3.0, 6.0])
        self.draining.setdefault(node, self.now + seconds)
        is_certain = self.failures + self.trouble == 0 and seconds == 6.0
        self.later(partial(self.go, node, is_certain), 2 * seconds)
        return self.look_at_nodes()

    def look_at_nodes(self) -> list[Any]:
        """What the master finds out each second."""
        if self.coordinator.step is None:
            return []
        self.later(self.look_at_nodes, 2.0)
        self.has_room = self.has_room or self.random.random() < 0.1
        return [NodesDraining(tuple(self.leaving(node) for node in sorted(self.draining)))]

    def leaving(self, node: int) -> Departure:
        tasks = frozenset(task for task, on in self.nodes.items() if on == node)
        return Departure(str(node), tasks, self.draining[node], self.has_room)

    def go(self, node: int, is_certain: bool) -> list[Any]:
        """The node is gone, sooner or later than it was told."""
        until = self.draining.pop(node, self.now)
        lost = [task for task, on in self.nodes.items() if on == node]
        if is_certain and self.failures == 0 and self.now >= until:
            assert not lost, "it is empty when it goes"
        return [event for task in lost for event in self.die(task)]

    def later(self, event: Any, seconds: float = 0.5) -> None:
        self.order += 1
        self.coming.append((self.now + seconds * self.random.random(), self.order, event))

    def carry_out(self, commands: list[Any]) -> None:
        for command in commands:
            task = getattr(command, "task", None)
            assert task not in self.dead, command
            match command:
                case Place(tasks):
                    self.place(tasks)
                case Call(_, step, attempt):
                    self.take(task, step, attempt)
                case Barrier(_, attempt, epoch):
                    assert attempt == self.coordinator.attempt
                    self.later(lambda a=(task, attempt, epoch): self.pass_barrier(*a))
                case Store():
                    self.store(command)
                case Commit(_, attempt, epoch):
                    assert epoch in self.log
                    self.later(lambda a=(task, attempt, epoch): self.commit(*a))
                case Mark(epoch):
                    assert epoch in self.log
                    self.marked.append(epoch)
                case Verify():
                    assert self.coordinator.attempt > 0
                case EndSource() | Say():
                    pass
                case _:
                    raise AssertionError(command)

    def place(self, tasks: tuple[int, ...]) -> None:
        """There is room, or there is none, or another dies before it is known."""
        assert self.dead <= set(tasks)
        event: WorkersPlaced | Waits = WorkersPlaced(tasks)
        if self.random.random() < 0.3:
            error = None if self.random.random() < 0.3 else PlacementError("no room")
            event = Waits("0 of 1 workers, waiting for room", error)
            if self.fails():
                self.later(partial(self.die, self.random.randrange(2 * self.width)), 0.2)
        else:
            self.dead.difference_update(tasks)
            for task in tasks:
                self.nodes[task] = max(self.nodes.values()) + 1
                self.workers.pop(task, None)
        self.carry_out(self.coordinator.handle([event], self.now))

    def fails(self) -> bool:
        if self.trouble and self.random.random() < 0.15:
            self.trouble -= 1
            return True
        return False

    def die(self, task: int) -> list[Any]:
        if task in self.dead or task not in range(2 * self.width):
            return []
        self.dead.add(task)
        self.failures += 1
        return [WorkerGone(task, WorkerLost(f"t[{task}]", "n", "killed"))]

    def at_work(self, task: int, attempt: int) -> Worker | None:
        worker = self.workers.get(task)
        if task in self.dead or worker is None or worker.attempt != attempt:
            return None
        return worker

    def take(self, task: int, step: str, attempt: int) -> None:
        if step == "deploy":
            self.workers[task] = Worker(attempt, self.coordinator.epochs.last)  # type: ignore[union-attr]
            self.restored(task)
        if step == "cancel" and (worker := self.workers.get(task)) is not None:
            worker.runs = False
        if step == "cancel" and self.fails():
            return  # nothing is heard of it any more
        if step in ("deploy", "connect", "run") and self.fails():
            kind = self.random.choice(["dies", "cut off", "raises"])
            if kind == "dies":
                self.later(lambda: self.die(task))
                return
            if step == "run":
                error: EngineError = ChannelLost("cut off")
                if kind == "raises":
                    error = OperatorError("map", f"t[{task}]", None, "ValueError", "")
                self.failures += 1
                self.later(StepFailed(task, step, attempt, error), 3.0)
        if step == "run":
            self.workers[task].runs = True
            if task < self.width:
                self.later(lambda: self.finish(task, attempt), 5.0)
            return
        if step == "commit":
            self.later(lambda: self.commit(task, attempt, None))
            return
        self.later(StepDone(task, step, attempt))  # type: ignore[arg-type]

    def restored(self, task: int) -> None:
        if not self.log:
            return
        entry = self.log[max(self.log)][task]
        worker = self.workers[task]
        worker.position = entry.position
        for epoch, records in entry.prepared:
            self.finalize(task, epoch, records)

    def pass_barrier(self, task: int, attempt: int, epoch: int) -> list[Any]:
        """The source has come somewhere, and says so; all sinks are told."""
        worker = self.at_work(task, attempt)
        if worker is None or not worker.runs or worker.last >= epoch:
            return []
        worker.position = self.random.randint(worker.position, RECORDS)
        worker.barriers[epoch] = worker.position
        worker.last = epoch
        for sink in range(self.width, 2 * self.width):
            self.later(lambda sink=sink: self.receive(sink, attempt, epoch))
        return self.written(task, attempt, epoch, Entry(False, worker.position))

    def receive(self, task: int, attempt: int, epoch: int) -> list[Any]:
        """The sink has all in front of the barrier, once all sources have passed it or ended."""
        worker = self.at_work(task, attempt)
        if worker is None or not worker.runs or worker.last >= epoch:
            return []
        for index in range(self.width):
            other = self.at_work(index, attempt)
            if other is None:
                return []
            if epoch not in other.barriers and max(other.barriers, default=0) > epoch:
                return []  # it was given up; the newer one takes its place
            if epoch not in other.barriers and other.finished is None:
                self.later(lambda: self.receive(task, attempt, epoch))
                return []
        ours = self.at_work(task - self.width, attempt)
        assert ours is not None
        end = ours.barriers.get(epoch, ours.position)
        self.prepare(worker, epoch, end)
        return self.written(task, attempt, epoch, Entry(False, end, tuple(worker.prepared)))

    def prepare(self, worker: Worker, epoch: int, end: int) -> None:
        worker.prepared.append((epoch, range(worker.position, end)))
        worker.position, worker.last = end, epoch

    def written(self, task: int, attempt: int, epoch: int, entry: Entry) -> list[Any]:
        if not entry.finished and self.fails():
            self.later(CheckpointFailed(task, attempt, epoch, StorageError("disk full")))
            return []
        if self.fails():
            return self.die(task)
        self.later(SnapshotAcknowledged(task, attempt, epoch, entry, task >= self.width))  # type: ignore[arg-type]
        return []

    def finish(self, task: int, attempt: int) -> list[Any]:
        """The source has come to its end, or the sink behind it."""
        worker = self.at_work(task, attempt)
        if worker is None or not worker.runs:
            return []
        if task < self.width:
            worker.position, worker.last = RECORDS, worker.last + 1
            worker.finished = Entry(True, RECORDS)
            self.later(lambda: self.finish(task + self.width, attempt))
        else:
            ends = [self.at_work(index, attempt) for index in range(self.width)]
            if any(end is None for end in ends):
                return []
            if any(
                end.finished is None or max(end.barriers, default=0) > worker.last
                for end in ends
                if end is not None
            ):
                self.later(lambda: self.finish(task, attempt))
                return []
            if worker.finished is not None:
                return []
            self.prepare(worker, worker.last + 1, RECORDS)
            worker.finished = Entry(True, RECORDS, tuple(worker.prepared))
        self.later(StepDone(task, "run", attempt))
        return self.written(task, attempt, worker.last, worker.finished)

    def commit(self, task: int, attempt: int, epoch: int | None) -> list[Any]:
        worker = self.at_work(task, attempt)
        if worker is None:
            return []
        for number, records in list(worker.prepared):
            if epoch is None or number <= epoch:
                self.finalize(task, number, records)
                worker.prepared.remove((number, records))
                if self.fails():
                    return self.die(task)
        done = StepDone(task, "commit", attempt)
        return [done if epoch is None else EpochCommitted(task, attempt, epoch)]

    def finalize(self, task: int, epoch: int, records: range) -> None:
        assert self.final.setdefault((task, epoch), records) == records

    def store(self, command: Store) -> None:
        if self.trying is None:
            assert command.epoch > max(self.log, default=0)
            assert set(command.entries) == set(range(2 * self.width))
            self.trying = command
        assert self.trying.epoch == command.epoch, "two are being stored"

        def end() -> list[Any]:
            assert self.trying is not None
            if self.random.random() < 0.2:
                if self.random.random() < 0.5:
                    self.log[command.epoch] = command.entries  # type: ignore[assignment]
                return [StoreFailed(command.epoch, StorageError("503"))]
            self.log[command.epoch] = self.trying.entries  # type: ignore[assignment]
            if command.savepoint is not None:
                assert command.savepoint not in self.savepoints
                self.savepoints.add(command.savepoint)
            self.trying = None
            return [EpochStored(command.epoch)]

        self.later(end)


def check(world: World) -> None:
    if world.coordinator.error is not None:
        raise AssertionError(repr(world.coordinator.error))
    found = Counter((task, record) for (task, _), each in world.final.items() for record in each)
    sinks = range(world.width, 2 * world.width)
    assert found == Counter((task, record) for task in sinks for record in range(RECORDS))
    assert world.savepoints == world.wanted
    assert world.coordinator.restarts.count <= world.failures
    assert world.marked == sorted(set(world.marked))
    assert world.marked[-1] == max(world.log)
    assert all(entry.finished for entry in world.log[max(world.log)].values())


@pytest.mark.parametrize("block", seeds("0-4"))  # `make chaos` has 20 times as many
def test_whoever_dies_each_record_is_final_once(block: int) -> None:
    for seed in range(block * 500, block * 500 + 500):
        world = World(seed)
        try:
            world.run()
            check(world)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error


class Job:
    """A coordinator at work, and what it said last."""

    def __init__(self, **settings: Any) -> None:
        self.coordinator = Coordinator(graph(1), config(**settings))
        self.now = 100.0
        self.said: list[Any] = self.coordinator.handle([AttemptRequested()], self.now)
        self.handle(WorkersPlaced((0, 1)))
        self.start()

    def start(self) -> None:
        for step in ("process_id", "deploy", "connect"):
            self.handle(*(StepDone(task, step, self.coordinator.attempt) for task in (0, 1)))  # type: ignore[arg-type]
        assert self.coordinator.step == "run"

    def handle(self, *events: Any, after: float = 0.0) -> list[Any]:
        self.now += after
        self.said = self.coordinator.handle(events, self.now)
        return self.said

    def fail(self, error: EngineError) -> None:
        """A failure of a task that lives, and the next attempt where there is one."""
        attempt = self.coordinator.attempt
        self.handle(StepFailed(1, "run", attempt, error))
        self.handle(*(StepDone(task, "cancel", attempt) for task in (0, 1)))
        if self.coordinator.error is None:
            self.handle(after=10.0)
            assert self.coordinator.attempt == attempt + 1
            self.start()

    def checkpoint(self) -> None:
        """The epoch that has just begun, to its end."""
        attempt, epoch = self.coordinator.attempt, self.coordinator.epochs.last  # type: ignore[union-attr]
        assert Barrier(0, attempt, epoch) in self.said
        entry: Any = Entry(False, 1)
        said = self.handle(
            *(SnapshotAcknowledged(task, attempt, epoch, entry, task == 1) for task in (0, 1))
        )
        assert said == [Store(epoch, {}, 0.0)]
        self.handle(EpochStored(epoch))
        self.handle(EpochCommitted(1, attempt, epoch))
        assert self.said == [Mark(epoch)]


FULL = StorageError("the disk is full")


def raised(record: str | None) -> OperatorError:
    return OperatorError("map", "t[1]", record, "ValueError", "")


def test_a_record_that_fails_again_ends_the_job_and_is_named() -> None:
    job = Job()
    job.fail(raised("7"))
    job.fail(raised("8"))
    job.fail(raised("7"))
    assert job.coordinator.error is None
    job.fail(raised("7"))
    assert isinstance(job.coordinator.error, OperatorError)
    assert "on record 7" in str(job.coordinator.error)


def test_the_first_checkpoint_behind_a_failure_begins_at_once() -> None:
    job = Job()
    assert not any(isinstance(each, Barrier) for each in job.said)
    job.fail(raised(None))
    job.checkpoint()
    job.handle(after=0.9)
    assert job.said == []
    job.handle(after=0.1)
    job.checkpoint()


def test_restarts_are_counted_anew_with_each_checkpoint_but_the_first() -> None:
    job = Job(restarts=2)
    for _ in range(3):
        job.fail(raised(None))
        job.checkpoint()
        job.handle(after=1.0)
        job.checkpoint()
    for _ in range(2):
        job.fail(raised(None))
        job.checkpoint()
    assert job.coordinator.error is None
    job.fail(raised(None))
    assert isinstance(job.coordinator.error, OperatorError)


def test_what_cannot_be_written_ever_ends_the_job() -> None:
    job = Job()
    job.handle(after=1.0)
    job.handle(CheckpointFailed(1, 0, 1, CheckpointError("a lambda cannot travel")))
    assert isinstance(job.coordinator.error, CheckpointError)


ENTRY: Any = Entry(True, 1)


def all_have_ended(job: Job) -> None:
    attempt = job.coordinator.attempt
    job.handle(*(StepDone(task, "run", attempt) for task in (0, 1)))


def all_have_written(job: Job) -> None:
    attempt, epoch = job.coordinator.attempt, job.coordinator.epochs.last  # type: ignore[union-attr]
    job.handle(
        *(SnapshotAcknowledged(task, attempt, epoch, ENTRY, task == 1) for task in (0, 1)),
        after=1.0,
    )


def is_storing(job: Job) -> int:
    (stored,) = (each.epoch for each in job.said if isinstance(each, Store))
    return stored


def a_task_cannot_write(job: Job) -> None:
    all_have_ended(job)
    job.handle(CheckpointFailed(1, 0, 1, FULL), after=10.0)


def nothing_is_heard(job: Job) -> None:
    all_have_ended(job)


def it_cannot_be_stored(job: Job) -> None:
    all_have_ended(job)
    all_have_written(job)
    job.handle(StoreFailed(is_storing(job), FULL), after=1.0)
    job.handle(StoreFailed(1, FULL), after=10.0)


def it_cannot_be_stored_behind_a_failure(job: Job) -> None:
    all_have_written(job)
    stored = is_storing(job)
    job.handle(WorkerGone(1, WorkerLost("t[1]", "n", "killed")))
    job.handle(StepDone(0, "cancel", 0), after=0.1)
    job.handle(StepDone(0, "close", 0), after=0.1)
    job.handle(StoreFailed(stored, FULL), after=10.0)


def a_job_that_stops_cannot_keep_its_savepoint(job: Job) -> None:
    job.handle(SavepointRequested("last", "now"), after=0.1)
    job.handle(CheckpointFailed(1, 0, 1, FULL), after=0.1)
    job.handle(CheckpointFailed(1, 0, 2, FULL), after=1.0)


@pytest.mark.parametrize(
    ("trouble", "why"),
    [
        (a_task_cannot_write, "the disk is full"),
        (nothing_is_heard, "its storage has not answered"),
        (it_cannot_be_stored, "the disk is full"),
        (it_cannot_be_stored_behind_a_failure, "the disk is full"),
        (a_job_that_stops_cannot_keep_its_savepoint, "the disk is full"),
    ],
)
def test_a_job_that_waits_for_nothing_but_its_storage_ends(trouble: Any, why: str) -> None:
    job = Job(checkpoint_timeout_seconds=60.0)
    trouble(job)
    assert job.coordinator.error is None
    wake = job.coordinator.wake
    while job.coordinator.error is None:
        assert wake is not None
        assert wake > job.now, "it waits for nothing"
        job.handle(after=wake - job.now)
        wake = job.coordinator.wake
    assert job.now <= 100.0 + 60.0 + 3.0
    assert isinstance(job.coordinator.error, StorageError)
    assert job.coordinator.error.message == (
        f"the last checkpoint could not be written within 60 s: {why}"
    )
    job.handle(after=10.0)
    job.handle(after=10.0)
    assert job.coordinator.step is None


def test_a_job_that_has_something_to_do_does_not_end_for_its_storage() -> None:
    job = Job(checkpoint_timeout_seconds=60.0)
    job.handle(StepDone(0, "run", 0))
    for _ in range(1000):
        job.handle(CheckpointFailed(0, 0, 1, FULL), CheckpointFailed(1, 0, 1, FULL), after=10.0)
    assert job.coordinator.error is None
    job.handle(StepDone(1, "run", 0))
    job.handle(CheckpointFailed(1, 0, 1, FULL), after=50.0)
    all_have_written(job)
    job.handle(EpochStored(is_storing(job)), after=5.0)
    job.handle(after=1000.0)
    assert (job.coordinator.step, job.coordinator.error) == ("commit", None)


def test_a_job_that_waits_to_begin_again_is_cancelled_at_once() -> None:
    job = Job()
    job.handle(WorkerGone(1, WorkerLost("t[1]", "n", "killed")))
    assert Say(
        "restart 1 of 1000 in 0.1 s: worker of task t[1] on node n was lost: killed",
        is_warning=True,
    ) in (job.said)
    job.handle(Cancelled())
    assert isinstance(job.coordinator.error, JobCancelled)
    job.handle(StepDone(0, "cancel", 0))
    assert job.said == [Call(0, "close", 0)]
    job = Job()
    job.handle(WorkerGone(1, WorkerLost("t[1]", "n", "killed")))
    job.handle(MasterFailed(RuntimeError("fenced")))
    assert str(job.coordinator.error) == "fenced"


def test_who_waits_to_begin_again_waits_longer_each_time() -> None:
    restarts = Restarts(10, 60.0)
    error = WorkerLost("t[0]", "n", "killed")
    delays = [restarts.delay_after(error, 0.0) for _ in range(11)]
    assert delays == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0, 10.0, None]
    restarts.progressed()
    assert restarts.delay_after(error, 0.0) == 0.1
    assert restarts.count == 11
    assert Restarts(3, 60.0).delay_after(CheckpointError("torn"), 0.0) is None
