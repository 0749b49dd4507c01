"""What goes wrong in a job ends it with a clear error, in time, and leaves nothing behind."""

from __future__ import annotations

import datetime
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import engine
from operators import Pipeline, source
from operators.sinks import Callback, Collect, Counts, Discard, LineFiles
from operators.sources import Collection, Function, RandomWords, TextFiles
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("nothing_left")


def endless_words() -> Pipeline:
    words = source(RandomWords(length=8, rate=1000)).map(lambda word: (word, 1)).key_by(0)
    return words.reduce(lambda a, b: (a[0], a[1] + b[1])).sink(Counts())


def test_a_lambda_that_raises_on_the_millionth_record(runtime: str) -> None:
    def divide(n: int) -> float:
        return 1 / (1_000_000 - n)

    pipeline = source(Collection(range(2_000_000))).map(divide).named("divide").sink(Discard())
    with pytest.raises(engine.OperatorError) as caught:
        engine.execute(pipeline, runtime=runtime)
    error = caught.value
    assert (error.operator, error.record) == ("divide", "1000000")
    assert "ZeroDivisionError: division by zero" in error.error
    assert "return 1 / (1_000_000 - n)" in error.user_traceback
    assert "engine/task" not in error.user_traceback


def test_a_reduce_that_raises_names_its_record() -> None:
    pairs = source(Collection([("a", 1), ("a", None)])).key_by(0)
    with pytest.raises(engine.OperatorError, match=r"operator 'reduce' .* on record \('a', None\)"):
        engine.execute(pairs.reduce(lambda a, b: (a[0], a[1] + b[1])).sink(Counts()))


@pytest.mark.again_on_ray
def test_a_source_and_a_sink_that_raise(runtime: str) -> None:
    def source_of_one() -> Iterator[int]:
        yield 1
        raise OSError("the disk is gone")

    def refuse(_record: int) -> None:
        raise ValueError("no room")

    with pytest.raises(engine.OperatorError, match=r"operator 'function' .*the disk is gone"):
        engine.execute(source(Function(source_of_one)).sink(Discard()), runtime=runtime)
    with pytest.raises(engine.OperatorError, match=r"operator 'callback' .*on record 1.*no room"):
        engine.execute(source(Collection([1])).rebalance().sink(Callback(refuse)), runtime=runtime)


@pytest.mark.once_on_ray
@pytest.mark.parametrize("victim", ["random_words", "reduce"])
def test_a_worker_that_is_killed(runtime: str, victim: str, tmp_path: Path) -> None:
    folder = tmp_path

    def note_source(word: str) -> tuple[str, int]:
        mark = folder / "random_words"
        if not mark.exists():
            mark.write_text(str(os.getpid()))
        return (word, 1)

    def note_sink(a: tuple[str, int], b: tuple[str, int]) -> tuple[str, int]:
        mark = folder / "reduce"
        if not mark.exists():
            mark.write_text(str(os.getpid()))
        return (a[0], a[1] + b[1])

    words = source(RandomWords(length=8)).map(note_source).key_by(0)
    handle = engine.submit(words.reduce(note_sink).sink(Counts()), runtime=runtime)
    pid = int(wait_until(lambda: (folder / victim).exists() and (folder / victim).read_text()))
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(engine.WorkerLost) as caught:
        handle.wait_finished(300)
    handle.wait_stopped()
    assert victim in caught.value.task
    assert caught.value.status.startswith(
        {"local": "killed by SIGKILL", "ray": "died, SYSTEM_ERROR"}[runtime]
    )


@pytest.mark.again_on_ray
def test_cancel_stops_a_job(runtime: str) -> None:
    handle = engine.submit(endless_words(), runtime=runtime)
    wait_until(lambda: handle.statistics().records > 0)
    handle.cancel()
    with pytest.raises(engine.JobCancelled):
        handle.wait_finished(timeout=300)
    handle.wait_stopped()


def test_cancel_stops_a_job_that_sleeps_in_the_users_code(runtime: str) -> None:
    def sleep(_record: str) -> None:
        time.sleep(1000)

    handle = engine.submit(
        source(RandomWords(length=8)).rebalance().sink(Callback(sleep)), runtime=runtime
    )
    wait_until(lambda: handle.statistics().source_records > 0)
    handle.cancel()
    with pytest.raises(engine.JobCancelled):
        handle.wait_finished(timeout=300)
    handle.wait_stopped()


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (
            lambda: source(TextFiles("/no/such/file")).sink(Collect()),
            engine.GraphError,
            "/no/such/file",
        ),
        (lambda: source(Collection([1])).map(str), engine.GraphError, "has no sink"),
    ],
    ids=["missing file", "no sink"],
)
def test_what_cannot_work_fails_before_any_worker_starts(
    runtime: str, build: Callable[[], Pipeline], error: type[engine.EngineError], message: str
) -> None:
    with pytest.raises(error, match=message):
        engine.execute(build(), runtime=runtime)


