"""Epochs of a job whose tasks cannot write."""

from __future__ import annotations

from typing import Any

import pytest

from engine.checkpoint import SnapshotEntry
from engine.driver.epochs import (
    Barrier,
    CheckpointFailed,
    Commit,
    EpochCommitted,
    Epochs,
    EpochStored,
    Mark,
    SavepointRequested,
    Say,
    SnapshotAcknowledged,
    Store,
)
from engine.errors import StorageError
from engine.graph import chain, logical_graph
from engine.graph.execution import expand
from operators import source
from operators.sinks import Collect
from operators.sources import Collection

NUMBERS = source(Collection([1])).rebalance().map(str)
GRAPH = expand(chain(logical_graph(NUMBERS.sink(Collect())), 1))
FULL = StorageError("the disk is full")


def started(interval: float) -> Epochs:
    epochs = Epochs(GRAPH, interval)
    epochs.begin_attempt(0, 100.0)
    assert epochs.following(100.0) == []
    return epochs


def begun(said: list[Any]) -> list[int]:
    return [each.epoch for each in said if isinstance(each, Barrier)]


@pytest.mark.parametrize(("interval", "pause"), [(60.0, 1.0), (0.25, 0.25)])
def test_savepoint_that_cannot_be_written_is_tried_again_after_a_pause(
    interval: float, pause: float
) -> None:
    epochs, now = started(interval), 100.0
    epochs.note(SavepointRequested("kept"), now)
    for epoch in (1, 2, 3):
        assert begun(epochs.following(now)) == [epoch]
        now += interval / 10
        epochs.note(CheckpointFailed(1, 0, epoch, FULL), now)
        assert epochs.following(now) == [
            Say(f"checkpoint {epoch} is given up: the disk is full", is_warning=True)
        ]
        assert epochs.wake == now + pause
        assert epochs.following(now + pause / 2) == []
        now += pause
    assert begun(epochs.following(now)) == [4]
    for task in (0, 1):
        epochs.note(SnapshotAcknowledged(task, 0, 4, entry(), task == 1), now)
    assert epochs.following(now) == [Store(4, {}, 0.0, "kept")]


def test_job_that_begins_again_does_not_wait_for_what_was_given_up_before() -> None:
    epochs = started(60.0)
    epochs.note(SavepointRequested("kept"), 100.0)
    assert begun(epochs.following(100.0)) == [1]
    epochs.note(CheckpointFailed(1, 0, 1, FULL), 100.0)
    epochs.interrupt()
    epochs.begin_attempt(1, 100.5)
    assert begun(epochs.following(100.5)) == [3]


def test_task_that_has_finished_and_cannot_write_is_told_now_and_then() -> None:
    epochs = started(5.0)
    assert begun(epochs.following(105.0)) == [1]
    said = []
    for second in range(105, 146):  # the snapshot of its end is tried again each second
        epochs.note(CheckpointFailed(1, 0, 1, FULL), float(second))
        said += [
            (second, each.text) for each in epochs.following(float(second)) if isinstance(each, Say)
        ]
    name = GRAPH.vertices[1].name
    told = f"task {name} cannot write what it keeps: the disk is full"
    assert said == [
        (105, "checkpoint 1 is given up: the disk is full"),
        *((second, told) for second in (115, 125, 135, 145)),
    ]


def entry() -> SnapshotEntry:
    return SnapshotEntry("vertex", 0, 1, finished=False, shares=0, files=())


@pytest.mark.parametrize("interval", [2.0, 30.0])
def test_epochs_that_take_long_are_told_of_once(interval: float) -> None:
    epochs, now = started(interval), 100.0 + interval
    late = max(10.0, interval)
    said: list[Any] = epochs.following(now)
    for seconds in (late + 5, late + 5, 1.0, late + 5):
        begins, epoch = now, epochs.last
        assert epochs.wake == begins + late
        for passed, task in ((late, None), (late + 1, 0), (seconds, 1)):
            now = begins + min(passed, seconds)
            if task is not None:
                epochs.note(SnapshotAcknowledged(task, 0, epoch, entry(), task == 1), now)
            said += epochs.following(now)
        epochs.note(EpochStored(epoch), now)
        said += epochs.following(now)
        epochs.note(EpochCommitted(1, 0, epoch), now)
        said += epochs.following(now)
        if epochs.last == epoch:
            now = begins + interval
            said += epochs.following(now)
    assert begun(said) == [1, 2, 3, 4, 5]
    who = f"{GRAPH.vertices[0].name} and 1 more have not written what is for it"
    assert [each.text for each in said if isinstance(each, Say)] == [
        f"checkpoint 1 is under way for {late:.0f} s: {who}",
        "checkpoint 3 was in time again",
        f"checkpoint 4 is under way for {late:.0f} s: {who}",
    ]


def test_an_epoch_is_committed_by_those_who_say_so() -> None:
    epochs = started(5.0)
    for epoch, committers in enumerate([(), (1,), (0, 1), (0,), ()], 1):
        now = 100.0 + 5 * epoch
        assert begun(epochs.following(now)) == [epoch]
        for task in (0, 1):
            epochs.note(SnapshotAcknowledged(task, 0, epoch, entry(), task in committers), now)
        assert epochs.following(now) == [Store(epoch, {}, 0.0)]
        epochs.note(EpochStored(epoch), now)
        said = epochs.following(now)
        for task in committers:
            assert Mark(epoch) not in said
            epochs.note(EpochCommitted(task, 0, epoch), now)
            said += epochs.following(now)
        assert said == [*(Commit(task, 0, epoch) for task in committers), Mark(epoch)]
