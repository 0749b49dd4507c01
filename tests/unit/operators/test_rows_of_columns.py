"""Columns in front of operators that take records: these get what `to_records()` gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import engine
from engine.graph import chain, expand, logical_graph
from engine.graph.render import text
from engine.placement.nodes import Node
from engine.placement.place import place
from engine.testing import run
from operators import (
    Accumulator,
    BroadcastProcessFunction,
    BroadcastState,
    Change,
    CoProcessFunction,
    Count,
    CountTrigger,
    Max,
    ProcessContext,
    ProcessFunction,
    Tumbling,
    ValueState,
    source,
)
from operators.patterns import FollowedBy, Stage, Then
from operators.sinks import Callback, Collect, Counts, Discard
from operators.sources import Collection, Function
from operators.stream import Stream
from tests.halves import Halves, run_half, run_rest

SECOND = timedelta(seconds=1)
UTC = timezone.utc
TEXTS = ["a", "b", None, "a text that is longer than twelve bytes"]
VALUES: dict[str, Callable[[], pa.Array]] = {
    "texts": lambda: pa.array(TEXTS),
    "dictionary": lambda: pa.array(TEXTS).dictionary_encode(),
    "views": lambda: pa.array(TEXTS, pa.string_view()),
    "runs": lambda: pc.run_end_encode(pa.array(TEXTS)),
    "nulls": lambda: pa.nulls(4),
    "floats": lambda: pa.array([1.5, float("nan"), None, -0.0]),
    "structs": lambda: pa.array([{"a": 1, "b": ["x"]}, None, {"a": None, "b": []}, {"a": 2}]),
    "lists": lambda: pa.array([[1, None], [], None, [2]]),
    "times": lambda: pa.array([1_000_000, 2_000_001, None, 3], pa.timestamp("us", "UTC")),
    "nanoseconds": lambda: pa.array([1_000, 2_000, None, 3_000], pa.timestamp("ns")),
    "days": lambda: pa.array([1, None, 3, 20_000], pa.date32()),
    "decimals": lambda: pa.array([Decimal("1.50"), None, Decimal("2.00"), Decimal("-3.25")]),
}


def batches(*names: str) -> list[pa.RecordBatch]:
    """Four rows, in two batches and a batch without rows between them."""
    columns = {"k": ["a", "b", "a", "b"], "n": [1, 2, 3, 0], "at": [1, 2, 3, 11]}
    values = {name: VALUES[name]() for name in names or VALUES}
    batch = pa.record_batch({**columns, **values})
    return [batch.slice(0, 1), batch.slice(0, 0), batch.slice(1)]


def columns(*names: str) -> Stream[Any]:
    return source(Collection(batches(*names)))


class Numbered(ProcessFunction):
    seen = ValueState(0)

    def process(self, row: Any, _context: ProcessContext) -> list[Any]:
        self.seen += 1
        return [(self.seen, row)]


class AtTheEnd(ProcessFunction):
    last = ValueState[Any](None)

    def process(self, row: Any, context: ProcessContext) -> None:
        self.last = row
        context.set_timer(row["at"] * 1_000_000 + 5_000_000)

    def on_timer(self, time_us: int, _context: ProcessContext) -> list[Any]:
        return [(time_us, self.last)]


class Both(CoProcessFunction):
    def process_left(self, row: Any, _context: ProcessContext) -> list[Any]:
        return [("left", row)]

    def process_right(self, row: Any, _context: ProcessContext) -> list[Any]:
        return [("right", row)]


class Rows(Accumulator[Any, Any, Any]):
    def create(self) -> list[Any]:
        return []

    def add(self, so_far: list[Any], row: Any) -> list[Any]:
        return [*so_far, repr(row)]

    def merge(self, one: list[Any], other: list[Any]) -> list[Any]:
        return one + other


class Divides(ProcessFunction):
    def process(self, row: Any, _context: ProcessContext) -> list[Any]:
        return [1 // row["n"]]


class Counted(CoProcessFunction):
    n = ValueState(0)

    def process_left(self, row: Any, _context: ProcessContext) -> list[Any]:
        self.n += 1
        return [{**row, "n": self.n}] if self.n == self.most(row["k"]) else []

    process_right = process_left

    @staticmethod
    def most(key: Any) -> int:
        return 4 if isinstance(key, bool) else 2


class AboveLeast(BroadcastProcessFunction):
    least = BroadcastState[str, int]()

    def process(self, row: Any, context: Any) -> list[Any]:
        return [row]

    def process_broadcast(self, rule: Any, _context: Any) -> None:
        assert rule == {"least": 2}
        self.least["least"] = rule["least"]


def greater(row: Any) -> bool:
    return bool(row["n"] > 1)


async def divided(row: Any) -> int:
    return 1 // int(row["n"])


RISING = Then(
    Stage("one", lambda row: row["n"] > 0),
    FollowedBy("two", lambda row, so_far: row["n"] > so_far["one"][0]["n"]),
)


async def waited(row: Any) -> Any:
    return ("waited", row)


def by_function(stream: Stream[Any]) -> Any:
    return stream.key_by(lambda row: row["k"])


def timed(stream: Stream[Any]) -> Stream[Any]:
    return stream.with_event_time(lambda row: row["at"], unit="s")


def windows(stream: Stream[Any]) -> Any:
    return timed(stream).key_by("k").window(Tumbling(10 * SECOND))


FLOWS: dict[str, Callable[[Stream[Any]], Stream[Any]]] = {
    "map": lambda s: s.map(lambda row: (row["n"], row)),
    "map behind map_batches": lambda s: s.map_batches(lambda batch: batch).map(lambda row: row),
    "map over a channel": lambda s: s.rebalance().map(lambda row: row),
    "filter": lambda s: s.filter(lambda row: row["n"] % 2),
    "filter over a channel": lambda s: s.rebalance().filter(lambda row: row["n"] % 2),
    "filters": lambda s: s.filter(lambda row: row["n"]).filter(lambda row: row["n"] < 3),
    "flat_map": lambda s: s.flat_map(lambda row: [row] * row["n"]),
    "map_async": lambda s: s.map_async(waited),
    "reduce": lambda s: s.key_by("k").reduce(lambda a, b: {**b, "n": a["n"] + b["n"]}),
    "key function": lambda s: by_function(s).sum("n", emit="final"),
    "key function, reduce": lambda s: by_function(s).reduce(lambda a, b: (a, b), emit="final"),
    "process": lambda s: s.key_by("k").process(Numbered()),
    "process, timers": lambda s: timed(s).key_by("k").process(AtTheEnd()),
    "process of two": lambda s: s.key_by("k").connect(by_function(s)).process(Both()),
    "accumulator": lambda s: s.key_by("k").aggregate(rows=Rows(), emit="final"),
    "accumulator of all": lambda s: s.aggregate(rows=Rows(), emit="final"),
    "where": lambda s: s.key_by("k").aggregate(n=Count(where=greater), emit="final"),
    "event time": lambda s: timed(s).map(repr),
    "windows, count": lambda s: windows(s).count(),
    "windows, collect": lambda s: windows(s).collect(),
    "windows, reduce": lambda s: windows(s).reduce(lambda a, b: {**a, "n": a["n"] + b["n"]}),
    "windows, apply": lambda s: windows(s).apply(lambda _, rows, start, end: (rows, start, end)),
    "windows, trigger": lambda s: (
        timed(s).key_by("k").window(Tumbling(10 * SECOND), emit=CountTrigger(2)).collect()
    ),
    "windows, key function": lambda s: by_function(timed(s)).window(Tumbling(10 * SECOND)).count(),
    "over": lambda s: timed(s).key_by("k").over(3 * SECOND).sum("n"),
    "sort": lambda s: timed(s).key_by("k").sort_by_time(),
    "deduplicate": lambda s: timed(s).key_by("k").deduplicate(within=5 * SECOND),
    "top_n": lambda s: by_function(s).top_n(1, "n", emit="final"),
    "latest": lambda s: s.key_by("k").latest(by=lambda row: row["at"]).changes(),
    "join": lambda s: s.key_by("k").join(s.key_by("k"), lambda a, b: (a["n"], b)),
    "join, key function": lambda s: s.key_by("k").join(by_function(s)),
    "table join": lambda s: s.key_by("k").latest().join(by_function(s), lambda a, b: (a, b)),
    "interval join": lambda s: (
        timed(s).key_by("k").interval_join(timed(s).key_by("k"), between=(-SECOND, SECOND))
    ),
    "cogroup": lambda s: (
        timed(s)
        .key_by("k")
        .cogroup(timed(s).key_by("k"), Tumbling(10 * SECOND), lambda _, a, b, *__: (a, b))
    ),
    "lookup": lambda s: s.lookup_join({"a": 1}, lambda row: row["k"], how="left"),
    "lookup, function": lambda s: s.lookup_join({"a": 1}, "k", lambda row, one: (row, one)),
    "pattern": lambda s: timed(s).key_by("k").pattern(RISING),
}


def planned(pipelines: list[Any]) -> list[str]:
    """The lines of `oka plan`."""
    logical = logical_graph(pipelines)
    execution = expand(chain(logical, 1))
    placement = place(execution, [Node("here", "127.0.0.1", {"cpus": 4.0})])
    return [line.strip() for line in text(logical, execution, placement).splitlines()]


def rows_of(output: list[Any]) -> list[Any]:
    """Records, and rows of columns as tuples of their values."""
    return [
        row
        for each in output
        for row in (each.to_pylist() if isinstance(each, pa.RecordBatch) else [each])
    ]


def found(stream: Stream[Any], **settings: Any) -> list[str]:
    """What comes, in an order of its own; of changes, the rows that are there at the end."""
    output = rows_of(run(stream.sink(Collect()), **settings)["collect"])
    there: Counter[str] = Counter()
    for each in output:
        if isinstance(each, Change):
            there[repr(each.record)] += 1 if each.kind in ("+I", "+U") else -1
        else:
            there[repr(each)] += 1
    return sorted(there.elements())


@pytest.mark.parametrize("flow", FLOWS)
def test_operators_get_the_rows_of_to_records(flow: str) -> None:
    given = FLOWS[flow]
    expected = found(given(columns().to_records()), parallelism=1)
    assert found(given(columns()), parallelism=1) == expected
    assert len(expected) > 0


@pytest.mark.parametrize("name", VALUES)
def test_what_passes_records_on_passes_columns(name: str) -> None:
    """Of the same types, dictionaries and all."""
    flows = (
        lambda s: s.filter(lambda row: row["n"] != 2),
        lambda s: timed(s).filter(lambda row: row["n"] != 2, on_error="skip"),
        lambda s: s.rebalance().filter(lambda row: 1 / (row["n"] - 2), on_error="skip"),
    )
    whole = pa.Table.from_batches(batches(name)).combine_chunks().to_batches()[0]
    expected = [row for row in whole.to_pylist() if row["n"] != 2]
    for flow in flows:
        given = run(flow(columns(name)).sink(Collect()), parallelism=1)["collect"]
        assert {each.schema.field(name).type for each in given} == {whole.schema.field(name).type}
        assert repr(rows_of(given)) == repr(expected)


@pytest.mark.parametrize("on_error", ["skip", "side"])
@pytest.mark.parametrize(
    "flow",
    [
        lambda s, **k: s.map(lambda row: 1 // row["n"], **k),
        lambda s, **k: s.flat_map(lambda row: [1 // row["n"]], **k),
        lambda s, **k: s.filter(lambda row: 1 // row["n"] < 2, **k),
        lambda s, **k: s.map_async(divided, **k),
        lambda s, **k: s.key_by("k").process(Divides(), **k),
    ],
)
@pytest.mark.parametrize("over_channel", [False, True])
def test_rows_that_fail_are_rows(flow: Any, on_error: str, over_channel: bool) -> None:
    stream = columns("texts")
    out = flow(stream.rebalance() if over_channel else stream, on_error=on_error)
    sinks = [out.sink(Collect())]
    if on_error == "side":
        sinks.append(out.side("errors").sink(Collect()).named("bad"))
    outputs = run(sinks, parallelism=2)
    assert len(rows_of(outputs["collect"])) == 3
    if on_error == "side":
        ((row, words),) = outputs["bad"]
        assert row == {"k": "b", "n": 0, "at": 11, "texts": TEXTS[3]}
        assert words == "ZeroDivisionError: integer division or modulo by zero"


def test_a_row_that_fails_is_told() -> None:
    for stream in (columns("texts"), columns("texts").rebalance()):
        with pytest.raises(engine.OperatorError) as raised:
            run(stream.map(lambda row: 1 // row["n"]).sink(Discard()))
        assert raised.value.operator == "map"
        assert raised.value.record == repr({"k": "b", "n": 0, "at": 11, "texts": TEXTS[3]})


@pytest.mark.parametrize("behind", [lambda s: s, lambda s: s.rebalance()])
def test_rows_that_cannot_be_made_are_told(behind: Any) -> None:
    twice = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], ["n", "n"])
    fine = pa.record_batch({"at": pa.array([1], pa.timestamp("ns"))})
    for batch, told in ((twice, "the columns are n, n"), (fine, "column 'at'")):
        with pytest.raises(engine.OperatorError, match=told) as raised:
            run(behind(source(Collection([batch]))).map(lambda row: row).sink(Discard()))
        assert raised.value.operator == "map"


KEYS: dict[str, pa.Array] = {
    "texts": pa.array(["a", "b", None, "c", "dictionary"]),
    "dictionary": pa.array(["a", "b", None, "c", "d"]).dictionary_encode(),
    "views": pa.array(["a", "b", None, "c", "d"], pa.string_view()),
    "bytes": pa.array([b"a", b"b", None, b"c", b"d"]),
    "integers": pa.array([1, -2, None, 2**40, 7], pa.int64()),
    "unsigned": pa.array([1, 2, None, 2**64 - 1, 7], pa.uint64()),
    "floats": pa.array([1.0, -0.0, None, float("nan"), 0.1]),
    "small floats": pa.array([1.0, -0.0, None, float("nan"), 0.1], pa.float32()),
    "bools": pa.array([True, False, None, True, False]),
    "days": pa.array([date(2026, 1, day) for day in (1, 2, 3, 4, 5)]),
    "times": pa.array([datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2, 3, 4, 5)]),
    "seconds": pa.array([1, 2, 3, 4, 5], pa.timestamp("s")),
    "durations": pa.array([timedelta(hours=each) for each in (1, 2, 3, 4, 5)]),
    "decimals": pa.array([Decimal(each) for each in ("1.50", "2.00", "3.25", "-4.00", "0.00")]),
    "uuids": pa.array([bytes([each]) * 16 for each in range(5)], pa.binary(16)).cast(pa.uuid()),
}


@pytest.mark.parametrize("behind", ["reduce", "connect"])
@pytest.mark.parametrize("name", KEYS)
def test_rows_meet_records_with_their_key(name: str, behind: str) -> None:
    """In one of three tasks, whatever type the key's column has."""
    batch = pa.record_batch({"k": KEYS[name], "n": [1] * 5})
    rows, records = source(Collection([batch])), source(Collection([batch])).to_records()
    if behind == "reduce":
        both = rows.union(records).key_by("k")
        sums = both.reduce(lambda a, b: {**a, "n": a["n"] + b["n"]}, emit="final")
    else:
        sums = rows.key_by("k").connect(records.key_by("k")).process(Counted())
    sums = sums.with_parallelism(3)
    given = run(sums.sink(Collect()), parallelism=3)["collect"]
    expected = [{**row, "n": 2} for row in batch.to_pylist()]
    if name == "bools":
        expected = [{"k": each, "n": n} for each, n in ((True, 4), (False, 4), (None, 2))]
    assert sorted(map(repr, given)) == sorted(map(repr, expected))


