"""Python's values as keys, as values and as records, through each operator, as Python has them.

What an operator does not take, it refuses: the error names the value, or has Python's words.
"""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import engine
from engine.record import dict_key
from engine.testing import run
from operators import (
    Count,
    CountDistinct,
    CountWindow,
    First,
    KeyedStream,
    Last,
    Max,
    Mean,
    Min,
    ProcessContext,
    ProcessFunction,
    Session,
    Sliding,
    Stream,
    Sum,
    Top,
    Tumbling,
    ValueState,
    source,
)
from operators.sinks import Collect
from operators.sources import Collection
from tests.pythonvalues import KEYS, REFUSED_KEYS, VALUES
from tests.windowing import Tasks, windowed

pytestmark = pytest.mark.usefixtures("nothing_left")

Flow = Callable[[Stream[Any]], Stream[Any]]
TEN = timedelta(seconds=10)


class Numbered(ProcessFunction):
    """What the records of a key had so far."""

    seen = ValueState[tuple[Any, ...]](())

    def process(self, record: Any, context: ProcessContext) -> list[Any]:
        self.seen = (*self.seen, record[1])
        return [(context.key, list(self.seen))]


def by_key(stream: Stream[Any]) -> KeyedStream[Any, Any]:
    return stream.with_event_time(1, unit="s").key_by(0)


def window(assigner: Any) -> Callable[[Stream[Any]], Any]:
    return lambda stream: by_key(stream).window(assigner)


def joined(stream: Stream[Any], join: Callable[[Any, Any], Any]) -> Stream[Any]:
    return join(by_key(stream), by_key(source(Collection(list(COPY)))))


COPY: list[Any] = []
"""The records again, for the other side of a join."""

# Of records (key, number) with the numbers 0, 1, ...: the stream of (key, what it came to).
OF_KEYS: dict[str, tuple[Flow, Callable[[list[int]], Any]]] = {
    "reduce": (
        lambda s: listed(s).key_by(0).reduce(added, emit="final"),
        list,
    ),
    "reduce by a function": (
        lambda s: listed(s).key_by(first).reduce(added, emit="final"),
        list,
    ),
    "count": (lambda s: s.key_by(0).count(emit="final"), len),
    "count by a function": (lambda s: s.key_by(first).count(emit="final"), len),
    "count of records": (lambda s: s.map(first).key_by().count(emit="final"), len),
    "count by two items": (
        lambda s: (
            s.map(lambda r: (r[0], 1))
            .key_by(1, 0)
            .count(emit="final")
            .map(lambda r: (r[0][1], r[1]))
        ),
        len,
    ),
    "count of a field": (
        lambda s: s.map(lambda r: {"k": r[0]}).key_by("k").count(emit="final"),
        len,
    ),
    "sum": (lambda s: s.key_by(0).sum(1, emit="final"), sum),
    "min": (lambda s: s.key_by(0).min(1, emit="final"), min),
    "max": (lambda s: s.key_by(0).max(1, emit="final"), max),
    "mean": (lambda s: s.key_by(0).mean(1, emit="final"), statistics.fmean),
    "first": (lambda s: s.key_by(0).first(1, emit="final"), lambda n: n[0]),
    "last": (lambda s: s.key_by(0).last(1, emit="final"), lambda n: n[-1]),
    "distinct": (lambda s: s.key_by(0).count_distinct(1, emit="final"), len),
    "top": (lambda s: s.key_by(0).top(1, 1, emit="final"), lambda n: [(n[0], 1)]),
    "several": (
        lambda s: s.key_by(0).aggregate(n=Count(), s=Sum(1), emit="final"),
        lambda n: {"n": len(n), "s": sum(n)},
    ),
    "process": (
        lambda s: s.key_by(0).process(Numbered()).key_by(0).reduce(lambda a, b: b, emit="final"),
        list,
    ),
    "tumbling count": (lambda s: unbounded(window(Tumbling(1000 * TEN))(s).count()), len),
    "tumbling reduce": (
        lambda s: unbounded(window(Tumbling(1000 * TEN))(s).collect()),
        lambda n: n,
    ),
    "session sum": (lambda s: unbounded(window(Session(1000 * TEN))(s).sum(1)), sum),
    "session reduce": (lambda s: unbounded(window(Session(1000 * TEN))(s).collect()), list),
    "count window": (lambda s: unbounded(s.key_by(0).window(CountWindow(1000)).max(1)), max),
    "count window in python": (
        lambda s: unbounded(s.key_by(0).window(CountWindow(1000)).collect()),
        list,
    ),
    "interval join": (
        lambda s: together(
            joined(
                s,
                lambda a, b: a.interval_join(
                    b, lambda x, y: (x[0], x[1]), between=(-TEN * 1000, TEN * 1000)
                ),
            )
        ),
        lambda n: sorted(n * len(n)),
    ),
    "window join": (
        lambda s: together(
            joined(
                s, lambda a, b: a.window_join(b, Tumbling(1000 * TEN), lambda x, y: (x[0], x[1]))
            )
        ),
        lambda n: sorted(n * len(n)),
    ),
    "temporal join": (
        lambda s: together(joined(s, lambda a, b: a.temporal_join(b, lambda x, y: (x[0], y[1])))),
        list,
    ),
}


