"""What goes wrong while a model is on its way ends the job in time, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

import engine
import engine.testing
from engine.deployment.reply import open_reply
from engine.model import Package
from engine.network import ChannelLost
from operators import Pipeline, Stream, source
from operators.sinks import Collect
from operators.sources import Collection, Function, Models
from tests.generated_model import generated
from tests.waiting import pauses, wait_until

pytestmark = pytest.mark.usefixtures("nothing_left")


def slow_model(mark: Path) -> Package:
    """30 MB that take 30 s to make; the mark is there once the first are."""

    def pieces() -> Iterator[bytes]:
        for _ in range(300):
            yield bytes(100_000)
            mark.touch()
            time.sleep(0.1)

    return generated({"weights": (30_000_000, pieces)}, name="slow")


def published(model: Callable[[], Any]) -> Stream[Any]:
    return source(Function(lambda: [model()])).with_parallelism(1).broadcast(via="channels")


def loading(model: Callable[[], Any]) -> Pipeline:
    sizes = published(model).map(lambda model: len(model.buffer)).named("load")
    return sizes.sink(Collect())


def process_of(handle: engine.JobHandle, vertex: str, index: int = 0) -> int:
    """The process of a task."""
    worker: Any
    (worker,) = (
        worker
        for worker in handle._master._workers
        if worker.task.vertex.startswith(vertex) and worker.task.index == index
    )
    return int(open_reply(worker.call("process_id").result(60)))


@pytest.mark.once_on_ray
@pytest.mark.parametrize("victim", [("load", 1), ("load", 0), ("function", 0)])
def test_a_worker_that_is_killed_in_the_middle(
    runtime: str, victim: tuple[str, int], tmp_path: Path
) -> None:
    mark = tmp_path / "begun"
    handle = engine.submit(
        loading(lambda: slow_model(mark)), runtime=runtime, parallelism=3, progress="none"
    )
    wait_until(mark.exists)
    pid = process_of(handle, *victim)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(engine.WorkerLost) as caught:
        handle.wait_finished(300)
    handle.wait_stopped()
    assert caught.value.task.startswith(victim[0])


@pytest.mark.again_on_ray
def test_cancel_in_the_middle(runtime: str, tmp_path: Path) -> None:
    mark = tmp_path / "begun"
    handle = engine.submit(
        loading(lambda: slow_model(mark)), runtime=runtime, parallelism=3, progress="none"
    )
    wait_until(mark.exists)
    handle.cancel()
    with pytest.raises(engine.JobCancelled):
        handle.wait_finished(300)
    handle.wait_stopped()


@pytest.mark.again_on_ray
@pytest.mark.parametrize("after", [0.0, 0.4, 1.0])
def test_cancel_while_it_starts(runtime: str, after: float) -> None:
    handle = engine.submit(
        loading(lambda: bytes(1_000_000)), runtime=runtime, parallelism=3, progress="none"
    )
    time.sleep(after)
    handle.cancel()
    with contextlib.suppress(engine.JobCancelled):
        handle.wait_finished(300)
    handle.wait_stopped()


@pytest.mark.again_on_ray
def test_cancel_while_a_loader_takes_nothing(runtime: str, tmp_path: Path) -> None:
    """The publisher waits for the delivery, which it cannot have."""
    asked, go, begun = (tmp_path / name for name in ("asked", "go", "begun"))

    def models() -> Iterator[Any]:
        asked.touch()
        yield from pauses(go.exists)
        for _ in range(10):
            begun.touch()
            yield bytes(20_000_000)

    sizes = source(Function(models)).with_parallelism(1).broadcast(via="channels")
    handle = engine.submit(
        sizes.map(lambda model: len(model.buffer)).named("load").sink(Collect()),
        runtime=runtime,
        parallelism=2,
        progress="none",
    )
    wait_until(asked.exists)
    pid = process_of(handle, "load", 1)
    os.kill(pid, signal.SIGSTOP)
    try:
        go.touch()
        wait_until(begun.exists)
        handle.cancel()
        with pytest.raises(engine.JobCancelled):
            handle.wait_finished(300)
        handle.wait_stopped()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


@pytest.mark.ray
def test_a_node_that_answers_no_more_is_a_lost_channel(ray_cluster: None, tmp_path: Path) -> None:
    go = tmp_path / "go"

    def models() -> Iterator[Any]:
        yield bytes(1000)
        yield from pauses(go.exists)
        yield bytes(20_000_000)

    sizes = source(Function(models)).with_parallelism(1).broadcast(via="channels", name="digits")
    load = sizes.map(lambda model: len(model.buffer)).named("load").with_resources(slot=2)
    handle = engine.submit(
        load.sink(Collect()),
        runtime="ray",
        placement="parallelism_first",
        parallelism=3,
        progress="none",
        reconnect_timeout_seconds=1.0,
    )

    def have_the_first() -> bool:
        tasks = [each for each in handle._master.statistics() if each.vertex.startswith("load")]
        return len(tasks) == 3 and all(each.operators[0].records_in for each in tasks)

    wait_until(have_the_first)
    pid = process_of(handle, "load", 2)
    os.kill(pid, signal.SIGSTOP)
    go.touch()
    try:
        with pytest.raises(engine.ChannelLost) as caught:
            handle.wait_finished(300)
        handle.wait_stopped()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    message = str(caught.value)
    assert "model 'digits', number 2, is lost" in message
    assert "did not get to task load -> collect[2] on node " in message


@pytest.mark.again_on_ray
def test_a_load_that_raises(runtime: str) -> None:
    def load(model: Any) -> Any:
        raise ValueError(f"{len(model.buffer)} bytes are no model")

    served = source(Collection(range(1000))).map_batches_with_model(
        published(lambda: bytes(5_000_000)), load, lambda model, batch: batch
    )
    with pytest.raises(engine.OperatorError, match=r"'served' .*load raised ValueError: 5000000 b"):
        engine.execute(
            served.named("served").sink(Collect()), runtime=runtime, parallelism=2, progress="none"
        )


def test_a_model_that_is_lost_is_a_lost_channel() -> None:
    def load(_model: Any) -> Any:
        raise ChannelLost("model 'm' version 1 could not be received in task t on node n: gone")

    served = source(Collection([1])).map_batches_with_model(
        source(Collection(["m"])).broadcast(), load, lambda model, batch: batch
    )
    with pytest.raises(
        engine.ChannelLost, match=r"\[0\] on \S+: .*model 'm' version 1 .* on node n: gone"
    ):
        engine.testing.run(served.sink(Collect()))


@pytest.mark.again_on_ray
def test_a_folder_that_is_not_there(runtime: str, tmp_path: Path) -> None:
    missing = source(Models(tmp_path / "digits")).broadcast(via="channels")
    with pytest.raises(engine.EngineError, match="digits") as caught:
        engine.execute(
            missing.map(lambda model: model.version).sink(Collect()),
            runtime=runtime,
            progress="none",
        )
    assert "publish" in str(caught.value) or "Models" in str(caught.value)


def test_models_for_one_task_of_several_are_refused(runtime: str) -> None:
    divided = published(lambda: b"model").rebalance().map(lambda model: model.version)
    with pytest.raises(engine.GraphError, match=r"publishes models to some of the tasks"):
        engine.execute(divided.sink(Collect()), runtime=runtime, parallelism=2, progress="none")


PROGRAM = """
import sys
from pathlib import Path

import engine
from tests import jobfolders
from tests.faults.test_broadcast_faults import loading, slow_model

mark = Path(sys.argv[1])
jobfolders.announce(sys.stdout)
engine.execute(loading(lambda: slow_model(mark)), parallelism=2, progress="none")
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_the_drivers_end_in_the_middle(number: signal.Signals, tmp_path: Path) -> None:
    mark = tmp_path / "begun"
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(mark)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    ) as driver:
        assert driver.stdout is not None
        folder = Path(driver.stdout.readline().decode().strip())
        assert folder.is_absolute()
        wait_until(mark.exists)
        workers = psutil.Process(driver.pid).children(recursive=True)
        assert len(workers) == 4  # the fork server is one of them
        os.kill(driver.pid, number)
        driver.wait(timeout=300)
        _gone, alive = psutil.wait_procs(workers, timeout=300)
    assert not alive
    wait_until(lambda: not folder.exists())
