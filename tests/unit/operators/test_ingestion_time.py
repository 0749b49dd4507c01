"""Records with the time at which they came."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import engine
from engine.errors import GraphError
from engine.graph.context import TaskContext
from engine.network import Paired
from engine.state import KeyedState
from engine.testing import run
from operators import Tumbling, source
from operators.event_time import WithIngestionTime
from operators.sinks import Collect
from operators.sources import Collection, Function
from tests.waiting import wait_until
from tests.watermarks import Told, out

pytestmark = pytest.mark.usefixtures("nothing_left")
Make = Callable[..., TaskContext]


def test_records_come_with_the_time_of_day_and_none_is_before_its_watermark() -> None:
    began_us = time.time_ns() // 1000
    told = out(source(Collection("abc")).with_ingestion_time().then(Told()))
    assert [name for name, _ in told if name != "W"] == ["a", "b", "c"]
    watermark = float("-inf")
    for name, time_us in told:
        assert time_us >= watermark + (name != "W")
        watermark = time_us if name == "W" else watermark
    assert abs(told[0][1] - began_us) < 60_000_000


def test_a_batch_has_one_time_which_is_where_the_clock_of_the_task_is(task: Make) -> None:
    now_ns = 5_000

    def clock() -> int:
        return now_ns

    given = WithIngestionTime().open(_at(task(), clock))
    first = given.process(["a", "b"])
    assert type(first) is Paired
    assert len(first) == 2
    ((_, begun),) = {(None, time_us) for _, time_us in first.to_list()}
    assert [word for word, _ in first.to_list()] == ["a", "b"]
    assert _told(given) == begun - 1
    now_ns += 1_999_000
    assert given.process(["c"]).to_list() == [("c", begun + 1_999)]
    assert given.watermark is None  # they are 2 ms apart
    now_ns += 1_000
    assert given.process([]) == []
    assert given.process(["d"]).to_list() == [("d", begun + 2_000)]
    assert _told(given) == begun + 1_999


def test_time_goes_on_where_nothing_comes(task: Make) -> None:
    now_ns = 0

    def clock() -> int:
        return now_ns

    given = WithIngestionTime().open(_at(task(), clock))
    ((_, begun),) = given.process(["a"]).to_list()
    for _ in range(3):
        now_ns = given.next_timer
        given.watermark = None
        given.on_timer(now_ns)
        assert _told(given) == begun + now_ns // 1000 - 1
    assert now_ns == 60_000_000


def test_time_does_not_go_back_behind_a_checkpoint(task: Make) -> None:
    given = WithIngestionTime().open(task())
    far = time.time_ns()
    state = KeyedState.of((), own=(1, [far]))
    given.restore(state)
    assert given.process(["a"]).to_list() == [("a", far)]
    assert list(given.snapshot().own) == [[far]]


@pytest.mark.parametrize("parallelism", [1, 3])
def test_windows_go_by_it(parallelism: int) -> None:
    words = [f"{number % 7}" for number in range(1000)]
    timed = source(Collection(words)).with_ingestion_time()
    windows = timed.key_by(0).window(Tumbling(timedelta(days=100_000)))
    pipelines = [windows.count().sink(Collect()).named("counts")]
    pipelines.append(windows.collect().sink(Collect()).named("lists"))
    result = run(pipelines, parallelism=parallelism)
    expected = {word: words.count(word) for word in words}
    assert {word: count for word, count, *_ in result["counts"]} == expected
    lists = {word: [first for first, _ in pairs] for word, pairs, *_ in result["lists"]}
    assert lists == {word: [word] * count for word, count in expected.items()}


@pytest.mark.parametrize("key", [1, lambda pair: pair[0]])
def test_other_keys_are_found_in_the_pairs(key: Any) -> None:
    timed = source(Collection(range(100))).with_ingestion_time()
    pairs = run(timed.key_by(key).map_batches(list).sink(Collect()), parallelism=3)["collect"]
    assert sorted(_flat(pairs)) == list(range(100))


def test_operators_behind_it_in_its_task_get_a_list_of_tuples() -> None:
    def kinds(batch: Any) -> list[Any]:
        return [(type(batch).__name__, type(each).__name__, each[0]) for each in batch]

    stream = source(Collection("ab")).with_ingestion_time().map_batches(kinds)
    assert out(stream) == [("list", "tuple", "a"), ("list", "tuple", "b")]


def test_a_window_ends_though_its_source_brings_nothing_more(tmp_path: Path) -> None:
    came = tmp_path / "came"

    def given() -> Iterator[Any]:
        yield "a"
        wait_until(came.exists)

    def note(results: list[Any]) -> list[Any]:
        if results:
            came.touch()
        return results

    timed = source(Function(given)).with_ingestion_time()
    windows = timed.key_by(0).window(Tumbling(timedelta(milliseconds=5))).count()
    results = run(windows.map_batches(note).sink(Collect()))["collect"]
    assert [(word, count) for word, count, *_ in results] == [("a", 1)]


def test_where_it_cannot_stand() -> None:
    words = source(Collection("ab"))
    with pytest.raises(GraphError, match=r"\.with_ingestion_time\(\) follows \.key_by\(\)"):
        words.key_by().map_batches(list).with_ingestion_time()
    with pytest.raises(GraphError, match="expected it in those of its source"):
        engine.execute(words.rebalance().with_ingestion_time().sink(Collect()), progress="none")


def _at(context: TaskContext, now_ns: Callable[[], int]) -> TaskContext:
    return replace(context, now_ns=now_ns)


def _told(function: Any) -> int | None:
    told, function.watermark = function.watermark, None
    return None if told is None else told.time_us


def _flat(pairs: list[Any]) -> list[Any]:
    return [pair[-1][0] if isinstance(pair[-1], tuple) else pair[0] for pair in pairs]


ROWS = pa.record_batch({"key": ["a", "b", "a"]})


def test_columns_get_a_column_of_the_time(task: Make) -> None:
    now_ns = 5_000

    def clock() -> int:
        return now_ns

    given = WithIngestionTime("arrived").open(_at(task(), clock))
    first = given.process(ROWS)
    assert first.schema.field("arrived").type == pa.timestamp("us", "UTC")
    (begun,) = set(first["arrived"].cast(pa.int64()).to_pylist())
    assert _told(given) == begun - 1
    now_ns += 3_000_000
    assert set(given.process(ROWS)["arrived"].cast(pa.int64()).to_pylist()) == {begun + 3_000}
    assert given.process(ROWS.slice(0, 0)).schema == first.schema
    assert given.process([]) == []


def test_windows_of_processing_time_over_columns() -> None:
    columns = source(Collection([ROWS, ROWS])).with_ingestion_time("arrived").key_by("key")
    counts = columns.window(Tumbling(timedelta(days=36500))).count().to_records()
    found = run(counts.sink(Collect()), parallelism=2)["collect"]
    assert sorted((row["key"], row["count"]) for row in found) == [("a", 4), ("b", 2)]


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([{"key": "a"}], "got records, expected columns"),
        ([ROWS.rename_columns(["arrived"])], "has"),
    ],
)
def test_a_column_of_the_time_that_does_not_fit(records: list[Any], message: str) -> None:
    with pytest.raises(engine.OperatorError, match=message):
        run(source(Collection(records)).with_ingestion_time("arrived").sink(Collect()))


@pytest.mark.parametrize("column", ["", 3])
def test_the_name_of_a_column_of_the_time(column: Any) -> None:
    with pytest.raises(GraphError, match="expected the name of a new column"):
        source(Collection([])).with_ingestion_time(column)