def listed(stream: Stream[Any]) -> Stream[Any]:
    """Numbers in lists, in the order in which they came."""
    return stream.map(lambda record: (record[0], [record[1]])).with_parallelism(1)


def first(record: Any) -> Any:
    return record[0]


def added(left: Any, right: Any) -> Any:
    return (left[0], left[1] + right[1])


def unbounded(windows: Stream[Any]) -> Stream[Any]:
    """Of results of windows, key and value; of lists of records, their numbers."""

    def numbers(value: Any) -> Any:
        return [record[1] for record in value] if isinstance(value, list) else value

    return windows.map(lambda row: (row[0], numbers(row[1])))


def of_window(windows: Stream[Any]) -> Stream[Any]:
    """Key and value."""
    return windows.map(lambda row: (row[0], row[1]))


def together(pairs: Stream[Any]) -> Stream[Any]:
    """Of each key all numbers, in order."""
    lists = pairs.map(lambda pair: (pair[0], [pair[1]])).key_by(0)
    return lists.reduce(added, emit="final").map(lambda pair: (pair[0], sorted(pair[1])))


def in_turn(records: list[Any]) -> Stream[Any]:
    """All from one task, so that the records of a key come in their order."""
    return source(Collection(records)).with_parallelism(1)


def found(stream: Stream[Any], parallelism: int) -> list[Any]:
    records: list[Any] = run(stream.sink(Collect()), parallelism=parallelism)["collect"]
    return records


@pytest.mark.table(3)
@pytest.mark.parametrize("parallelism", [1, 2, 3])
@pytest.mark.parametrize("operator", OF_KEYS)
def test_what_python_calls_equal_is_one_key(operator: str, parallelism: int) -> None:
    flow, value = OF_KEYS[operator]
    keys = [key for kind in KEYS.values() for key in kind]
    records = [(key, number) for number, key in enumerate([*keys, *reversed(keys)])]
    COPY[:] = records
    numbers: dict[Any, list[int]] = {}
    for key, number in records:
        numbers.setdefault(dict_key(key), []).append(number)
    pairs = found(flow(in_turn(records)), parallelism)
    assert len(pairs) == len(numbers)
    totals = {dict_key(key): total for key, total in pairs}
    for key, each in numbers.items():
        assert totals.pop(key) == value(each), repr(key)
    assert totals == {}