def test_parallelism_zero() -> None:
    with pytest.raises(engine.ConfigError, match="parallelism is 0, expected"):
        engine.execute(endless_words(), parallelism=0)


def test_a_record_that_cannot_be_encoded() -> None:
    pipeline = source(Collection([1, 2])).map(lambda n: object()).rebalance().sink(Discard())
    with pytest.raises(engine.OperatorError, match=r"operator 'map' .*object") as caught:
        engine.execute(pipeline)
    assert "hint:" in str(caught.value)


def test_a_record_that_is_too_large_names_the_setting() -> None:
    pipeline = source(Collection([10, 200_000])).map(lambda n: "x" * n).rebalance().sink(Discard())
    message = (
        r"operator 'map' .* EncodeError: record 1 of the batch, 'xxx.*': it takes 200005 bytes, "
        r"expected at most 100000\n\nhint: raise max_record_bytes, or split it$"
    )
    with pytest.raises(engine.OperatorError, match=message):
        engine.execute(pipeline, max_record_bytes=100_000)


def test_what_a_record_raises_while_it_is_encoded() -> None:
    class Zone(datetime.tzinfo):
        def __repr__(self) -> str:
            raise KeyError("mine")

    zone = datetime.datetime(2020, 1, 1, tzinfo=Zone())
    pipeline = source(Collection([1])).map(lambda _: zone).rebalance().sink(Discard())
    with pytest.raises(engine.OperatorError, match=r"operator 'map' .*failed: KeyError: 'mine'"):
        engine.execute(pipeline)


def test_a_key_that_is_not_there() -> None:
    pipeline = source(Collection([("a", 1), ("b",)])).key_by(1).count().sink(Counts())
    with pytest.raises(engine.OperatorError, match=r"\('b',\)"):
        engine.execute(pipeline, parallelism=2)


@pytest.mark.again_on_ray
def test_an_empty_input_and_a_large_record(runtime: str) -> None:
    empty = source(Collection([])).key_by().count().sink(Counts())
    assert engine.execute(empty, runtime=runtime).output == {}
    large = source(Collection([b"x" * 50_000_000])).rebalance().map(len).sink(Collect())
    assert engine.execute(large, runtime=runtime).output == [50_000_000]


@pytest.mark.again_on_ray
def test_a_failed_job_leaves_no_file(runtime: str, tmp_path: Path) -> None:
    def fail_late(n: int) -> str:
        if n == 5000:
            raise ValueError(n)
        return str(n)

    lines = source(Collection(range(10_000))).map(fail_late).sink(LineFiles(str(tmp_path / "out")))
    with pytest.raises(engine.OperatorError):
        engine.execute(lines, runtime=runtime)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_killed_sink_leaves_no_file(runtime: str, tmp_path: Path) -> None:
    mark, out = tmp_path / "pid", tmp_path / "out"

    def note(word: str) -> str:
        if not mark.exists():
            mark.write_text(str(os.getpid()))
        return word

    words = source(RandomWords(length=8)).rebalance().map(note)
    handle = engine.submit(words.sink(LineFiles(out)), runtime=runtime)
    pid = int(wait_until(lambda: mark.exists() and mark.read_text()))
    assert len([each for each in out.iterdir() if ".claim" not in each.name]) == 1
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(engine.WorkerLost):
        handle.wait_finished()
    handle.wait_stopped()
    assert list(out.iterdir()) == []


@pytest.mark.again_on_ray
def test_a_sink_that_sleeps_holds_the_source_back(runtime: str) -> None:
    def sleep(_batch: list[str]) -> list[str]:
        time.sleep(0.2)
        return []

    slow = source(RandomWords(length=100)).rebalance().map_batches(sleep).named("slow")
    handle = engine.submit(slow.sink(Discard()), runtime=runtime)

    def worked_on() -> int:
        operators = handle.statistics().operators
        return next((each.records_in for each in operators if each.name == "slow"), 0)

    wait_until(lambda: handle.statistics().bottleneck)
    first, worked_on_first = handle.statistics(), worked_on()
    wait_until(lambda: worked_on() >= worked_on_first + 10 * engine.JobConfig().batch_size)
    second = handle.statistics()
    handle.cancel()
    handle.wait_stopped()
    assert second.bottleneck == "slow -> discard"
    assert second.memory_bytes - first.memory_bytes < 16 * 1024 * 1024
    window = engine.JobConfig().channel_window_bytes + engine.JobConfig().send_buffer_bytes
    assert second.backlog_bytes < 2 * window


def _crash(_record: object) -> object:
    import ctypes

    return ctypes.string_at(0)


def test_the_stack_of_a_crash_is_told_without_frames_of_the_engine() -> None:
    pipeline = source(Collection([1])).map(_crash).sink(Collect())
    with pytest.raises(engine.WorkerLost) as caught:
        engine.execute(pipeline, progress="none")
    told = str(caught.value)
    assert "killed by SIGSEGV" in told
    assert "Fatal Python error: Segmentation fault" in told
    assert re.search(r'File ".*test_failures\.py", line \d+ in _crash', told)
    assert "engine/task" not in told
