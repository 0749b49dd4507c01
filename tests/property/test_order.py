"""sort_by_time and deduplicate give what plain Python makes of any records, by any tasks."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators import source
from operators.sources import Collection
from tests.part import examples
from tests.windowing import Tasks, us

NAMES = ("key", "time", "number")


class OrderTasks(Tasks):
    """As `Tasks`, of records as they are; columns come to operators that decode nothing, too."""

    def __init__(self, stream: Any, parallelism: int, before: Any = (), columns: Any = ()) -> None:
        decodes = stream.inputs[0].source.operator.properties.accepts_encoded
        super().__init__(stream, parallelism, before, columns if decodes else ())
        self.columns = columns
        if columns and not decodes:
            self.is_native = True
            self._encode: Any = self._as_columns

    def _as_columns(self, records: list[Any]) -> pa.RecordBatch | None:
        if not records:
            return None
        arrays = [pa.array(column) for column in zip(*records, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, names=self.columns)

    def _rows(self, results: Any) -> list[Any]:
        if isinstance(results, pa.RecordBatch):
            return [tuple(row.values()) for row in results.to_pylist()]
        return list(results)


keys = st.sampled_from(["a", "b", "c", "d"])


@st.composite
def runs(draw: st.DrawFn) -> list[Any]:
    """Records out of order, some of them late; watermarks, and restarts with other tasks."""
    events: list[Any] = []
    watermark, number = -1, 0
    for _ in range(draw(st.integers(0, 50))):
        what = draw(st.integers(0, 9))
        if what < 2:
            watermark += draw(st.integers(1, 15))
            events.append(watermark)
        elif what == 2:
            events.append(("restart", draw(st.integers(1, 4))))
        else:
            number += 1
            events.append((draw(keys), max(0, watermark + draw(st.integers(-2, 25))), number))
    return events


def split(events: list[Any]) -> tuple[list[Any], list[Any]]:
    """The records that are in time, and those that are late."""
    watermark, good, late = -1, [], []
    for event in events:
        if isinstance(event, int):
            watermark = event
        elif event[0] != "restart":
            (late if event[1] <= watermark else good).append(event)
    return good, late


def ran(stream: Any, events: list[Any], parallelism: int, form: str, size: int) -> tuple[Any, Any]:
    """What comes, with the watermark at which it came, and what is late."""
    columns = NAMES if form == "columns" else ()
    tasks = OrderTasks(stream, parallelism, columns=columns)
    late: list[Any] = []
    found: list[tuple[float, Any]] = []
    watermark: float = -1
    some: list[Any] = []

    def take() -> None:
        for results in tasks.take(some, size):
            found.extend((watermark, each) for each in results)
        some.clear()

    for event in events:
        if isinstance(event, tuple) and event[0] != "restart":
            some.append(event)
            continue
        take()
        if isinstance(event, int):
            watermark = event
            found += [(event, each) for given in tasks.take([event]) for each in given]
        else:
            late += tasks.late
            tasks = OrderTasks(stream, event[1], tasks.snapshot(), columns)
            if watermark >= 0:
                assert tasks.take([int(watermark)]) == []
    take()
    found += [(float("inf"), each) for given in tasks.end() for each in given]
    return found, late + tasks.late


@pytest.mark.parametrize("form", ["records", "columns"])
@settings(max_examples=examples(35), deadline=None)
@given(runs(), st.integers(1, 4), st.integers(1, 7))
def test_records_of_a_key_come_in_the_order_of_time(
    form: str, events: list[Any], parallelism: int, size: int
) -> None:
    stream = source(Collection([])).with_event_time(1).key_by(0).sort_by_time()
    found, late = ran(stream, events, parallelism, form, size)
    good, too_late = split(events)
    assert Counter(late) == Counter(too_late)
    for key in "abcd":
        of_key = sorted((each for each in good if each[0] == key), key=lambda each: each[1])
        assert [record for _, record in found if record[0] == key] == of_key
    marks = [event for event in events if isinstance(event, int)]
    for watermark, (_, time, _) in found:
        assert watermark == next((each for each in marks if each >= time), float("inf"))


def groups_of(good: list[Any], within: float) -> dict[str, list[list[Any]]]:
    """The groups of each key, each with its records as they come."""
    groups: dict[str, list[list[Any]]] = defaultdict(list)
    for record in good:
        for group in groups[record[0]]:
            if abs(record[1] - group[0][1]) < within:
                group.append(record)
                break
        else:
            groups[record[0]].append([record])
    return groups


@pytest.mark.parametrize("form", ["records", "columns"])
@pytest.mark.parametrize("keep", ["first", "last"])
@settings(max_examples=examples(35), deadline=None)
@given(runs(), st.integers(1, 30), st.integers(1, 4), st.integers(1, 7))
def test_one_record_of_each_group(
    form: str, keep: Any, events: list[Any], within: int, parallelism: int, size: int
) -> None:
    keyed = source(Collection([])).with_event_time(1).key_by(0)
    found, late = ran(keyed.deduplicate(keep, within=us(within)), events, parallelism, form, size)
    good, too_late = split(events)
    assert Counter(late) == Counter(too_late)
    marks = [event for event in events if isinstance(event, int)]
    groups = groups_of(good, within)
    wanted: list[tuple[float, Any]] = []
    for of_key in groups.values():
        for group in of_key:
            if keep == "first":
                wanted.append((0, group[0]))
                continue
            latest = max(group, key=lambda record: (record[1], record[2]))
            end = group[0][1] + within - 1
            passed = next((mark for mark in marks if mark >= end), float("inf"))
            wanted.append((passed, latest))
    if keep == "first":
        found = [(0, record) for _, record in found]
    assert sorted(found) == sorted(wanted)


@pytest.mark.parametrize("form", ["records", "columns"])
@pytest.mark.parametrize("keep", ["first", "last"])
@settings(max_examples=examples(20), deadline=None)
@given(runs(), st.integers(1, 4), st.integers(1, 7))
def test_one_record_of_each_key(
    form: str, keep: Any, events: list[Any], parallelism: int, size: int
) -> None:
    stream = source(Collection([])).key_by(0).deduplicate(keep)
    found, late = ran(stream, events, parallelism, form, size)
    assert late == []
    records = [event for event in events if isinstance(event, tuple) and event[0] != "restart"]
    first = {record[0]: record for record in reversed(records)}
    last = {record[0]: record for record in records}
    assert sorted(record for _, record in found) == sorted(
        (first if keep == "first" else last).values()
    )
    if keep == "last":
        assert {watermark for watermark, _ in found} <= {float("inf")}


@settings(max_examples=examples(8), deadline=None)
@given(st.lists(st.tuples(keys, st.integers(0, 60), st.integers(0, 9)), max_size=40))
def test_behind_a_sort_groups_are_those_of_event_time(records: list[Any]) -> None:
    """Whatever order records come in, in a job of two tasks."""
    from engine.testing import run
    from operators.sinks import Collect

    within = timedelta(microseconds=10)
    timed = source(Collection(records)).with_event_time(1, out_of_orderness=timedelta(hours=1))
    once = timed.key_by(0).sort_by_time().key_by(0).deduplicate(within=within)
    found = run(once.sink(Collect()), parallelism=2, batch_size=5)["collect"]
    wanted, last = [], dict[str, int]()
    for key, time, _ in sorted(records, key=lambda record: record[1]):
        if key not in last or time >= last[key] + 10:
            last[key] = time
            wanted.append((key, time))
    assert sorted((key, time) for key, time, _ in found) == sorted(wanted)
