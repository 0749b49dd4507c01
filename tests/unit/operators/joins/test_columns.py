"""Joins of columns in jobs: what columns results have, and what cannot be joined."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from engine.errors import OperatorError
from engine.testing import VirtualClock, run
from operators import KeyedStream, Session, Sliding, Stream, Tumbling, source
from operators.sinks import Collect
from operators.sources import Collection
from tests.joining import JoinTasks, keyed
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
    tasks = JoinTasks(keyed(True).window_join(keyed(True), Session(us(2))), columns=True)
    for time in range(50):
        events: list[Event] = [("ann", time, 2 * time), ("ann", time, 2 * time + 1), time]
        events.insert(1, ("bob", 10 * time, 2 * time))
        assert not any(tasks.take(events))
    assert len([of for of in tasks.take([50]) for _ in of]) == 50 * 50
    assert tasks.kept == 45  # of Bob, who is ahead of time


def test_rows_are_late_by_the_order_in_a_batch() -> None:
    tasks = JoinTasks(keyed(True).window_join(keyed(True), Session(us(5))), columns=True)
    first = [("ann", 5, 0), ("ann", 17, 2), ("ann", 13, 4), ("ann", 9, 6), ("bob", 12, 8)]
    then: list[Event] = [20, *first, ("ann", 5, 1), ("bob", 20, 3), ("bob", 16, 5)]
    assert not any(tasks.take(then, 1000))
    assert sorted(tasks.late) == [("ann", 5, 0), ("bob", 12, 8)]
    assert sorted((left[1], right[1]) for left, right in tasks.end()) == [(9, 5), (13, 5), (17, 5)]
    assert tasks.kept == 0


def test_a_batch_of_which_all_rows_are_late() -> None:
    tasks = JoinTasks(keyed(True).window_join(keyed(True), Session(us(5))), columns=True)
    rows: list[Event] = [("ann", time, 2 * time) for time in range(100)]
    assert not any(tasks.take([1000, *rows], 1000))
    assert tasks.late == rows
    assert tasks.end() == []


def test_what_cannot_be_joined_is_told() -> None:
    left, right = stream_of(PEOPLE).key_by("id"), stream_of(THINGS).key_by("owner")
    records = stream_of(*THINGS.to_pylist()).key_by("owner")
    hour = Tumbling(timedelta(hours=1))
    with pytest.raises(
        OperatorError, match="the key is column 'id', and there are owner, at, name"
    ):
        run(left.window_join(stream_of(THINGS).key_by("id"), hour).sink(Collect()))
    with pytest.raises(OperatorError, match="before, expected the same of both streams"):
        run(left.window_join(records, hour).sink(Collect()))
    with pytest.raises(OperatorError, match="leave its function out"):
        run(left.window_join(right, hour, lambda a, b: a).sink(Collect()))
    with pytest.raises(OperatorError, match="expected names of columns for the key and the time"):
        run(left.window_join(right, hour, time=lambda row: row["at"], unit="s").sink(Collect()))


def test_markers_alone_are_neither_records_nor_columns() -> None:
    """As behind a filter, where no row is left of a batch that had a marker."""
    batches = [columns(id=[1], at=[second]) for second in range(20)]
    ticks = source(Collection(batches, rate=1)).with_parallelism(1)
    first = ticks.map_batches(lambda batch: batch.filter(pa.array([batch["at"][0].as_py() == 0])))
    left, right = (each.with_event_time("at", unit="s").key_by("id") for each in (first, ticks))
    joined = left.interval_join(right, between=(0 * SECOND, 0 * SECOND))
    settings = {"batch_size": 1, "marker_interval": 1, "clock": VirtualClock()}
    assert rows(joined, **settings) == [{"id": 1, "at": 0, "id_right": 1, "at_right": 0}]
