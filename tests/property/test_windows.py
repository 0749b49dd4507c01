"""Windows give what plain Python makes of all records, in whatever order and batches they come."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators import (
    Accumulator,
    CountWindow,
    Every,
    Session,
    Sliding,
    Stream,
    Tumbling,
    WindowedStream,
)
from tests.part import examples
from tests.windowing import Event, Record, Tasks, expected, us, windowed

durations = st.integers(1, 40)
offsets = st.integers(-50, 50)
ASSIGNERS: dict[str, Any] = {
    "tumbling": st.builds(lambda size, offset: Tumbling(us(size), us(offset)), durations, offsets),
    "sliding": st.builds(
        lambda size, slide, offset: Sliding(us(size), us(slide), us(offset)),
        durations,
        durations,
        offsets,
    ),
    "session": st.builds(
        lambda gap, inclusive: Session(us(gap), inclusive), durations, st.booleans()
    ),
    "count": st.builds(
        lambda one, other: CountWindow(max(one, other), min(one, other)),
        st.integers(1, 6),
        st.integers(1, 6),
    ),
}
KEYS = ["a", "b", "c", 1, None, ("d", 2)]


@st.composite
def runs(draw: st.DrawFn) -> list[Event]:
    """Records that come out of order, with watermarks between them, which some come behind."""
    base = draw(st.sampled_from([0, -70, 1_700_000_000_000_000, -(10**17)]))
    steps = draw(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 60)), max_size=40))
    events: list[Event] = []
    time = base
    for number, (step, behind) in enumerate(steps):
        time += step
        events.append((draw(st.sampled_from(KEYS)), time - behind, number))
        if draw(st.integers(0, 3)) == 0:
            events.append(time - draw(st.integers(0, 60)))
    return events


lateness = st.sampled_from([0, 0, 1, 20, 1000])
batch_sizes = st.sampled_from([1, 7, 1000])
parallelism = st.sampled_from([1, 2, 3])


class Numbers(Accumulator[Record, list[int], list[int]]):
    """The numbers of the records, in order; it changes what it may change."""

    def create(self) -> list[int]:
        return []

    def add(self, accumulated: list[int], record: Record) -> list[int]:
        accumulated.append(record[2])
        return accumulated

    def merge(self, left: list[int], right: list[int]) -> list[int]:
        left += right
        return left

    def finish(self, accumulated: list[int]) -> list[int]:
        return list(accumulated)


def folded(windows: WindowedStream[Any, Any], way: str) -> Stream[Any]:
    if way == "apply":
        return windows.apply(lambda key, records, start, end: [each[2] for each in records])
    if way == "aggregate":
        return windows.aggregate(numbers=Numbers(), more=Numbers())
    if way == "collect":
        return windows.collect()
    return windows.reduce(lambda a, b: (a[0], b[1], sum_of(a) + sum_of(b)))


def sum_of(record: Any) -> Any:
    return record[2] if type(record[2]) is tuple else (record[2],)


def numbers(value: Any, way: str) -> list[int]:
    """The numbers of the records that a value was made of."""
    if way == "aggregate":
        assert value["numbers"] == value["more"]
        return list(value["numbers"])
    if way == "collect":
        return [record[2] for record in value]
    return list(sum_of(value)) if way == "reduce" else value


def shown(results: list[list[Any]], way: str, kind: str, ordered: bool) -> list[Any]:
    """Results with the numbers of their records, to compare; unordered where tasks are several."""
    found = []
    for batch in results:
        rows = []
        for key, value, start, end in batch:
            found_numbers = numbers(value, way) if way else value
            rows.append(
                (key, sorted(found_numbers) if kind == "session" else found_numbers, start, end)
            )
        found.append(rows if ordered else sorted(rows, key=repr))
    return found


@pytest.mark.parametrize("way", ["reduce", "apply", "collect", "aggregate"])
@pytest.mark.parametrize("kind", ASSIGNERS)
@settings(max_examples=examples(40))
@given(data=st.data(), events=runs(), batch=batch_sizes, tasks=parallelism, late=lateness)
def test_what_is_complete(
    kind: str, way: str, data: Any, events: list[Event], batch: int, tasks: int, late: int
) -> None:
    late = 0 if kind == "count" else late
    assigner = data.draw(ASSIGNERS[kind])
    found = Tasks(folded(windowed(assigner, allowed_lateness=us(late)), way), tasks)
    results = found.take(events, batch) + found.end()
    wanted = expected(assigner, events, late)
    assert sorted(found.late, key=repr) == sorted(wanted.late, key=repr)
    assert sum(function.late for function in found.functions) == len(wanted.late)
    if batch == 1:
        ordered = tasks == 1
        assert shown(results, way, kind, ordered) == shown(wanted.results, "", kind, ordered)
    else:
        together = ([each for part in of for each in part] for of in (results, wanted.results))
        (one,), (other,) = (
            shown([each], name, kind, ordered=False)
            for each, name in zip(together, (way, ""), strict=True)
        )
        assert one == other
    assert all(not state.entries for state in found.snapshot())


@pytest.mark.parametrize("kind", ASSIGNERS)
@settings(max_examples=examples(80))
@given(data=st.data(), events=runs(), batch=batch_sizes, tasks=parallelism, late=lateness)
def test_what_changes_with_each_batch(
    kind: str, data: Any, events: list[Event], batch: int, tasks: int, late: int
) -> None:
    late = 0 if kind == "count" else late
    assigner = data.draw(ASSIGNERS[kind])
    windows = windowed(assigner, allowed_lateness=us(late), emit="updates")
    found = Tasks(folded(windows, "apply"), tasks)
    results = found.take(events, batch) + found.end()
    wanted = expected(assigner, events, late, "updates", batch)
    assert sorted(found.late, key=repr) == sorted(wanted.late, key=repr)
    assert shown(results, "apply", kind, False) == shown(wanted.results, "", kind, False)
    if tasks == 1 and kind != "count":
        for part in results:
            assert [end for *_, end in part] == sorted(end for *_, end in part)
    assert all(not state.entries for state in found.snapshot())


@pytest.mark.parametrize("kind", ASSIGNERS)
@settings(max_examples=examples(120))
@given(data=st.data(), events=runs(), tasks=parallelism, late=lateness)
def test_what_changed_when_a_timer_is_called(
    kind: str, data: Any, events: list[Event], tasks: int, late: int
) -> None:
    late = 0 if kind == "count" else late
    assigner = data.draw(ASSIGNERS[kind])
    for at in data.draw(st.lists(st.integers(0, len(events)), max_size=6)):
        events.insert(at, None)
    windows = windowed(assigner, allowed_lateness=us(late), emit=Every(us(1)))
    found = Tasks(folded(windows, "apply"), tasks)
    results = found.take(events) + found.end()
    wanted = expected(assigner, events, late, "every")
    assert shown(results, "apply", kind, False) == shown(wanted.results, "", kind, False)
    assert sorted(found.late, key=repr) == sorted(wanted.late, key=repr)
    assert all(not state.entries for state in found.snapshot())


@pytest.mark.parametrize("way", ["reduce", "aggregate"])
@pytest.mark.parametrize("kind", ASSIGNERS)
@settings(max_examples=examples(40))
@given(
    data=st.data(),
    events=runs(),
    cut=st.integers(0, 60),
    tasks=st.tuples(*[st.sampled_from([1, 2, 3, 5])] * 2),
    late=lateness,
)
def test_other_tasks_go_on(
    kind: str, way: str, data: Any, events: list[Event], cut: int, tasks: Any, late: int
) -> None:
    late = 0 if kind == "count" else late
    assigner = data.draw(ASSIGNERS[kind])
    stream = folded(windowed(assigner, allowed_lateness=us(late)), way)
    first = Tasks(stream, tasks[0])
    results = first.take(events[:cut])
    states, late_so_far = first.snapshot(), first.late[:]
    first.take(events[cut:])  # as a task does before its snapshot is written
    then = Tasks(stream, tasks[1], states)
    placed = sorted(entry for state in then.snapshot() for entry in state.entries)
    assert placed == sorted(entry for state in states for entry in state.entries)
    watermarks = [event for event in events[:cut] if isinstance(event, int)]
    if watermarks:  # it comes again
        assert then.take([max(watermarks)]) == []
    results += then.take(events[cut:]) + then.end()
    wanted = expected(assigner, events, late)
    assert shown(results, way, kind, False) == shown(wanted.results, "", kind, False)
    assert sorted([*late_so_far, *then.late], key=repr) == sorted(wanted.late, key=repr)
