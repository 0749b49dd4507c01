"""Joins give what plain Python makes of all records, in whatever order and batches they come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.state import KeyedState
from operators import Session, Sliding, Stream, Tumbling, key_numbers
from tests.joining import Form, JoinTasks, function_of, keyed
from tests.part import examples
from tests.windowing import Event, Record, expected, us

HOWS = ["inner", "left", "right", "full"]
KEYS = ["a", "b", 1, None, ("d", 2)]


@pytest.fixture(autouse=True, scope="module")
def few() -> Iterator[None]:
    """Have columns let go of what is not needed as often as they would with many rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_numbers, "_FEW", 2)
        yield


@st.composite
def runs(draw: st.DrawFn, keys: Any = KEYS) -> list[Event]:
    """Records of both sides that come out of order, with watermarks between them."""
    base = draw(st.sampled_from([0, -70, 1_700_000_000_000_000, -(10**17)]))
    step = st.tuples(
        st.integers(0, 20), st.integers(0, 40), st.sampled_from(keys), st.integers(0, 7)
    )
    events: list[Event] = []
    time, told = base, float("-inf")
    for number, (ahead, behind, key, kind) in enumerate(draw(st.lists(step, max_size=40))):
        time += ahead
        events.append((key, time - behind, 2 * number + kind % 2))
        if kind > 5 and (watermark := time - 15 * (kind - 6)) > told:
            told = watermark
            events.append(watermark)
    return events


FORM_KEYS: dict[Form, Any] = {
    "records": KEYS,
    "columns": ["a", "b", "c", None],
    "encoded": [*KEYS, 1.0, True, Decimal("0.5"), 0.5],
}
kinds = st.sampled_from(list(FORM_KEYS)).flatmap(
    lambda form: st.tuples(st.just(form), runs(FORM_KEYS[form]))
)
"""Their form, and a run."""
hows = st.sampled_from(HOWS)
bounds = st.tuples(st.integers(-40, 60), st.integers(0, 40)).map(lambda b: (b[0], b[0] + b[1]))
batch_sizes = st.sampled_from([1, 7, 1000])
parallelism = st.sampled_from([1, 2, 3])
assigners = st.one_of(
    st.builds(lambda size, at: Tumbling(us(size), us(at)), st.integers(1, 60), st.integers(0, 50)),
    st.builds(
        lambda one, other, at: Sliding(us(max(one, other)), us(min(one, other)), us(at)),
        st.integers(1, 60),
        st.integers(1, 60),
        st.integers(-50, 50),
    ),
    st.builds(lambda gap: Session(us(gap)), st.integers(1, 40)),
)


def is_outer(how: str, side: int) -> bool:
    return how in ("full", ("left", "right")[side])


class Near:
    """An interval join of everything that is not late, and when each result comes."""

    def __init__(self, events: list[Event], bounds: tuple[int, int], how: str) -> None:
        self.late: list[Record] = []
        self.steps: list[list[Any]] = [[] for _ in range(len(events) + 1)]
        self.kept: list[int] = []
        low, high = bounds
        came: tuple[list[Any], list[Any]] = ([], [])
        watermarks: list[float] = []
        now = float("-inf")
        for at, event in enumerate(events):
            if isinstance(event, tuple):
                if event[1] <= now:
                    self.late.append(event)
                else:
                    came[event[2] % 2].append((at, event))
            elif event is not None:
                now = max(now, event)
            watermarks.append(now)
            self.kept.append(
                sum(each[1] + (high, -low)[side] > now for side in (0, 1) for _, each in came[side])
            )
        watermarks.append(float("inf"))
        joined = set()
        for (at, left), (when, right) in product(*came):
            if left[0] == right[0] and low <= right[1] - left[1] <= high:
                self.steps[max(at, when)].append((left, right))
                joined |= {left, right}
        for side in (0, 1):
            for at, record in came[side]:
                if is_outer(how, side) and record not in joined:
                    last = record[1] + (high, -low)[side]
                    step = next(n for n, time in enumerate(watermarks) if n >= at and time >= last)
                    self.steps[step].append((None, record) if side else (record, None))


def flat(steps: Iterable[list[Any]]) -> list[Any]:
    return [each for step in steps for each in step]


def in_order(results: Any) -> list[str]:
    return sorted(map(repr, results))


