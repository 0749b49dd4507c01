"""The master over workers that are fakes: it carries out, asks and reports; what, others decide."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from engine.config import JobConfig
from engine.deployment.description import (
    ChannelBroke,
    LimitReached,
    Remark,
    TaskDescription,
    TaskFailure,
)
from engine.deployment.reply import CallFailed, pack
from engine.driver.events import AttemptRequested
from engine.driver.launcher import Launcher, WorkerDied, WorkerHandle
from engine.driver.master import JobMaster
from engine.errors import (
    ChannelLost,
    CheckpointError,
    JobCancelled,
    OperatorError,
    StartError,
    WorkerLost,
)
from engine.placement.nodes import Node
from engine.placement.place import Placement
from engine.plan import Plan
from operators import source
from operators.sinks import Collect
from operators.sources import Collection as Numbers

HERE = Node("here", "127.0.0.1", {})
Answer = Callable[["FakeWorker", str], Any]


class FakeWorker(WorkerHandle):
    """Answers at once: what `answer` gives, unless that is None or an exception of the runtime."""

    def __init__(self, task: TaskDescription, answer: Answer) -> None:
        self.task, self.node = task, HERE
        self.told: list[str] = []
        self.listening: Future[bytes] = Future()
        self.words: list[Any] = []
        """What it says next, from the last."""
        self.given: dict[str, tuple[Any, ...]] = {}
        self._answer = answer

    def call(self, method: str, *arguments: Any) -> Future[bytes]:
        future: Future[bytes] = Future()
        if method == "listen":
            self.listening = Future()
            if self.words:
                self.listening.set_result(pack(self.words.pop))
            return self.listening
        if method != "statistics":
            self.told.append(method)
            self.given[method] = arguments
        answer = self._answer(self, method)
        if isinstance(answer, Future):
            return answer
        if isinstance(answer, WorkerDied | CallFailed):
            future.set_exception(answer)
        elif answer is not SILENT:
            future.set_result(pack(lambda: answer))
        return future


SILENT = object()
"""No answer at all."""


class FakeLauncher(Launcher):
    folder = "/nowhere"

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.workers: list[FakeWorker] = []
        self.was_shut_down = 0

    def nodes(self, resources: Collection[str]) -> Sequence[Node]:
        return [HERE]

    def add(self, task: TaskDescription, node: Node) -> WorkerHandle:
        self.workers.append(FakeWorker(task, self._answer))
        return self.workers[-1]

    def shutdown(self) -> None:
        self.was_shut_down += 1


def usual(worker: FakeWorker, method: str) -> Any:
    task = worker.task
    results = {"collect": pickle.dumps([task.id])} if task.vertex.endswith("collect") else {}
    return {
        "deploy": {"shm": f"shm://{task.id}", "tcp": f"tcp://{task.id}"},
        "run": f"statistics of {task.id} up to its end",
        "commit": (results, f"statistics of {task.id}"),
    }.get(method)


def master(
    answer: Answer = usual,
    tell: Any = print,
    warn: Any = print,
    parallelism: int = 2,
    limit: int | None = None,
    **settings: Any,
) -> tuple[JobMaster, FakeLauncher]:
    config = JobConfig(parallelism=parallelism, **settings)
    numbers = source(Numbers([1])).rebalance().map(str)
    stream = numbers if limit is None else numbers.take(limit)
    graph = Plan.of(stream.sink(Collect()), config).execution
    placement = Placement(dict.fromkeys(range(len(graph.vertices)), HERE))
    launcher = FakeLauncher(answer)
    return JobMaster(graph, lambda _nodes: placement, config, launcher, tell, warn), launcher


def test_a_job_from_launch_to_report() -> None:
    job, launcher = master()
    report = job.run()
    for worker in launcher.workers:
        assert [each for each in worker.told if each != "end_source"] == [
            "process_id",
            "deploy",
            "connect",
            "run",
            "commit",
            "close",
        ]
    assert report.statistics == tuple(f"statistics of {task}" for task in range(4))
    assert report.outputs == {"collect": [[2], [3]]}
    attempt, peers, others = launcher.workers[0].given["connect"]
    assert (attempt, sorted(peers.values()), others) == (0, ["shm://2", "shm://3"], {})
    assert launcher.was_shut_down == 1


def test_what_workers_say_of_an_earlier_attempt_is_for_nobody() -> None:
    late: list[Future[bytes]] = []

    def answer(worker: FakeWorker, method: str) -> Any:
        attempt = worker.given[method][0] if worker.given.get(method) else None
        if (method, attempt) == ("run", 0):
            late.append(Future())
            if len(late) == 4:
                job._news.put(AttemptRequested)
            return late[-1]
        if (method, attempt) == ("run", 1):
            for each in late:
                each.set_result(pack(lambda: "statistics of the first attempt"))
            late.clear()
        return usual(worker, method)

    job, launcher = master(answer)
    report = job.run()
    assert report.statistics == tuple(f"statistics of {task}" for task in range(4))
    attempt = ["process_id", "deploy", "connect", "run"]
    for worker in launcher.workers:
        assert [each for each in worker.told if each != "end_source"] == [
            *attempt,
            "cancel",
            *attempt,
            "commit",
            "close",
        ]


def told(launcher: FakeLauncher) -> list[list[str]]:
    return [worker.told for worker in launcher.workers]


def test_whoever_died_is_told_nothing_more() -> None:
    def answer(worker: FakeWorker, method: str) -> Any:
        if (worker.task.id, method) == (1, "connect"):
            return WorkerDied("killed by SIGKILL", "last words")
        return usual(worker, method)

    job, launcher = master(answer)
    with pytest.raises(WorkerLost, match="last words"):
        job.run()
    start = ["process_id", "deploy", "connect"]
    ended = [*start, "cancel", "close"]
    assert told(launcher) == [ended, start, ended, ended]
    assert launcher.was_shut_down == 1


def test_a_worker_that_died_elsewhere_is_asked_for_its_last_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(FakeWorker, "last_words", lambda worker: f"said by {worker.task.id}")

    def answer(worker: FakeWorker, method: str) -> Any:
        is_dead = (worker.task.id, method) == (1, "connect")
        return WorkerDied("killed") if is_dead else usual(worker, method)

    with pytest.raises(WorkerLost) as caught:
        master(answer)[0].run()
    assert caught.value.log == "said by 1"
    assert "on node 127.0.0.1 was lost: killed\nlast log lines:\nsaid by 1" in str(caught.value)


def test_a_restart_and_a_move_are_a_line_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = Node("there", "10.0.0.9", {"cpus": 8.0}, "10.0.0.9 (rack-1)")
    monkeypatch.setattr(FakeLauncher, "nodes", lambda *_: [there])

    def answer(worker: FakeWorker, method: str) -> Any:
        is_dead = (worker.task.id, method) == (1, "connect")
        return WorkerDied("killed", "last words") if is_dead else usual(worker, method)

    said: list[str] = []
    job, _ = master(answer, warn=said.append, checkpoints=str(tmp_path), restarts=1)
    with pytest.raises(WorkerLost):
        job.run()
    name = job._workers.tasks[1].name
    assert said == [
        f"restart 1 of 1 in 0.1 s: worker of task {name} on node 127.0.0.1 was lost: killed",
        f"task {name} moves from 127.0.0.1 to 10.0.0.9 (rack-1)",
    ]


def test_a_node_that_comes_later_is_looked_at_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = Node("there", "10.0.0.9", {"cpus": 8.0})
    monkeypatch.setattr(FakeLauncher, "nodes", lambda *_: [there])
    looked: list[tuple[int, int]] = []

    def answer(worker: FakeWorker, method: str) -> Any:
        if method == "deploy":
            attempt, *_, start = worker.given["deploy"]
            if start.seen is not None:
                assert (tmp_path / start.seen).exists()
                looked.append((attempt, worker.task.id))
                if attempt > 0:
                    return TaskFailure("checkpoint", "", None, "no credentials", "", "a hint")
        is_dead = (worker.task.id, method) in ((1, "connect"), (2, "connect"))
        return WorkerDied("killed") if is_dead else usual(worker, method)

    job, _ = master(answer, checkpoints=str(tmp_path), runtime="ray", restarts=5)
    with pytest.raises(CheckpointError, match="no credentials"):
        job.run()
    assert looked == [(0, 0), (1, 1)]
    assert job._coordinator.restarts.count == 1


def test_what_a_worker_remarks_is_a_line() -> None:
    said: list[str] = []
    job, launcher = master(warn=said.append)
    launch = launcher.add

    def add(task: TaskDescription, node: Node) -> WorkerHandle:
        worker = launch(task, node)
        assert isinstance(worker, FakeWorker)
        worker.words = [Remark(f"task {task.id} has seen it")]
        return worker

    launcher.add = add  # type: ignore[method-assign]
    job.run()
    assert said == [f"task {n} has seen it" for n in range(len(launcher.workers))]


def test_what_cannot_be_called_or_does_not_answer_fails_the_start() -> None:
    def refused(worker: FakeWorker, method: str) -> Any:
        return CallFailed("OSError", "no") if method == "deploy" else usual(worker, method)

    with pytest.raises(StartError, match=r"task collection\[0\] could not deploy: OSError: no"):
        master(refused)[0].run()

    def silent(worker: FakeWorker, method: str) -> Any:
        return SILENT if (worker.task.id, method) == (3, "deploy") else usual(worker, method)

    with pytest.raises(StartError, match=r"1 of 4 workers did not answer 'deploy' within 0\.05 s"):
        master(silent, connect_timeout_seconds=0.05)[0].run()


@pytest.mark.parametrize(
    ("kind", "error"), [("operator", OperatorError), ("cancelled", StartError)]
)
def test_a_task_that_fails_fails_the_job(kind: str, error: type[Exception]) -> None:
    def answer(worker: FakeWorker, method: str) -> Any:
        if (worker.task.id, method) == (2, "run"):
            return TaskFailure(kind, "map", None, "ValueError: no", "")
        return usual(worker, method)

    job, launcher = master(answer)
    with pytest.raises(error, match=r"map -> collect\[0\]"):
        job.run()
    assert all(each[-2:] == ["cancel", "close"] for each in told(launcher))


def test_a_job_that_is_cancelled_before_it_starts_does_nothing() -> None:
    job, launcher = master(lambda worker, method: None if method in ENDING else SILENT)
    job.cancel()
    with pytest.raises(JobCancelled):
        job.run()
    assert told(launcher) == [["cancel", "close"]] * 4


def test_a_master_that_fails_leaves_no_worker_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.driver.coordinator._TICK_SECONDS", 0.01)

    def tell(_what: str) -> None:
        raise RuntimeError("nobody listens")

    job, launcher = master(
        lambda worker, method: SILENT if method == "deploy" else usual(worker, method), tell
    )
    with pytest.raises(RuntimeError, match="nobody listens"):
        job.run()
    assert all(each[-3:] == ["deploy", "cancel", "close"] for each in told(launcher))
    assert launcher.was_shut_down == 1


def test_what_a_worker_says_unasked_is_heard_until_it_says_no_more() -> None:
    def answer(worker: FakeWorker, method: str) -> Any:
        if (worker.task.id, method) == (1, "run"):
            worker.words = [None, LimitReached(0, "take")]
            worker.listening.set_result(pack(lambda: LimitReached(1, "take")))
        if (worker.task.id, method) == (0, "run"):
            return running
        if method == "end_source":
            running.set_result(pack(lambda: "statistics"))
        return usual(worker, method)

    running: Future[bytes] = Future()
    job, launcher = master(answer, parallelism=1, limit=5)
    job.run()
    source, taker = launcher.workers
    assert source.told.count("end_source") == 1
    assert not taker.words


def test_a_channel_is_lost_though_nobody_notices_who_runs() -> None:
    def answer(worker: FakeWorker, method: str) -> Any:
        if method != "run":
            return usual(worker, method)
        if worker.task.id == 0:
            lost = TaskFailure("channel_lost", "", None, "channel 0 to tcp://there was lost: x", "")
            worker.listening.set_result(pack(lambda: ChannelBroke(0, lost)))
        return SILENT

    job, launcher = master(answer)
    with pytest.raises(ChannelLost, match=r"the channel from task .* to task .* was lost: x"):
        job.run()
    assert launcher.was_shut_down == 1


def test_a_worker_that_dies_when_its_task_is_done_is_noticed_at_once() -> None:
    def answer(worker: FakeWorker, method: str) -> Any:
        if (worker.task.id, method) == (3, "run"):
            worker.listening.set_exception(WorkerDied("killed by SIGKILL"))
        return SILENT if (worker.task.id, method) == (0, "run") else usual(worker, method)

    job, _ = master(answer)
    with pytest.raises(WorkerLost, match="SIGKILL"):
        job.run()


def test_a_result_that_cannot_be_read_fails_the_job() -> None:
    def answer(worker: FakeWorker, method: str) -> Any:
        return ({"collect": b"?"}, "") if method == "commit" else usual(worker, method)

    job, launcher = master(answer)
    with pytest.raises(OperatorError, match="its result cannot be unpickled by the driver"):
        job.run()
    assert launcher.was_shut_down == 1


ENDING = ("cancel", "close")
