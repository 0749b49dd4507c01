"""One attempt after another: workers that are deployed again, late words, one that is added."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from engine.config import JobConfig
from engine.deployment.description import TaskFailure, TaskStatistics
from engine.deployment.pickling import PickledTasks
from engine.deployment.reply import open_reply
from engine.driver.events import AttemptRequested
from engine.driver.launcher import Launcher
from engine.driver.local.launcher import LocalLauncher
from engine.driver.wiring import channel_peers, describe_tasks, service_peers
from engine.host.imports import ImportPath
from engine.host.worker import Worker
from engine.job import JobHandle
from engine.network import Cancelled, NetworkError
from engine.placement.nodes import Node
from engine.placement.place import Placement
from engine.plan import Plan
from engine.testing.threads import ThreadLauncher
from operators import Pipeline, source
from operators.sinks import Collect
from operators.sources import Collection, Function
from tests.waiting import wait_until

HERE = Node("local", "127.0.0.1", {})
HOST = ("127.0.0.1", ImportPath.of_this_process())


def numbers() -> Pipeline:
    return source(Collection(range(2000))).rebalance().map(str).sink(Collect())


def endless() -> Pipeline:
    def ones() -> Iterator[list[int]]:
        while True:
            yield [1] * 100

    return source(Function(ones)).rebalance().map(str).sink(Collect())


class Attempts:
    """Four workers in threads of this process; `deploy` gives them the tasks of a job."""

    def __init__(self, folder: Path, transport: Any) -> None:
        self.folder = folder
        self.config = JobConfig(
            parallelism=2, transport=transport, batch_size=100, connect_timeout_seconds=5.0
        )
        self.workers = [Worker(dedicated=False) for _ in range(4)]
        self.attempt = -1
        self.pool = ThreadPoolExecutor(8)

    def all(self, method: str, *arguments: Any) -> list[Any]:
        given = arguments or [()] * 4
        calls = [
            self.pool.submit(getattr(worker, method), self.attempt, *each)
            for worker, each in zip(self.workers, given, strict=True)
        ]
        return [call.result(60) for call in calls]

    def deploy(self, pipeline: Pipeline, attempt: int | None = None) -> None:
        """Of the number given, or the next."""
        self.attempt = self.attempt + 1 if attempt is None else attempt
        graph = Plan.of(pipeline, self.config).execution
        placement = Placement(dict.fromkeys(range(4), HERE))
        tasks = describe_tasks(graph, placement, self.config)
        imports = ImportPath.of_this_process()
        self.descriptions = [
            (data, str(self.folder), "127.0.0.1", imports)
            for data in PickledTasks(tasks).placed(tasks, {})
        ]
        endpoints = dict(enumerate(self.all("deploy", *self.descriptions)))
        self.peers = [
            (
                channel_peers(graph, task, tasks, endpoints),
                service_peers(task, tasks, endpoints),
            )
            for task in tasks
        ]

    def connect(self) -> None:
        self.all("connect", *self.peers)

    def close(self) -> None:
        for worker in self.workers:
            worker.close()
        self.pool.shutdown()


@pytest.fixture(params=["auto", "tcp"])
def attempts(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Attempts]:
    threads = set(threading.enumerate())
    attempts = Attempts(tmp_path / "job", request.param)
    yield attempts
    attempts.close()
    assert set(threading.enumerate()) <= threads
    assert not list(tmp_path.iterdir())


def collected(attempts: Attempts) -> list[str]:
    found = [pickle.loads(results["collect"]) for results, _ in attempts.all("commit")[2:]]
    return sorted((text for task in found for batch in task for text in batch.to_list()), key=int)


def test_workers_run_one_job_after_another(attempts: Attempts) -> None:
    for attempt in (0, 1, 257):
        attempts.deploy(numbers(), attempt)
        attempts.connect()
        assert all(isinstance(each, TaskStatistics) for each in attempts.all("run"))
        assert collected(attempts) == [str(n) for n in range(2000)]


def test_workers_are_deployed_while_the_attempt_before_ends(attempts: Attempts) -> None:
    attempts.deploy(endless())
    attempts.connect()
    runs = [attempts.pool.submit(worker.run, 0) for worker in attempts.workers]
    wait_until(lambda: attempts.workers[3].statistics().operators[-1].records_out > 0)
    for worker in attempts.workers:
        worker.cancel(0)
    attempts.deploy(numbers())
    assert all(isinstance(run.result(0), TaskFailure) for run in runs)
    attempts.connect()
    attempts.all("run")
    assert collected(attempts) == [str(n) for n in range(2000)]


def test_what_is_called_of_an_earlier_attempt_does_nothing(attempts: Attempts) -> None:
    attempts.deploy(endless())
    attempts.deploy(numbers())
    worker = attempts.workers[0]
    for late in (
        lambda: worker.connect(0, {}, {}),
        lambda: worker.run(0),
        lambda: worker.commit(0),
    ):
        with pytest.raises(Cancelled, match="attempt 0 of the task is over"):
            late()
    for each in attempts.workers:
        each.cancel(0)
        each.end_source(0)
    attempts.connect()
    attempts.all("run")
    assert collected(attempts) == [str(n) for n in range(2000)]


def test_a_task_of_an_earlier_attempt_gets_no_record_into_a_later_one(attempts: Attempts) -> None:
    attempts.deploy(endless())
    late = Worker(dedicated=False)
    try:
        late.deploy(0, attempts.descriptions[0][0], f"{attempts.folder}-late", *HOST)
        attempts.deploy(numbers())
        with pytest.raises(NetworkError):
            attempts.pool.submit(late.connect, 0, *attempts.peers[0]).result(60)
        attempts.connect()
        attempts.all("run")
        assert collected(attempts) == [str(n) for n in range(2000)]
    finally:
        late.close()


@pytest.mark.parametrize("kind", [LocalLauncher, ThreadLauncher])
def test_a_job_is_deployed_anew_while_it_runs(kind: type[Launcher], tmp_path: Path) -> None:
    first = tmp_path / "first"

    def numbers_of_the_second_attempt() -> Iterator[list[int]]:
        if not first.exists():
            first.touch()
            while True:
                yield [-1] * 100
        yield list(range(2000))

    config = JobConfig(parallelism=1, progress="none")
    plan = Plan.of(
        source(Function(numbers_of_the_second_attempt)).rebalance().sink(Collect()), config
    )
    handle = JobHandle(plan, kind())
    wait_until(lambda: handle.statistics().records > 0)
    handle._master._news.put(AttemptRequested)
    assert handle.wait_finished(300).output == list(range(2000))
    handle.wait_stopped()


@pytest.mark.parametrize("kind", [LocalLauncher, ThreadLauncher])
def test_a_worker_is_added_beside_those_that_work(kind: type[Launcher]) -> None:
    config = JobConfig(parallelism=1)
    graph = Plan.of(numbers(), config).execution
    placement = Placement(dict.fromkeys(range(2), HERE))
    tasks = describe_tasks(graph, placement, config)
    launcher = kind()
    try:
        first = launcher.launch(tasks[:1], placement)
        processes = [open_reply(each.call("process_id").result(60)) for each in first]
        added = launcher.add(tasks[1], HERE)
        assert (added.task, added.node) == (tasks[1], HERE)
        processes.append(open_reply(added.call("process_id").result(60)))
        assert len(set(processes)) == (2 if kind is LocalLauncher else 1)
        assert open_reply(first[0].call("process_id").result(60)) == processes[0]
    finally:
        launcher.shutdown()
    assert not Path(launcher.folder).exists()
