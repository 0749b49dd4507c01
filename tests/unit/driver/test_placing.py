"""Attempts whose tasks wait for a place: a clock of the test's, and a cluster that is none."""

from __future__ import annotations

from typing import Any

import pytest

from engine.config import JobConfig
from engine.driver.coordinator import (
    Coordinator,
    Say,
)
from engine.driver.events import (
    AttemptRequested,
    Call,
    Cancelled,
    StepDone,
    StepFailed,
    StopRequested,
    WorkerGone,
)
from engine.driver.placing import Place, Waits, WorkersPlaced
from engine.errors import JobCancelled, PlacementError, StartError, WorkerLost
from tests.unit.driver.test_coordinator import cut_off, graph, lost

NO_ROOM = PlacementError("no room", "add nodes")
WORDS = "2 of 4 workers, waiting for 2 CPUs"


class Job:
    """A job of four tasks with checkpoints, at the first step of its first attempt."""

    def __init__(self, first_epoch: int = 1, **settings: Any) -> None:
        config = JobConfig(
            name="tried",
            **{
                "checkpoints": "folder",
                "start_timeout_seconds": 60.0,
                "connect_timeout_seconds": 5.0,
                **settings,
            },
        )
        self.coordinator = Coordinator(graph(), config, first_epoch)
        self.now = 100.0
        self.said: list[Any] = []
        self.handle(AttemptRequested())

    def handle(self, *events: Any, after: float = 0.0) -> list[Any]:
        self.now += after
        self.said = self.coordinator.handle(events, self.now)
        return self.said

    def done(self, step: Any, *tasks: int) -> None:
        attempt = self.coordinator.attempt
        self.handle(*(StepDone(task, step, attempt) for task in tasks or range(4)))

    def runs(self) -> Job:
        self.handle(WorkersPlaced((0, 1, 2, 3)))
        return self.starts()

    def starts(self) -> Job:
        for step in ("process_id", "deploy", "connect"):
            self.done(step)
        assert self.coordinator.step == "run"
        return self

    def placed(self) -> list[tuple[int, ...]]:
        return [each.tasks for each in self.said if isinstance(each, Place)]

    def told(self) -> list[str]:
        return [each.text for each in self.said if isinstance(each, Say)]


def test_a_job_asks_until_there_is_room_and_tells_what_it_waits_for() -> None:
    job = Job()
    assert job.placed() == [(0, 1, 2, 3)]
    job.handle(Waits(WORDS, NO_ROOM))
    assert job.told() == [f"{WORDS}, for at most 60 s: no room (hint: add nodes)"]
    asked, told = 0, []
    for _ in range(40):
        assert job.coordinator.wake is not None
        job.handle(after=job.coordinator.wake - job.now)
        asked += len(job.placed())
        told += job.told()
        if job.placed():
            job.handle(Waits(WORDS, NO_ROOM))
    assert asked == 40
    assert told.count(WORDS) == len(told) == 10
    assert job.coordinator.is_waiting
    job.handle(WorkersPlaced((0, 1, 2, 3)))
    assert job.told() == ["waited 10.0 s for a place"]
    assert job.coordinator.step == "process_id"
    assert not job.coordinator.is_waiting
    assert job.coordinator.restarts.count == 0


@pytest.mark.parametrize("longest", [0.0, 60.0])
def test_a_job_waits_no_longer_than_it_may(longest: float) -> None:
    job = Job(start_timeout_seconds=longest)
    if longest:
        job.handle(Waits(WORDS, NO_ROOM))
        job.handle(after=longest - 0.1)
        assert job.coordinator.step == "place"
        job.handle(after=0.1)
    else:
        job.handle(Waits(WORDS, NO_ROOM))
    assert job.coordinator.step is None
    error = job.coordinator.error
    assert isinstance(error, PlacementError)
    assert error.message == ("no room; waited 60 s for it" if longest else "no room")
    assert "add nodes; a larger start_timeout_seconds" in str(error)


