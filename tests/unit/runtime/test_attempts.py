"""One process after another attempt: a worker that is bound again, and one that is added."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from engine.config import JobConfig
from engine.job import Plan
from engine.placement import Node, Placement
from engine.runtime.description import TaskFailure, TaskStatistics
from engine.runtime.imports import ImportPath
from engine.runtime.launcher import Launcher
from engine.runtime.local import LocalLauncher
from engine.runtime.pickling import pickle_descriptions
from engine.runtime.reply import open_reply
from engine.runtime.threads import ThreadLauncher
from engine.runtime.wiring import channel_peers, describe_tasks, service_peers
from engine.runtime.worker import Worker
from operators import Pipeline, source
from operators.sinks import Collect
from operators.sources import Collection, Function
from tests.waiting import wait_until

HERE = Node("local", "127.0.0.1", {})


def numbers() -> Pipeline:
    return source(Collection(range(2000))).rebalance().map(str).sink(Collect())


def endless() -> Pipeline:
    def ones() -> Iterator[list[int]]:
        while True:
            yield [1] * 100

    return source(Function(ones)).rebalance().map(str).sink(Collect())


class Attempts:
    """Four workers in threads of this process; `bind` gives them the tasks of a job."""

    def __init__(self, folder: Path, transport: Any) -> None:
        self.folder = folder
        self.config = JobConfig(parallelism=2, transport=transport, batch_size=100)
        self.workers = [Worker(dedicated=False) for _ in range(4)]
        self.pool = ThreadPoolExecutor(4)

    def all(self, method: str, *arguments: Any) -> list[Any]:
        given = arguments or [()] * 4
        calls = [
            self.pool.submit(getattr(worker, method), *each)
            for worker, each in zip(self.workers, given, strict=True)
        ]
        return [call.result(30) for call in calls]

    def bind(self, pipeline: Pipeline) -> None:
        graph = Plan.of(pipeline, self.config).execution
        placement = Placement(dict.fromkeys(range(4), HERE))
        tasks = describe_tasks(graph, placement, self.config)
        imports = ImportPath.of_this_process()
        bound = self.all(
            "bind",
            *(
                (data, str(self.folder), "127.0.0.1", imports)
                for data in pickle_descriptions(tasks)
            ),
        )
        endpoints = dict(enumerate(bound))
        self.all(
            "connect",
            *(
                (
                    channel_peers(graph, task, tasks, endpoints),
                    service_peers(task, tasks, endpoints),
                )
                for task in tasks
            ),
        )

    def close(self) -> None:
        self.all("close")
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
    found = [pickle.loads(each["collect"]) for each in attempts.all("commit")[2:]]
    return sorted((text for task in found for batch in task for text in batch.to_list()), key=int)


def test_workers_run_one_job_after_another(attempts: Attempts) -> None:
    for _ in range(3):
        attempts.bind(numbers())
        assert all(isinstance(each, TaskStatistics) for each in attempts.all("run"))
        assert collected(attempts) == [str(n) for n in range(2000)]


def test_workers_run_a_job_after_one_that_was_cancelled(attempts: Attempts) -> None:
    attempts.bind(endless())
    runs = [attempts.pool.submit(worker.run) for worker in attempts.workers]
    wait_until(lambda: attempts.workers[3].statistics().operators[-1].records_out > 0)
    for worker in attempts.workers:
        worker.cancel()
    ended = [run.result(30) for run in runs]
    assert all(isinstance(each, TaskFailure) for each in ended)
    attempts.bind(numbers())
    attempts.all("run")
    assert collected(attempts) == [str(n) for n in range(2000)]


def test_workers_are_bound_again_that_never_ran(attempts: Attempts) -> None:
    attempts.bind(endless())
    attempts.bind(numbers())
    attempts.all("run")
    assert collected(attempts) == [str(n) for n in range(2000)]


@pytest.mark.parametrize("kind", [LocalLauncher, ThreadLauncher])
def test_a_worker_is_added_beside_those_that_work(kind: type[Launcher]) -> None:
    config = JobConfig(parallelism=1)
    graph = Plan.of(numbers(), config).execution
    placement = Placement(dict.fromkeys(range(2), HERE))
    tasks = describe_tasks(graph, placement, config)
    launcher = kind()
    try:
        first = launcher.launch(tasks[:1], placement)
        processes = [open_reply(each.call("process_id").result(30)) for each in first]
        added = launcher.add(tasks[1], HERE)
        assert (added.task, added.node) == (tasks[1], HERE)
        processes.append(open_reply(added.call("process_id").result(30)))
        assert len(set(processes)) == (2 if kind is LocalLauncher else 1)
        assert open_reply(first[0].call("process_id").result(30)) == processes[0]
    finally:
        launcher.shutdown()
    assert not Path(launcher.folder).exists()
