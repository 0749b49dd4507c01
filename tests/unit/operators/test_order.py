"""sort_by_time and deduplicate: in jobs, of records and of columns; Flink's cases."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import engine
from engine.graph import TaskContext
from engine.testing import VirtualClock, run
from operators import Stream, Tumbling, source
from operators.event_time import TimeSelector
from operators.order.deduplicate import Deduplicate
from operators.sinks import Collect
from operators.sources import Collection, Function
from tests.halves import Halves, run_half, run_rest

pytestmark = pytest.mark.usefixtures("nothing_left")

parallelism = pytest.mark.parametrize("parallelism", [1, 2, 3])
forms = pytest.mark.parametrize("form", ["records", "columns"])
US = timedelta(microseconds=1)


def streamed(records: list[Any], form: str, names: tuple[str, ...]) -> Stream[Any]:
    """The records as dicts by these names, or as batches of columns of a few rows."""
    rows = [dict(zip(names, record, strict=True)) for record in records]
    if form == "records":
        return source(Collection(rows)).with_parallelism(1)
    batches = [pa.RecordBatch.from_pylist(rows[at : at + 3]) for at in range(0, len(rows), 3)]
    return source(Collection(batches)).with_parallelism(1)


def collected(stream: Stream[Any], form: str, **settings: Any) -> list[Any]:
    """The values of records, or of rows."""
    stream = stream.to_records() if form == "columns" else stream
    return [tuple(row.values()) for row in run(stream.sink(Collect()), **settings)["collect"]]


# --- Flink's DeduplicateITCase (apache/flink, Apache-2.0), as data: all of its 6 tests. Two read
# the time of processing in another way. Of changes that take rows back, here is what is left. ---

TUPLES = [
    *((1, 1, "Hi"), (2, 2, "Hello"), (3, 2, "Hello world"), (4, 3, "Hello world, how are you?")),
    *((5, 3, "I am fine."), (6, 3, "Luke Skywalker")),
    *((6 + n, 4, f"Comment#{n}") for n in range(1, 5)),
    *((6 + n, 5, f"Comment#{n}") for n in range(5, 10)),
    *((6 + n, 6, f"Comment#{n}") for n in range(10, 16)),
]
ROWTIME = [
    *((1, 1, "Hi"), (1, 3, "Hello"), (1, 2, "Hello world"), (2, 3, "I am fine.")),
    *((2, 6, "Comment#1"), (3, 5, "Comment#2"), (3, 4, "Comment#2"), (4, 4, "Comment#3")),
]
FLINK = {
    "{FirstRow}On{,Builtin}Proctime": (
        *(TUPLES, "b", "first", False),
        [
            *((1, 1, "Hi"), (2, 2, "Hello"), (4, 3, "Hello world, how are you?")),
            *((7, 4, "Comment#1"), (11, 5, "Comment#5"), (16, 6, "Comment#10")),
        ],
    ),
    "{LastRow}On{,Builtin}Proctime": (
        *(TUPLES, "b", "last", False),
        [
            *((1, 1, "Hi"), (3, 2, "Hello world"), (6, 3, "Luke Skywalker")),
            *((10, 4, "Comment#4"), (15, 5, "Comment#9"), (21, 6, "Comment#15")),
        ],
    ),
    "FirstRowOnRowtime": (
        *(ROWTIME, "a", "first", True),
        [(1, 1, "Hi"), (2, 3, "I am fine."), (3, 4, "Comment#2"), (4, 4, "Comment#3")],
    ),
    "LastRowOnRowtime": (
        *(ROWTIME, "b", "last", True),
        [
            *((1, 1, "Hi"), (2, 3, "I am fine."), (1, 2, "Hello world"), (2, 6, "Comment#1")),
            *((3, 5, "Comment#2"), (4, 4, "Comment#3")),
        ],
    ),
}


@forms
@pytest.mark.parametrize("name", FLINK)
def test_flink_deduplicate(name: str, form: str) -> None:
    records, key, keep, by_time, expected = FLINK[name]
    rows = streamed(records, form, ("a", "b", "c"))
    if by_time:
        rows = rows.with_event_time("b", out_of_orderness=timedelta(hours=1))
        rows = rows.key_by(key).sort_by_time()
    found = collected(rows.key_by(key).deduplicate(keep), form, parallelism=2)
    assert sorted(found) == sorted(expected)


# --- in jobs ----------------------------------------------------------------------------------

RECORDS = [(f"k{n % 5}", (n * 37) % 101 + n, n) for n in range(150)]
"""At most some 100 µs out of order."""


def as_columns(rows: list[Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows)


def timed(form: str, records: list[Any] = RECORDS, out_of_orderness: int = 101) -> Stream[Any]:
    rows = streamed(records, form, ("k", "at", "n"))
    return rows.with_event_time("at", out_of_orderness=out_of_orderness * US)


@parallelism
@forms
@pytest.mark.parametrize("keyed", ["item", "function"])
def test_records_of_a_key_are_sorted(form: str, keyed: str, parallelism: int) -> None:
    if keyed == "function" and form == "columns":
        return
    key: Any = "k" if keyed == "item" else lambda row: (row["k"], 1)
    stream = timed(form).key_by(key).sort_by_time()
    found = collected(stream, form, parallelism=parallelism, batch_size=7)
    for key in {record[0] for record in RECORDS}:
        own = [record for record in RECORDS if record[0] == key]
        assert [each for each in found if each[0] == key] == sorted(own, key=lambda each: each[1])


@forms
def test_late_records_go_to_their_output(form: str) -> None:
    records = [("a", 10, 0), ("a", 30, 1), ("a", 5, 2), ("b", 31, 3), ("a", 29, 4)]
    for stream in (
        timed(form, records, 0).key_by("k").sort_by_time(),
        timed(form, records, 0).key_by("k").deduplicate(within=US),
        timed(form, records, 0).key_by("k").deduplicate("last", within=US),
    ):
        late = stream.side("late")
        if form == "columns":
            stream, late = stream.to_records(), late.to_records()
        found = run(
            [stream.sink(Collect()), late.sink(Collect()).named("late")],
            clock=VirtualClock(),
            batch_size=1,
        )
        everything = [row["n"] for row in found["collect"] + found["late"]]
        assert sorted(everything) == [0, 1, 2, 3, 4]
        assert {row["n"] for row in found["late"]} <= {2, 4}


@forms
def test_windows_behind_have_no_late_records(form: str) -> None:
    """What waits comes in front of watermarks that are early enough."""
    for stream in (
        timed(form).key_by("k").sort_by_time(),
        timed(form).key_by("k").deduplicate("last", within=20 * US),
        timed(form).key_by("k").deduplicate(within=20 * US),
    ):
        counted = stream.key_by("k").window(Tumbling(10 * US)).count()
        late = counted.side("late")
        if form == "columns":
            stream, late = stream.to_records(), late.to_records()
        else:
            stream = stream.map(lambda row: row)
        found = run(
            [
                counted.sink(Collect()).named("windows"),
                late.sink(Collect()).named("late"),
                stream.sink(Collect()).named("all"),
            ],
            batch_size=5,
            parallelism=2,
        )
        assert found["late"] == []
        assert found["all"]


@pytest.mark.table(2)
@forms
@pytest.mark.parametrize("keep", ["first", "last"])
@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 2)])
def test_it_goes_on_in_any_number_of_tasks(
    tmp_path: Path, form: str, keep: Any, before: int, after: int
) -> None:
    rows = [dict(zip(("k", "at", "n"), record, strict=True)) for record in RECORDS]
    batch = as_columns if form == "columns" else list
    halves = Halves(rows, 70, batch)
    stream = source(halves).with_event_time("at", out_of_orderness=101 * US)
    stream = stream.key_by("k").sort_by_time().key_by("k").deduplicate(keep, within=30 * US)
    stream = stream.to_records() if form == "columns" else stream
    pipeline = stream.sink(Collect())
    run_half(pipeline, tmp_path, halves, parallelism=before)
    found = [row["n"] for row in run_rest(pipeline, tmp_path, parallelism=after)["collect"]]
    expected = []
    for key in {record[0] for record in RECORDS}:
        groups: list[list[Any]] = []
        for record in sorted((r for r in RECORDS if r[0] == key), key=lambda r: r[1]):
            if groups and record[1] < groups[-1][0][1] + 30:
                groups[-1].append(record)
            else:
                groups.append([record])
        expected += [group[0 if keep == "first" else -1][2] for group in groups]
    assert sorted(found) == sorted(expected)


KEYS: dict[str, Any] = {
    "texts": pa.array(["a", None, "b", "a", None, "b"]),
    "views": pa.array(["a", None, "b", "a", None, "b"], pa.string_view()),
    "dictionary": pa.array(["a", None, "b", "a", None, "b"]).dictionary_encode(),
    "integers": pa.array([1, None, 2, 1, None, 2], pa.int8()),
    "floats": pa.array([0.0, float("nan"), 1.5, -0.0, float("nan"), 1.5]),
    "bools": pa.array([True, None, False, True, None, False]),
    "dates": pa.array([1, None, 2, 1, None, 2], pa.date32()),
    "moments": pa.array([1000, None, 2000, 1000, None, 2000], pa.timestamp("ns", "UTC")),
}


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("keep", ["first", "last"])
def test_keys_of_columns(kind: str, keep: Any) -> None:
    """Also in a state that goes on, in batches that have dictionaries of their own."""
    batch = pa.record_batch({"k": KEYS[kind], "n": range(6), "text": [f"t{n}" for n in range(6)]})
    parts = [batch.slice(at, 1) for at in range(6)]
    keyed = source(Collection(parts)).with_parallelism(1).key_by("k")
    found = run(keyed.deduplicate(keep).to_records().sink(Collect()), parallelism=2)["collect"]
    assert sorted(row["n"] for row in found) == ([0, 1, 2] if keep == "first" else [3, 4, 5])
    assert all(row["text"] == f"t{row['n']}" for row in found)

    def opened(before: Any = None) -> Any:
        operator = Deduplicate("k", False, keep, None, None)
        function = operator.open(TaskContext("t", 0, 1, 100, "job"))
        if before is not None:
            function.restore(before.snapshot())
        return function

    function, rows = opened(), []
    for part in parts:
        rows += [each for each in [function.process(part)] if len(each)]
        function = opened(function)
    rows += list(function.on_end())
    assert sorted(n for each in rows for n in each["n"].to_pylist()) == (
        [0, 1, 2] if keep == "first" else [3, 4, 5]
    )


def test_times_of_columns_are_of_any_kind() -> None:
    moments = [datetime(2026, 1, 1, 0, minute, tzinfo=timezone.utc) for minute in (5, 1, 3)]
    rows = pa.record_batch({"k": ["a"] * 3, "at": moments, "n": range(3)})
    timed = source(Collection([rows])).with_event_time("at", out_of_orderness=timedelta(hours=1))
    for stream, expected in (
        (timed.key_by("k").sort_by_time(), [1, 2, 0]),
        (timed.key_by("k").deduplicate(within=timedelta(minutes=3)), [0, 1]),
    ):
        found = run(stream.to_records().sink(Collect()))["collect"]
        assert [row["n"] for row in found] == expected
        assert list(found[0]) == ["k", "at", "n"]


def test_odd_keys_of_records() -> None:
    nan = float("nan")
    keys = [None, True, 1.0, nan, -nan, "1", (1, nan), (1.0, nan), -5, 2**70, float(2**70)]
    out = source(Collection([(key,) for key in keys])).key_by(0).deduplicate()
    assert len(run(out.sink(Collect()), parallelism=3)["collect"]) == 7


def test_a_key_whose_groups_have_passed_is_forgotten() -> None:
    operator = Deduplicate(0, False, "first", timedelta(microseconds=5), TimeSelector(1))
    function: Any = operator.open(TaskContext("t", 0, 1, 100, "job"))
    for start in range(0, 30_000, 1000):
        function.process([(f"k{n}", n, n) for n in range(start + 1, start + 1001)])
        list(function.on_watermark(start + 1000))
    assert len(function._groups) <= 5
    assert len(function._rows.numbers.of_numbers) < 5000


def test_rows_that_are_held_no_more_go() -> None:
    operator = Deduplicate("k", False, "last", None, None)
    function: Any = operator.open(TaskContext("t", 0, 1, 100_000, "job"))
    for n in range(40):
        function.process(pa.record_batch({"k": range(5000), "n": [n] * 5000}))
    assert function._rows._rows < 2 * (1 << 16)
    (rows,) = function.on_end()
    assert rows.to_pydict() == {"k": list(range(5000)), "n": [39] * 5000}


@forms
def test_no_records(form: str) -> None:
    empty: list[Any] = []
    rows = [pa.record_batch({"k": empty, "at": pa.array(empty, pa.int64())})]
    stream: Stream[Any] = source(Collection(empty if form == "records" else rows))
    keyed = stream.with_event_time("at").key_by("k")
    for each in (keyed.sort_by_time(), keyed.deduplicate(), keyed.deduplicate("last", within=US)):
        each = each.to_records() if form == "columns" else each
        assert run(each.sink(Collect()))["collect"] == []


def test_a_record_without_a_time() -> None:
    records = [("a", 2), ("a", None), ("a", 1)]
    keyed = source(Collection(records)).key_by(0)
    out = keyed.sort_by_time(time=1, on_error="side")
    found = run([out.sink(Collect()), out.side("errors").sink(Collect()).named("bad")])
    assert found["collect"] == [("a", 1), ("a", 2)]
    assert [record for record, _ in found["bad"]] == [("a", None)]
    with pytest.raises(engine.OperatorError) as caught:
        run(keyed.deduplicate(within=US, time=1).sink(Collect()))
    assert (caught.value.operator, caught.value.record) == ("deduplicate", "('a', None)")
    rows = pa.record_batch({"k": ["a", "b"], "at": [1, None]})
    columns = source(Collection([rows])).key_by("k").deduplicate(within=US, time="at")
    with pytest.raises(engine.OperatorError, match="deduplicate"):
        run(columns.sink(Collect()))


def test_what_cannot_work_is_refused() -> None:
    keyed = source(Collection([("a", 1)])).key_by(0)
    refused: list[tuple[Any, str]] = [
        (lambda: keyed.deduplicate("any"), "keep='any', expected 'first' or 'last'"),
        (lambda: keyed.deduplicate(within=5), r"within is 5, expected a timedelta"),
        (lambda: keyed.deduplicate(within=timedelta(0)), "expected more than 0"),
        (lambda: keyed.deduplicate(time=1), "time=1 without within, expected both or neither"),
        (lambda: keyed.deduplicate(within=US), r"deduplicate\(\) needs the time of each record"),
        (lambda: keyed.sort_by_time(), r"sort_by_time\(\) needs the time of each record"),
        (lambda: keyed.sort_by_time(time=1, unit="h"), "unit='h', expected one of"),
        (lambda: keyed.sort_by_time(time=1, on_error="no"), "on_error='no'"),
        (lambda: source(Collection([1])).deduplicate(), "needs to know what the key"),
    ]
    for call, message in refused:
        with pytest.raises(engine.GraphError, match=message):
            call()


def test_records_and_columns_mix_where_records_are_dicts() -> None:
    rows = source(Collection([pa.record_batch({"k": ["a"]})]))
    records = source(Collection([{"k": "a"}, {"k": "b"}]))
    both = rows.union(records).key_by("k").deduplicate().to_records()
    found = run(both.sink(Collect()))["collect"]
    assert sorted(row["k"] for row in found) == ["a", "b"]
    pairs = source(Function(lambda: iter([pa.record_batch({"k": ["a"]}), [("a", 1)]])))
    with pytest.raises(engine.OperatorError, match=r"records came behind columns: .* got tuple"):
        run(pairs.key_by("k").deduplicate().sink(Collect()), parallelism=1)
    day = {"k": date(2026, 1, 1)}
    days = source(Function(lambda: iter([[day], pa.RecordBatch.from_pylist([day])])))
    with pytest.raises(engine.OperatorError, match="by which both are divided differently"):
        run(days.key_by("k").top_n(1, "k").sink(Collect()), parallelism=1)
    with pytest.raises(engine.OperatorError, match="are divided differently"):
        run(days.key_by("k").count().sink(Collect()), parallelism=1)
    with pytest.raises(engine.OperatorError, match="expected names of columns for the key"):
        run(
            source(Collection([pa.record_batch({"k": ["a"]})]))
            .key_by()
            .deduplicate()
            .sink(Collect())
        )