@pytest.mark.parametrize("kind", REFUSED_KEYS)
@pytest.mark.parametrize("operator", ["reduce", "count", "process"])
def test_what_is_no_key_is_refused_by_name(operator: str, kind: str) -> None:
    flow, _ = OF_KEYS[operator]
    records = [(key, 0) for key in REFUSED_KEYS[kind]]
    with pytest.raises(engine.OperatorError) as raised:
        found(flow(source(Collection(records))), 2)
    words = str(raised.value)
    assert re.search("cannot be a key|cannot travel", words)
    assert "hint: " in words
    assert type(records[0][0]).__name__ in words or "list" in words


def plain(value: Any) -> Any:
    """Python's number for one of NumPy's, which a sum is exact of."""
    return value.item() if isinstance(value, np.number | np.bool_) else value


def summed(values: list[Any]) -> Any:
    numbers = [plain(value) for value in values]
    if not all(isinstance(number, NUMBERS) for number in numbers):
        raise TypeError("no number")
    start = timedelta() if isinstance(numbers[0], timedelta) else 0
    return sum(numbers, start)


def in_order(values: list[Any], choose: Callable[..., Any]) -> Any:
    for value in values:
        _ = value < value  # even of one value
    return choose(values)


def distinct(values: list[Any]) -> list[tuple[Any, int]]:
    """Each as it came first, with how often it came."""
    forms = {dict_key(value): value for value in reversed(values)}
    counts = Counter(map(dict_key, values))
    return [(forms[key], count) for key, count in counts.most_common()]


def quartiles(values: list[Any]) -> list[float]:
    numbers = [float(plain(value)) for value in values]
    assert all(isinstance(plain(value), NUMBERS[:-2]) for value in values) or raised_type_error()
    return [float(np.quantile(numbers, share)) for share in (0.0, 1.0)]


def raised_type_error() -> bool:
    raise TypeError("no number")


NUMBERS = (
    int,
    float,
    Decimal,
    *(type(each) for each in VALUES["fractions"][:1]),
    timedelta,
    complex,
)

OF_VALUES: dict[str, tuple[Flow, Callable[[list[Any]], Any]]] = {
    "sum": (lambda s: s.key_by(0).sum(2, emit="final"), summed),
    "min": (lambda s: s.key_by(0).min(2, emit="final"), lambda v: in_order(v, min)),
    "max": (lambda s: s.key_by(0).max(2, emit="final"), lambda v: in_order(v, max)),
    "mean": (lambda s: s.key_by(0).mean(2, emit="final"), lambda v: summed(v) / len(v)),
    "first": (lambda s: s.key_by(0).first(2, emit="final"), lambda v: v[0]),
    "last": (lambda s: s.key_by(0).last(2, emit="final"), lambda v: v[-1]),
    "distinct": (lambda s: s.key_by(0).count_distinct(2, emit="final"), lambda v: len(distinct(v))),
    "top": (
        lambda s: s.key_by(0).top(2, emit="final"),
        distinct,
    ),
    "reduce": (
        lambda s: s.key_by(0).reduce(lambda a, b: b, emit="final").map(last_of),
        lambda v: v[-1],
    ),
    "tumbling sum": (lambda s: of_window(window(Tumbling(1000 * TEN))(s).sum(2)), summed),
    "sliding sum": (
        lambda s: of_window(
            window(Sliding(2000 * TEN, 1000 * TEN))(s).sum(2).filter(lambda row: row[2] == 0)
        ),
        summed,
    ),
    "session max": (
        lambda s: of_window(window(Session(1000 * TEN))(s).max(2)),
        lambda v: in_order(v, max),
    ),
    "count window mean": (
        lambda s: of_window(s.key_by(0).window(CountWindow(1000)).mean(2)),
        lambda v: summed(v) / len(v),
    ),
    "quantiles": (
        lambda s: (
            s.key_by(0).window(CountWindow(1000)).quantiles(2, [0, 1]).map(lambda r: (r[0], r[1]))
        ),
        quartiles,
    ),
    "payload": (lambda s: s.key_by(0).window(CountWindow(1000)).collect().map(values_of), list),
    "process": (
        lambda s: (
            s.map(last_of)
            .with_parallelism(1)
            .key_by(0)
            .process(Numbered())
            .key_by(0)
            .reduce(lambda a, b: b, emit="final")
        ),
        list,
    ),
}
SEVERAL: dict[str, tuple[Any, Callable[[list[Any]], Any]]] = {
    "sum": (Sum(2), summed),
    "mean": (Mean(2), lambda v: summed(v) / len(v)),
    "min": (Min(2), lambda v: in_order(v, min)),
    "max": (Max(2), lambda v: in_order(v, max)),
    "first": (First(2), lambda v: v[0]),
    "last": (Last(2), lambda v: v[-1]),
    "distinct": (CountDistinct(2), lambda v: len(distinct(v))),
    "top": (Top(2), distinct),
}


