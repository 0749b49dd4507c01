"""Tasks leave nodes that are about to go, in time, and no failure is counted."""

from __future__ import annotations

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
    SavepointRequested,
    Say,
    SnapshotAcknowledged,
    Store,
    StoreFailed,
)
from engine.driver.events import (
    AttemptRequested,
    Call,
    Command,
    NodesDraining,
    StepDone,
    StepFailed,
    WorkerGone,
)
from engine.driver.moves import Departure
from engine.driver.placing import Place, WorkersPlaced
from engine.errors import StorageError, WorkerLost
from tests.unit.driver.test_recovery import Entry, config, graph

ONE_STEP = ("process_id", "deploy", "connect")
TASKS = range(4)
"""Two sources, and two tasks with a sink."""
ENTRY: Any = Entry(False, 1)
FULL = StorageError("the disk is full")


class Job:
    """A coordinator whose job has nodes; the tasks of `a` are 0 and 2, those of `b` 1 and 3."""

    def __init__(self, settings: JobConfig | None = None) -> None:
        self.coordinator = Coordinator(graph(2), settings or config(checkpoint_interval_seconds=60))
        self.now = 100.0
        self.nodes = {0: "a", 1: "b", 2: "a", 3: "b"}
        self.all: list[Command] = []
        self.coordinator.handle([AttemptRequested()], self.now)
        self.handle(WorkersPlaced(tuple(TASKS)))
        self.start()

    def handle(self, *events: Any, after: float = 0.0) -> list[Any]:
        self.now += after
        self.said = self.coordinator.handle(events, self.now)
        for each in [*self.said]:
            if isinstance(each, Place):
                self.nodes |= dict.fromkeys(each.tasks, "c")
                self.said += self.coordinator.handle([WorkersPlaced(each.tasks)], self.now)
        self.all += self.said
        return self.said

    def start(self, steps: tuple[str, ...] = ONE_STEP) -> None:
        for step in steps:
            attempt = self.coordinator.attempt
            self.handle(*(StepDone(task, step, attempt) for task in TASKS))  # type: ignore[arg-type]

    def drain(self, seconds: float | None, *nodes: str, **told: Any) -> list[Any]:
        """The notice that these go, and what is still to leave there."""
        until = None if seconds is None else self.now + seconds
        return self.handle(
            NodesDraining(tuple(Departure(each, self.on(each), until, **told) for each in nodes))
        )

    def on(self, node: str) -> frozenset[int]:
        return frozenset(task for task, where in self.nodes.items() if where == node)

    def written(self) -> list[Any]:
        """What all tasks were at the barrier that was sent is written."""
        assert self.coordinator.epochs is not None
        last, attempt = self.coordinator.epochs.last, self.coordinator.attempt
        return self.handle(
            *(SnapshotAcknowledged(task, attempt, last, ENTRY, task >= 2) for task in TASKS)
        )

    def stored(self) -> list[Any]:
        assert self.coordinator.epochs is not None
        return self.handle(EpochStored(self.coordinator.epochs.last))

    def committed(self) -> list[Any]:
        assert self.coordinator.epochs is not None
        last, attempt = self.coordinator.epochs.last, self.coordinator.attempt
        return self.handle(*(EpochCommitted(task, attempt, last) for task in (2, 3)))

    def warned(self) -> list[str]:
        return [each.text for each in self.all if isinstance(each, Say) and each.is_warning]


def begun(said: list[Any]) -> set[int]:
    return {each.epoch for each in said if isinstance(each, Barrier)}


def replaced(said: list[Any]) -> list[int]:
    return [task for each in said if isinstance(each, Place) for task in each.tasks]


def test_tasks_move_behind_a_checkpoint_that_is_made_at_once() -> None:
    job = Job()
    assert begun(job.drain(30.0, "a")) == {1}
    assert job.warned() == [
        "host a goes in 30 s: 2 tasks on it move to other hosts, behind a checkpoint"
    ]
    assert job.drain(29.0, "a") == [], "it is known by now"
    assert [type(each) for each in job.written()] == [Store]
    said = job.stored()
    assert replaced(said) == [0, 2]
    assert [each.task for each in said if isinstance(each, Call) and each.step == "cancel"] == [
        *TASKS
    ]
    assert [each.task for each in said if isinstance(each, Call) and each.attempt == 1] == [*TASKS]
    job.start()
    assert job.coordinator.step == "run"
    assert begun(job.said), "output is final again as soon as it can be"
    assert job.coordinator.restarts.count == job.coordinator.restarts.in_a_row == 0
    assert len(job.warned()) == 1


