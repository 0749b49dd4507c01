"""Joins in jobs: two streams with keys and times of their own, and what is behind them."""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from engine.config import JobConfig
from engine.errors import GraphError, OperatorError
from engine.graph.context import TaskContext
from engine.graph.watermark import Watermark
from engine.job import JobHandle, JobResult
from engine.plan import Plan
from engine.testing import VirtualClock, run
from engine.testing.threads import ThreadLauncher
from operators import CountWindow, KeyedStream, Session, Sliding, Stream, Tumbling, source
from operators.sinks import Collect
from operators.sources import Collection
from tests.watermarks import SECOND, timed

HOUR = timedelta(hours=1)


def orders(records: Iterable[Any], **settings: Any) -> Stream[Any]:
    """Of records with their times in field "at", in seconds."""
    timed = source(Collection(records)).with_parallelism(1)
    return timed.with_event_time("at", unit="s", **settings)


def order(number: int, at: int) -> dict[str, Any]:
    return {"id": number, "at": at}


def paid(number: int, at: int) -> dict[str, Any]:
    return {"order": number, "at": at}


def result_of(stream: Stream[Any], **settings: Any) -> JobResult:
    config = JobConfig.of({"progress": "none", **settings})
    return JobHandle(Plan.of(stream.sink(Collect()), config), ThreadLauncher()).wait_finished()


def late(result: JobResult) -> int:
    return sum(each.late for each in result.statistics.operators)


def shuffled(records: list[Any], by: float) -> list[Any]:
    return sorted(records, key=lambda record: record["at"] + by * random.random())


@pytest.fixture
def left_and_right() -> tuple[list[Any], list[Any]]:
    random.seed(5)
    left = [order(random.randrange(40), random.randrange(2000)) for _ in range(500)]
    right = [paid(random.randrange(40), random.randrange(2000)) for _ in range(500)]
    return shuffled(left, 30), shuffled(right, 30)


@pytest.mark.parametrize("parallelism", [1, 2, 3])
@pytest.mark.parametrize("how", ["inner", "full"])
def test_keys_that_are_found_differently_meet(
    left_and_right: tuple[list[Any], list[Any]], how: Any, parallelism: int
) -> None:
    left, right = left_and_right
    streams = [orders(each, out_of_orderness=30 * SECOND) for each in left_and_right]
    pairs = [
        (a, b) for a in left for b in right if a["id"] == b["order"] and 0 <= b["at"] - a["at"] <= 9
    ]
    wanted = list(pairs)
    if how == "full":
        wanted += [(a, None) for a in left if all(a is not pair[0] for pair in pairs)]
        wanted += [(None, b) for b in right if all(b is not pair[1] for pair in pairs)]
    by_function = streams[1].key_by(lambda record: float(record["order"]))
    joined = (
        streams[0]
        .key_by("id")
        .interval_join(by_function, between=(timedelta(0), 9 * SECOND), how=how)
    )
    result = result_of(joined, parallelism=parallelism, batch_size=50)
    assert sorted(map(repr, result.output)) == sorted(map(repr, wanted))
    assert late(result) == 0
    assert result.statistics.state_records == 0


def test_several_items_are_a_key() -> None:
    left = source(Collection([("a", 1, 5)])).with_event_time(2).key_by(0, 1)
    right = source(Collection([("x", 6)])).with_event_time(1).key_by(lambda _: ("a", 1))
    joined = left.interval_join(right, between=(timedelta(0), SECOND))
    for parallelism in (1, 2, 3):
        found = run(joined.sink(Collect()), parallelism=parallelism)["collect"]
        assert found == [(("a", 1, 5), ("x", 6))]


def test_a_stream_joined_with_itself() -> None:
    stream = source(Collection([("a", 1), ("a", 2)])).with_event_time(1).key_by(0)
    joined = stream.interval_join(stream, between=(timedelta(0), SECOND))
    assert sorted(run(joined.sink(Collect()))["collect"]) == [
        (("a", 1), ("a", 1)),
        (("a", 1), ("a", 2)),
        (("a", 2), ("a", 2)),
    ]


