"""A task's statistics, whenever they are asked for."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.config import JobConfig
from engine.graph.logical import LogicalOperator
from engine.graph.operator import RecordOperator
from engine.network import Network
from engine.runtime.description import TaskDescription
from engine.runtime.task import Task
from operators.sinks import Discard
from operators.sources import Collection, Function


def test_a_task_that_has_not_begun_counts_zero_for_every_operator(tmp_path: Path) -> None:
    operators = tuple(
        LogicalOperator(at, name, operator, None, {})
        for at, (name, operator) in enumerate(
            {
                "numbers": Collection([1]),
                "text": RecordOperator("map", str),
                "nowhere": Discard(),
            }.items()
        )
    )
    network = Network([f"ipc://{tmp_path}/task"])
    try:
        task = Task(TaskDescription(0, "vertex", 0, 1, operators, {}, (), (), JobConfig()), network)
        counted = task.statistics().operators
    finally:
        network.close()
    assert [(each.name, each.records_in, each.records_out) for each in counted] == [
        ("numbers", 0, 0),
        ("text", 0, 0),
        ("nowhere", 0, 0),
    ]


def sleepy() -> Iterator[int]:
    for n in range(5):
        time.sleep(0.05)
        yield n


def test_a_source_that_sleeps_waits_and_is_not_busy(tmp_path: Path) -> None:
    operators = (
        LogicalOperator(0, "sleepy", Function(sleepy), None, {}),
        LogicalOperator(1, "nowhere", Discard(), None, {}),
    )
    network = Network([f"ipc://{tmp_path}/task"])
    try:
        task = Task(TaskDescription(0, "vertex", 0, 1, operators, {}, (), (), JobConfig()), network)
        found = task.run()
    finally:
        network.close()
    assert found.waiting_seconds >= 0.24
    shares = (
        found.busy_seconds,
        found.waiting_seconds,
        found.idle_seconds,
        found.blocked_seconds,
    )
    assert sum(shares) == pytest.approx(found.elapsed_seconds)