@pytest.mark.parametrize("parallelism", [1, 3])
def test_sinks_of_records_get_rows(parallelism: int, tmp_path: Path) -> None:
    def write(row: Any) -> None:
        with (tmp_path / "rows").open("a") as file:
            file.write(f"{row!r}\n")

    run(columns("structs").sink(Callback(write)), parallelism=parallelism)
    written = (tmp_path / "rows").read_text().splitlines()
    assert sorted(written) == found(columns("structs").to_records())


def test_a_broadcast_stream_may_have_columns() -> None:
    rules = source(Collection([pa.record_batch({"least": [2]})]))
    out = columns("texts").key_by("k").process_with(rules.broadcast(), AboveLeast())
    assert len(run(out.sink(Collect()), parallelism=2)["collect"]) <= 4


def test_the_plan_tells_where_rows_are_made() -> None:
    stream = source(Collection(batches("texts")))
    kept = stream.filter(lambda row: row["n"]).with_event_time("at").key_by("k").count()
    pipelines = [
        kept.map(lambda row: row).map(lambda row: row).sink(Collect()),
        stream.to_records().filter(bool).named("records").sink(Collect()).named("rows"),
    ]
    assert [line for line in planned(pipelines) if "rows of columns" in line] == [
        "filter <- collection (forward), rows of columns",
        "map <- count (forward), rows of columns",
    ]