def test_a_host_that_has_come_back_and_drains_again_is_told_again() -> None:
    job = Job()
    for _ in range(2):
        job.nodes |= {0: "a", 2: "a"}
        job.drain(30.0, "a")
        job.written()
        assert replaced(job.stored()) == [0, 2]
        job.drain(29.0, "a")
        job.start()
        job.drain(28.0)
        job.written()
        job.stored()
        job.committed()
    line = "host a goes in 30 s: 2 tasks on it move to other hosts, behind a checkpoint"
    assert job.warned() == [line, line]


def test_a_checkpoint_that_is_under_way_will_do() -> None:
    job = Job()
    assert begun(job.handle(SavepointRequested("kept"))) == {1}
    assert begun(job.drain(30.0, "a")) == set()
    job.written()
    assert replaced(job.stored()) == [0, 2]


def test_one_that_is_stored_already_is_followed_by_another() -> None:
    job = Job()
    job.handle(SavepointRequested("kept"))
    job.written()
    assert any(isinstance(each, Commit) for each in job.stored())
    job.drain(30.0, "a")
    assert begun(job.committed()) == {2}
    job.written()
    assert replaced(job.stored()) == [0, 2]


def test_two_that_go_at_once_are_left_at_once() -> None:
    job = Job()
    job.drain(30.0, "a", "b")
    job.written()
    assert replaced(job.stored()) == [0, 1, 2, 3]
    job.start()
    job.drain(20.0, "a", "b")
    job.written()
    assert replaced(job.stored()) == []
    assert len(job.warned()) == 2


def test_one_that_goes_a_little_later_is_left_a_little_later() -> None:
    job = Job()
    job.drain(30.0, "a")
    job.written()
    job.handle(after=1.0)
    job.drain(30.0, "a", "b")
    assert replaced(job.stored()) == [0, 1, 2, 3], "both behind that checkpoint"
    job = Job()
    job.drain(30.0, "a")
    job.written()
    job.stored()
    job.drain(30.0, "a", "b")
    job.start()
    job.drain(30.0, "a", "b")
    job.written()
    assert replaced(job.stored()) == [1, 3]


def test_a_node_without_tasks_of_the_job_is_nothing_to_it() -> None:
    job = Job()
    assert job.drain(30.0, "c") == []
    assert job.coordinator.wake == 160.0


@pytest.mark.parametrize("node", ["a", "c"])
def test_the_driver_cannot_move_and_takes_the_job_with_it(node: str) -> None:
    job = Job()
    assert begun(job.drain(30.0, node, has_driver=True)) == {1}, "what is there is kept"
    job.written()
    job.stored()
    job.committed()
    assert job.warned() == [
        f"host {node} goes in 30 s, and the job with it, whose driver is there: start it again "
        "from the last checkpoint"
    ]
    assert job.coordinator.wake == job.now + 25.0
    assert begun(job.handle(after=25.0)) == {2}, "and again shortly before it goes"
    job.written()
    job.stored()
    job.committed()
    job.handle(after=5.0)
    assert replaced(job.all) == [], "an empty node would go at once"


def test_a_job_without_checkpoints_cannot_move_and_says_so_once() -> None:
    job = Job(JobConfig(name="tried"))
    for seconds in (30.0, 20.0, 10.0, 1.0):
        assert [type(each) for each in job.drain(seconds, "a")] == [Say] * (seconds == 30.0)
    assert job.warned() == [
        "host a goes in 30 s: 2 tasks on it cannot move, since the job has no checkpoints"
    ]


@pytest.mark.parametrize("step", [*ONE_STEP, "cancel", "close"])
def test_a_notice_while_the_job_begins_again_costs_no_second_time(step: str) -> None:
    job = Job()
    job.handle(StepFailed(3, "run", 0, WorkerLost("t[3]", "n", "killed")))
    if step == "cancel":
        job.drain(30.0, "a")
    job.handle(*(StepDone(task, "cancel", 0) for task in TASKS))
    if step == "close":
        job.drain(30.0, "a")
    job.handle(*(StepDone(task, "close", 0) for task in TASKS))
    said = job.handle(after=1.0)
    moves_now = step in ("cancel", "close")
    assert replaced(said) == ([0, 2] if moves_now else [])
    for each in ONE_STEP:
        if each == step:
            job.drain(30.0, "a")
        job.start((each,))
    assert job.coordinator.step == "run"
    assert begun(job.said)
    job.drain(25.0, "a")
    job.written()
    assert replaced(job.stored()) == ([] if moves_now else [0, 2])
    assert job.coordinator.restarts.count == 1


