"""`with_event_time` takes encoded records as they are, wherever it stands among functions."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from engine.config import JobConfig, Native
from engine.job import JobHandle, JobResult
from engine.network import Batch
from engine.plan import Plan
from engine.testing.threads import ThreadLauncher
from operators import Count, Max, Stream, Tumbling, source
from operators.sinks import Collect
from operators.sources import Collection

ROWS = [{"key": f"k{n % 7}", "at": n * 10, "n": n * n % 101, "more": "x"} for n in range(600)]

FORMS: dict[str, Callable[[], Stream[Any]]] = {
    "records": lambda: source(Collection(ROWS)).with_parallelism(1),
    "encoded": lambda: source(Collection(ROWS)).with_parallelism(1).rebalance(),
    "columns": lambda: source(
        Collection([pa.RecordBatch.from_pylist(ROWS[at : at + 100]) for at in range(0, 600, 100)])
    ).with_parallelism(1),
    "encoded columns": lambda: (
        source(
            Collection(
                [pa.RecordBatch.from_pylist(ROWS[at : at + 100]) for at in range(0, 600, 100)]
            )
        )
        .with_parallelism(1)
        .rebalance()
    ),
}


def less(stream: Stream[Any]) -> Stream[Any]:
    return stream.map(lambda row: {"key": row["key"], "at": row["at"], "n": row["n"] + 1})


def some(stream: Stream[Any]) -> Stream[Any]:
    return stream.filter(lambda row: row["n"] > 10)


def timed(stream: Stream[Any]) -> Stream[Any]:
    return stream.with_event_time("at", unit="us", out_of_orderness=timedelta(microseconds=500))


def timed_by_function(stream: Stream[Any]) -> Stream[Any]:
    wait = timedelta(microseconds=500)
    return stream.with_event_time(lambda row: row["at"] + 0, unit="us", out_of_orderness=wait)


def in_python(stream: Stream[Any]) -> Stream[Any]:
    return stream.map(lambda row: {**row, "n": int(str(row["n"]).translate({}))})


ORDERS: dict[str, list[Callable[[Stream[Any]], Stream[Any]]]] = {
    "in front": [timed, less, some],
    "between": [less, timed, some],
    "behind": [less, some, timed],
    "behind, by a function": [less, some, timed_by_function],
    "twice": [timed, less, timed_by_function, some],
    "beside Python": [in_python, timed, less, some],
    "in front of Python": [less, timed, in_python, some],
    "alone": [timed],
}


def run(form: str, order: str, native: Native, parallelism: int) -> JobResult:
    stream = FORMS[form]()
    for step in ORDERS[order]:
        stream = step(stream)
    windows = stream.key_by("key").window(Tumbling(timedelta(milliseconds=1)), time="at")
    pipeline = windows.aggregate(n=Count(), most=Max("n")).sink(Collect())
    config = JobConfig.of(
        {"progress": "none", "native": native, "batch_size": 64, "parallelism": parallelism}
    )
    return JobHandle(Plan.of(pipeline, config), ThreadLauncher()).wait_finished()


def results(job: JobResult) -> list[str]:
    found = job.outputs["collect"]
    if found and isinstance(found[0], pa.RecordBatch):
        found = [row for batch in found for row in batch.to_pylist()]
    return sorted(map(repr, found))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("parallelism", [1, 2])
def test_windows_are_those_of_python(form: str, order: str, parallelism: int) -> None:
    expected = run(form, order, "off", parallelism)
    assert len(results(expected)) > 10
    for native in ("auto", "check"):
        found = run(form, order, native, parallelism)
        assert results(found) == results(expected)
        assert [(each.name, each.records_out) for each in found.statistics.operators] == [
            (each.name, each.records_out) for each in expected.statistics.operators
        ]


@pytest.mark.parametrize("form", ["records", "encoded"])
@pytest.mark.parametrize("order", ["in front", "between", "behind", "twice"])
def test_functions_on_both_sides_run_in_rust(form: str, order: str) -> None:
    found = run(form, order, "auto", 1)
    operators = [each for each in found.statistics.operators if each.name in ("map", "filter")]
    assert len(operators) == 2
    for each in operators:
        assert each.native == each.records_in, each.name


@pytest.mark.parametrize(("first", "step"), [(0, 1), (2, 3), (6, 4), (0, 100), (7, 1), (9, 2)])
def test_each_of_a_batch(first: int, step: int) -> None:
    records = [{"n": n} for n in range(7)]
    assert Batch.from_list(records).each(first, step) == records[first::step]
    parts = [(3, Batch.from_list(records[:3])), (4, Batch.from_list(records[3:]))]
    frames = [(count, b"".join(bytes_of(one) for one in each.apart())) for count, each in parts]
    assert Batch.from_frames(frames).each(first, step) == records[first::step]


def bytes_of(batch: Batch) -> bytes:
    _, (parts, *_) = batch.__reduce__()
    return b"".join(data for _, data in parts)


def test_columns_have_no_each() -> None:
    with pytest.raises(ValueError, match="columns"):
        Batch.from_columns(pa.record_batch({"n": [1]})).each(0, 1)