@settings(max_examples=examples(250))
@given(kind=kinds, bounds=bounds, how=hows, batch=batch_sizes, tasks=parallelism)
def test_interval_join(
    kind: Any, bounds: tuple[int, int], how: Any, batch: int, tasks: int
) -> None:
    form, events = kind
    left, right = keyed(form), keyed(form)
    between = (us(bounds[0]), us(bounds[1]))
    stream = left.interval_join(right, function_of(form), between=between, how=how)
    found = JoinTasks(stream, tasks, form=form)
    wanted = Near(events, bounds, how)
    results = []
    for given_now in found.take(events, batch):
        results.append(given_now)
        if batch == 1:
            assert found.kept == wanted.kept[len(results) - 1]
    results.append(found.end())
    assert in_order(found.late) == in_order(wanted.late)
    assert sum(function.late for function in found.functions) == len(wanted.late)
    if batch == 1:
        assert [in_order(each) for each in results] == [in_order(each) for each in wanted.steps]
    assert in_order(flat(results)) == in_order(flat(wanted.steps))
    assert found.kept == 0
    assert all(not state.entries for state in found.snapshot())


@settings(max_examples=examples(100))
@given(
    kind=kinds,
    bounds=bounds,
    how=hows,
    cut=st.integers(0, 60),
    tasks=st.tuples(*[st.sampled_from([1, 2, 3, 5])] * 2),
)
def test_other_tasks_go_on_with_an_interval_join(
    kind: Any, bounds: tuple[int, int], how: Any, cut: int, tasks: Any
) -> None:
    form, events = kind
    left, right = keyed(form), keyed(form)
    stream = left.interval_join(
        right, function_of(form), between=(us(bounds[0]), us(bounds[1])), how=how
    )
    wanted = Near(events, bounds, how)
    check_others_go_on(stream, form, events, cut, tasks, flat(wanted.steps), wanted.late)


def together(assigner: Any, events: list[Event], how: str) -> tuple[list[list[Any]], list[Record]]:
    """Of each watermark and the end, what the oracle of windows makes partners of."""
    records = {event[2]: event for event in events if isinstance(event, tuple)}
    results, late = expected(assigner, events)
    steps = []
    for windows in results:
        pairs: list[Any] = []
        for _, numbers, *_ in windows:
            left, right = (
                [records[number] for number in numbers if number % 2 == side] for side in (0, 1)
            )
            pairs += product(left, right)
            if is_outer(how, 0) and not right:
                pairs += ((each, None) for each in left)
            if is_outer(how, 1) and not left:
                pairs += ((None, each) for each in right)
        steps.append(pairs)
    return [pairs for pairs in steps if pairs], late


