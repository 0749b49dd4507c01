"""Spans give what plain Python makes of all records, in any order, batches and tasks."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.part import examples
from tests.rolling import NAMES, RollingTasks, alike, expected, of, over, values
from tests.windowing import Event, Record, us

SPANS = st.dictionaries(
    st.sampled_from(["a", "b", "c"]),
    st.one_of(st.builds(us, st.integers(1, 40)), st.integers(1, 6)),
    min_size=1,
)


NUMBERS = st.integers(-9, 9)


@st.composite
def runs(draw: st.DrawFn, numbers: st.SearchStrategy[Any] = NUMBERS) -> list[Event]:
    """Records that come out of order, with watermarks between them, which none comes behind."""
    events: list[Event] = []
    watermark = -1
    for _ in range(draw(st.integers(1, 60))):
        if draw(st.integers(0, 3)) == 0:
            watermark += draw(st.integers(0, 20))
            events.append(watermark)
        key, ahead = draw(st.sampled_from("abc")), draw(st.integers(1, 30))
        events.append((key, watermark + ahead, draw(numbers)))
    return events


def records(events: list[Event]) -> list[Record]:
    return [event for event in events if isinstance(event, tuple)]


@pytest.mark.parametrize("form", ["records", "columns"])
@settings(max_examples=examples(150), deadline=None)
@given(events=runs(), spans=SPANS, data=st.data())
def test_results_are_those_of_python(
    form: str, events: list[Event], spans: dict[str, timedelta | int], data: Any
) -> None:
    columns = NAMES if form == "columns" else ()
    found = run(over(spans).aggregate(**of()), events, data, columns)
    assert alike(found, expected(records(events), spans))


def run(stream: Any, events: list[Event], data: Any, columns: Any) -> list[Any]:
    """The results of tasks that stop, and go on with another number of them."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(events)), max_size=2)))
    tasks = RollingTasks(stream, data.draw(st.integers(1, 4)), columns=columns)
    found: list[Any] = []
    for begin, end in zip([0, *cuts], [*cuts, len(events)], strict=True):
        if begin:
            states = tasks.snapshot()
            tasks = RollingTasks(stream, data.draw(st.integers(1, 4)), states, columns)
        batch_size = data.draw(st.integers(1, 7))
        found += [each for given in tasks.take(events[begin:end], batch_size) for each in given]
    found += [each for given in tasks.end() for each in given]
    assert tasks.late == []
    return found


@pytest.mark.parametrize("form", ["records", "columns"])
@settings(max_examples=examples(100), deadline=None)
@given(events=runs(), spans=SPANS, parallelism=st.integers(1, 3), data=st.data())
def test_results_at_once_are_those_of_what_has_come(
    form: str,
    events: list[Event],
    spans: dict[str, timedelta | int],
    parallelism: int,
    data: Any,
) -> None:
    stream = over(spans, emit="updates").aggregate(**of())
    columns = NAMES if form == "columns" else ()
    cut = data.draw(st.integers(0, len(events)))
    tasks = RollingTasks(stream, parallelism, columns=columns)
    found = [each for given in tasks.take(events[:cut]) for each in given]
    tasks = RollingTasks(stream, 4 - parallelism, tasks.snapshot(), columns)
    found += [each for given in tasks.take(events[cut:]) for each in given]
    assert [each for given in tasks.end() for each in given] == []
    wanted = []
    so_far: dict[Any, list[Record]] = {}
    for record in records(events):
        own = so_far.setdefault(record[0], [])
        at = sum(other[1] <= record[1] for other in own)
        own.insert(at, record)
        wanted.append((record, values(own, at, spans)))
    assert [record for record, _ in found] == [record for record, _ in wanted]
    assert all(alike([one], [other]) for one, other in zip(found, wanted, strict=True))