def test_a_job_that_ends_has_nothing_to_move() -> None:
    ended: Any = Entry(True, 1)
    for notice in ("before its end is written", "before it is stored", "in its last step"):
        job = Job()
        job.handle(*(StepDone(task, "run", 0) for task in TASKS))
        if notice == "before its end is written":
            job.drain(30.0, "a")
        job.handle(*(SnapshotAcknowledged(task, 0, 0, ended, task >= 2) for task in TASKS))
        if notice == "before it is stored":
            job.drain(30.0, "a")
        job.stored()
        assert job.coordinator.step == "commit"
        job.drain(30.0, "a")
        job.handle(after=29.0)
        assert replaced(job.all) == []
        job.handle(*(StepDone(task, "commit", 0) for task in TASKS))
        job.handle(*(StepDone(task, "close", 0) for task in TASKS))
        assert (job.coordinator.step, job.coordinator.error) == (None, None)


def test_tasks_that_no_other_node_has_room_for_stay_until_one_has() -> None:
    job = Job()
    assert begun(job.drain(30.0, "a", has_room=False)) == {1}, "what is there is kept at once"
    job.written()
    job.stored()
    job.committed()
    assert job.warned() == [
        "host a goes in 30 s: 2 tasks on it wait for room on other hosts, which have none now"
    ]
    assert begun(job.drain(20.0, "a")) == {2}
    job.written()
    assert replaced(job.stored()) == [0, 2]
    assert job.warned()[1:] == [
        "host a goes in 20 s: 2 tasks on it move to other hosts, behind a checkpoint"
    ]


def test_tasks_that_no_other_node_has_room_for_leave_before_it_goes() -> None:
    job = Job()
    job.drain(30.0, "a", has_room=False)
    job.written()
    job.stored()
    assert job.committed()
    assert job.coordinator.wake == job.now + 25.0
    assert begun(job.handle(after=25.0)) == {2}
    job.written()
    assert replaced(job.stored()) == [0, 2]
    assert job.coordinator.restarts.count == 0


def test_one_with_no_end_is_left_when_there_is_room() -> None:
    job = Job()
    job.drain(None, "a", has_room=False)
    job.written()
    job.stored()
    job.committed()
    job.handle(after=50.0)
    assert replaced(job.all) == []
    assert job.drain(None, "a")
    job.written()
    assert replaced(job.stored()) == [0, 2]


@pytest.mark.parametrize("trouble", ["task", "silence"])
def test_tasks_leave_before_the_node_goes_though_nothing_can_be_written(trouble: str) -> None:
    job = Job()
    assert begun(job.drain(10.0, "a")) == {1}
    if trouble == "task":
        for epoch in (1, 2, 3):
            job.handle(CheckpointFailed(1, 0, epoch, FULL))
            assert begun(job.handle(after=1.0)) == {epoch + 1}, "it is tried again"
    while not replaced(job.all):
        assert job.coordinator.wake is not None
        assert job.coordinator.wake > job.now
        job.handle(after=job.coordinator.wake - job.now)
    assert job.now == 108.0
    assert job.coordinator.restarts.count == 0


def test_no_task_moves_while_nobody_knows_what_is_stored() -> None:
    job = Job()
    job.drain(3.0, "a")
    job.written()
    job.handle(StoreFailed(1, FULL), after=2.0)
    assert [type(each) for each in job.handle(after=1.0)] == [Store]
    job.handle(
        WorkerGone(0, WorkerLost("t[0]", "a", "gone")),
        WorkerGone(2, WorkerLost("t[2]", "a", "gone")),
    )
    job.handle(*(StepDone(task, "cancel", 0) for task in (1, 3)))
    job.handle(*(StepDone(task, "close", 0) for task in (1, 3)), after=1.0)
    assert replaced(job.all) == []
    assert replaced(job.stored()) == [0, 2]