def open_records(assigner: Any, events: list[Event]) -> int:
    """How many records are in a window that is not complete."""
    size, slide = (each // us(1) for each in (assigner.size, assigner.slide))
    now, lasts = float("-inf"), []
    for event in events:
        if isinstance(event, tuple):
            begin = event[1] - (event[1] - assigner.offset // us(1)) % slide
            lasts.append(begin + size - 1)
        elif event is not None:
            now = event
        lasts = [last for last in lasts if last > now]
    return len(lasts)


@settings(max_examples=examples(150))
@given(kind=kinds, assigner=assigners, how=hows, batch=batch_sizes, tasks=parallelism)
def test_window_join(kind: Any, assigner: Any, how: Any, batch: int, tasks: int) -> None:
    form, events = kind
    stream = keyed(form).window_join(keyed(form), assigner, function_of(form), how=how)
    found = JoinTasks(stream, tasks, form=form)
    results = []
    for number, given_now in enumerate(found.take(events, batch), 1):
        results.append(given_now)
        if batch == 1 and not isinstance(assigner, Session):
            assert found.kept == open_records(assigner, events[:number])
    results.append(found.end())
    steps, late = together(assigner, events, how)
    assert in_order(found.late) == in_order(late)
    assert sum(function.late for function in found.functions) == len(late)
    results = [each for each in results if each]
    assert [in_order(each) for each in results] == [in_order(each) for each in steps]
    assert found.kept == 0
    assert all(not state.entries for state in found.snapshot())


@settings(max_examples=examples(100))
@given(
    kind=kinds,
    assigner=assigners,
    how=hows,
    cut=st.integers(0, 60),
    tasks=st.tuples(*[st.sampled_from([1, 2, 3, 5])] * 2),
)
def test_other_tasks_go_on_with_a_window_join(
    kind: Any, assigner: Any, how: Any, cut: int, tasks: Any
) -> None:
    form, events = kind
    steps, late = together(assigner, events, how)
    stream = keyed(form).window_join(keyed(form), assigner, function_of(form), how=how)
    check_others_go_on(stream, form, events, cut, tasks, flat(steps), late)


class Held:
    """A temporal join: what was the newest version of the key when the watermark came."""

    def __init__(self, events: list[Event], how: str) -> None:
        self.late: list[Record] = []
        self.steps: list[list[Any]] = []
        self.kept: list[int] = []
        waiting: list[Record] = []
        versions: list[Record] = []
        now = float("-inf")
        for event in [*events, float("inf")]:
            step: list[Any] = []
            if not isinstance(event, tuple):
                assert event is not None
                now = max(now, event)
                for left in [each for each in waiting if each[1] <= now]:
                    waiting.remove(left)
                    held = [each for each in versions if each[0] == left[0] and each[1] <= left[1]]
                    if held or is_outer(how, 0):
                        # Of one time, the last that came: `max` would take the first.
                        step.append((left, max(reversed(held), key=lambda v: v[1], default=None)))
            elif event[2] % 2:
                versions.append(event)
            elif event[1] <= now:
                self.late.append(event)
            else:
                waiting.append(event)
            self.steps.append(step)
            newest = {version[0] for version in versions if version[1] <= now}
            self.kept.append(len(waiting) + sum(v[1] > now for v in versions) + len(newest))


@settings(max_examples=examples(150))
@given(kind=kinds, how=st.sampled_from(["inner", "left"]), batch=batch_sizes, tasks=parallelism)
def test_temporal_join(kind: Any, how: Any, batch: int, tasks: int) -> None:
    form, events = kind
    stream = keyed(form).temporal_join(keyed(form), function_of(form), how=how)
    found = JoinTasks(stream, tasks, form=form)
    wanted = Held(events, how)
    results = []
    for given_now in found.take(events, batch):
        results.append(given_now)
        if batch == 1 and form != "columns":
            assert found.kept == wanted.kept[len(results) - 1]
    results.append(found.end())
    assert in_order(found.late) == in_order(wanted.late)
    if batch == 1:
        assert [in_order(each) for each in results] == [in_order(each) for each in wanted.steps]
    assert in_order(flat(results)) == in_order(flat(wanted.steps))
    assert found.kept == 0
    assert all(not state.entries for state in found.snapshot())


@settings(max_examples=examples(80))
@given(
    kind=kinds,
    how=st.sampled_from(["inner", "left"]),
    cut=st.integers(0, 60),
    tasks=st.tuples(*[st.sampled_from([1, 2, 3, 5])] * 2),
)
def test_other_tasks_go_on_with_a_temporal_join(kind: Any, how: Any, cut: int, tasks: Any) -> None:
    form, events = kind
    stream = keyed(form).temporal_join(keyed(form), function_of(form), how=how)
    wanted = Held(events, how)
    check_others_go_on(stream, form, events, cut, tasks, flat(wanted.steps), wanted.late)


def placed(states: list[KeyedState], form: Form) -> list[Any]:
    """What is kept of which keys; of columns, one state has several encodings."""
    parts = 2 if form == "columns" else 3
    return sorted(entry[:parts] for state in states for entry in state.entries)


def check_others_go_on(
    stream: Stream[Any],
    form: Form,
    events: list[Event],
    cut: int,
    tasks: tuple[int, int],
    wanted: list[Any],
    late: list[Record],
) -> None:
    first = JoinTasks(stream, tasks[0], form=form)
    results = flat(first.take(events[:cut]))
    states, kept, late_so_far = first.snapshot(), first.kept, first.late[:]
    flat(first.take(events[cut:]))  # as a task does before its snapshot is written
    then = JoinTasks(stream, tasks[1], states, form)
    assert placed(then.snapshot(), form) == placed(states, form)
    assert then.kept == kept
    watermarks = [event for event in events[:cut] if isinstance(event, int)]
    if watermarks:  # it comes again
        assert flat(then.take([max(watermarks)])) == []
    results += flat(then.take(events[cut:])) + then.end()
    assert in_order(results) == in_order(wanted)
    assert in_order([*late_so_far, *then.late]) == in_order(late)
    assert then.kept == 0


@pytest.mark.parametrize("how", HOWS)
def test_every_way_to_join_gives_something(how: Any) -> None:
    """The strategies above are of use only if their runs have partners, and records without."""
    events: list[Event] = [("a", 1, 0), ("a", 2, 1), ("b", 3, 2), ("c", 4, 3)]
    pair = (events[0], events[1])
    wanted = [pair]
    wanted += [(events[2], None)] if is_outer(how, 0) else []
    wanted += [(None, events[3])] if is_outer(how, 1) else []
    for stream in (
        keyed().interval_join(keyed(), between=(us(0), us(5)), how=how),
        keyed().window_join(keyed(), Tumbling(us(10)), how=how),
    ):
        tasks = JoinTasks(stream)
        assert in_order(flat(tasks.take(events)) + tasks.end()) == in_order(wanted)
