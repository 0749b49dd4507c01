"""What a column's values, nulls, codes and names come to: beside the table of types."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import engine.testing
from engine.errors import OperatorError
from operators import Count, CountWindow, First, Last, Stream, Sum, Tumbling, source
from operators.sinks import Collect
from operators.sources import Collection

Row = dict[str, Any]
SECOND = timedelta(seconds=1)
AT_ONCE = (timedelta(0), timedelta(0))


def stream(*batches: Any) -> Stream[Any]:
    made = (each if isinstance(each, pa.RecordBatch) else pa.record_batch(each) for each in batches)
    return source(Collection(list(made))).with_parallelism(1).with_event_time("at")


def rows(found: Stream[Any], parallelism: int = 2) -> list[Row]:
    output = engine.testing.run(found.sink(Collect()), parallelism=parallelism)["collect"]
    return [row for batch in output for row in batch.to_pylist()]


def batches_of_codes(codes: pa.DataType, each: int) -> list[pa.RecordBatch]:
    """Batches whose dictionaries hold so many values each, none of them twice."""
    return [
        pa.record_batch(
            {
                "word": pa.DictionaryArray.from_arrays(
                    pa.array(range(each), codes),
                    pa.array([f"word {at} {i}" for i in range(each)]),
                ),
                "one": pa.array([1] * each),
                "at": pa.array([at] * each),
            }
        )
        for at in range(4)
    ]


OF_CODES: dict[str, Callable[[Stream[Any]], Stream[Any]]] = {
    "passed": lambda s: s.rebalance(),
    "counted": lambda s: s.key_by("word").count(emit="final"),
    "last of all": lambda s: s.key_by("word").window(CountWindow(1)).last("word"),
    "different": lambda s: s.key_by("one").count_distinct("word", emit="final"),
    "greatest": lambda s: s.key_by("one").max("word", emit="final"),
    "reduced": lambda s: s.key_by("one").reduce_batches(lambda rows: rows, emit="final"),
    "updated": lambda s: s.key_by("one").reduce_batches(lambda rows: rows.slice(len(rows) - 1)),
    "joined": lambda s: s.key_by("word").interval_join(s.key_by("word"), between=AT_ONCE),
    "version": lambda s: s.key_by("one").temporal_join(s.key_by("one")),
    "looked up": lambda s: s.lookup_join(lambda word: word, "word"),
    "records": lambda s: s.rebalance().to_records().map_batches(list),
}


@pytest.mark.table(3)
@pytest.mark.parametrize(
    ("codes", "each"), [(pa.int8(), 100), (pa.uint8(), 200), (pa.int16(), 20_000)]
)
@pytest.mark.parametrize("name", OF_CODES)
def test_dictionaries_of_more_values_than_one_holds(
    name: str, codes: pa.DataType, each: int
) -> None:
    sent = batches_of_codes(codes, each)
    words = sorted(word for batch in sent for word in batch["word"].to_pylist())
    output = engine.testing.run(OF_CODES[name](stream(*sent)).sink(Collect()), parallelism=2)
    found = [
        row
        for batch in output["collect"]
        for row in (batch.to_pylist() if isinstance(batch, pa.RecordBatch) else [batch])
    ]
    if name == "greatest":
        assert found == [{"one": 1, "max": words[-1]}]
    elif name == "different":
        assert found == [{"one": 1, "count_distinct": len(words)}]
    elif name == "updated":
        assert found[-1]["word"] == f"word 3 {each - 1}"
    else:
        assert sorted(row["word"] for row in found) == words


@pytest.mark.parametrize("emit", ["updates", "final"])
def test_first_and_last_leave_nulls_out(emit: Any) -> None:
    keyed = stream(
        {"k": ["a", "b", "c"], "x": pa.array([None, None, 3]), "at": [0, 1, 2]},
        {"k": ["a", "b", "c"], "x": pa.array([1, None, None]), "at": [3, 4, 5]},
        {"k": ["a", "b", "c"], "x": pa.array([2, None, 4]), "at": [6, 7, 8]},
        {"k": ["a", "b", "c"], "x": pa.array([None] * 3, pa.int64()), "at": [9, 10, 11]},
    ).key_by("k")
    first = {row["k"]: row["first"] for row in rows(keyed.first("x", emit=emit))}
    assert first == {"a": 1, "b": None, "c": 3}
    last = {row["k"]: row["last"] for row in rows(keyed.last("x", emit=emit))}
    assert last == {"a": 2, "b": None, "c": 4}
    both = rows(keyed.aggregate(first=First("x"), last=Last("x"), emit=emit))
    found = {row["k"]: (row["first"], row["last"]) for row in both}
    assert found == {"a": (1, 2), "b": (None, None), "c": (3, 4)}
    windows = rows(keyed.window(Tumbling(timedelta(microseconds=6))).first("x"))
    found = {(row["k"], row["window_start"]): row["first"] for row in windows}
    assert found == {
        ("a", 0): 1,
        ("b", 0): None,
        ("c", 0): 3,
        ("a", 6): 2,
        ("b", 6): None,
        ("c", 6): 4,
    }


def test_a_first_value_is_emitted_when_it_comes_and_not_again() -> None:
    keyed = stream(
        *(
            {"k": ["a"], "x": pa.array([x], pa.int64()), "at": [at]}
            for at, x in ((0, None), (1, 5))
        ),
        *(
            {"k": ["a"], "x": pa.array([x], pa.int64()), "at": [at]}
            for at, x in ((2, 6), (3, None))
        ),
    ).key_by("k")
    output = engine.testing.run(keyed.first("x").sink(Collect()), parallelism=1, batch_size=1)
    found = [row["first"] for batch in output["collect"] for row in batch.to_pylist()]
    assert found in ([None, 5], [5])  # batches may come to the task together


NAMED: dict[str, tuple[str, Callable[[Any], Stream[Any]], list[str]]] = {
    "count": ("count", lambda s: s.count(), ["count", "count_right"]),
    "sum": ("sum", lambda s: s.sum("n"), ["sum", "sum_right"]),
    "first": ("first", lambda s: s.first("n"), ["first", "first_right"]),
    "a window's value": (
        "max",
        lambda s: s.window(Tumbling(SECOND)).max("n"),
        ["max", "max_right", "window_start", "window_end"],
    ),
    "a window": (
        "window_start",
        lambda s: s.window(Tumbling(SECOND)).count(),
        ["window_start", "count", "window_start_right", "window_end"],
    ),
    "a count window": (
        "window_end",
        lambda s: s.window(CountWindow(1)).aggregate(n=Count(), total=Sum("n")),
        ["window_end", "n", "total", "window_start", "window_end_right"],
    ),
    "a join": (
        "n_right",
        lambda s: s.interval_join(s, between=AT_ONCE),
        ["n_right", "n", "at", "n_right_right", "n_right_right_right", "at_right"],
    ),
    "other names": ("word", lambda s: s.count(), ["word", "count"]),
}


@pytest.mark.parametrize("name", NAMED)
def test_columns_of_a_result_have_names_of_their_own(name: str) -> None:
    key, computed, expected = NAMED[name]
    keyed = stream({key: ["a"], "n": [1], "at": [0]}).key_by(key)
    (output,) = engine.testing.run(computed(keyed).sink(Collect()), parallelism=1)["collect"]
    names = output.schema.names
    assert len(set(names)) == len(names)
    assert sorted(names) == sorted(expected)
    assert output[key].to_pylist() == ["a"]


def test_a_key_by_its_index_has_a_name_of_its_own_too() -> None:
    counted = stream({"count": ["a", "a"], "at": [0, 1]}).key_by(0).count(emit="final")
    assert rows(counted) == [{"count": "a", "count_right": 2}]


INSTANTS = [0, 1_000, -5_000, 253_402_300_799_000]
"""Milliseconds; the last is the end of the year 9999."""
ALIKE: dict[str, tuple[pa.Array, pa.Array]] = {
    "ms and us": (
        pa.array(INSTANTS, pa.timestamp("ms")),
        pa.array([1000 * at for at in INSTANTS], pa.timestamp("us")),
    ),
    "s and ms": (
        pa.array([at // 1000 for at in INSTANTS], pa.timestamp("s")),
        pa.array(INSTANTS, pa.timestamp("ms")),
    ),
    "zones": (
        pa.array([0, 1_000, -5_000, 7], pa.timestamp("ms", "UTC")),
        pa.array([0, 1_000_000, -5_000_000, 7_000], pa.timestamp("us", "Europe/Paris")),
    ),
    "dates": (
        pa.array([0, 1, -1, 2_932_896], pa.date32()),
        pa.array([86_400_000 * day for day in (0, 1, -1, 2_932_896)], pa.date64()),
    ),
    "times": (
        pa.array([0, 1, 2, 3], pa.time32("s")),
        pa.array([0, 1000, 2000, 3000], pa.time32("ms")),
    ),
    "durations": (
        pa.array([0, 1, -2, 3], pa.duration("s")),
        pa.array([0, 10**9, -2 * 10**9, 3 * 10**9], pa.duration("ns")),
    ),
    "decimals": (
        pa.array(list(map(Decimal, ("0", "1.5", "-2.25", "7000"))), pa.decimal128(10, 2)),
        pa.array(list(map(Decimal, ("0", "1.5", "-2.25", "7000"))), pa.decimal256(60, 9)),
    ),
    "texts": (pa.array(list("abcd")), pa.array(list("abcd"), pa.string_view())),
    "bytes": (
        pa.array([b"ab", b"cd", b"ef", b"gh"], pa.binary(2)),
        pa.array([b"ab", b"cd", b"ef", b"gh"], pa.large_binary()),
    ),
    "numbers": (pa.array([1, 2, 3, 4], pa.int8()), pa.array([1, 2, 3, 4], pa.float16())),
    "codes": (
        pa.array([0, 1, 2, 3], pa.timestamp("s")).dictionary_encode(),
        pc.run_end_encode(pa.array([0, 1000, 2000, 3000], pa.timestamp("ms"))),
    ),
}


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("name", ALIKE)
def test_equal_keys_of_two_types_find_each_other(name: str, parallelism: int) -> None:
    left, right = (
        stream({"key": keys, "row": range(4), "at": range(4)}).key_by("key") for keys in ALIKE[name]
    )
    found = rows(left.window_join(right, Tumbling(SECOND)), parallelism)
    assert sorted((row["row"], row["row_right"]) for row in found) == [(at, at) for at in range(4)]


TIMES = pa.array([1, 2], pa.timestamp("us"))
APART: dict[str, tuple[pa.Array, pa.Array]] = {
    "a time and an int": (TIMES, pa.array([1, 2])),
    "with a zone and without": (TIMES, TIMES.cast(pa.timestamp("us", "UTC"))),
    "a date and a time": (TIMES.cast(pa.date32()), TIMES),
    "a text and a number": (pa.array(["1", "2"]), pa.array([1, 2])),
    "a text and bytes": (pa.array(["a", "b"]), pa.array([b"a", b"b"])),
    "a decimal and an int": (pa.array([1, 2]).cast(pa.decimal128(20, 0)), pa.array([1, 2])),
}


@pytest.mark.parametrize("name", APART)
def test_keys_of_which_no_two_are_equal_are_refused(name: str) -> None:
    left, right = (
        stream({"key": keys, "at": [0, 1]}).key_by("key") for keys in ALIKE.get(name, APART[name])
    )
    expected = "interval_join got keys of which no two are equal: .* in column 'key' of the left"
    with pytest.raises(OperatorError, match=expected):
        rows(left.interval_join(right, between=AT_ONCE), parallelism=1)


def test_a_key_without_values_is_of_any_kind() -> None:
    left = stream({"key": pa.nulls(2), "at": [0, 1]}).key_by("key")
    right = stream({"key": ["a", None], "at": [0, 1]}).key_by("key")
    found = rows(left.window_join(right, Tumbling(SECOND)))
    assert [(row["key"], row["key_right"]) for row in found] == [(None, None)] * 2


def test_what_pyarrow_cannot_do_is_told_with_a_hint() -> None:
    views = stream({"x": pa.array(["a", "b"], pa.string_view()), "at": [0, 1]})
    with pytest.raises(OperatorError, match=r"(?s)string_view.*hint: .*cast them before"):
        rows(views.map_batches(lambda batch: batch.take(pa.array([0]))))
