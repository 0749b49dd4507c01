"""What a worker opens for its task, and says by itself; nothing is left once it is closed."""

import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from engine.broadcast.relay import BlobRole
from engine.broadcast.service import ModelsPlan
from engine.config import JobConfig
from engine.deployment.description import ChannelBroke, OutputDescription, TaskDescription
from engine.deployment.pickling import PickledDescription, PickledTasks
from engine.graph.logical import LogicalOperator
from engine.host.imports import ImportPath
from engine.host.worker import Worker
from engine.network import Cancelled, Network
from engine.partitioner import Forward
from engine.service import Peer
from engine.system import LOCAL_TRANSPORT
from operators.sinks import Discard
from operators.sources import Collection, Function
from tests.waiting import wait_until

IMPORTS = ImportPath.of_this_process()


def described(task: int = 0, *services: Any) -> PickledDescription:
    operators = (
        LogicalOperator(0, "numbers", Collection([1]), None, {}),
        LogicalOperator(1, "nowhere", Discard(), None, {}),
    )
    description = TaskDescription(
        task, "v", task, 1, operators, {}, (), (), JobConfig(), services=services
    )
    (pickled,) = PickledTasks([description]).placed([description], {})
    return pickled


def bound(folder: Path, description: PickledDescription) -> tuple[Worker, dict[str, str]]:
    worker = Worker(dedicated=False)
    return worker, worker.deploy(0, description, str(folder), "127.0.0.1", IMPORTS)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    threads = set(threading.enumerate())
    yield tmp_path / "job"
    assert set(threading.enumerate()) <= threads
    assert not list(tmp_path.iterdir())


def test_a_task_without_models_opens_nothing_for_them(folder: Path) -> None:
    worker, endpoints = bound(folder, described())
    assert set(endpoints) == {LOCAL_TRANSPORT, "tcp"}
    assert not worker._services
    worker.close()


def test_models_that_are_not_relayed_need_no_node(folder: Path) -> None:
    worker, endpoints = bound(folder, described(0, ModelsPlan()))
    assert set(endpoints) == {LOCAL_TRANSPORT, "tcp"}
    assert worker._services
    worker.close()


def test_a_closed_worker_opens_nothing(folder: Path) -> None:
    worker = Worker(dedicated=False)
    worker.close()
    with pytest.raises(Cancelled):
        worker.deploy(
            0, described(0, ModelsPlan(BlobRole(origin=True))), str(folder), "127.0.0.1", IMPORTS
        )
    assert not folder.exists()


def test_close_wakes_a_worker_that_waits_for_its_followers(folder: Path) -> None:
    role = BlobRole(origin=True, followers=1)
    worker, endpoints = bound(folder, described(0, ModelsPlan(role)))
    assert Path(endpoints["blob-local"]).exists()
    failed = threading.Event()

    def connect() -> None:
        with pytest.raises(Cancelled):
            worker.connect(0, {}, {})
        failed.set()

    thread = threading.Thread(target=connect)
    thread.start()
    worker.close()
    assert failed.wait(60)
    thread.join()


def nothing(until: Path, _context: Any) -> Iterator[int]:
    """A source that gives no record, and waits until there is such a file."""
    wait_until(until.exists)
    yield from ()


@pytest.mark.parametrize("is_lost", [True, False])
def test_a_worker_whose_source_waits_says_that_a_channel_is_lost(
    folder: Path, is_lost: bool
) -> None:
    until = folder.with_name("until")
    waits = LogicalOperator(0, "nothing", Function(partial(nothing, until)), None, {})
    config = JobConfig(reconnect_timeout_seconds=0.2)
    outputs = (OutputDescription(Forward(), (0,)),)
    description = TaskDescription(0, "v", 0, 1, (waits,), {}, (), outputs, config)
    worker, endpoints = bound(folder, *PickledTasks([description]).placed([description], {}))
    peer = Network(["tcp://127.0.0.1:0"])
    calls = [
        partial(peer.connect, [], [(0, endpoints["tcp"])]),
        partial(worker.connect, 0, {0: peer.endpoints[0]}, {}),
    ]
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    running = threading.Thread(target=worker.run, args=(0,))
    running.start()
    if is_lost:
        peer.close()
        word = worker.listen()
        assert isinstance(word, ChannelBroke)
        assert (word.attempt, word.failure.kind) == (0, "channel_lost")
        assert "its connection was gone for" in word.failure.error
    until.touch()
    if not is_lost:
        assert peer.receive() is None
    running.join()
    worker.close()
    if not is_lost:
        assert worker.listen() is None
        peer.close()
    until.unlink()


def test_names_are_gone_once_it_runs(folder: Path) -> None:
    first, following = BlobRole(origin=True, followers=1), BlobRole(leaders=((0, 0),))
    workers = [
        bound(folder, described(task, ModelsPlan(role)))
        for task, role in enumerate([first, following])
    ]
    others = {task: Peer(f"task {task}", found) for task, (_, found) in enumerate(workers)}
    threads = [
        threading.Thread(target=worker.connect, args=(0, {}, others)) for worker, _ in workers
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for worker, _ in workers:
        worker.run(0)
    assert not folder.exists()
    for worker, _ in workers:
        worker.close()
