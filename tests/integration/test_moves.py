"""Nodes that go under a job, in this process: its tasks leave them, and its output is exact."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Collection, Sequence
from concurrent.futures import Future
from pathlib import Path
from random import Random
from typing import Any

import pytest

from engine.deployment.description import TaskDescription
from engine.deployment.reply import pack
from engine.driver.launcher import DrainingNode, WorkerDied, WorkerHandle
from engine.errors import DriverLost
from engine.job import JobHandle
from engine.placement.nodes import Node
from engine.plan import Plan
from engine.testing.threads import ThreadLauncher
from tests.integration import checkpointed
from tests.integration.checkpointed import expected, found, held, left_over, newest
from tests.waiting import wait_until

RECORDS = 1000


class Nodes(ThreadLauncher):
    """Some that have room for all tasks, of which each may go."""

    has_draining = True

    def __init__(self, count: int) -> None:
        super().__init__()
        self.there = [f"n{number}" for number in range(count)]
        self.going: dict[str, float | None] = {}
        self.cut_off: list[str] = []
        self.is_lost = False

    def nodes(self, resources: Collection[str]) -> Sequence[Node]:
        return [
            Node(each, "127.0.0.1", dict.fromkeys(resources, math.inf))
            for each in self.there
            if each not in self.going
        ]

    def draining(self) -> Sequence[DrainingNode]:
        if self.is_lost:
            raise DriverLost("the node of the driver is gone")
        lost = [DrainingNode(each, each, is_cut_off=True) for each in self.cut_off]
        return [*(DrainingNode(each, each, until) for each, until in self.going.items()), *lost]

    def add(self, task: TaskDescription, node: Node) -> WorkerHandle:
        assert node.id not in {*self.going, *self.cut_off}
        return super().add(task, node)


class Starting(Nodes):
    """Nodes where workers that come beside others take until `start` to start."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.starting: list[tuple[WorkerHandle, Future[bytes]]] = []
        self.ended: list[WorkerHandle] = []
        self.is_slow = True

    def add(self, task: TaskDescription, node: Node) -> WorkerHandle:
        worker = super().add(task, node)
        if (self.going or self.cut_off) and self.is_slow:
            answer: Future[bytes] = Future()
            self.starting.append((worker, answer))
            call, asked = worker.call, []

            def late(method: str, *arguments: Any) -> Future[bytes]:
                if method == "process_id" and not asked:
                    asked.append(method)
                    return answer
                return call(method, *arguments)

            worker.call = late  # type: ignore[method-assign]
        return worker

    def end(self, worker: WorkerHandle) -> None:
        self.ended.append(worker)
        super().end(worker)

    def start(self) -> None:
        self.is_slow = False
        for worker, answer in self.starting:
            if not answer.done():
                answer.set_result(pack(worker.node.id.encode))


def at(job: JobHandle) -> set[str]:
    return {worker.node.id for worker in job._master._workers}


