"""Functions that combine rows of many keys at once: in jobs, and from task to tasks."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from engine.errors import GraphError, OperatorError
from engine.graph.batch_operator import BatchFunction
from engine.graph.context import TaskContext
from engine.network import partition
from engine.state import KeyedState
from engine.testing import run
from operators import Stream, reduce_batches, source
from operators.reduce_batches import ReduceBatches
from operators.sinks import Collect
from operators.sources import Collection

Row = dict[str, Any]


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the function called as often as it would be with many rows."""
    monkeypatch.setattr(reduce_batches, "_MANY", 16)


def two_greatest(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Of each key the two rows with the greatest n, in order."""
    rows = rows.sort_by([("n", "descending")])
    had: dict[Any, int] = {}
    places = []
    for place, key in enumerate(zip(*(rows[name].to_pylist() for name in KEY), strict=True)):
        had[key] = had.get(key, 0) + 1
        if had[key] <= 2:
            places.append(place)
    return rows.take(pa.array(places, pa.int64()))


KEY = ("word", "day")


def some_rows(count: int) -> list[Row]:
    random.seed(count)
    words = ["ann", "bob", None, "eve"]
    days = [1, 2, None]
    return [
        {"word": random.choice(words), "day": random.choice(days), "n": n}
        for n in random.sample(range(10 * count), count)
    ]


def batch_of(rows: list[Row], encoded: bool = False) -> pa.RecordBatch:
    words = pa.array([row["word"] for row in rows], pa.string())
    columns = {"word": words.dictionary_encode() if encoded else words}
    return pa.record_batch(
        {
            **columns,
            **{name: pa.array([r[name] for r in rows], pa.int64()) for name in ("day", "n")},
        }
    )


def greatest(rows: list[Row], most: int = 2) -> list[Row]:
    """The same by plain Python."""
    found: dict[Any, list[Row]] = {}
    for row in sorted(rows, key=lambda row: -row["n"]):
        found.setdefault((row["word"], row["day"]), []).append(row)
    return [row for of in found.values() for row in of[:most]]


def in_order(rows: list[Row]) -> list[str]:
    return sorted(map(repr, rows))


def reduced(rows: list[Row], emit: Any, encoded: bool = False) -> Stream[Any]:
    batches = [batch_of(rows[at : at + 50], encoded) for at in range(0, len(rows), 50)]
    stream = source(Collection([*batches, batch_of([], encoded)])).with_parallelism(1)
    return stream.key_by(*KEY).reduce_batches(two_greatest, emit=emit)


@pytest.mark.parametrize("encoded", [False, True])
@pytest.mark.parametrize(("parallelism", "batch_size"), [(1, 1), (2, 7), (3, 1000)])
def test_what_is_left_at_the_end(parallelism: int, batch_size: int, encoded: bool) -> None:
    rows = some_rows(300)
    stream = reduced(rows, "final", encoded)
    settings = {"parallelism": parallelism, "batch_size": batch_size}
    found = run(stream.sink(Collect()), **settings)["collect"]
    batches = [batch.to_pylist() for batch in found]
    assert in_order([row for rows in batches for row in rows]) == in_order(greatest(rows))
    keys = [{(row["word"], row["day"]) for row in rows} for rows in batches]
    assert sum(map(len, keys)) == len(set().union(*keys))  # all rows of a key in one
    for of in batches:
        assert of == [row for key in dict.fromkeys(map(key_of, of)) for row in of_key(of, key)]


def key_of(row: Row) -> Any:
    return row["word"], row["day"]


def of_key(rows: list[Row], key: Any) -> list[Row]:
    return sorted((row for row in rows if key_of(row) == key), key=lambda row: -row["n"])


@pytest.mark.parametrize("encoded", [False, True])
@pytest.mark.parametrize("batch_size", [1, 7, 1000])
def test_each_batch_gives_what_is_left_of_its_keys(batch_size: int, encoded: bool) -> None:
    rows, given, wanted = some_rows(200), [], []
    function = ReduceBatches(two_greatest, KEY).open(context())
    for at in range(0, len(rows), batch_size):
        batch = rows[at : at + batch_size]
        given.append(in_order(function.process(batch_of(batch, encoded)).to_pylist()))
        so_far = [row for row in rows[: at + batch_size] if key_of(row) in set(map(key_of, batch))]
        wanted.append(in_order(greatest(so_far)))
    assert given == wanted
    assert list(function.on_end() or ()) == []


def test_updates_in_a_job() -> None:
    rows = some_rows(300)
    found = run(reduced(rows, "updates").to_records().sink(Collect()), parallelism=3)["collect"]
    assert {repr(row) for row in greatest(rows)} <= set(map(repr, found))


@pytest.mark.parametrize("emit", ["updates", "final"])
@pytest.mark.parametrize("tasks", [(1, 3), (3, 1), (2, 5)])
def test_other_tasks_go_on(emit: Any, tasks: tuple[int, int]) -> None:
    for count in (0, 1, 40, 200):
        rows = some_rows(count)
        functions = opened(emit, tasks[0], [])
        found = given(functions, rows[: count // 2])
        functions = opened(emit, tasks[1], [each.snapshot() for each in functions])
        found += given(functions, rows[count // 2 :])
        found += [
            row for each in functions for batch in each.on_end() or () for row in rows_of(batch)
        ]
        left = {repr(row): row for row in found}  # what was left once may come again
        assert in_order(greatest(list(left.values()))) == in_order(greatest(rows))
        if emit == "final":
            assert len(found) == len(left) == len(greatest(rows))


def given(functions: list[BatchFunction], rows: list[Row]) -> list[Row]:
    """What tasks give of these rows, ten at a time."""
    found: list[Row] = []
    for at in range(0, len(rows), 10):
        chosen = partition([key_of(row) for row in rows[at : at + 10]], len(functions))
        for index, function in enumerate(functions):
            own = [r for r, to in zip(rows[at : at + 10], chosen, strict=True) if to == index]
            found += rows_of(function.process(batch_of(own)))
    return found


def rows_of(batch: Any) -> list[Row]:
    return batch.to_pylist() if len(batch) else []


def context(index: int = 0, parallelism: int = 1) -> TaskContext:
    return TaskContext("t", index, parallelism, 1000, "job")


def opened(emit: Any, parallelism: int, states: list[Any]) -> list[BatchFunction]:
    functions = []
    for index in range(parallelism):
        function = ReduceBatches(two_greatest, KEY, emit).open(context(index, parallelism))
        if states:
            function.restore(KeyedState.share(states, index, parallelism))
        functions.append(function)
    return functions


@pytest.mark.parametrize("emit", ["updates", "final"])
def test_keys_of_which_nothing_is_left(emit: Any) -> None:
    def large(rows: pa.RecordBatch) -> pa.RecordBatch:
        return rows.filter(pc.equal(rows["n"], 9))

    batches = [pa.record_batch({"word": [str(n), "b"], "n": [3, 9 - n]}) for n in range(5000)]
    function = ReduceBatches(large, "word", emit).open(context())
    for batch in batches:
        function.process(batch)
    assert len(function.snapshot().entries) == 1
    if emit == "updates":
        assert len(function._numbers._numbers) < 4000  # type: ignore[attr-defined]
    nothing = ReduceBatches(large, "word", emit).open(context())
    nothing.process(batches[1])
    assert len(nothing.snapshot().entries) == 0
    assert list(nothing.on_end() or ()) == []


def test_a_table_is_what_a_function_may_return() -> None:
    rows = some_rows(100)
    stream = source(Collection([batch_of(rows)])).key_by(*KEY)
    found = stream.reduce_batches(lambda of: pa.table(two_greatest(of)), emit="final").to_records()
    assert in_order(run(found.sink(Collect()))["collect"]) == in_order(greatest(rows))


def test_what_cannot_work_is_told() -> None:
    rows = batch_of(some_rows(20))
    stream = source(Collection([rows]))
    with pytest.raises(GraphError, match="expected 'updates' or 'final'"):
        stream.key_by("day").reduce_batches(two_greatest, emit="last")  # type: ignore[arg-type]
    for keyed in (stream.key_by(), stream.key_by(lambda row: row)):
        with pytest.raises(GraphError, match="follows key_by\\(\\) with a function or nothing"):
            keyed.reduce_batches(two_greatest)
    with pytest.raises(GraphError, match="expected a function of 1 argument"):
        stream.key_by("day").reduce_batches(lambda a, b: a)  # type: ignore[arg-type,misc]
    for emit in ("updates", "final"):

        def told(of: Stream[Any], function: Any, key: str = "day", emit: Any = emit) -> str:
            with pytest.raises(OperatorError) as caught:
                run(of.key_by(key).reduce_batches(function, emit=emit).sink(Collect()))
            return str(caught.value)

        assert "got dict, expected columns" in told(stream.to_records(), two_greatest)
        assert "returned NoneType None, expected a pyarrow.RecordBatch" in told(
            stream, lambda _: None
        )
        assert "returned columns n int64, expected word string, day int64, n int64" in told(
            stream, lambda of: of.select(["n"])
        )
        assert "ZeroDivisionError" in told(stream, lambda _: 1 / 0)
        assert "'id'" in told(stream, two_greatest, "id")
