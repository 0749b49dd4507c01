"""Windows with triggers give what windows without them do, or each record once where they purge."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from operators import Calendar, CountTrigger, Purging, Trigger
from tests.part import examples
from tests.property.test_windows import (
    ASSIGNERS,
    batch_sizes,
    folded,
    lateness,
    parallelism,
    runs,
    shown,
)
from tests.windowing import Event, Record, Tasks, expected, us, windowed

KINDS: dict[str, Any] = {
    **{kind: each for kind, each in ASSIGNERS.items() if kind != "count"},
    "calendar": st.builds(
        Calendar,
        st.sampled_from(["day", "week", "month", "year"]),
        st.sampled_from(["UTC", "Europe/Berlin", "Asia/Gaza", "America/Sao_Paulo"]),
    ),
}
cuts = st.lists(st.tuples(st.integers(0, 60), parallelism), max_size=3)


def told_by_a_calendar(events: list[Event]) -> bool:
    """Whether `datetime`, by which the results are compared, knows these times."""
    return all(abs(each[1] if isinstance(each, tuple) else each or 0) < 10**16 for each in events)


def parts(events: list[Event], cut: list[tuple[int, int]]) -> list[tuple[list[Event], int]]:
    """The events until each cut, and how many tasks go on with the rest."""
    found, last = [], 0
    for at, tasks in sorted(cut):
        found.append((events[last : max(at, last)], tasks))
        last = max(at, last)
    return [*found, (events[last:], 1)]


def ran(
    stream: Any, events: list[Event], batch: int, cut: list[tuple[int, int]]
) -> tuple[list[Any], list[Record], int]:
    """Results, late records, and how many there were as the tasks count them."""
    tasks, results, late, counted, before = Tasks(stream), [], [], 0, [-(10**18)]
    for part, parallelism_behind in parts(events, cut):
        tasks.take([max(before)])  # tasks without a key do not know how far event time was
        results += tasks.take(part, batch)
        before += [event for event in part if isinstance(event, int)]
        late += tasks.late
        counted += sum(function.late for function in tasks.functions)
        tasks = Tasks(stream, parallelism_behind, tasks.snapshot())
    results += tasks.end()
    assert all(not state.entries for state in tasks.snapshot())
    return results, late, counted


@pytest.mark.parametrize("way", ["reduce", "apply", "collect", "aggregate"])
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(10))
@given(data=st.data(), events=runs(), batch=batch_sizes, cut=cuts, late=lateness)
def test_a_trigger_as_it_is_gives_what_is_complete(
    kind: str, way: str, data: Any, events: list[Event], batch: int, cut: Any, late: int
) -> None:
    assume(kind != "calendar" or told_by_a_calendar(events))
    assigner = data.draw(KINDS[kind])
    stream = folded(windowed(assigner, allowed_lateness=us(late), emit=Trigger()), way)
    results, found_late, counted = ran(stream, events, batch, cut)
    wanted = expected(assigner, events, late)
    assert sorted(found_late, key=repr) == sorted(wanted.late, key=repr)
    assert counted == len(wanted.late)
    # In windows that overlap, the records here are in the order in which they came.
    together = ([each for part in of for each in part] for of in (results, wanted.results))
    (one,), (other,) = (
        shown([each], name, "session", ordered=False)
        for each, name in zip(together, (way, ""), strict=True)
    )
    assert one == other


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(15))
@given(
    data=st.data(),
    events=runs(),
    batch=batch_sizes,
    cut=cuts,
    late=lateness,
    most=st.integers(1, 5),
)
def test_where_a_trigger_purges_each_record_is_in_one_result_of_each_window(
    kind: str, data: Any, events: list[Event], batch: int, cut: Any, late: int, most: int
) -> None:
    assume(kind != "calendar" or told_by_a_calendar(events))
    assigner = data.draw(KINDS[kind])
    windows = windowed(assigner, allowed_lateness=us(late), emit=Purging(CountTrigger(most)))
    results, found_late, _ = ran(windows.collect(), events, batch, cut)
    wanted = expected(assigner, events, late)
    assert sorted(found_late, key=repr) == sorted(wanted.late, key=repr)
    given_of: dict[Any, list[int]] = {}
    for key, records, start, end in (each for part in results for each in part):
        assert kind == "session" or len(records) <= most
        place = () if kind == "session" else (start, end)  # which may grow, and merge
        given_of.setdefault((key, *place), []).extend(record[2] for record in records)
    wanted_of: dict[Any, set[int]] = {}
    for key, numbers, start, end in (each for part in wanted.results for each in part):
        place = () if kind == "session" else (start, end)
        wanted_of.setdefault((key, *place), set()).update(numbers)
    assert {place: sorted(each) for place, each in given_of.items()} == {
        place: sorted(each) for place, each in wanted_of.items()
    }