def test_times_of_two_forms() -> None:
    left = source(Collection([(1, datetime(2026, 1, 1, 12))])).with_event_time(1)
    seconds = datetime(2026, 1, 1, 12, 30).timestamp() - datetime(1970, 1, 1).timestamp()
    right = source(Collection([(1, seconds), (1, seconds + 3600)])).with_event_time(1, unit="s")
    for joined in (
        left.key_by(0).interval_join(right.key_by(0), between=(timedelta(0), HOUR)),
        left.key_by(0).window_join(right.key_by(0), Tumbling(HOUR)),
    ):
        ((_, found),) = run(joined.sink(Collect()))["collect"]
        assert found == (1, seconds)


@pytest.mark.table(3)
@pytest.mark.parametrize("how", ["inner", "left", "right", "full"])
@pytest.mark.parametrize("low", [-20, 0, 20])
def test_no_time_of_a_result_is_late_behind_a_join(
    left_and_right: tuple[list[Any], list[Any]], how: Any, low: int
) -> None:
    left, right = (orders(each, out_of_orderness=30 * SECOND) for each in left_and_right)
    keyed = left.key_by("id"), right.key_by("order")
    between = (low * SECOND, (low + 25) * SECOND)
    for joined in (
        keyed[0].interval_join(keyed[1], between=between, how=how),
        keyed[0].window_join(keyed[1], Tumbling(40 * SECOND), how=how),
    ):
        counts = []
        for time in (min_time, max_time):
            windows = joined.key_by(lambda _: None).window(
                Tumbling(timedelta(seconds=1)), time=time, unit="s"
            )
            result = result_of(windows.count(), parallelism=2, batch_size=3)
            assert late(result) == 0
            counts.append(sum(count for _, count, _, _ in result.output))
        assert counts[0] == counts[1] == len(run(joined.sink(Collect()))["collect"])


def min_time(pair: Any) -> int:
    return min(each["at"] for each in pair if each is not None)


def max_time(pair: Any) -> int:
    return max(each["at"] for each in pair if each is not None)


def test_late_records_go_aside_as_they_came() -> None:
    left = timed([(1, 1), (1, 100), (1, 2), (1, 101)])
    right = timed([(1, 50), (1, 200), (1, 3)])
    joined = left.key_by(lambda record: record[0]).interval_join(
        right.key_by(0), between=(timedelta(0), HOUR)
    )
    sinks = [joined.sink(Collect()), joined.side("late").sink(Collect()).named("late")]
    found = run(sinks, batch_size=1, clock=VirtualClock())
    assert sorted(found["collect"]) == [
        ((1, 1), (1, 50)),
        ((1, 1), (1, 200)),
        ((1, 100), (1, 200)),
        ((1, 101), (1, 200)),
    ]
    assert sorted(found["late"]) == [(1, 2), (1, 3)]