def last_of(record: Any) -> Any:
    return (record[0], record[2])


def values_of(row: Any) -> Any:
    return (row[0], [record[2] for record in row[1]])


def outcome(function: Callable[[list[Any]], Any], values: list[Any]) -> Any:
    """What plain Python makes of the values, or the exception."""
    try:
        return function(values)
    except Exception as error:  # noqa: BLE001 - whatever Python says of such values
        return error


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("operator", OF_VALUES)
def test_values_come_to_what_python_makes_of_them(operator: str, parallelism: int) -> None:
    flow, function = OF_VALUES[operator]
    outcomes = {kind: outcome(function, values) for kind, values in VALUES.items()}
    expected = {kind: found for kind, found in outcomes.items() if not isinstance(found, Exception)}
    most = max(map(len, VALUES.values()))
    rows = [
        (kind, 1, VALUES[kind][at])
        for at in range(most)  # in turn, so that each key's come in several batches
        for kind in expected
        if at < len(VALUES[kind])
    ]
    pairs = found(flow(in_turn(rows)), parallelism)
    totals = dict(pairs)
    assert len(pairs) == len(totals) == len(expected)
    for kind, value in expected.items():
        assert same(totals[kind], value), f"{kind}: {totals[kind]!r}, expected {value!r}"


@pytest.mark.parametrize("operator", ["sum", "max", "mean", "quantiles", "tumbling sum"])
def test_values_that_python_refuses_are_refused_by_name(operator: str) -> None:
    flow, function = OF_VALUES[operator]
    refused = [
        kind for kind, values in VALUES.items() if isinstance(outcome(function, values), Exception)
    ]
    assert refused
    for kind in refused:
        rows = [("a", 1, value) for value in VALUES[kind]]
        with pytest.raises(engine.OperatorError) as raised:
            found(flow(source(Collection(rows))), 1)
        words = str(raised.value)
        assert "of the batch, ('a', 1, " in words, kind
        assert "hint: " in words or "decimal." in words, kind


def same(value: Any, expected: Any) -> bool:
    if isinstance(expected, Decimal):
        return type(value) is Decimal and value.as_tuple() == expected.as_tuple()
    if isinstance(expected, list | tuple | dict):
        return repr(value) == repr(expected)
    return type(value) is type(expected) and bool(value == expected)


