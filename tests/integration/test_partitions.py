"""Sources of partitions in running jobs: each record comes once, in the order of its partition."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from engine.graph.operator import Properties
from engine.testing import run
from operators import Pipeline, Stream, Tumbling, source
from operators.sinks import Callback, Collect
from tests.partitioned import LOGS, Logs, LogSource, gather, job, stop
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("nothing_left")
NAME = "test"
FORMS: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "record batch": lambda found: pa.RecordBatch.from_pylist(found),
    "table": lambda found: pa.Table.from_pylist(found),
    "stream": lambda found: pa.table({k: [r[k] for r in found] for k in found[0]}).to_reader(5),
}


@pytest.fixture
def logs() -> Iterator[Logs]:
    LOGS[NAME] = logs = Logs(**{f"p{i}": rows(i, 90 + i) for i in range(5)})
    yield logs
    del LOGS[NAME]


def rows(
    partition: int, count: int, start: int = 0, begin_ms: int | None = None
) -> list[dict[str, int]]:
    """Records of a partition, a millisecond apart; each partition is in a time of its own."""
    begin_ms = 1000 * partition if begin_ms is None else begin_ms
    return [{"p": partition, "n": n, "t": begin_ms + n} for n in range(start, start + count)]


def check(logs: Logs, came: list[Any]) -> None:
    """All came once, those of a partition in their order."""
    by_partition: dict[int, list[int]] = {}
    for row in came:
        by_partition.setdefault(row["p"], []).append(row["n"])
    assert by_partition == {
        each[0]["p"]: [row["n"] for row in each] for each in logs.lists.values() if each
    }
    assert not any(logs.open.values())


@pytest.mark.table(3)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("most", [None, 50, 3])
@pytest.mark.parametrize("bounded", [True, False])
@pytest.mark.parametrize("parallelism", [1, 2, 7])
def test_each_record_comes_once(
    logs: Logs, form: str, most: int | None, bounded: bool, parallelism: int
) -> None:
    logs.ended = True
    columns = form != "list"
    read = LogSource(NAME, form=FORMS[form], most=most, bounded=bounded, columns=columns)
    stream = source(read)
    given = run(
        (stream.to_records() if columns else stream).sink(Collect()),
        parallelism=parallelism,
        batch_size=16,
    )["collect"]
    check(logs, given)


def test_partitions_of_a_bounded_source_are_opened_one_at_a_time(logs: Logs) -> None:
    check(logs, run(source(LogSource(NAME)).sink(Collect()), parallelism=1)["collect"])
    assert logs.most_open == 1


def counted(stream: Stream[Any], idle_after: timedelta | None) -> Stream[Any]:
    """The rows of each 10 ms of each partition, as dicts."""
    windows = stream.with_event_time("t", unit="ms", idle_after=idle_after).key_by("p")
    return windows.window(Tumbling(timedelta(milliseconds=10)), time="t", unit="ms").count()


FEATURES: dict[str, Callable[[Stream[Any]], Stream[Any]]] = {
    "plain": lambda stream: stream,
    "rate": lambda stream: stream,
    "watermarks": partial(counted, idle_after=None),
    "idle partition": partial(counted, idle_after=timedelta(milliseconds=20)),
}
"""Each job is also stopped with a savepoint."""


@pytest.mark.table(4)
@pytest.mark.parametrize("feature", FEATURES)
@pytest.mark.parametrize("added", ["running", "stopped"])
@pytest.mark.parametrize("parallelism", [(1, 2), (2, 1), (2, 2), (3, 2)])
@pytest.mark.parametrize("columns", [False, True], ids=["list", "columns"])
def test_crossings(
    logs: Logs,
    columns: bool,
    parallelism: tuple[int, int],
    added: str,
    feature: str,
    tmp_path: Path,
) -> None:
    form = FORMS["record batch" if columns else "list"]
    read = LogSource(NAME, form=form, bounded=False, discover_seconds=0.02, columns=columns)
    read.properties = Properties(emits_columns=columns, rate=2000 if feature == "rate" else None)
    is_idle = feature == "idle partition"
    if is_idle:  # the others are at the same time, so that nothing is late where one has a pause
        logs.lists = {f"p{n}": rows(n, 90 + n, begin_ms=0) for n in range(5)} | {"p9": []}
    later = {"begin_ms": 9000} if is_idle else {}
    pipeline = sunk(FEATURES[feature](source(read)), columns)
    settings: dict[str, Any] = {
        "checkpoints": str(tmp_path),
        "checkpoint_interval_seconds": 0.03,
        "batch_size": 16,
        "parallelism": parallelism[0],
    }
    first = job(pipeline, **settings)
    wait_until(lambda: logs.given >= 100)
    if added == "running":
        logs.lists["p7"] = rows(7, 50, **later)
        wait_until(lambda: "p7" in logs.open)
    if is_idle:
        wait_until(lambda: logs.came)  # windows are over, although one partition has no records
    stop(first, "first")
    if added == "stopped":
        logs.lists["p7"] = rows(7, 50, **later)
    logs.lists["p1"] += rows(1, 30, start=len(logs.lists["p1"]), **later)
    logs.ended, read.discover_seconds = True, None
    last = job(pipeline, **settings | {"resume": "first", "parallelism": parallelism[1]})
    late = sum(each.late for each in last.wait_finished(300).statistics.operators)
    last.wait_stopped()
    if feature in ("plain", "rate"):
        check(logs, logs.came)
        return
    came = [tuple(row.values()) if columns else row for row in logs.came]
    assert late == 0
    assert sorted((p, start, count) for p, count, start, _ in came) == sorted(
        (p, 10 * begin, count)
        for (p, begin), count in Counter((r["p"], r["t"] // 10) for r in logs.records()).items()
    )


def sunk(stream: Stream[Any], columns: bool) -> Pipeline:
    """The stream into the records of `logs` that have come."""
    return (stream.to_records() if columns else stream).sink(Callback(partial(gather, NAME)))


def test_a_task_without_partitions_does_not_hold_back_event_time(logs: Logs) -> None:
    logs.lists = {"p0": rows(0, 100)}
    read = LogSource(NAME, bounded=False, discover_seconds=0.02)
    handle = job(sunk(counted(source(read), None), columns=False), parallelism=3)
    wait_until(lambda: len(logs.came) == 9)
    logs.lists["p1"] = rows(1, 100, begin_ms=5000)  # found by a task that had none
    wait_until(lambda: handle.statistics().operators[-2].records_in >= 200)
    logs.lists["p0"] += rows(0, 10, start=1190, begin_ms=0)
    wait_until(lambda: len(logs.came) == 10)
    logs.lists["p0"] += rows(0, 10, start=6000, begin_ms=0)
    wait_until(lambda: len(logs.came) == 20)  # as far as the other is
    assert not any(each.late for each in handle.statistics().operators)
    handle.cancel()
    handle.wait_stopped()


def test_a_partition_that_was_found_holds_back_event_time_until_it_has_records(logs: Logs) -> None:
    logs.lists = {"p0": rows(0, 100)}
    read = LogSource(NAME, bounded=False, discover_seconds=0.01)
    handle = job(sunk(counted(source(read), None), columns=False), parallelism=1)
    wait_until(lambda: len(logs.came) == 9)
    logs.lists["p1"] = []
    wait_until(lambda: "p1" in logs.open)
    logs.lists["p0"] += rows(0, 100, start=100)
    polls = logs.polls
    wait_until(lambda: logs.polls > polls + 20)
    assert len(logs.came) == 9
    logs.lists["p1"] += rows(1, 10)
    wait_until(lambda: len(logs.came) == 19)
    handle.cancel()
    handle.wait_stopped()


@pytest.mark.parametrize("checkpoints", [False, True])
def test_partitions_are_told_what_is_final(logs: Logs, checkpoints: bool, tmp_path: Path) -> None:
    read = LogSource(NAME, bounded=False, discover_seconds=0.05, tells=True)
    settings: dict[str, Any] = {"parallelism": 2, "batch_size": 16}
    if checkpoints:
        settings |= {"checkpoints": str(tmp_path), "checkpoint_interval_seconds": 0.03}
    handle = job(sunk(source(read), columns=False), **settings)
    ends = {(name, len(each)) for name, each in logs.lists.items()}
    if checkpoints:
        wait_until(lambda: ends <= set(logs.committed))
        stop(handle, "here")
        assert not any(logs.open.values())
        return
    wait_until(lambda: len(logs.came) == len(logs.records()))
    assert logs.committed == []
    handle.cancel()
    handle.wait_stopped()
    assert logs.committed == []
    assert not any(logs.open.values())
    logs.ended = True
    run(sunk(source(LogSource(NAME, tells=True)), columns=False), parallelism=2)
    assert sorted(logs.committed) == sorted(ends)
    assert not any(logs.open.values())


def test_what_waits_in_front_of_the_source_is_a_metric(logs: Logs) -> None:
    handle = job(
        sunk(source(LogSource(NAME, bounded=False, rate=10)), columns=False),
        parallelism=2,
        batch_size=1,
    )
    wait_until(lambda: 400 < handle.statistics().lag_records <= len(logs.records()))
    handle.cancel()
    handle.wait_stopped()


@pytest.mark.parametrize("features", ["timers", "no timers"])
def test_a_source_that_is_idle_takes_little_time_and_ends_at_once(
    logs: Logs, features: str
) -> None:
    read = LogSource(NAME, bounded=False, discover_seconds=0.05)
    stream: Stream[Any] = source(read)
    if features == "timers":
        stream = counted(stream, timedelta(milliseconds=50))
    handle = job(sunk(stream, columns=False), parallelism=1)
    wait_until(lambda: sum(logs.open.values()) == 5 and logs.given == len(logs.records()))
    polls, began, cpu = logs.polls, time.monotonic(), time.process_time()
    wait_until(lambda: logs.polls > polls + 500)
    elapsed, spent = time.monotonic() - began, time.process_time() - cpu
    handle.cancel()
    handle.wait_stopped()
    assert spent < 0.5 * elapsed  # of all threads; a loop that does not wait takes all of it


@pytest.mark.table(2)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("parallelism", [(2, 3, 1), (1, 1, 2)])
def test_a_job_that_is_stopped_goes_on_at_any_parallelism(
    logs: Logs, form: str, parallelism: tuple[int, ...], tmp_path: Path
) -> None:
    columns = form != "list"
    read = LogSource(
        NAME, form=FORMS[form], bounded=False, discover_seconds=0.01, columns=columns, most=40
    )
    pipeline = sunk(source(read), columns)
    for number, tasks in enumerate(parallelism):
        handle = job(
            pipeline,
            parallelism=tasks,
            batch_size=7,
            checkpoints=str(tmp_path),
            checkpoint_interval_seconds=0.05,
            resume=f"s{number - 1}" if number else None,
        )
        logs.lists[f"p{10 + number}"] = rows(10 + number, 30)  # found while it runs
        wait_until(lambda: len(logs.came) == len(logs.records()))
        logs.lists["p1"] += rows(1, 40, start=len(logs.lists["p1"]))
        stop(handle, f"s{number}")
        logs.lists[f"p{20 + number}"] = rows(20 + number, 30)  # found when it goes on
    logs.ended, read.discover_seconds = True, None
    run(pipeline, checkpoints=str(tmp_path), resume="latest", parallelism=2)
    check(logs, logs.came)