@pytest.mark.parametrize("seed", range(4))
def test_tasks_leave_one_node_after_another(
    seed: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    random = Random(seed)
    with held(tmp_path):
        launcher = Nodes(5)
        pipeline, config = checkpointed.job(tmp_path, RECORDS, progress="none")
        job = JobHandle(Plan.of(pipeline, config), launcher)
        first = random.choice([1, 2, 3])
        wait_until(lambda: newest(tmp_path) >= first)
        for _ in range(2):
            leaving = random.sample(sorted(at(job)), random.randint(1, len(at(job))))
            launcher.going |= dict.fromkeys(leaving, time.monotonic() + 30.0)
            wait_until(lambda: at(job).isdisjoint(launcher.going))
            before = newest(tmp_path)
            wait_until(lambda before=before: newest(tmp_path) > before)
    assert job.wait_finished(300).statistics.restarts == 0
    job.wait_stopped()
    assert found(tmp_path / "out") == expected(RECORDS)
    assert left_over(tmp_path / "out") == []
    told = [each.message for each in caplog.records if each.levelno == logging.WARNING]
    hosts = [each for each in told if each.startswith("host ")]
    assert len(hosts) == len(set(hosts)) == len(launcher.going), "each is told once"
    assert all(each.endswith("to other hosts, behind a checkpoint") for each in hosts)
    assert not any("restart" in each for each in told)


@pytest.mark.parametrize("fault", ["none", "its start", "its node", "the drain", "a cut"])
def test_workers_start_beside_those_at_work(
    fault: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with held(tmp_path):
        launcher = Starting(5)
        pipeline, config = checkpointed.job(tmp_path, RECORDS, progress="none")
        job = JobHandle(Plan.of(pipeline, config), launcher)
        wait_until(lambda: newest(tmp_path) >= 1)
        (leaving, *_) = sorted(at(job))
        count = sum(worker.node.id == leaving for worker in job._master._workers)
        if fault == "a cut":
            launcher.cut_off = [leaving]
        else:
            launcher.going = {leaving: None}
        wait_until(lambda: len(launcher.starting) == count)
        before = newest(tmp_path)
        wait_until(lambda: newest(tmp_path) >= before + 2)  # nobody waits for them
        assert leaving in at(job)
        assert not launcher.ended
        first = [worker for worker, _ in launcher.starting]
        if fault == "its start":
            for _, answer in launcher.starting:
                answer.set_exception(WorkerDied("killed by SIGKILL"))
        elif fault == "its node":
            launcher.going |= dict.fromkeys((worker.node.id for worker in first), None)
        elif fault in ("the drain", "a cut"):
            launcher.going, launcher.cut_off = {}, []
        if fault != "none":
            wait_until(lambda: launcher.ended == first)
        if fault in ("its start", "its node"):
            wait_until(lambda: len(launcher.starting) > len(first))
        launcher.start()
        if fault in ("the drain", "a cut"):
            before = newest(tmp_path)
            wait_until(lambda: newest(tmp_path) >= before + 2)
            assert leaving in at(job)
        else:
            wait_until(lambda: at(job).isdisjoint(launcher.going))
            assert {*job._master._workers} & {worker for worker, _ in launcher.starting}
            before = newest(tmp_path)
            wait_until(lambda: newest(tmp_path) > before)
    assert job.wait_finished(300).statistics.restarts == 0
    job.wait_stopped()
    assert found(tmp_path / "out") == expected(RECORDS)
    assert left_over(tmp_path / "out") == []
    assert not any("restart" in each.message for each in caplog.records)


def test_a_job_whose_driver_is_lost_ends_at_once_and_goes_on_elsewhere(tmp_path: Path) -> None:
    with held(tmp_path):
        launcher = Nodes(2)
        pipeline, config = checkpointed.job(tmp_path, RECORDS, progress="none")
        job = JobHandle(Plan.of(pipeline, config), launcher)
        wait_until(lambda: newest(tmp_path) >= 2)
        launcher.is_lost = True
        with pytest.raises(DriverLost):
            job.wait_finished(300)
        job.wait_stopped()
    checkpointed.run(tmp_path, RECORDS, progress="none", resume="latest")
    assert found(tmp_path / "out") == expected(RECORDS)


def test_a_job_without_checkpoints_goes_on_where_it_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with held(tmp_path):
        launcher = Nodes(3)
        pipeline, config = checkpointed.job(tmp_path, RECORDS, progress="none", checkpoints=None)
        job = JobHandle(Plan.of(pipeline, config), launcher)
        wait_until(lambda: job.statistics().source_records)
        launcher.going = dict.fromkeys(at(job))
        wait_until(lambda: len(caplog.records) == len(at(job)))
    job.wait_finished(300)
    job.wait_stopped()
    assert all("since the job has no checkpoints" in each.message for each in caplog.records)
    assert found(tmp_path / "out") == expected(RECORDS)