@pytest.mark.table(4)
@pytest.mark.parametrize("shape", ["all", "tumbling", "sessions", "counts"])
@pytest.mark.parametrize("name", [*SEVERAL, "together"])
def test_a_value_that_fails_changes_nothing_where_it_is_rescued(name: str, shape: str) -> None:
    chosen = list(SEVERAL) if name == "together" else [name]
    wanted = {each: SEVERAL[each][0] for each in chosen}
    kept = {kind: taken(chosen, values) for kind, values in VALUES.items()}
    rows = [(kind, 1, value) for kind, values in VALUES.items() for value in values]
    keyed = by_key(in_turn(rows))
    totals = WINDOWED[shape](keyed, wanted)
    bad = totals.side("errors").sink(Collect()).named("bad")
    outputs = run([totals.sink(Collect()), bad], parallelism=2)
    failed = Counter(record[0] for record, _ in outputs["bad"])
    for kind, values in VALUES.items():
        assert failed[kind] == len(values) - len(kept[kind]), kind
    assert all(type(words) is str and words for _, words in outputs["bad"])
    found = {row[0]: row[1] for row in outputs["collect"]}
    assert found.keys() == {kind for kind, values in kept.items() if values}
    for kind, each in found.items():
        for one in chosen:
            expected = SEVERAL[one][1](kept[kind])
            assert same(each[one], expected), f"{kind}: {each[one]!r}, expected {expected!r}"


def taken(chosen: list[str], values: list[Any]) -> list[Any]:
    """Those of the values that all of the aggregations take."""
    so_far: list[Any] = []
    for value in values:
        made = (outcome(SEVERAL[name][1], [*so_far, value]) for name in chosen)
        if not any(isinstance(each, Exception) for each in made):
            so_far.append(value)
    return so_far


WINDOWED: dict[str, Callable[[KeyedStream[Any, Any], dict[str, Any]], Stream[Any]]] = {
    "all": lambda s, wanted: s.aggregate(**wanted, emit="final", on_error="side"),
    "tumbling": lambda s, wanted: s.window(Tumbling(TEN)).aggregate(**wanted, on_error="side"),
    "sessions": lambda s, wanted: s.window(Session(TEN)).aggregate(**wanted, on_error="side"),
    "counts": lambda s, wanted: s.window(CountWindow(100)).aggregate(**wanted, on_error="side"),
}


@pytest.mark.parametrize("tasks", [(1, 3), (3, 2)])
@pytest.mark.parametrize("assigner", ["tumbling", "sliding", "session", "count"])
@pytest.mark.parametrize("computed", ["count", "last", "collect"])
def test_windows_go_on_with_such_keys_in_other_tasks(
    computed: str, assigner: str, tasks: tuple[int, int]
) -> None:
    windows = {
        "tumbling": Tumbling(TEN),
        "sliding": Sliding(2 * TEN, TEN),
        "session": Session(TEN),
        "count": CountWindow(100),
    }
    keys = [key for kind in KEYS.values() for key in kind]
    stream = windowed(windows[assigner])
    flow = {
        "count": stream.count,
        "last": lambda: stream.last(2),
        "collect": stream.collect,
    }[computed]()
    before = Tasks(flow, tasks[0])
    before.take([(key, 1, number) for number, key in enumerate(keys)], batch_size=50)
    after = Tasks(flow, tasks[1], before.snapshot())
    more = [(key, 2, number) for number, key in enumerate(keys)]
    after.take(more, batch_size=50)
    whole = Tasks(flow, 1)
    whole.take([(key, 1, number) for number, key in enumerate(keys)], batch_size=50)
    whole.take(more, batch_size=50)
    shown = [
        sorted((repr(dict_key(key)), start, repr(value)) for key, value, start, _ in rows)
        for rows in ([row for batch in each.end() for row in batch] for each in (after, whole))
    ]
    assert shown[0] == shown[1]
    of_key: dict[Any, int] = {}
    for key in keys:
        of_key[dict_key(key)] = of_key.get(dict_key(key), 0) + 1
    assert len(shown[0]) == len(of_key) * (2 if assigner == "sliding" else 1)


@pytest.mark.parametrize("value", [timedelta(1), 1j])
def test_quantiles_of_what_is_no_number_say_how_to_make_one(value: Any) -> None:
    windows = source(Collection([("a", value)])).key_by(0).window(CountWindow(1))
    with pytest.raises(engine.OperatorError, match=r"hint: quantiles are of numbers: make one"):
        run(windows.quantiles(1, [0.5]).sink(Collect()))
