"""Joins of columns in jobs: what columns results have, and what cannot be joined."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from engine.errors import OperatorError
from engine.graph import TaskContext
from engine.state import KeyedState
from engine.testing import VirtualClock, run
from operators import KeyedStream, Session, Sliding, Stream, Tumbling, source
from operators.sinks import Collect
from operators.sources import Collection
from tests.joining import Encoded, JoinTasks, keyed
from tests.windowing import Event, us

SECOND = timedelta(seconds=1)


def columns(**values: Any) -> pa.RecordBatch:
    return pa.record_batch({name: pa.array(each) for name, each in values.items()})


def stream_of(*batches: Any, unit: Any = "s", **settings: Any) -> Stream[Any]:
    timed = source(Collection(batches)).with_parallelism(1)
    return timed.with_event_time("at", unit=unit, **settings)


def rows(stream: Stream[Any], **settings: Any) -> list[dict[str, Any]]:
    found = run(stream.sink(Collect()), **settings)["collect"]
    return [row for batch in found for row in batch.to_pylist()]


PEOPLE = columns(id=["ann", "bob", None], at=[1, 2, 3], age=[30, 40, 50])
THINGS = columns(owner=["bob", "cid", "bob", None], at=[5, 4, 12, 3], name=["a", "b", "c", "d"])


@pytest.mark.parametrize("parallelism", [1, 2, 3])
@pytest.mark.parametrize("how", ["inner", "left", "right", "full"])
def test_names_of_the_right_that_meet_others_have_a_suffix(how: Any, parallelism: int) -> None:
    left, right = stream_of(PEOPLE).key_by("id"), stream_of(THINGS).key_by("owner")
    joined = left.window_join(right, Tumbling(10 * SECOND), how=how)
    near = left.interval_join(right, between=(0 * SECOND, 5 * SECOND), how=how)
    bob = {"id": "bob", "at": 2, "age": 40, "owner": "bob", "at_right": 5, "name": "a"}
    nobody = {"id": None, "at": 3, "age": 50, "owner": None, "at_right": 3, "name": "d"}
    for found in (rows(each, parallelism=parallelism) for each in (joined, near)):
        both = [row for row in found if row.get("at") and row.get("at_right")]
        assert sorted(both, key=lambda row: row["at"]) == [bob, nobody]
        alone = [row for row in found if row not in both]
        names = {row.get("id") or row.get("name") for row in alone}
        wanted = {"ann"} if how in ("left", "full") else set()
        wanted |= {"b", "c"} if how in ("right", "full") else set()
        assert names == wanted


def test_names_that_meet_again() -> None:
    left = stream_of(columns(id=[1], at=[1], at_right=[7])).key_by("id")
    right = stream_of(columns(id=[1], at=[2])).key_by("id")
    (row,) = rows(left.interval_join(right, between=(0 * SECOND, SECOND)))
    assert row == {"id": 1, "at": 1, "at_right": 7, "id_right": 1, "at_right_right": 2}


WINDOWS: dict[str, Any] = {
    "tumbling": Tumbling(20 * SECOND),
    "sliding": Sliding(20 * SECOND, 7 * SECOND),
    "session": Session(2 * SECOND),
}


ALL_TIMES = (timedelta.min, timedelta.max)
JOINS: dict[str, Callable[[Any, Any], Stream[Any]]] = {
    "interval": lambda left, right: left.interval_join(right, between=ALL_TIMES, how="full"),
    "tumbling": lambda left, right: left.window_join(right, Tumbling(20 * SECOND), how="full"),
    "session": lambda left, right: left.window_join(right, Session(5 * SECOND), how="full"),
    "temporal": lambda left, right: left.temporal_join(right, how="left"),
}


def as_records(keyed: bool, batch: pa.RecordBatch, key: str) -> KeyedStream[Any, Any]:
    stream = stream_of(*(batch.to_pylist() if keyed else [batch]), out_of_orderness=90 * SECOND)
    return stream.key_by(key)


@pytest.mark.parametrize("batch_size", [7, 1000])
@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("kind", ["interval", "tumbling", "sliding", "session"])
def test_the_same_as_of_records(kind: str, parallelism: int, batch_size: int) -> None:
    random.seed(3)
    left, right = (
        columns(
            id=[random.choice([0, 1.0, 5, 8, 99, 1e18]) for _ in range(300)],
            at=[time + random.randrange(-80, 0) for time in range(300)],
            n=range(at, at + 300),
        )
        for at in (0, 1000)
    )
    found = []
    for of_records in (True, False):
        streams = (as_records(of_records, each, "id") for each in (left, right))
        one, other = streams
        if kind == "interval":
            between = (-3 * SECOND, 4 * SECOND)
            joined = one.interval_join(other, between=between, how="full")
        else:
            joined = one.window_join(other, WINDOWS[kind], how="full")
        settings = {"parallelism": parallelism, "batch_size": batch_size}
        if of_records:
            pairs = run(joined.sink(Collect()), **settings)["collect"]
            found.append(sorted(((a and a["n"]) or 0, (b and b["n"]) or 0) for a, b in pairs))
        else:
            found.append(
                sorted(
                    (row.get("n") or 0, row.get("n_right") or 0)
                    if (row.get("n") or 0) < 1000
                    else (0, row["n"])
                    for row in rows(joined, **settings)
                )
            )
    assert found[0] == found[1]
    assert len(found[0]) > 400


@pytest.mark.parametrize(
    ("times", "unit"),
    [
        ([10, 70], "s"),
        ([10_000, 70_000], "ms"),
        ([10_000_000_000, 70_000_000_000], "ns"),
        ([10.0, 70.0], "s"),
        ([datetime(1970, 1, 1, 0, 0, 10), datetime(1970, 1, 1, 0, 1, 10)], "us"),
    ],
)
def test_times_of_all_forms(times: list[Any], unit: Any) -> None:
    left = stream_of(columns(id=[1, 1], at=times), unit=unit).key_by("id")
    right = stream_of(columns(of=[1], at=[12])).key_by("of")
    for joined in (
        left.interval_join(right, between=(2 * SECOND, 2 * SECOND)),
        left.window_join(right, Tumbling(60 * SECOND)),
    ):
        (row,) = rows(joined)
        assert row["at"] == times[0]


@pytest.mark.parametrize("one", [[1, 2, None], [1.0, 2.5, None], [True, False, None]])
@pytest.mark.parametrize("other", [[1, 5, 2], [1.0, float("nan"), 2.0], [False, None, True]])
def test_keys_are_equal_as_in_python(one: list[Any], other: list[Any]) -> None:
    left = stream_of(columns(id=one, at=[1, 2, 3])).key_by("id")
    right = stream_of(columns(of=other, at=[1, 2, 3])).key_by("of")
    found = rows(left.window_join(right, Tumbling(10 * SECOND)), parallelism=2)
    wanted = [(a, b) for a in one for b in other if a == b]
    assert sorted(map(repr, ((row["id"], row["of"]) for row in found))) == sorted(map(repr, wanted))


def test_several_columns_are_a_key() -> None:
    left = columns(a=[1, 1, 2, None], b=["x", "y", "x", "y"], at=[1, 1, 1, 1])
    right = columns(b=["x", "y", "y"], c=[2, 1, None], at=[2, 2, 2])
    for parallelism in (1, 2):
        joined = (
            stream_of(left)
            .key_by("a", "b")
            .interval_join(
                stream_of(right).key_by("c", "b"), between=(0 * SECOND, SECOND), how="left"
            )
        )
        found = rows(joined, parallelism=parallelism)
        keys = [(row["a"], row["b"], row.get("c"), row.get("b_right")) for row in found]
        assert sorted(map(repr, keys)) == sorted(
            map(
                repr,
                [(1, "x", None, None), (1, "y", 1, "y"), (2, "x", 2, "x"), (None, "y", None, "y")],
            )
        )


@pytest.mark.parametrize("windows", [Tumbling(20 * SECOND), Session(5 * SECOND)])
def test_keys_with_dictionaries_of_their_own(windows: Any) -> None:
    words = ["ann", "bob", None, "ann", "eve"]
    left = [columns(id=pa.array(words).dictionary_encode(), at=range(5)) for _ in range(2)]
    right = [columns(of=pa.array(words[::-1]).dictionary_encode(), at=range(5)), left[0].slice(5)]
    right[1] = right[1].rename_columns(["of", "at"])  # no rows
    joined = stream_of(*left).key_by("id").window_join(stream_of(*right).key_by("of"), windows)
    for parallelism in (1, 3):
        found = [row["id"] for row in rows(joined, batch_size=2, parallelism=parallelism)]
        assert sorted(map(str, found)) == ["None"] * 2 + ["ann"] * 8 + ["bob"] * 2 + ["eve"] * 2


def test_a_session_that_goes_on_is_kept_until_it_ends() -> None:
    tasks = JoinTasks(
        keyed("columns").window_join(keyed("columns"), Session(us(2))), form="columns"
    )
    for time in range(50):
        events: list[Event] = [("ann", time, 2 * time), ("ann", time, 2 * time + 1), time]
        events.insert(1, ("bob", 10 * time, 2 * time))
        assert not any(tasks.take(events))
    assert len([of for of in tasks.take([50]) for _ in of]) == 50 * 50
    assert tasks.kept == 45  # of Bob, who is ahead of time


def test_rows_are_late_by_the_order_in_a_batch() -> None:
    tasks = JoinTasks(
        keyed("columns").window_join(keyed("columns"), Session(us(5))), form="columns"
    )
    first = [("ann", 5, 0), ("ann", 17, 2), ("ann", 13, 4), ("ann", 9, 6), ("bob", 12, 8)]
    then: list[Event] = [20, *first, ("ann", 5, 1), ("bob", 20, 3), ("bob", 16, 5)]
    assert not any(tasks.take(then, 1000))
    assert sorted(tasks.late) == [("ann", 5, 0), ("bob", 12, 8)]
    assert sorted((left[1], right[1]) for left, right in tasks.end()) == [(9, 5), (13, 5), (17, 5)]
    assert tasks.kept == 0


def test_a_batch_of_which_all_rows_are_late() -> None:
    tasks = JoinTasks(
        keyed("columns").window_join(keyed("columns"), Session(us(5))), form="columns"
    )
    rows: list[Event] = [("ann", time, 2 * time) for time in range(100)]
    assert not any(tasks.take([1000, *rows], 1000))
    assert tasks.late == rows
    assert tasks.end() == []


def test_what_cannot_be_joined_is_told() -> None:
    left, right = stream_of(PEOPLE).key_by("id"), stream_of(THINGS).key_by("owner")
    hour = Tumbling(timedelta(hours=1))
    with pytest.raises(
        OperatorError, match="the key is column 'id', and there are owner, at, name"
    ):
        run(left.window_join(stream_of(THINGS).key_by("id"), hour).sink(Collect()))
    with pytest.raises(OperatorError, match="expected names of columns for the key and the time"):
        run(stream_of(PEOPLE).key_by().window_join(right, hour).sink(Collect()), parallelism=1)


def test_markers_alone_are_neither_records_nor_columns() -> None:
    """As behind a filter, where no row is left of a batch that had a marker."""
    batches = [columns(id=[1], at=[second]) for second in range(20)]
    ticks = source(Collection(batches, rate=1)).with_parallelism(1)
    first = ticks.map_batches(lambda batch: batch.filter(pa.array([batch["at"][0].as_py() == 0])))
    left, right = (each.with_event_time("at", unit="s").key_by("id") for each in (first, ticks))
    joined = left.interval_join(right, between=(0 * SECOND, 0 * SECOND))
    settings = {"batch_size": 1, "marker_interval": 1, "clock": VirtualClock()}
    assert rows(joined, **settings) == [{"id": 1, "at": 0, "id_right": 1, "at_right": 0}]


# --- times that are far away ------------------------------------------------------------------


@pytest.mark.table(2)
@pytest.mark.parametrize("kind", JOINS)
@pytest.mark.parametrize("is_right", [False, True])
@pytest.mark.parametrize(
    ("time", "unit"),
    [
        (pa.array([2**62 + 1]), "us"),
        (pa.array([-(2**62) - 1]), "us"),
        (pa.array([-(2**63)]), "us"),
        (pa.array([2**63 + 5], pa.uint64()), "us"),
        (pa.array([2**64 - 1], pa.uint64()), "ns"),
        (pa.array([1e19]), "us"),
        (pa.array([-1e300]), "ms"),
        (pa.array([10**14]), "s"),
        (pa.array([2**63 - 1], pa.timestamp("ms")), "us"),
    ],
)
def test_a_time_that_is_too_far_away_is_told(
    kind: str, is_right: bool, time: pa.Array, unit: Any
) -> None:
    near = stream_of(columns(id=[1], at=[0])).key_by("id")
    far = stream_of(columns(id=[1], at=time), unit=unit).key_by("id")
    joined = JOINS[kind](*((near, far) if is_right else (far, near)))
    told = "ValueError: a time of the column 'at' is more than 146,000 years from 1970"
    with pytest.raises(OperatorError, match=told) as caught:
        run(joined.sink(Collect()))
    assert "\n\nhint: say what numbers count by unit=" in str(caught.value)


@pytest.mark.parametrize("left_comes_first", [True, False])
@pytest.mark.parametrize("left_time", [2**62, -(2**62)])
@pytest.mark.parametrize("kind", [*JOINS, "sliding"])
def test_times_as_far_from_each_other_as_they_can_be(
    kind: str, left_time: int, left_comes_first: bool
) -> None:
    joins = {**JOINS, "sliding": lambda a, b: a.window_join(b, WINDOWS["sliding"], how="full")}
    tasks = JoinTasks(joins[kind](keyed("columns"), keyed("columns")), form="columns")
    events: list[Event] = [("ann", left_time, 0), ("ann", -left_time, 1)]
    found = tasks.take(events if left_comes_first else events[::-1])
    pairs = [pair for each in [*found, tasks.end()] for pair in each]
    partners = {(left and left[2], right and right[2]) for left, right in pairs}
    meets = kind == "interval" or (kind == "temporal" and left_time > 0)
    alone = {(0, None)} if kind == "temporal" else {(0, None), (None, 1)}
    assert partners == ({(0, 1)} if meets else alone)


@pytest.mark.parametrize("time", [pa.array([1e308]), pa.array([3e38], pa.float32())])
def test_floats_of_seconds_that_are_too_many_are_told(time: pa.Array) -> None:
    far, near = (source(Collection([columns(id=[1], at=at)])).key_by("id") for at in (time, [0]))
    joined = far.window_join(near, Tumbling(SECOND), time="at", right_time="at", unit="s")
    with pytest.raises(OperatorError, match="a time of the column 'at' is more than"):
        run(joined.sink(Collect()))


def test_floats_are_as_exact_as_they_are() -> None:
    seconds = pa.array([1_700_000_000.0], pa.float32())
    left = stream_of(columns(id=[1], at=seconds)).key_by("id")
    right = stream_of(columns(id=[1], at=[int(seconds[0].as_py())])).key_by("id")
    assert len(rows(left.interval_join(right, between=(0 * SECOND, 0 * SECOND)))) == 1


# --- columns that are not the same in all batches ---------------------------------------------

OF_ALL = pa.schema([("id", pa.string()), ("at", pa.int64()), ("n", pa.int64())])
WITHOUT_NULLS = pa.schema([pa.field(each.name, each.type, nullable=False) for each in OF_ALL])
SOME = columns(id=["ann", "bob"], at=[1, 2], n=[5, 6])
MORE = columns(id=["bob", "ann"], at=[3, 4], n=[7, 8])
NULLS = columns(id=["ann", "eve"], at=[2, 3], n=pa.nulls(2))
CODED = MORE.set_column(0, "id", MORE["id"].dictionary_encode())
NO_KEY = MORE.set_column(0, "id", pa.nulls(2))


@pytest.mark.table(3)
@pytest.mark.parametrize(("batch_size", "parallelism"), [(1, 2), (100, 1)])
@pytest.mark.parametrize("is_right", [False, True])
@pytest.mark.parametrize("kind", JOINS)
@pytest.mark.parametrize(
    "batches",
    [
        (SOME, MORE.select(["n", "id", "at"])),
        (SOME, MORE.cast(WITHOUT_NULLS)),
        (SOME.cast(WITHOUT_NULLS), NULLS.cast(OF_ALL)),
        (NULLS, SOME, MORE),
        (SOME, NULLS, MORE),
        (NO_KEY, SOME),
        (SOME, CODED),
        (CODED, SOME),
        (CODED, NULLS.select(["n", "at", "id"]), SOME.cast(WITHOUT_NULLS)),
    ],
)
def test_the_same_as_with_one_schema(
    batches: tuple[pa.RecordBatch, ...],
    kind: str,
    is_right: bool,
    batch_size: int,
    parallelism: int,
) -> None:
    def keyed(key: str, *given: pa.RecordBatch) -> Any:
        return stream_of(*given, out_of_orderness=9 * SECOND).key_by(key)  # so that none is late

    others = keyed("of", columns(of=["ann", "ann", "cid", None], at=[1, 4, 2, 2]))
    found = []
    for given in (batches, [each.select(OF_ALL.names).cast(OF_ALL) for each in batches]):
        stream = keyed("id", *given)
        joined = JOINS[kind](*((others, stream) if is_right else (stream, others)))
        rows_of_all = rows(joined, batch_size=batch_size, parallelism=parallelism)
        found.append(sorted(map(by_name, rows_of_all)))
    assert found[0] == found[1]
    assert len(found[0]) >= 3


@pytest.mark.table(2)
@pytest.mark.parametrize("kind", JOINS)
@pytest.mark.parametrize("is_right", [False, True])
@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (
            MORE.append_column("more", pa.array([1, 2])),
            "id: string, at: int64, n: int64, more: int64",
        ),
        (MORE.select(["id", "at"]), "id: string, at: int64"),
        (MORE.rename_columns(["id", "at", "m"]), "id: string, at: int64, m: int64"),
        (MORE.set_column(2, "n", pa.array([1.5, 2.5])), "id: string, at: int64, n: double"),
        (MORE.set_column(2, "n", pa.array([1.0, 2.0])), "id: string, at: int64, n: double"),
        (MORE.set_column(2, "n", pa.array(["5", "6"])), "id: string, at: int64, n: string"),
        (MORE.set_column(0, "id", pa.array([5, 6])), "id: int64, at: int64, n: int64"),
        (
            MORE.set_column(1, "at", pa.array([1, 2], pa.timestamp("s"))),
            r"at: timestamp\[s\], n: int64",
        ),
    ],
)
def test_columns_that_change_are_told(
    kind: str, is_right: bool, changed: pa.RecordBatch, told: str
) -> None:
    near = stream_of(columns(id=["ann"], at=[0])).key_by("id")
    stream = stream_of(SOME, changed).key_by("id")
    joined = JOINS[kind](*((near, stream) if is_right else (stream, near)))
    side, before = "right" if is_right else "left", "id: string, at: int64, n: int64"
    message = rf"columns of the {side} stream that have changed, from \({before}\) to \(.*{told}\)"
    with pytest.raises(OperatorError, match=message) as caught:
        run(joined.sink(Collect()), batch_size=100)
    assert "TypeError: " in str(caught.value)
    assert "\n\nhint: bring them into one schema in .map_batches(...)" in str(caught.value)


@pytest.mark.parametrize("kind", JOINS)
@pytest.mark.parametrize(
    "other",
    [
        MORE.select(["n", "at", "id"]),
        MORE.cast(WITHOUT_NULLS),
        CODED,
        NULLS,
    ],
)
def test_one_task_goes_on_where_tasks_had_other_schemas(kind: str, other: pa.RecordBatch) -> None:
    stream = stream_of(SOME).key_by("id")
    edge = JOINS[kind](stream, stream).inputs[0]
    operator: Any = edge.source.operator
    states = []
    for index, batch in enumerate((SOME, other)):
        function = operator.open(TaskContext("t", index, 2, 100, "job"))
        function.process(Encoded(0, batch))
        states.append(function.snapshot())
    for given in (states, states[::-1]):
        function = operator.open(TaskContext("t", 0, 1, 100, "job"))
        function.restore(KeyedState.share(given, 0, 1))
        function.process(Encoded(0, other))
        found = [row for batch in function.on_end() for row in batch.to_pylist()]
        expected = [row for batch in (SOME, other, other) for row in batch.to_pylist()]
        assert sorted(map(by_name, found)) == sorted(map(by_name, expected))


def by_name(row: dict[str, Any]) -> str:
    return str(sorted(row.items()))
