"""The table of Arrow's types and operators: right, or refused at once by name.

What is expected is computed from the same rows in Python. All runs have real channels.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

import pytest

import engine.testing
from engine.errors import OperatorError
from operators import (
    Count,
    CountDistinct,
    CountWindow,
    First,
    Last,
    Max,
    Mean,
    Min,
    Quantile,
    Session,
    Sliding,
    Stream,
    Sum,
    Tumbling,
    source,
)
from operators.sinks import Collect, Counts
from operators.sources import Collection
from tests import arrow_types
from tests.arrow_types import ALL, KEYS, ORDERED, SUMMED, batches

Row = dict[str, Any]
SECOND = timedelta(seconds=1)
NEAR = (-2 * SECOND, 2 * SECOND)
WINDOWS = {
    "tumbling": Tumbling(5 * SECOND),
    "sliding": Sliding(6 * SECOND, 3 * SECOND),
    "session": Session(3 * SECOND),
    "of three": CountWindow(3),
}


def rows_of(name: str) -> list[Row]:
    return [row for batch in batches(name) for row in batch.to_pylist()]


def stream(name: str) -> Stream[Any]:
    return source(Collection(batches(name))).with_parallelism(1).with_event_time("at")


def run(streams: dict[str, Stream[Any]], **settings: Any) -> dict[str, list[Row]]:
    """The rows of each of these streams, of one job."""
    sinks = [each.sink(Collect()).named(name) for name, each in streams.items()]
    found = {}
    for name, output in engine.testing.run(sinks, parallelism=2, **settings).items():
        for batch in output:
            batch.validate(full=True)
            assert len(set(batch.schema.names)) == batch.num_columns
        found[name] = [row for batch in output for row in batch.to_pylist()]
    return found


def in_order(rows: Iterable[Any]) -> list[str]:
    return sorted(map(repr, rows))


def by(rows: list[Row], key: str) -> dict[Any, list[Row]]:
    groups = defaultdict(list)
    for row in rows:
        groups[row[key]].append(row)
    return dict(groups)


def windows_of(rows: list[Row], which: str, key: str) -> list[tuple[Any, list[Row]]]:
    """The keys and rows of all windows of this kind."""
    found: list[tuple[Any, list[Row]]] = []
    for of_key, group in by(rows, key).items():
        if which == "of three":
            found += [(of_key, group[at : at + 3]) for at in range(0, len(group), 3)]
            continue
        if which == "session":
            parts: list[list[Row]] = []
            for row in group:
                if not parts or row["at"] - parts[-1][-1]["at"] >= 3_000_000:
                    parts.append([])
                parts[-1].append(row)
        else:
            size, slide = (5, 5) if which == "tumbling" else (6, 3)
            starts = range(-size, 60, slide) if which == "sliding" else range(0, 60, slide)
            starts = [start for start in starts if start % slide == 0]
            parts = [
                [row for row in group if start <= row["at"] // 1_000_000 < start + size]
                for start in starts
            ]
        found += [(of_key, part) for part in parts if part]
    return found


def there(rows: list[Row]) -> list[Any]:
    return [row["x"] for row in rows if row["x"] is not None]


EXPECTED: dict[str, Callable[[list[Any]], Any]] = {
    "first": lambda values: values[0] if values else None,
    "last": lambda values: values[-1] if values else None,
    "min": lambda values: min(values, default=None),
    "max": lambda values: max(values, default=None),
    "sum": lambda values: sum(values) if values else None,
    "mean": lambda values: sum(values) / len(values) if values else None,
    "different": lambda values: len(set(values)),
}


@pytest.mark.table(2)
@pytest.mark.parametrize("transport", ["shm", "ipc"])
@pytest.mark.parametrize("name", ALL)
def test_a_column_travels(name: str, transport: str) -> None:
    found = run(
        {
            "passed": stream(name).rebalance(),
            "cut": stream(name).rebalance().map_batches(lambda batch: batch.slice(1)),
            "few": stream(name).rebalance().map_batches(lambda batch: batch),
        },
        transport=transport,
        batch_size=5,
    )
    rows = rows_of(name)
    assert in_order(found["passed"]) == in_order(rows)
    assert in_order(found["few"]) == in_order(rows)
    assert {row["i"] for row in found["cut"]} < {row["i"] for row in rows}
    assert all(row in rows for row in found["cut"])


@pytest.mark.table(2)
@pytest.mark.parametrize("name", ALL)
def test_a_column_is_kept(name: str) -> None:
    """By what keeps values of any type beyond their batch: of the ring, it may keep nothing."""
    keyed = stream(name).key_by("k")
    streams = {
        "first": keyed.first("x", emit="final"),
        "last": keyed.last("x", emit="final"),
        "updated": keyed.aggregate(first=First("x"), last=Last("x"), n=Count()),
        "reduced": keyed.reduce_batches(lambda rows: rows, emit="final"),
        "near": keyed.interval_join(stream(name).key_by("k"), between=NEAR, how="full"),
        "within": keyed.window_join(stream(name).key_by("k"), Tumbling(5 * SECOND)),
        "settled": keyed.window_join(stream(name).key_by("k"), Session(3 * SECOND), how="left"),
        "version": keyed.temporal_join(stream(name).key_by("k"), how="left"),
        "looked up": stream(name).rebalance().lookup_join({0: "even"}, "k"),
    }
    for which, windows in WINDOWS.items():
        of = keyed.window(windows)
        streams[which] = of.aggregate(first=First("x"), last=Last("x"))
    found, rows = run(streams), rows_of(name)
    groups = by(rows, "k")
    ends = {key: [*there(group), None][0] for key, group in groups.items()}
    assert {row["k"]: row["first"] for row in found["first"]} == ends
    lasts = {key: [None, *there(group)][-1] for key, group in groups.items()}
    assert {row["k"]: row["last"] for row in found["last"]} == lasts
    updated = {row["k"]: (row["first"], row["last"], row["n"]) for row in found["updated"]}
    assert updated == {key: (ends[key], lasts[key], len(groups[key])) for key in groups}
    assert in_order(found["reduced"]) == in_order(rows)
    even = [{**row, "value": "even"} for row in rows if row["k"] == 0]
    assert in_order(found["looked up"]) == in_order(even)
    near, within = (
        [
            {**left, **{f"{field}_right": value for field, value in right.items()}}
            for left in rows
            for right in rows
            if left["k"] == right["k"] and is_partner(left["at"], right["at"])
        ]
        for is_partner in (
            lambda left, right: abs(left - right) <= 2_000_000,
            lambda left, right: left // 5_000_000 == right // 5_000_000,
        )
    )
    assert in_order(found["near"]) == in_order(near)
    assert in_order(found["within"]) == in_order(within)
    itself = [{**row, **{f"{f}_right": v for f, v in row.items()}} for row in rows]
    assert in_order(found["version"]) == in_order(itself)
    pairs = sum(len(part) ** 2 for _, part in windows_of(rows, "session", "k"))
    assert len(found["settled"]) == pairs
    for which in WINDOWS:
        expected = [
            (key, EXPECTED["first"](there(part)), EXPECTED["last"](there(part)))
            for key, part in windows_of(rows, which, "k")
        ]
        got = [(row["k"], row["first"], row["last"]) for row in found[which]]
        assert in_order(got) == in_order(expected), which


@pytest.mark.table(2)
@pytest.mark.parametrize("name", ORDERED)
def test_values_of_a_column_are_aggregated(name: str) -> None:
    keyed = stream(name).key_by("k")
    wanted = {"min": Min("x"), "max": Max("x"), "different": CountDistinct("x")}
    if name in SUMMED:
        wanted |= {"sum": Sum("x"), "mean": Mean("x")}
    streams = {"all": keyed.aggregate(**wanted, emit="final")}
    for which, windows in WINDOWS.items():
        streams[which] = keyed.window(windows).aggregate(**wanted)
    found, rows = run(streams), rows_of(name)
    parts = {which: windows_of(rows, which, "k") for which in WINDOWS}
    parts["all"] = list(by(rows, "k").items())
    for which, groups in parts.items():
        expected = [
            (key, *(EXPECTED[each](there(part)) for each in wanted)) for key, part in groups
        ]
        got = [(row["k"], *(row[each] for each in wanted)) for row in found[which]]
        assert in_order(map(_plain, got)) == in_order(map(_plain, expected)), which


@pytest.mark.table(2)
@pytest.mark.parametrize("name", KEYS)
def test_a_column_is_the_key(name: str) -> None:
    def other() -> Any:
        return stream(name).key_by("x")

    keyed = other()
    streams = {
        "count": keyed.count(emit="final"),
        "sum": keyed.sum("i"),
        "of two": stream(name).key_by("x", "k").count(emit="final"),
        "reduced": keyed.reduce_batches(lambda rows: rows, emit="final"),
        "updated": keyed.reduce_batches(lambda rows: rows.slice(0, 0)),
        "near": keyed.interval_join(other(), between=NEAR, how="full"),
        "within": keyed.window_join(other(), Session(3 * SECOND)),
        "version": keyed.temporal_join(other()),
        "looked up": stream(name).lookup_join(lambda key: repr(key), "x"),
        "looked up by two": stream(name).lookup_join(lambda key: repr(key), ("x", "k")),
    }
    for which, windows in WINDOWS.items():
        streams[which] = keyed.window(windows).aggregate(n=Count(), total=Sum("i"))
    found, rows = run(streams), rows_of(name)
    groups = by(rows, "x")
    counts = [(key, len(group)) for key, group in groups.items()]
    assert in_order((row["x"], row["count"]) for row in found["count"]) == in_order(counts)
    sums = {repr(row["x"]): row["sum"] for row in found["sum"]}
    assert sums == {repr(key): sum(row["i"] for row in group) for key, group in groups.items()}
    pairs = defaultdict(int)
    for row in rows:
        pairs[row["x"], row["k"]] += 1
    got = ((row["x"], row["k"], row["count"]) for row in found["of two"])
    assert in_order(got) == in_order((*key, count) for key, count in pairs.items())
    assert in_order(found["reduced"]) == in_order(rows)
    assert not found["updated"]
    near = [
        (left["i"], right["i"])
        for left in rows
        for right in groups[left["x"]]
        if abs(left["at"] - right["at"]) <= 2_000_000
    ]
    assert in_order((row["i"], row["i_right"]) for row in found["near"]) == in_order(near)
    within = sum(len(part) ** 2 for _, part in windows_of(rows, "session", "x"))
    assert len(found["within"]) == within
    assert all(row["x"] == row["x_right"] for row in found["within"])
    versions = ((row["i"], row["i_right"]) for row in found["version"])
    assert in_order(versions) == in_order((row["i"], row["i"]) for row in rows)
    assert all(row["value"] == repr(row["x"]) for row in found["looked up"])
    assert all(row["value"] == repr((row["x"], row["k"])) for row in found["looked up by two"])
    assert len(found["looked up"]) == len(found["looked up by two"]) == len(rows)
    for which in WINDOWS:
        expected = [
            (key, len(part), sum(row["i"] for row in part))
            for key, part in windows_of(rows, which, "x")
        ]
        got = ((row["x"], row["n"], row["total"]) for row in found[which])
        assert in_order(got) == in_order(expected), which


@pytest.mark.table(2)
@pytest.mark.parametrize("name", KEYS)
def test_counts_keeps_the_last_values(name: str) -> None:
    sinks = [
        stream(name).key_by("x").count().sink(Counts()).named("keys"),
        stream(name).key_by("k").last("x").sink(Counts()).named("values"),
    ]
    found, rows = engine.testing.run(sinks, parallelism=2), rows_of(name)
    counts = {key: len(group) for key, group in by(rows, "x").items()}
    assert {repr(key): n for key, n in found["keys"].items()} == {
        repr(key): n for key, n in counts.items()
    }
    lasts = {key: [None, *there(group)][-1] for key, group in by(rows, "k").items()}
    assert found["values"] == lasts


REFUSED: dict[str, tuple[Any, Callable[[Any], Stream[Any]]]] = {
    "min": (ORDERED, lambda s: s.key_by("k").min("x")),
    "max": (ORDERED, lambda s: s.key_by("k").window(Tumbling(SECOND)).max("x")),
    "sum": (SUMMED, lambda s: s.key_by("k").sum("x")),
    "mean": (SUMMED, lambda s: s.key_by("k").window(CountWindow(2)).mean("x")),
    "quantile": (
        SUMMED,
        lambda s: (
            s.key_by("k").window(Tumbling(SECOND)).aggregate(q=Quantile("x")).named("quantile")
        ),
    ),
    "count_distinct": (ORDERED | arrow_types.NULLS, lambda s: s.key_by("k").count_distinct("x")),
    "top": (ORDERED | arrow_types.NULLS, lambda s: s.key_by("k").top("x")),
    "with_event_time": (KEYS, lambda s: s.key_by("x").count()),
    "lookup_join": (
        KEYS | {"interval": ALL["interval"]},
        lambda s: s.rebalance().lookup_join({}, "x"),
    ),
}


@pytest.mark.table(3)
@pytest.mark.parametrize(
    ("operator", "name"),
    [
        (operator, name)
        for operator, (suits, _) in REFUSED.items()
        for name in ALL
        if name not in suits
    ],
)
def test_what_an_operator_does_not_take_is_refused_by_name(operator: str, name: str) -> None:
    refused = REFUSED[operator][1](stream(name))
    with pytest.raises(OperatorError) as told:
        run({"collect": refused})
    message = str(told.value)
    assert f"operator {operator!r}" in message
    assert "column 'x' of type" in message.replace('"', "'")
    assert "hint:" in message


def _plain(row: Any) -> Any:
    """Numbers as floats: Arrow's sum of bools is an int, as is that of small integers."""
    return tuple(float(value) if isinstance(value, int | float) else value for value in row)
