"""What workers cannot tell the driver in the usual way: it is an error that names the sink."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import pytest

import engine
from engine.config import Transport
from engine.graph.context import TaskContext
from engine.graph.operator import Properties
from engine.graph.sink import SinkOperator, SinkWriter
from operators import source
from operators.sinks import Collect, Counts
from operators.sources import Collection, Function

pytestmark = pytest.mark.usefixtures("nothing_left")


class Gather(SinkOperator[Any]):
    """A driver sink whose result is what `make` returns."""

    properties = Properties(driver=True)

    def __init__(self, make: Any) -> None:
        self.make = make

    def open(self, context: TaskContext) -> SinkWriter:
        return _Gathered(self.make)


class _Gathered(SinkWriter):
    def __init__(self, make: Any) -> None:
        self._make = make

    def write(self, records: Any) -> None:
        pass

    def commit(self, epoch: int, prepared: Any) -> Any:
        return self._make()


def explode() -> NoReturn:
    raise RuntimeError("exploded in the driver")


def trap() -> Any:
    class Trap:
        def __reduce__(self) -> Any:
            return explode, ()

    return Trap()


def leave() -> NoReturn:
    raise SystemExit(7)


@pytest.mark.once_on_ray
@pytest.mark.parametrize(
    ("make", "told"),
    [
        (threading.Lock, "its result cannot be pickled: TypeError: cannot pickle"),
        (
            trap,
            "its result cannot be unpickled by the driver: RuntimeError: exploded in the driver",
        ),
        (leave, "SystemExit: 7"),
    ],
)
def test_a_result_that_does_not_travel(runtime: str, make: Any, told: str) -> None:
    pipeline = source(Collection([1])).sink(Gather(make)).named("gather")
    with pytest.raises(engine.OperatorError) as caught:
        engine.execute(pipeline, runtime=runtime)
    assert caught.value.operator == "gather"
    assert told in caught.value.error


@dataclass(frozen=True)
class Homesick:
    """Can be a key in the process that it was made in alone."""

    process: int

    def __hash__(self) -> int:
        return self.process if os.getpid() == self.process else explode()


@pytest.mark.again_on_ray
def test_records_that_the_driver_cannot_put_together(runtime: str) -> None:
    made = source(Collection([1])).map(lambda n: (Homesick(os.getpid()), n))
    with pytest.raises(engine.OperatorError) as caught:
        engine.execute(made.sink(Counts()).named("counts"), runtime=runtime)
    assert caught.value.operator == "counts"
    what = "its result cannot be read by the driver: RuntimeError: exploded in the driver"
    assert what in caught.value.error


def test_a_forked_child_that_comes_back_is_not_the_task(runtime: str) -> None:
    def fork(context: Any) -> Any:
        for n in range(1000):
            if n == 500 and context.index == 0:
                os.fork()
            yield n

    pipeline = source(Function(fork)).key_by().count()
    counts = engine.execute(
        pipeline.sink(Counts()), runtime=runtime, parallelism=2, batch_size=7
    ).output
    assert counts == dict.fromkeys(range(1000), 2)


@pytest.mark.parametrize("transport", ["shm", "tcp"])
@pytest.mark.parametrize("at", [0, 497, 500, 999, 1000])
@pytest.mark.parametrize("ends", [False, True])
def test_a_forked_child_that_comes_back_late_changes_nothing(
    transport: Transport, at: int, ends: bool
) -> None:
    """While the task waits for the one behind it, on a doorbell that both processes have.

    Batches have seven records, so that a child has some of one to send, or none.
    """

    def fork(_: Any) -> Any:
        for n in range(1001):
            if n == at and os.fork() == 0:
                time.sleep(0.3)
                if ends:
                    return
            if n < 1000:
                yield n

    def slowly(n: int) -> int:
        if n == 999:
            time.sleep(0.8)
        return n

    pipeline = source(Function(fork)).rebalance().map(slowly).sink(Collect())
    handle = engine.submit(pipeline, runtime="local", transport=transport, batch_size=7)
    assert sorted(handle.wait_finished(60).output) == list(range(1000))


@pytest.mark.again_on_ray
def test_a_forked_child_of_a_sinks_function_does_not_commit(runtime: str) -> None:
    def fork(n: int) -> int:
        if n == 5:
            os.fork()
        return n

    pipeline = source(Collection(range(10))).map(fork).sink(Collect())
    assert engine.execute(pipeline, runtime=runtime, batch_size=2).output == list(range(10))


@pytest.mark.again_on_ray
@pytest.mark.parametrize("raises", [False, True])
def test_a_forked_child_of_a_sinks_close_drops_nothing(
    runtime: str, raises: bool, tmp_path: Path
) -> None:
    output = tmp_path / "output"
    pipeline = source(Collection([1])).sink(ForksAtItsEnd(output, raises))
    engine.execute(pipeline, runtime=runtime)
    assert output.read_text() == "whole"


class ForksAtItsEnd(SinkOperator[Any]):
    """Writes a file at its end, beside a child that returns too, or raises."""

    def __init__(self, path: Path, raises: bool) -> None:
        self.path = path
        self.raises = raises

    def open(self, context: TaskContext) -> SinkWriter:
        return _ForksAtItsEnd(self.path, self.raises)


class _ForksAtItsEnd(SinkWriter):
    def __init__(self, path: Path, raises: bool) -> None:
        self._path = path
        self._raises = raises

    def write(self, records: Any) -> None:
        self._path.write_text("half", encoding="utf-8")

    def commit(self, epoch: int, prepared: Any) -> None:
        if child := os.fork():
            os.waitpid(child, 0)
            self._path.write_text("whole", encoding="utf-8")
        elif self._raises:
            raise RuntimeError("in the child")

    def abort(self) -> None:
        self._path.unlink()


@pytest.mark.again_on_ray
def test_a_child_that_ends_by_itself_is_the_users_matter(runtime: str) -> None:
    def in_a_child(n: int) -> int:
        child = os.fork()
        if child == 0:
            os._exit(n % 7)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    pipeline = source(Collection(range(20))).map(in_a_child).rebalance().sink(Collect())
    output = engine.execute(pipeline, runtime=runtime, batch_size=3).output
    assert output == [n % 7 for n in range(20)]


@pytest.mark.parametrize("transport", ["shm", "tcp"])
def test_a_child_takes_no_lock_that_another_thread_had(transport: str) -> None:
    def in_a_child(n: int) -> int:
        child = os.fork()
        if child == 0:
            os._exit(0)
        return n + os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    pipeline = source(Collection(range(1000))).map(in_a_child).rebalance().sink(Collect())
    settings: Any = {"transport": transport, "batch_size": 1, "parallelism": 2}
    assert sorted(engine.execute(pipeline, **settings).output) == list(range(1000))