def test_state_goes_with_the_watermark_and_not_with_keys() -> None:
    """Each key comes once: nothing but the watermark of both can empty it."""
    left = source(Collection([])).with_event_time(1).key_by(0)
    joined = left.interval_join(left, between=(timedelta(0), SECOND))
    operator = joined.inputs[0].source.operator
    state = operator.of_records(TaskContext("t", 0, 1, 100, "j"))
    for start in range(0, 100_000, 1000):
        batch = [(number, number * 1000) for number in range(start, start + 1000)]
        state.add(start // 1000 % 2, batch)
        list(state.close(batch[-1][1] - 1))
        assert state.kept <= 2001
    list(state.close(200_000_000))
    assert state.kept == 0
    assert not state.snapshot(False).entries
    assert all(not any(records) for records in state._records)
    assert not state._keys.of_numbers


@pytest.mark.parametrize(
    ("windows", "first"),
    [
        (Tumbling(10 * SECOND), [0, 10, 10, 10, 20, 20]),
        (Tumbling(10 * SECOND, offset=-3 * SECOND), [-3, 7, 17, 17, 17, 17]),
        (Sliding(10 * SECOND, 4 * SECOND), [-4, 4, 8, 12, 12, 12]),
        (Session(10 * SECOND), [4, 10, 17, 18, 20, 21]),
    ],
)
def test_behind_a_window_join_time_has_come_to_the_first_window_that_is_not_complete(
    windows: Any, first: list[int]
) -> None:
    joined = source(Collection([])).with_event_time(1).key_by(0)
    joined = joined.window_join(joined, windows)
    operator = joined.inputs[0].source.operator
    function = operator.open(TaskContext("t", 0, 1, 100, "j"))
    told = []
    for seconds in (4, 10, 17, 18, 20, 21):
        function.watermark = None
        assert list(function.on_watermark(seconds * 1_000_000 - 1)) == []
        told.append(function.watermark)
    expected = [Watermark(start * 1_000_000 - 1) for start in first]
    changed = [at == 0 or expected[at] != expected[at - 1] for at in range(6)]
    assert told == [mark if new else None for mark, new in zip(expected, changed, strict=True)]
    function.on_idle()
    assert function.watermark == Watermark(None)
    list(function.on_watermark(21_000_000 - 1))
    assert function.watermark == expected[-1]


@pytest.mark.parametrize("disorder", [0, 30])
@pytest.mark.parametrize("windows", [Tumbling(50 * SECOND), Sliding(50 * SECOND, 20 * SECOND)])
def test_windows_of_what_a_window_join_makes_lose_nothing(
    left_and_right: tuple[list[Any], list[Any]], windows: Any, disorder: int
) -> None:
    """Windows by the time of either partner get all of them before their end."""
    both = [sorted(each, key=lambda record: record["at"]) for each in left_and_right]
    given = left_and_right if disorder else both
    streams = [orders(each, out_of_orderness=disorder * SECOND) for each in given]
    joined = streams[0].key_by("id").window_join(streams[1].key_by("order"), windows)
    for side in (0, 1):
        pairs = joined.map(lambda pair, side=side: (pair[side]["at"], *map(str, pair)))
        again = pairs.key_by(1).window(Tumbling(7 * SECOND), time=0, unit="s").collect()
        result = result_of(again, batch_size=7)
        assert late(result) == 0
        size, slide = (each // SECOND for each in (windows.size, windows.slide))
        pairs_of_keys = [(a, b) for a in given[0] for b in given[1] if a["id"] == b["order"]]
        expected = [
            pair[side]["at"]
            for pair in pairs_of_keys
            for start in range(pair[0]["at"] // slide * slide, pair[0]["at"] - size, -slide)
            if start <= pair[1]["at"] < start + size
        ]
        found = [row[0] for _, rows, *_ in result.output for row in rows]
        assert sorted(found) == sorted(expected)


def test_a_function_makes_one_record_of_two() -> None:
    left, right = orders([order(1, 1), order(2, 2)]), orders([paid(1, 3)])
    joined = left.key_by("id").interval_join(
        right.key_by("order"),
        lambda a, b: (a["id"], b and b["at"]),
        between=(-HOUR, HOUR),
        how="left",
    )
    assert sorted(run(joined.sink(Collect()))["collect"]) == [(1, 3), (2, None)]


def test_a_function_that_fails_is_told_with_both_records() -> None:
    left, right = orders([order(1, 1)]), orders([paid(1, 3)])
    for joined in (
        left.key_by("id").interval_join(
            right.key_by("order"), lambda a, b: a["x"], between=(-HOUR, HOUR)
        ),
        left.key_by("id").window_join(right.key_by("order"), Tumbling(HOUR), lambda a, b: a["x"]),
    ):
        with pytest.raises(OperatorError, match="KeyError: 'x'") as caught:
            run(joined.sink(Collect()))
        assert caught.value.record == "({'id': 1, 'at': 1}, {'order': 1, 'at': 3})"


def test_a_record_without_a_time_is_told() -> None:
    joined = (
        orders([order(1, 1)])
        .key_by("id")
        .window_join(
            orders([{"order": 1, "at": "noon"}]).key_by("order"), Session(HOUR), right_time="at"
        )
    )
    with pytest.raises(OperatorError, match="the time of the record is 'noon'"):
        run(joined.sink(Collect()))


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("of_columns", [False, True])
def test_a_version_holds_until_the_next(
    left_and_right: tuple[list[Any], list[Any]], of_columns: bool, parallelism: int
) -> None:
    left, right = left_and_right
    streams = [orders(each, out_of_orderness=30 * SECOND) for each in left_and_right]
    if of_columns:
        streams = [
            source(Collection([pa.RecordBatch.from_pylist(each)]))
            .with_parallelism(1)
            .with_event_time("at", unit="s", out_of_orderness=30 * SECOND)
            for each in left_and_right
        ]
    joined = streams[0].key_by("id").temporal_join(streams[1].key_by("order"), how="left")
    result = result_of(joined, parallelism=parallelism, batch_size=50)
    found = result.output
    if of_columns:
        found = [row for batch in found for row in batch.to_pylist()]
        found = [(row["id"], row["at"], row.get("at_right")) for row in found]
    else:
        found = [(a["id"], a["at"], b and b["at"]) for a, b in found]
    wanted = []
    for a in left:
        versions = [b["at"] for b in right if b["order"] == a["id"] and b["at"] <= a["at"]]
        wanted.append((a["id"], a["at"], max(versions, default=None)))
    assert sorted(map(repr, found)) == sorted(map(repr, wanted))
    assert late(result) == 0
    assert result.statistics.state_records == 0


def keyed() -> KeyedStream[Any, Any]:
    return orders([]).key_by("id")


@pytest.mark.parametrize("other", [("id",), ("id", "at", "paid")])
def test_keys_of_other_lengths_are_refused(other: tuple[str, ...]) -> None:
    pairs, others = orders([]).key_by("id", "at"), orders([]).key_by(*other)
    for left, right in ((pairs, others), (others, pairs)):
        for join in (
            lambda a, b: a.interval_join(b, between=(HOUR, HOUR)),
            lambda a, b: a.window_join(b, Tumbling(HOUR)),
            lambda a, b: a.temporal_join(b),
        ):
            with pytest.raises(GraphError, match="expected keys of as many items") as e:
                join(left, right)
            assert "name as many on the right" in str(e.value)
            assert ("key_by(lambda record: record['id'])" in str(e.value)) == (len(other) == 1)


def test_a_tuple_that_a_function_finds_is_a_key_of_several_items() -> None:
    left, right = [{"a": 1, "b": 2, "at": 1}], [{"pair": (1, 2), "at": 2}]
    joined = (
        orders(left)
        .key_by("a", "b")
        .window_join(orders(right).key_by(lambda record: record["pair"]), Tumbling(HOUR))
    )
    assert run(joined.sink(Collect()), parallelism=2)["collect"] == [(left[0], right[0])]


def test_what_cannot_work_is_refused() -> None:
    hour = (timedelta(0), HOUR)
    with pytest.raises(GraphError, match=r"interval_join\(\) got Stream .*expected a keyed") as e:
        keyed().interval_join(orders([]), between=hour)  # type: ignore[arg-type]
    assert "left.key_by('id').interval_join(right.key_by('of'))" in str(e.value)
    with pytest.raises(GraphError, match="got how='full', expected one of 'inner', 'left'"):
        keyed().temporal_join(keyed(), how="full")  # type: ignore[arg-type]
    with pytest.raises(GraphError, match="got how='outer', expected one of"):
        keyed().interval_join(keyed(), between=hour, how="outer")  # type: ignore[arg-type]
    with pytest.raises(GraphError, match=r"got between=datetime.timedelta.*expected two durations"):
        keyed().interval_join(keyed(), between=HOUR)  # type: ignore[arg-type]
    with pytest.raises(GraphError, match="expected the lower bound first"):
        keyed().interval_join(keyed(), between=(HOUR, timedelta(0)))
    with pytest.raises(GraphError, match=r"between is 5, expected a timedelta"):
        keyed().interval_join(keyed(), between=(0 * HOUR, 5))  # type: ignore[arg-type]
    with pytest.raises(GraphError, match=r"window_join\(\) got CountWindow.*expected windows"):
        keyed().window_join(keyed(), CountWindow(5))  # type: ignore[arg-type]
    with pytest.raises(GraphError, match=r"window_join\(\) got Tumbling, expected windows") as e:
        keyed().window_join(keyed(), Tumbling)  # type: ignore[arg-type]
    assert "Tumbling(timedelta(minutes=1)) is one" in str(e.value)
    with pytest.raises(GraphError, match=r"takes|arguments|two"):
        keyed().window_join(keyed(), Tumbling(HOUR), lambda a: a)  # type: ignore[arg-type]
    untimed = source(Collection([])).key_by(0)
    with pytest.raises(GraphError, match=r"interval_join\(\) needs the time of each record"):
        keyed().interval_join(untimed, between=hour)