MIXED: dict[str, Callable[[Stream[Any]], Stream[Any]]] = {
    "count": lambda s: s.key_by("k").count(emit="final"),
    "sum": lambda s: s.key_by("k").sum("n", emit="final"),
    "without a key": lambda s: s.aggregate(n=Count(), most=Max("n"), emit="final"),
    "aggregate": lambda s: s.key_by("k").aggregate(n=Count(), most=Max("n"), emit="final"),
    "windows": lambda s: s.key_by("k").window(Tumbling(10 * SECOND), time="at", unit="s").count(),
    "over": lambda s: s.key_by("k").over(3 * SECOND, time="at", unit="s").sum("n"),
    "sort": lambda s: s.key_by("k").sort_by_time(time="at", unit="s"),
    "deduplicate": lambda s: s.key_by("k").deduplicate("last"),
    "top_n": lambda s: s.key_by("k").top_n(1, "n", emit="final"),
    "latest": lambda s: s.key_by("k").latest(by="at").changes(),
    "table count": lambda s: s.key_by("k").latest().count().changes(),
    "suppress": lambda s: s.key_by("k").latest().suppress(SECOND).changes(),
    "join": lambda s: s.key_by("k").join(s.key_by("k")),
    "join of tables": lambda s: s.key_by("k").latest().join(s.key_by("k").latest()),
    "window join": lambda s: s.key_by("k").window_join(
        s.key_by("k"), Tumbling(10 * SECOND), time="at", right_time="at", unit="s"
    ),
    "lookup": lambda s: s.lookup_join({"a": 1}, "k", lambda row, one: (row, one)),
    "map": lambda s: s.map(lambda row: row["n"]),
    "filter": lambda s: s.filter(lambda row: row["n"]),
    "take": lambda s: s.take(3),
    "counts": lambda s: s.key_by("k").count(emit="final"),
}
ORDERS = {
    "columns first": lambda first, second: [first, second.to_pylist(), second],
    "records first": lambda first, second: [first.to_pylist(), second, second.to_pylist()],
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("flow", MIXED)
def test_a_stream_may_change_its_form(flow: str, order: str) -> None:
    first = pa.record_batch({"k": ["a", "b", None], "n": [1, 2, 3], "at": [1, 2, 3]})
    second = pa.record_batch({"k": ["b", "a", "c"], "n": [5, 1, 9], "at": [4, 12, 3]})
    given = ORDERS[order](first, second)

    def told(stream: Stream[Any]) -> list[str]:
        there: Counter[str] = Counter()
        for each in rows_of(run(MIXED[flow](stream).sink(Collect()), parallelism=1)["collect"]):
            kind = each.pop("kind", "+I") if isinstance(each, dict) else getattr(each, "kind", "+I")
            record = each.record if isinstance(each, Change) else each
            there[values_of(record)] += 1 if kind in ("+I", "+U") else -1
        return sorted(there.elements())

    one_by_one = Function(lambda context: iter(given if context.index == 0 else []))
    mixed = source(one_by_one).with_parallelism(1)
    assert told(mixed) == told(source(one_by_one).with_parallelism(1).to_records())


def values_of(record: Any) -> str:
    """The values of a result, as often as it has them, whatever its form: a key is in it or not."""
    return repr(sorted(set(flat(record)), key=repr))


def flat(record: Any) -> Iterator[Any]:
    if isinstance(record, dict):
        record = [value for name, value in record.items() if name != "rank"]
    if isinstance(record, list | tuple):
        for each in record:
            yield from flat(each)
    elif record is not None:
        yield record


def test_counts_keeps_the_last_pair_of_either_form() -> None:
    batch = pa.record_batch({"k": ["a", "b"], "n": [1, 2]})
    newer = pa.record_batch({"k": ["c"], "n": [9]})
    given: list[Any] = [[("b", 1), ("c", 1)], batch, [("a", 5), ("d", 7)], newer]
    stream = source(Function(lambda: iter(given)))
    assert run(stream.sink(Counts()), parallelism=1)["counts"] == {"a": 5, "b": 2, "c": 9, "d": 7}


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 2)])
@pytest.mark.parametrize("key", ["text", "day", "id"])
def test_state_of_rows_goes_to_the_tasks_that_get_their_keys(
    key: str, before: int, after: int, tmp_path: Path
) -> None:
    """Keys of times and UUIDs, too."""
    given = [
        {"text": f"{n % 10}", "day": date(2026, 1, 1 + n % 10), "id": bytes([n % 10]) * 16, "n": 1}
        for n in range(100)
    ]
    schema = pa.schema(
        [("text", pa.string()), ("day", pa.date32()), ("id", pa.uuid()), ("n", pa.int64())]
    )
    halves = Halves(given, 50, lambda some: pa.RecordBatch.from_pylist(some, schema))
    sums = source(halves).key_by(key).reduce(lambda a, b: {**a, "n": a["n"] + b["n"]}, emit="final")
    pipeline = sums.sink(Collect())
    run_half(pipeline, tmp_path, halves, parallelism=before)
    found = run_rest(pipeline, tmp_path, parallelism=after)["collect"]
    assert [row["n"] for row in found] == [10] * 10