def test_nodes_that_do_not_answer_have_more_time_than_those_that_are_not_there() -> None:
    job = Job(start_timeout_seconds=0.0, checkpoints=None)
    job.handle(Waits("waiting for n to answer", None), after=4.9)
    assert job.coordinator.step == "place"
    job.handle(after=0.2)
    assert isinstance(job.coordinator.error, StartError)
    assert job.coordinator.error.message == "waiting for n to answer, after 5 s"


def test_a_job_that_waits_is_cancelled_at_once() -> None:
    job = Job()
    job.handle(Waits(WORDS, NO_ROOM))
    job.handle(Cancelled())
    assert job.coordinator.step is None
    assert isinstance(job.coordinator.error, JobCancelled)


@pytest.mark.parametrize(
    ("waits", "first_epoch", "is_cancelled"),
    [
        (Waits(WORDS, NO_ROOM), 1, True),
        (Waits(WORDS, None), 1, False),  # its nodes are about to answer
        (None, 1, False),
        (Waits(WORDS, NO_ROOM), 7, False),  # it goes on from a checkpoint, and has more to write
    ],
)
def test_a_job_that_is_stopped_before_there_is_room_is_cancelled(
    waits: Waits | None, first_epoch: int, is_cancelled: bool
) -> None:
    job = Job(first_epoch=first_epoch)
    job.handle(*([] if waits is None else [waits]))
    job.handle(StopRequested())
    assert isinstance(job.coordinator.error, JobCancelled) == is_cancelled
    assert (job.coordinator.step is None) == is_cancelled


def test_a_job_that_is_stopped_while_it_waits_to_go_on_is_not_cancelled() -> None:
    job = Job().runs()
    job.handle(WorkerGone(3, lost(3)))
    job.done("cancel", 0, 1, 2)
    job.handle(after=0.2)
    job.handle(Waits(WORDS, NO_ROOM), StopRequested())
    assert job.coordinator.step == "place"


def test_each_loss_is_one_restart_however_many_die_of_it_and_however_long_it_waits() -> None:
    job = Job().runs()
    job.handle(WorkerGone(3, lost(3)))
    job.done("cancel", 0, 1, 2)
    job.handle(after=0.2)
    assert job.placed() == [(3,)]
    job.handle(Waits(WORDS, NO_ROOM))
    job.handle(WorkerGone(2, lost(2)), after=30.0)  # of the same host
    assert job.placed() == [(2, 3)]
    job.handle(WorkersPlaced((2, 3)))
    assert job.coordinator.step == "process_id"
    job.handle(WorkerGone(1, lost(1)))  # of it, too, and it is heard of only now
    assert job.coordinator.step == "place"
    assert job.placed() == [(1,)]
    job.handle(WorkersPlaced((1,)))
    job.starts()
    assert job.coordinator.restarts.count == 1


def test_a_new_worker_that_dies_is_a_failure() -> None:
    job = Job().runs()
    job.handle(WorkerGone(3, lost(3)))
    job.done("cancel", 0, 1, 2)
    job.handle(after=0.2)
    job.handle(WorkersPlaced((3,)))
    job.handle(WorkerGone(3, lost(3)))
    assert job.coordinator.step == "cancel"
    assert job.coordinator.restarts.count == 2


def test_a_task_that_does_not_answer_that_it_is_cancelled_is_placed_anew() -> None:
    job = Job().runs()
    job.handle(StepFailed(0, "run", 0, cut_off(0)))
    job.handle(after=0.9)  # nobody died of it
    assert job.coordinator.step == "cancel"
    job.done("cancel", 0, 1, 2)
    job.handle(after=0.9)
    assert job.coordinator.step == "cancel"
    job.handle(after=0.2)
    assert job.placed() == [(3,)]
    job.handle(WorkerGone(3, WorkerLost("t[3]", "n", "unreachable")))
    job.handle(WorkersPlaced((3,)))
    assert [each.task for each in job.said if isinstance(each, Call)] == [0, 1, 2, 3]
    job.starts()
    assert job.coordinator.restarts.count == 1
