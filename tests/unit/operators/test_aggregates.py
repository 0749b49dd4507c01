"""Aggregations of statistics, bools, bits, all values, and about: with and without a key."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import engine
from engine.config import JobConfig
from engine.errors import GraphError
from engine.graph.batch_operator import BatchOperator
from engine.graph.context import TaskContext
from engine.network import AggregateError, Batch, partition
from engine.plan import Plan
from engine.state import KeyedState
from engine.testing import run
from operators import (
    Accumulator,
    ApproxCountDistinct,
    ApproxQuantile,
    ApproxQuantiles,
    Array,
    BitAnd,
    BitOr,
    BitXor,
    BoolAnd,
    BoolOr,
    Correlation,
    Count,
    CountDistinct,
    CountWindow,
    Covariance,
    First,
    Last,
    Max,
    Mean,
    Min,
    Quantile,
    Quantiles,
    Regression,
    Session,
    Sliding,
    Stddev,
    Stream,
    Sum,
    Top,
    Tumbling,
    Variance,
    source,
)
from operators.sinks import Collect
from operators.sources import Collection

pytestmark = pytest.mark.usefixtures("nothing_left")

ROWS = [
    {"k": key, "n": n, "x": x, "ok": ok, "t": text, "at": at}
    for at, (key, n, x, ok, text) in enumerate(
        [
            ("a", 6, 1.5, True, "p"),
            ("b", -1, 0.5, False, "q"),
            ("a", 3, 2.5, True, "r"),
            ("a", 12, 7.0, False, "p"),
            ("b", 4, 1.0, None, "q"),
            ("a", 3, 2.0, True, "s"),
            ("c", 5, 4.0, False, "z"),
        ]
    )
]
LINE = {"slope": 28.5 / 19.25, "intercept": 6 - 28.5 / 19.25 * 3.25, "r2": 28.5**2 / 19.25 / 54}
LINE |= {"count": 4, "avg_y": 6.0, "avg_x": 3.25, "syy": 54.0, "sxx": 19.25, "sxy": 28.5}
OF_A: dict[str, tuple[Any, Any]] = {
    "variance": (Variance("n"), 18.0),
    "variance of all": (Variance("n", population=True), 13.5),
    "stddev": (Stddev("n"), math.sqrt(18)),
    "stddev of all": (Stddev("n", population=True), math.sqrt(13.5)),
    "covariance": (Covariance("n", "x"), 28.5 / 3),
    "covariance of all": (Covariance("n", "x", population=True), 28.5 / 4),
    "correlation": (Correlation("n", "x"), 28.5 / math.sqrt(54 * 19.25)),
    "regression": (Regression("n", "x"), LINE),
    "all": (BoolAnd("ok"), False),
    "any": (BoolOr("ok"), True),
    "bit and": (BitAnd("n"), 0),
    "bit or": (BitOr("n"), 15),
    "bit xor": (BitXor("n"), 10),
    "array": (Array("t"), ["p", "r", "p", "s"]),
    "distinct": (ApproxCountDistinct("t"), 3),
    "quantile": (Quantile("n", 0.5), 4.5),
    "about a quantile": (ApproxQuantile("n", 1), 12.0),
    "about quantiles": (ApproxQuantiles("n", [0, 1]), [3.0, 12.0]),
    "where": (Sum("n", where="ok"), 12),
    "count where": (Count(where="ok"), 3),
    "array where": (Array("t", where="ok"), ["p", "r", "s"]),
    "variance where": (Variance("n", where="ok"), 3.0),
    "correlation where": (Correlation("n", "n", where="ok"), 1.0),
}
NONE_OF_C: dict[str, tuple[Any, Any]] = {
    "count": (Count(where="ok"), 0),
    "sum": (Sum("n", where="ok"), None),
    "min": (Min("t", where="ok"), None),
    "max": (Max("n", where="ok"), None),
    "mean": (Mean("n", where="ok"), None),
    "first": (First("n", where="ok"), None),
    "last": (Last("n", where="ok"), None),
    "distinct": (CountDistinct("n", where="ok"), 0),
    "quantile": (Quantile("n", where="ok"), None),
    "quantiles": (Quantiles("n", where="ok"), []),
    "top": (Top("n", where="ok"), []),
    "array": (Array("n", where="ok"), []),
    "variance": (Variance("n", where="ok"), None),
    "variance of one": (Variance("n"), None),
    "variance of one of all": (Variance("n", population=True), 0.0),
    "correlation": (Correlation("n", "x"), None),
    "bool": (BoolAnd("ok", where="ok"), None),
    "bit": (BitXor("n", where="ok"), None),
    "about distinct": (ApproxCountDistinct("n", where="ok"), 0),
    "about a quantile": (ApproxQuantile("n", where="ok"), None),
    "about quantiles": (ApproxQuantiles("n", where="ok"), []),
}
FORMS = ("records", "columns", "dictionaries")


def given(form: str, rows: list[dict[str, Any]] = ROWS, size: int = 2) -> Stream[Any]:
    if form == "records":
        return source(Collection(rows)).with_parallelism(1)
    table = pa.Table.from_pylist(rows)
    batches = table.to_batches(max_chunksize=size)
    if form == "dictionaries":
        batches = [
            pa.RecordBatch.from_arrays(
                [c if pa.types.is_boolean(c.type) else c.dictionary_encode() for c in each.columns],
                names=each.schema.names,
            )
            for each in batches
        ]
    return source(Collection(batches)).with_parallelism(1)


def last_of(stream: Stream[Any], key: str | None = "k", **settings: Any) -> dict[Any, Any]:
    """The last value of each key; of a result without a key that of None."""
    found: dict[Any, Any] = {}
    for each in run(stream.sink(Collect()), batch_size=2, **settings)["collect"]:
        rows = each.to_pylist() if isinstance(each, pa.RecordBatch) else [each]
        for row in rows:
            if isinstance(row, tuple):
                found[row[0]] = row[1]
            else:
                found[row.pop(key) if key else None] = row
    return found


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("emit", ["updates", "final"])
@pytest.mark.parametrize("form", FORMS)
def test_each_key(form: str, emit: Any, parallelism: int) -> None:
    rows = [row for row in ROWS if row["ok"] is not None]
    wanted: dict[str, Any] = {name: each for name, (each, _) in OF_A.items()}
    if form == "dictionaries":
        wanted.pop("array")
    stream = given(form, rows).key_by("k").aggregate(**wanted, emit=emit)
    found = last_of(stream, parallelism=parallelism)["a"]
    for name, (_, expected) in OF_A.items():
        if name in wanted:
            assert found[name] == pytest.approx(expected), name


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("emit", ["updates", "final"])
@pytest.mark.parametrize("form", FORMS)
def test_all_records_without_a_key(form: str, emit: Any, parallelism: int) -> None:
    rows = [row for row in ROWS if row["k"] == "a"]
    wanted: dict[str, Any] = {name: each for name, (each, _) in OF_A.items()}
    found = last_of(given(form, rows).aggregate(**wanted, emit=emit), None, parallelism=parallelism)
    for name, (_, expected) in OF_A.items():
        own = found[None][name]
        if name.startswith("array") and parallelism > 1:
            own, expected = sorted(own), sorted(expected)
        assert own == pytest.approx(expected), name


@pytest.mark.table(3)
@pytest.mark.parametrize("name", NONE_OF_C)
@pytest.mark.parametrize("form", FORMS)
def test_nothing_counts(form: str, name: str) -> None:
    each, expected = NONE_OF_C[name]
    rows = [row for row in ROWS if row["k"] == "c"]
    found = last_of(given(form, rows).key_by("k").aggregate(v=each), parallelism=1)
    assert found["c"]["v"] == expected
    windows = given(form, rows).key_by("k").window(CountWindow(1)).aggregate(v=each)
    assert last_of(windows, parallelism=1)["c"]["v"] == expected


WINDOWS: dict[str, Any] = {
    "tumbling": Tumbling(timedelta(microseconds=100)),
    "sliding": Sliding(timedelta(microseconds=200), timedelta(microseconds=100)),
    "sessions": Session(timedelta(microseconds=50)),
    "counts": CountWindow(4),
}


@pytest.mark.parametrize("windows", WINDOWS)
@pytest.mark.parametrize("form", ["records", "columns"])
def test_windows(form: str, windows: str) -> None:
    rows = [row for row in ROWS if row["ok"] is not None]
    wanted: dict[str, Any] = {name: each for name, (each, _) in OF_A.items()}
    time: Any = {} if windows == "counts" else {"time": "at"}
    stream = given(form, rows).key_by("k").window(WINDOWS[windows], **time).aggregate(**wanted)
    found = last_of(stream, parallelism=2)["a"]
    for name, (_, expected) in OF_A.items():
        assert found[name] == pytest.approx(expected), name


def test_a_function_says_what_counts() -> None:
    keyed = given("records").key_by("k")
    wanted: dict[str, Any] = {
        "n": Count(where=lambda row: row["n"] > 3),
        "s": Sum("n", where=lambda row: row["t"] == "p"),
    }
    assert last_of(keyed.aggregate(**wanted, emit="final"))["a"] == {"n": 2, "s": 18}
    by_function = given("records").key_by(lambda row: row["k"])
    assert last_of(by_function.aggregate(**wanted, emit="final"))["a"] == {"n": 2, "s": 18}
    totals = given("records").aggregate(**wanted, emit="final")
    assert last_of(totals, None, parallelism=2)[None] == {"n": 4, "s": 18}


def test_records_that_fail_can_be_left_out() -> None:
    records = [("a", 1, 2.0), ("a", "x", 3.0), ("a", 2, None), ("a", 3, 6.0), ("a", 9, "y")]
    for wanted, expected in [
        (Covariance(1, 2, population=True), 2.0),
        (BitOr(1), 11),
        (Count(where=lambda record: record[1] / 1 > 1), 3),
    ]:
        for stream in (source(Collection(records)).key_by(0), source(Collection(records))):
            counted = stream.aggregate(v=wanted, on_error="side", emit="final")
            errors = stream.aggregate(v=wanted, on_error="skip", emit="final")
            found = run(errors.sink(Collect()), parallelism=1)["collect"][0]
            assert (found[1] if isinstance(found, tuple) else found) == {"v": expected}
            assert counted is not errors


@pytest.mark.parametrize(
    ("wanted", "record", "told"),
    [
        (Variance(1), ("a", "x"), "its value 'x' is no number"),
        (Correlation(1, 2), ("a", 1, "y"), "its value 'y' is no number"),
        (BoolAnd(1), ("a", 1), "its value 1 is no bool"),
        (BitXor(1), ("a", 0.5), "its value 0.5 is no integer"),
        (Count(where=1), ("a", 1), "the value that says whether it counts is no bool"),
        (Count(where=7), ("a", 1), "says whether it counts is item 7 of a sequence of 2"),
        (Count(where=lambda r: 1 / 0), ("a", 1), "where= raised ZeroDivisionError"),
        (ApproxCountDistinct(1), ("a", [1]), "cannot be told from others"),
    ],
)
def test_what_does_not_fit_is_told(wanted: Any, record: Any, told: str) -> None:
    operator = source(Collection([])).key_by(0).aggregate(v=wanted).inputs[0].source.operator
    assert isinstance(operator, BatchOperator)
    function = operator.open(TaskContext("t", 0, 1, 100, "job"))
    with pytest.raises(AggregateError) as failed:
        function.process(Batch.from_list([record]))
    assert told in str(failed.value)
    assert "\n\nhint: " in str(failed.value)


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        (Variance("t"), 'variance of column "t" of type Utf8, expected integers, floats'),
        (Correlation("n", "t"), 'correlation of column "n and t"'),
        (BoolOr("n"), 'bool_or of column "n" of type Int64, expected bools'),
        (BitAnd("x"), 'bit_and of column "x" of type Float64, expected integers or bools'),
        (Count(where="n"), 'where column "n" of type Int64 is true, expected bools'),
    ],
)
def test_columns_that_do_not_fit_are_told(wanted: Any, told: str) -> None:
    for stream in (given("columns").key_by("k"), given("columns")):
        with pytest.raises(engine.EngineError) as failed:
            run(stream.aggregate(v=wanted).sink(Collect()), parallelism=1)
        assert told in str(failed.value)


def test_a_function_says_which_rows_of_columns_count() -> None:
    def is_counted(row: dict[str, Any]) -> bool:
        return row["n"] is not None and row["n"] % 2 == 1

    wanted: dict[Any, int] = {}
    for row in ROWS:
        wanted[row["k"]] = wanted.get(row["k"], 0) + is_counted(row)
    found = last_of(given("columns").key_by("k").aggregate(v=Count(where=is_counted)))
    assert found == {key: {"v": count} for key, count in wanted.items()}
    found = last_of(given("columns").aggregate(v=Count(where=is_counted), emit="final"), None)
    assert found == {None: {"v": sum(wanted.values())}}


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Covariance("n", -1), "Covariance() got -1"),
        (lambda: Sum("n", where=-1), "Sum(): where() got -1"),
        (lambda: ApproxQuantile("n", 2), "ApproxQuantile() got 2"),
        (lambda: ApproxQuantiles("n", []), "ApproxQuantiles() got []"),
        (lambda: source(Collection([])).aggregate(), "aggregate() got nothing"),
        (lambda: source(Collection([])).aggregate(n=Count), "n=Count() is one"),
        (lambda: source(Collection([])).count(emit="never"), "count() got emit='never'"),
        (lambda: source(Collection([])).sum(-1), "Sum() got -1"),
    ],
)
def test_wrong_arguments(make: Callable[[], Any], told: str) -> None:
    with pytest.raises(engine.GraphError) as failed:
        make()
    assert told in str(failed.value)


class Span(Accumulator[Any, Any, Any]):
    """The greatest number less the least."""

    def create(self) -> Any:
        return None

    def add(self, accumulated: Any, record: Any) -> Any:
        return self.merge(accumulated, (record[1], record[1]))

    def merge(self, left: Any, right: Any) -> Any:
        return right if left is None else (min(left[0], right[0]), max(left[1], right[1]))

    def finish(self, accumulated: Any) -> Any:
        return accumulated[1] - accumulated[0]


class Ends(Span):
    """Both."""

    def finish(self, accumulated: Any) -> Any:
        return accumulated


RECORDS = [("a", 3), (1, 4), ("a", 9), (math.nan, 1), (True, -2), (math.nan, 5), ("a", 5)]
SPANS = {"a": {"s": 6}, 1: {"s": 6}, "nan": {"s": 4}}


def told(key: Any) -> Any:
    return "nan" if key != key else key


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("emit", ["updates", "final"])
def test_accumulators_of_keys(emit: Any, parallelism: int) -> None:
    records = source(Collection(RECORDS))
    for keyed in (records.key_by(0), records.key_by(lambda record: record[0])):
        results = run(
            keyed.aggregate(s=Span(), emit=emit).sink(Collect()),
            parallelism=parallelism,
            batch_size=2,
        )["collect"]
        assert {told(key): value for key, value in results} == SPANS
        assert len(results) == 3 or emit == "updates"


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("emit", ["updates", "final"])
def test_accumulators_without_a_key(emit: Any, parallelism: int) -> None:
    stream = source(Collection(RECORDS)).aggregate(s=Span(), e=Ends(), emit=emit)
    results = run(stream.sink(Collect()), parallelism=parallelism, batch_size=2)["collect"]
    assert results[-1] == {"s": 11, "e": (-2, 9)}
    assert len(results) == 1 or emit == "updates"


def shares(stream: Stream[Any], batches: list[Any], tasks: list[int]) -> list[Any]:
    """What the last operator gives at the end, restored in so many tasks before each batch."""
    operator = stream.inputs[0].source.operator
    assert isinstance(operator, BatchOperator)
    states: list[KeyedState] = []
    given: list[Any] = []
    for batch, parallelism in zip(batches, tasks, strict=True):
        functions = []
        for index in range(parallelism):
            context = TaskContext("t", index, parallelism, 100, "job", checkpoints=True)
            function = operator.open(context)
            if states:
                function.restore(KeyedState.share(states, index, parallelism))
            functions.append(function)
        for function in functions[:1] if parallelism == 1 else functions:
            if own := batch(functions.index(function), parallelism):
                function.process(own)
        found = [function.snapshot() for function in functions]
        states = [state for state in found if state is not None]
        given = [each for function in functions for each in function.on_end()]
    return [result for batch in given for result in batch]


@pytest.mark.parametrize("tasks", [[1, 3, 2], [3, 1, 1], [2, 2, 3]])
def test_state_goes_on_in_other_tasks(tasks: list[int]) -> None:
    rows = [
        (row["k"], row["n"], row["x"], row["ok"], row["t"]) for row in ROWS if row["ok"] is not None
    ]
    of_items: dict[str, Any] = {
        "v": Variance(1), "r": Regression(1, 2), "b": BoolAnd(3), "x": BitXor(1), "a": Array(4),
        "d": ApproxCountDistinct(4), "q": ApproxQuantiles(1, [0, 1]), "w": Sum(1, where=3),
    }  # fmt: skip
    stream = source(Collection([])).key_by(0).aggregate(**of_items, emit="final")
    own = source(Collection([])).key_by(0).aggregate(s=Span(), e=Ends(), emit="final")

    def part(at: int, *, encoded: bool) -> Any:
        def batch(index: int, parallelism: int) -> Any:
            some = rows[2 * at : 2 * at + 2]
            chosen = partition([record[0] for record in some], parallelism)
            found = [each for each, to in zip(some, chosen, strict=True) if to == index]
            return Batch.from_list(found) if encoded and found else found

        return batch

    found = dict(shares(stream, [part(at, encoded=True) for at in range(3)], tasks))
    line = {name: value for name, (_, value) in OF_A.items()}
    expected = {
        "v": line["variance"], "r": LINE, "b": False, "x": 10, "a": ["p", "r", "p", "s"],
        "d": 3, "q": [3.0, 12.0], "w": 12,
    }  # fmt: skip
    for name, value in expected.items():
        assert found["a"][name] == pytest.approx(value), name
    found = dict(shares(own, [part(at, encoded=False) for at in range(3)], tasks))
    assert found["a"] == {"s": 9, "e": (3, 12)}


@pytest.mark.parametrize("form", ["records", "columns"])
@pytest.mark.parametrize("windows", WINDOWS)
def test_windows_without_a_key(windows: str, form: str) -> None:
    time: Any = {} if windows == "counts" else {"time": "at"}
    windowed = given(form).window(WINDOWS[windows], **time)
    (*_, last) = run(
        windowed.aggregate(n=Count(), s=Sum("n")).sink(Collect()), parallelism=1, batch_size=2
    )["collect"]
    if form == "columns":
        (*_, last) = last.to_pylist()
        last = ({name: last[name] for name in ("n", "s")}, last["window_start"], last["window_end"])
    expected: dict[str, Any] = {
        "tumbling": ({"n": 7, "s": 32}, 0, 100),
        "sliding": ({"n": 7, "s": 32}, 0, 200),
        "sessions": ({"n": 7, "s": 32}, 0, 56),
        "counts": ({"n": 3, "s": 12}, 4, 7),
    }
    assert last == expected[windows]


@pytest.mark.parametrize("parallelism", [1, 3])
def test_functions_of_windows_without_a_key(parallelism: int) -> None:
    records = source(Collection([("a", 3), ("b", 14), ("c", 5), ("d", 26)])).with_parallelism(1)
    timed = records.with_event_time(1, out_of_orderness=timedelta(microseconds=20))
    tens = timed.window(Tumbling(timedelta(microseconds=10)))
    for stream, expected in [
        (tens.collect(), [([("a", 3), ("c", 5)], 0, 10), ([("b", 14)], 10, 20)]),
        (tens.apply(lambda _key, own, *_: len(own)), [(2, 0, 10), (1, 10, 20)]),
        (tens.aggregate(s=Span()), [({"s": 2}, 0, 10), ({"s": 0}, 10, 20)]),
        (tens.max(1), [(5, 0, 10), (14, 10, 20)]),
        # What is behind has the time of the windows' ends.
        (
            tens.count().window(Tumbling(timedelta(microseconds=20))).sum(0),
            [(3, 0, 20), (1, 20, 40)],
        ),
    ]:
        found = run(stream.sink(Collect()), parallelism=parallelism)["collect"]
        assert found[:2] == expected


ALONE: dict[str, Callable[[Stream[Any]], Stream[Any]]] = {
    "count": lambda timed: timed.count(),
    "final sum": lambda timed: timed.sum(0, emit="final"),
    "accumulator": lambda timed: timed.aggregate(s=Span()),
    "native windows": lambda timed: timed.window(Tumbling(timedelta(1))).count(),
    "windows": lambda timed: timed.window(Tumbling(timedelta(1))).collect(),
}


@pytest.mark.parametrize("name", ALONE)
def test_several_tasks_without_a_key_are_refused_in_the_plan(name: str) -> None:
    stream = ALONE[name](source(Collection([(1, 2)])).with_event_time(0))
    refused = stream.with_parallelism(3).sink(Collect())
    with pytest.raises(GraphError, match="has parallelism 3, expected 1: without a key"):
        Plan.of(refused, JobConfig())
    assert run(stream.with_parallelism(1).sink(Collect()), parallelism=3)["collect"]


def test_late_records_of_windows_without_a_key() -> None:
    timed = source(Collection([])).with_event_time(0)
    stream = timed.window(Tumbling(timedelta(microseconds=10))).collect()
    assert stream.side("late").inputs[0].output == "late"
    operator = stream.inputs[0].source.operator
    assert isinstance(operator, BatchOperator)
    assert operator.properties.parallelism == 1
    late: list[Any] = []
    context = TaskContext("t", 0, 1, 100, "job", side_outputs={"late": late.extend})
    function = operator.open(context)
    function.process([(1,), (25,)])
    given = [each for batch in function.on_watermark(20) or () for each in batch]
    assert [each[1:] for each in given] == [(0, 10)]
    function.process([(2,), (26,)])
    assert (late, function.late) == ([(2,)], 1)
    assert [each[1:] for batch in function.on_end() for each in batch] == [(20, 30)]


@pytest.mark.parametrize("form", ["records", "columns"])
def test_an_input_without_records_gives_no_result(form: str) -> None:
    empty = (
        given(form, ROWS[:0])
        if form == "records"
        else source(Collection([pa.RecordBatch.from_pylist(ROWS).slice(0, 0)]))
    )
    for emit in ("updates", "final"):
        stream = empty.aggregate(n=Count(), v=Variance("n"), emit=emit)
        assert run(stream.sink(Collect()), parallelism=2)["collect"] == []


def test_decimals_are_numbers() -> None:
    keyed = source(Collection([("a", Decimal("0.5")), ("a", 2.5), ("a", True)])).key_by(0)
    found = last_of(keyed.aggregate(v=Variance(1, population=True), q=ApproxQuantile(1, 1)))
    assert found["a"] == pytest.approx({"v": 0.7222222222222222, "q": 2.5})
