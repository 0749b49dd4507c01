"""top_n: of records and of columns, by tasks of any number; Flink's cases; what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import cycle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import engine
from engine.graph.context import TaskContext
from engine.network import Batch
from engine.testing import run
from operators import Stream, source
from operators.sinks import Collect
from operators.sources import Collection
from tests.halves import Halves, run_half, run_rest
from tests.part import examples
from tests.windowing import Tasks

forms = pytest.mark.parametrize("form", ["records", "columns"])
NAMES = ("key", "value", "number")


def as_columns(rows: list[Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows)


def streamed(records: list[Any], names: tuple[str, ...], form: str) -> Stream[Any]:
    rows = [dict(zip(names, record, strict=True)) for record in records]
    if form == "columns":
        rows = [as_columns(rows[at : at + 4]) for at in range(0, len(rows), 4)]
    return source(Collection(rows)).with_parallelism(1)


def ranked(stream: Stream[Any], form: str, **settings: Any) -> list[tuple[Any, ...]]:
    """The rows with their ranks."""
    if form == "columns":
        found = run(stream.to_records().sink(Collect()), **settings)["collect"]
        return [tuple(row.values()) for row in found]
    found = run(stream.sink(Collect()), **settings)["collect"]
    return [(*row.values(), at) for _, rows in found for at, row in enumerate(rows, 1)]


# --- Flink's RankITCase (apache/flink, Apache-2.0), as data: 10 of its tests. Here a sum or
# a maximum comes at its end, and nothing is taken back; the others differ in how changes come, or
# take a rank from a column. ----------------------------------------------------------------------

SHOPS = [("book", 1, 12), ("book", 2, 19), ("book", 4, 11)]
SHOPS += [("fruit", 4, 33), ("fruit", 3, 44), ("fruit", 5, 22)]
GROUPED = [("book", 1, 11), ("book", 2, 19), ("book", 4, 13), ("book", 1, 11), ("fruit", 4, 33)]
GROUPED += [("fruit", 5, 12), ("fruit", 3, 44), ("fruit", 5, 22)]
UNARY = [
    *((11, 100), (11, 200), (12, 400), (12, 500), (10, 600), (10, 700), (9, 800), (9, 900)),
    *((10, 500), (8, 110), (8, 120), (7, 1800), (9, 300), (6, 1900), (7, 50), (11, 1800)),
    *((7, 50), (8, 2000), (6, 700), (5, 800), (4, 910), (3, 1000), (2, 1100), (1, 1200)),
]
TEXTS = [
    *((11, "100"), (11, "200"), (12, "400"), (12, "600"), (10, "600"), (10, "700"), (9, "800")),
    *((9, "900"), (10, "500"), (8, "110"), (8, "120"), (7, "812"), (9, "300"), (6, "900")),
    *((7, "50"), (11, "800"), (7, "50"), (8, "200"), (6, "700"), (5, "800"), (4, "910")),
    *((3, "110"), (2, "900"), (1, "700")),
]
CONDITION = [(11, 100.0), (11, 200.0), (12, 400.0), (12, 500.0), (10, 600.0), (10, 700.0)]
FLINK: dict[str, tuple[list[Any], str | None, int, bool, list[Any]]] = {
    "TopN, TopNth": (
        *(SHOPS, None, 2, True),
        [("book", 2, 19, 1), ("book", 1, 12, 2), ("fruit", 3, 44, 1), ("fruit", 4, 33, 2)],
    ),
    "TopNWithUpsertSink": (
        *(SHOPS, None, 2, False),
        [("book", 4, 11, 1), ("book", 1, 12, 2), ("fruit", 5, 22, 1), ("fruit", 4, 33, 2)],
    ),
    "TopNWithUnary": (
        *([("book", *each) for each in UNARY], "sum", 3, False),
        [("book", 5, 800, 1), ("book", 12, 900, 2), ("book", 4, 910, 3)],
    ),
    "UnarySortTopNOnString": (
        *([("book", *each) for each in TEXTS], "max", 3, False),
        [("book", 3, "110", 1), ("book", 8, "200", 2), ("book", 12, "600", 3)],
    ),
    "TopNWithGroupBy, TopNthWithGroupBy": (
        *(GROUPED, "sum", 2, True),
        [("book", 1, 22, 1), ("book", 2, 19, 2), ("fruit", 3, 44, 1), ("fruit", 5, 34, 2)],
    ),
    "TopNWithSumAndCondition": (
        *([("book", *each) for each in CONDITION], "sum", 2, True),
        [("book", 10, 1300.0, 1), ("book", 12, 900.0, 2)],
    ),
}


@forms
@pytest.mark.parametrize("name", FLINK)
def test_flink_rank(name: str, form: str) -> None:
    records, aggregation, most, descending, expected = FLINK[name]
    rows = streamed(records, ("category", "shop", "num"), form)
    by = "num"
    if aggregation is not None:
        rows = getattr(rows.key_by("category", "shop"), aggregation)("num", emit="final")
        by = aggregation
        if form == "records":
            rows = rows.map(
                lambda found: {"category": found[0][0], "shop": found[0][1], by: found[1]}
            )
    out = rows.key_by("category").top_n(most, by, descending=descending, emit="final")
    assert sorted(ranked(out, form, parallelism=2)) == sorted(expected)


@forms
def test_flink_rank_with_group_by_and_retract(form: str) -> None:
    """TopNWithGroupByAndRetract and TopNthWithGroupByAndRetract: one order down, one up."""
    records = [("book", 1, 22, 2), ("book", 2, 19, 1), ("book", 4, 13, 1), ("book", 5, 22, 3)]
    records += [("fruit", 4, 33, 1), ("fruit", 5, 34, 2), ("fruit", 3, 44, 1)]
    rows = streamed(records, ("category", "shop", "num", "cnt"), form).key_by("category")
    out = rows.top_n(2, ("num", "cnt"), descending=(True, False), emit="final")
    assert sorted(ranked(out, form, parallelism=2)) == [
        *(("book", 1, 22, 2, 1), ("book", 5, 22, 3, 2)),
        *(("fruit", 3, 44, 1, 1), ("fruit", 5, 34, 2, 2)),
    ]


@forms
def test_a_tuple_of_one_is_its_item(form: str) -> None:
    rows = streamed(SHOPS, ("category", "shop", "num"), form).key_by("category")
    out = [ranked(rows.top_n(2, by, emit="final"), form) for by in (("num",), "num")]
    assert out[0] == out[1] != []


# --- random records, tasks and restarts -------------------------------------------------------


class TopTasks(Tasks):
    """As `Tasks`; columns come as they are, and results as rows with their ranks."""

    def __init__(self, stream: Any, parallelism: int, before: Any = (), form: str = "") -> None:
        super().__init__(stream, parallelism, before)
        self.is_native = form in ("encoded", "columns")
        if form == "columns":
            self._encode: Any = self._as_columns

    def _as_columns(self, records: list[Any]) -> pa.RecordBatch:
        rows = [dict(zip(NAMES, record, strict=True)) for record in records]
        types = pa.schema({"key": pa.string(), "value": pa.float64(), "number": pa.int64()})
        return pa.RecordBatch.from_pylist(rows, types)

    def _rows(self, results: Any) -> list[Any]:
        if isinstance(results, pa.RecordBatch):
            return [tuple(row.values()) for row in results.to_pylist()]
        pairs: list[Any] = super()._rows(results)
        return [(*row, at) for _, rows in pairs for at, row in enumerate(rows, 1)]


values = st.one_of(st.integers(-2, 3).map(float), st.sampled_from([0.5, -0.0, math.inf, math.nan]))
batches = st.lists(st.lists(st.tuples(st.sampled_from("abc"), values), max_size=8), max_size=8)


def first(records: list[Any], most: int, descending: bool) -> list[Any]:
    """By sorting all: the order of Python, and NaN last."""
    numbers = [record for record in records if not math.isnan(record[1])]
    others = [record for record in records if math.isnan(record[1])]
    numbers.sort(key=lambda record: -record[1] if descending else record[1])
    return [*numbers, *others][:most]


ways = pytest.mark.parametrize("form", ["records", "encoded", "in turn", "columns"])
"""How batches come; `in turn` some of them encoded, and some as objects."""


@ways
@pytest.mark.parametrize("emit", ["updates", "final"])
@settings(max_examples=examples(20), deadline=None)
@given(batches, st.integers(1, 4), st.booleans(), st.integers(1, 4), st.data())
def test_it_is_what_sorting_all_gives(
    form: str, emit: Any, batches: list[Any], most: int, descending: bool, tasks: int, data: Any
) -> None:
    keyed = source(Collection([])).key_by("key" if form == "columns" else 0)
    by: Any = "value" if form == "columns" else 1
    stream = keyed.top_n(most, by, descending=descending, emit=emit)
    at_work = TopTasks(stream, tasks, form=form)
    so_far: list[Any] = []
    for batch in batches:
        if data.draw(st.integers(0, 3)) == 0:
            at_work = TopTasks(stream, data.draw(st.integers(1, 4)), at_work.snapshot(), form)
        if form == "in turn":
            at_work.is_native = data.draw(st.booleans())
        records = [(key, value, len(so_far) + at) for at, (key, value) in enumerate(batch)]
        found = [row for given in at_work.take(records, 100) for row in given]
        wanted = []
        for key in {record[0] for record in records}:
            before = first([r for r in so_far if r[0] == key], most, descending)
            after = first([r for r in so_far + records if r[0] == key], most, descending)
            if [r[2] for r in before] != [r[2] for r in after]:
                wanted += [(*record, at) for at, record in enumerate(after, 1)]
        so_far += records
        assert sorted(map(repr, found)) == sorted(map(repr, wanted if emit == "updates" else []))
    found = [row for given in at_work.end() for row in given]
    wanted = [
        (*record, at)
        for key in "abc"
        for at, record in enumerate(first([r for r in so_far if r[0] == key], most, descending), 1)
    ]
    assert sorted(map(repr, found)) == sorted(map(repr, wanted if emit == "final" else []))


@forms
@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 2)])
def test_it_goes_on_in_any_number_of_tasks(
    tmp_path: Path, form: str, before: int, after: int
) -> None:
    rows = [{"k": f"k{n % 5}", "n": n * 37 % 101} for n in range(100)]
    halves = Halves(rows, 45, as_columns if form == "columns" else list)
    out = source(halves).key_by("k").top_n(3, "n", emit="final")
    pipeline = (out.to_records() if form == "columns" else out).sink(Collect())
    run_half(pipeline, tmp_path, halves, parallelism=before)
    found = run_rest(pipeline, tmp_path, parallelism=after)["collect"]
    if form == "records":
        found = [row for _, of_key in found for row in of_key]
    expected = []
    for key in {row["k"] for row in rows}:
        expected += sorted((row["n"] for row in rows if row["k"] == key), reverse=True)[:3]
    assert sorted(row["n"] for row in found) == sorted(expected)


# --- values and keys --------------------------------------------------------------------------

VALUES: dict[str, Any] = {
    "integers": pa.array([3, None, 1, 2], pa.uint8()),
    "texts": pa.array(["c", None, "a", "b"]),
    "views": pa.array(["c", None, "a", "b"], pa.string_view()),
    "bytes": pa.array([b"c", None, b"a", b"b"]),
    "dictionary": pa.array(["c", None, "a", "b"]).dictionary_encode(),
    "dictionary of views": pa.DictionaryArray.from_arrays(
        pa.array([0, None, 1, 2], pa.int8()), pa.array(["c", "a", "b"], pa.string_view())
    ),
    "moments": pa.array([3, None, 1, 2], pa.timestamp("us", "UTC")),
    "decimals": pa.array([3, None, 1, 2], pa.int32()).cast(pa.decimal128(12, 2)),
    "bools": pa.array([True, None, False, False]),
}


@pytest.mark.parametrize("kind", VALUES)
def test_values_of_columns(kind: str) -> None:
    """A row without a value is left out; also batches with dictionaries of their own."""
    batch = pa.record_batch({"k": ["a"] * 4, "v": VALUES[kind], "rank": [0, 1, 2, 3]})
    for parts in ([batch], [batch.slice(at, 1) for at in range(4)]):
        rows = source(Collection(parts)).with_parallelism(1).key_by("k")
        for descending, expected in ((True, [0, 3]), (False, [2, 3])):
            out = rows.top_n(2, "v", descending=descending, emit="final").to_records()
            found = run(out.sink(Collect()), parallelism=2)["collect"]
            assert [row["rank_right"] for row in found] == [1, 2]
            wanted = [0, 2] if kind == "bools" and descending else expected
            assert sorted(row["rank"] for row in found) == sorted(wanted)


KEYED: dict[str, Callable[[Any], Any]] = {
    "an item": lambda stream: stream.key_by(0).top_n(1, 1, emit="final"),
    "a function": lambda stream: stream.key_by(lambda r: r[0]).top_n(1, 1, emit="final"),
    "several to rank by": lambda stream: stream.key_by(0).top_n(1, (1, 2), emit="final"),
}


@pytest.mark.parametrize("keyed", KEYED)
def test_keys_and_items_of_records(keyed: str) -> None:
    nan = math.nan
    records = [(None, 1, 5), (True, 1, 7), (1.0, 1, 9), (nan, 2, 1), (-nan, 3, 0), ((1, "a"), 1, 1)]
    out = run(KEYED[keyed](source(Collection(records))).sink(Collect()))["collect"]
    assert len(out) == 4
    assert {found[0][2] for _, found in out} == {5, 0, 1, 9 if "several" in keyed else 7}


def test_the_record_itself_may_be_ranked() -> None:
    numbers = source(Collection([3, 1, 4, 1, 5, 9, 2, 6])).key_by(lambda n: n % 2)
    found = run(numbers.top_n(2, emit="final").sink(Collect()))["collect"]
    assert sorted(found) == [(0, [6, 4]), (1, [9, 5])]


def _mixed(records: list[Any]) -> list[Any]:
    """The two first of each key by two items: by the greatest, then by the least."""
    found = []
    for key in dict.fromkeys(record[0] for record in records):
        own = [record for record in records if record[0] == key]
        own.sort(key=lambda record: record[2])
        numbers = [record for record in own if record[1] == record[1]]
        numbers.sort(key=lambda record: record[1], reverse=True)
        others = [record for record in own if record[1] != record[1]]
        found.append((key, [*numbers, *others][:2]))
    return found


LARGE = 10**30
MIXED: dict[str, list[list[Any]]] = {
    "numbers, then texts": [
        [("a", 1, 2), ("a", 2.5, 0), ("a", True, 1), ("c", 1, 1)],
        [("b", "x", 1), ("b", "y", 1), ("b", "y", 0)],
        [("a", 3, 1), ("a", 3, 0), ("b", "z", 9)],
    ],
    "texts in one of the items": [
        [("a", 1, "x"), ("a", 1, "w"), ("a", 0, "a")],
        [("a", 2, "z"), ("a", 2, "y")],
    ],
    "large and infinite": [
        [("a", LARGE, 1), ("a", -math.inf, 1), ("a", float(1 << 62), 1)],
        [("a", LARGE + 1, 1), ("a", (1 << 62) + 1, 0), ("a", math.inf, 2)],
        [("b", -LARGE, 2), ("b", -LARGE, 1), ("b", -LARGE - 1, 0)],
    ],
    "NaN, and texts elsewhere": [
        [("a", math.nan, 1), ("a", 1.5, 1), ("b", math.nan, 2), ("b", math.nan, 1)],
        [("a", math.nan, 0), ("b", -math.inf, 1)],
        [("c", "x", 1), ("c", "y", 1)],
    ],
    "beyond 64 bits": [
        [("a", (1 << 63) - 1, 1), ("a", float(1 << 63), 0), ("b", 1, 1)],
        [("a", 1 << 63, 1), ("b", -(1 << 63), 1), ("a", -(1 << 63) - 1, 1)],
    ],
    "a text that no UTF-8 has": [[("a", "x", 1), ("a", "", 1)], [("a", "\ud800", 1)]],
    "zeros are equal": [[("a", 0.0, 2), ("a", -0.0, 1), ("a", 0, 3)], [("a", False, 0)]],
    "a class of numbers": [[("a", 1, 1)], [("a", Fraction(3, 2), 1), ("a", 2, 1), ("a", 1, 0)]],
}


@pytest.mark.parametrize("forms", [(False,), (True,), (False, True), (True, False)])
@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("name", MIXED)
def test_values_of_several_kinds(name: str, restarts: bool, forms: tuple[bool, ...]) -> None:
    """Of batches that come encoded, or do not, in turn."""
    batches = MIXED[name]
    stream = source(Collection([])).key_by(0).top_n(2, (1, 2), descending=(True, False))
    at_work = Tasks(stream, 1)
    latest: dict[Any, Any] = {}
    for batch, at_work.is_native in zip(batches, cycle(forms), strict=False):
        for found in at_work.take(batch, 100):
            latest.update(found)
        if restarts:
            at_work = Tasks(stream, 1, at_work.snapshot())
    expected = _mixed([record for batch in batches for record in batch])
    assert repr(list(latest.items())) == repr(expected)


@pytest.mark.parametrize("key", [(0,), (0, 1), (lambda record: record[0],)])
def test_state_has_the_same_bytes_in_both_forms(key: tuple[Any, ...]) -> None:
    records = [(f"k{n % 5}", n % 2, n * 37 % 101, [n], {"n": n}) for n in range(100)]
    stream = source(Collection([])).key_by(*key).top_n(20, (2, 0), descending=(True, False))
    paired = [(record[0], record) for record in records] if callable(key[0]) else records
    states = []
    for is_native in (False, True):
        at_work = Tasks(stream)
        at_work.is_native = is_native
        at_work.take(paired, 100)  # type: ignore[arg-type]
        (state,) = at_work.snapshot()
        states.append(state.entries)
    assert states[0] == states[1]
    assert len(states[0]) in (5, 10)


def test_numbers_go_on_behind_records_that_fail() -> None:
    """Whatever failed, the others are ranked as if it had not come."""
    bad: list[Any] = [("a",), ("a", None), ("a", [1]), ("a", "x")]
    records = [("a", n % 7) for n in range(20)]
    for places in range(4):
        mixed = [*records[:places], bad[places], *records[places:]]
        out = source(Collection(mixed)).with_parallelism(1).key_by(0)
        found = run(out.top_n(3, 1, emit="final", on_error="skip").sink(Collect()), batch_size=5)[
            "collect"
        ]
        assert found == [("a", [("a", 6), ("a", 6), ("a", 5)])], bad[places]


def test_records_that_fail_are_put_aside() -> None:
    records = [("a", 1), ("a", None), ("b", None), ("a", "x"), ("a",), ("a", 2)]
    out = source(Collection(records)).key_by(0).top_n(2, 1, emit="final", on_error="side")
    found = run([out.sink(Collect()), out.side("errors").sink(Collect()).named("bad")])
    assert found["collect"] == [("a", [("a", 2), ("a", 1)])]
    assert [record for record, _ in found["bad"]] == records[1:5]
    failing = source(Collection(records[:2])).key_by(0).top_n(2, 1)
    with pytest.raises(
        engine.OperatorError, match="got None to rank by, expected what has an order"
    ):
        run(failing.sink(Collect()))


def test_what_cannot_work_is_refused() -> None:
    keyed = source(Collection([("a", 1)])).key_by(0)
    refused: list[tuple[Any, str]] = [
        (lambda: keyed.top_n(0, 1), r"top_n\(\): n is 0, expected an integer >= 1"),
        (lambda: keyed.top_n(True, 1), r"top_n\(\): n is True, expected an integer >= 1"),
        (lambda: keyed.top_n(1, -1), "got -1, expected an index >= 0 or a field name"),
        (lambda: keyed.top_n(1, ()), r"top_n\(\) got by=\(\), expected an item"),
        (lambda: keyed.top_n(1, 1, descending=1), "descending=1, expected True or False"),
        (lambda: keyed.top_n(1, (0, 1), descending=(True,)), "or one of them for each of 2 in by"),
        (lambda: keyed.top_n(1, (0, None)), "got None, expected an index >= 0"),
        (lambda: keyed.top_n(1, 1, emit="often"), "emit='often'"),
        (lambda: keyed.top_n(1, 1, on_error="no"), "on_error='no'"),
    ]
    for call, message in refused:
        with pytest.raises(engine.GraphError, match=message):
            call()
    rows = source(Collection([pa.record_batch({"k": ["a"], "v": [[1]]})]))
    for stream, message in (
        (rows.key_by("k").top_n(1, "v"), "column 'v' of type list.* has no order"),
        (rows.key_by("k").top_n(1, "w"), "ranks by column 'w', and there are k, v, expected one"),
        (rows.key_by().top_n(1, "v"), "expected names of columns for the key"),
        (rows.key_by("k").top_n(1), "ranks by column None"),
    ):
        with pytest.raises(engine.OperatorError, match=message):
            run(stream.sink(Collect()))


@pytest.mark.parametrize("wire", [False, True])
@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("order", [("records", "columns"), ("columns", "records")])
def test_columns_and_encoded_records_come_to_one_state(
    order: tuple[str, str], restarts: bool, wire: bool
) -> None:
    """What came first says in which form the first rows are kept."""
    rows = [{"key": f"k{n % 3}", "n": n * 37 % 101} for n in range(60)]
    stream = source(Collection([])).key_by("key").top_n(2, "n", emit="final")
    operator: Any = stream.inputs[0].source.operator
    context = TaskContext("t", 0, 1, 100, "job")
    function = operator.open(context)
    for at, form in enumerate(order):
        half = rows[30 * at : 30 * at + 30]
        batch: Any = as_columns(half)
        if form == "records":
            batch = Batch.from_list(half)
        elif wire:
            batch = Batch.from_columns(batch)
        assert not len(function.process(batch))
        if restarts:
            state, function = function.snapshot(), operator.open(context)
            function.restore(state)
    found: dict[str, list[int]] = {}
    for batch in function.on_end():
        if isinstance(batch, pa.RecordBatch):
            for row in batch.to_pylist():
                found.setdefault(row["key"], []).append(row["n"])
        else:
            pairs = batch.to_list() if isinstance(batch, Batch) else batch
            found |= {key: [row["n"] for row in first] for key, first in pairs}
    for key in ("k0", "k1", "k2"):
        own = sorted((row["n"] for row in rows if row["key"] == key), reverse=True)
        assert found[key] == own[:2]
