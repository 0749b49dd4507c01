"""A task's statistics, whenever they are asked for."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engine.config import JobConfig
from engine.deployment.description import OutputDescription, TaskDescription
from engine.deployment.services import Services
from engine.graph.context import TaskContext
from engine.graph.logical import LogicalOperator
from engine.graph.operator import RecordOperator
from engine.graph.sink import SinkOperator, SinkWriter
from engine.network import Batch, Control, Network, open_output_gate
from engine.partitioner import Forward
from engine.report.statistics import JobStatistics
from engine.task.side import drop_rest
from engine.task.task import Task
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


class Late(SinkOperator[int], SinkWriter):
    """Works at its commit."""

    def open(self, _context: TaskContext) -> SinkWriter:
        return self

    def write(self, records: list[int]) -> None:
        pass

    def commit(self, _epoch: int, _prepared: None) -> None:
        until = time.process_time() + 0.05
        while time.process_time() < until:
            pass


def test_what_a_sink_takes_at_its_commit_counts(tmp_path: Path) -> None:
    operators = (
        LogicalOperator(0, "numbers", Collection([1]), None, {}),
        LogicalOperator(1, "late", Late(), None, {}),
    )
    network = Network([f"ipc://{tmp_path}/task"])
    try:
        task = Task(TaskDescription(0, "vertex", 0, 1, operators, {}, (), (), JobConfig()), network)
        found = task.run()
        _, final = task.commit()
    finally:
        network.close()
    assert found.final_seconds == 0
    assert final == task.statistics()
    assert final.elapsed_seconds == found.elapsed_seconds
    assert final.cpu_seconds >= found.cpu_seconds + 0.05
    of_job = JobStatistics.of([final, found])
    assert of_job.elapsed_seconds == final.final_seconds > found.elapsed_seconds


def test_a_task_passes_controls_on_behind_its_records(tmp_path: Path) -> None:
    networks = [Network([f"shm://{tmp_path}/{name}"]) for name in ("source", "task", "sink")]
    source, middle, sink = networks
    connecting = threading.Thread(
        target=source.connect, args=([(0, middle.endpoints[0])],), daemon=True
    )
    connecting.start()
    sink.connect([], [(1, middle.endpoints[0])])
    middle.connect([(1, sink.endpoints[0])], [(0, source.endpoints[0])])
    connecting.join()
    operators = (LogicalOperator(0, "text", RecordOperator("map", str), None, {}),)
    outputs = (OutputDescription(Forward(), (1,)),)
    description = TaskDescription(1, "text", 0, 1, operators, {}, (0,), outputs, JobConfig())
    task = Task(description, middle)
    running = threading.Thread(target=task.run, daemon=True)
    running.start()
    gate = open_output_gate(source, Forward(), [0])
    ending = threading.Thread(target=source.finish, args=(30,), daemon=True)
    try:
        task.wake()  # which is for timers, and it has none
        running.join(0.1)
        assert running.is_alive()
        gate.emit([1])
        gate.send_control(Control.watermark(5))
        gate.send_control(Control.barrier(1))
        gate.emit([2])
        ending.start()
        came = []
        while (element := sink.receive(30)) is not None:
            came.append(element.to_list() if isinstance(element, Batch) else element)
        ending.join()
        running.join()
    finally:
        for network in networks:
            network.close()
    assert came == [["1"], Control.watermark(5), Control.barrier(1), ["2"]]


def test_who_drops_the_rest_is_not_woken_from_that(tmp_path: Path) -> None:
    networks = [Network([f"shm://{tmp_path}/{name}"]) for name in ("source", "task")]
    source, task = networks
    ending = threading.Thread(target=source.finish, args=(30,), daemon=True)
    try:
        with ThreadPoolExecutor() as pool:
            connecting = pool.submit(source.connect, [(0, task.endpoints[0])])
            task.connect([], [(0, source.endpoints[0])])
            connecting.result()
            task.wake()
            dropping = pool.submit(drop_rest, task, Services())
            with pytest.raises(TimeoutError):
                dropping.result(0.1)
            ending.start()
            dropping.result()
        ending.join()
    finally:
        for network in networks:
            network.close()
