"""process: keys, states, timers of event time and of the clock, failures, and what is left."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import count
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import engine
from engine.errors import GraphError
from engine.graph import TaskContext
from engine.state import KeyedState
from engine.testing import VirtualClock, run
from operators import (
    KeyedStream,
    ListState,
    MapState,
    ProcessContext,
    ProcessFunction,
    ValueState,
    Watermark,
    source,
)
from operators.process import Process
from operators.process.timers import Timer, TimerQueue
from operators.sinks import Collect
from operators.sources import Collection, Function
from tests.part import examples

pytestmark = pytest.mark.usefixtures("nothing_left")

parallelism = pytest.mark.parametrize("parallelism", [1, 2, 3])
batch_size = pytest.mark.parametrize("batch_size", [1, 7, 100])
SECOND_NS = 1_000_000_000
END = (1 << 63) - 1


class Opened:
    """A `ProcessFunction` at work in one task, whose clock a test sets."""

    def __init__(self, function: ProcessFunction, key: Any = 0, **settings: Any) -> None:
        self.now_ns = 0
        batch_size = settings.pop("batch_size", 100)
        context = TaskContext(
            *("task[0]", 0, 1, batch_size, "job"), now_ns=lambda: self.now_ns, **settings
        )
        self.function: Any = Process(function, key).open(context)

    def process(self, *records: Any) -> list[Any]:
        return list(self.function.process(list(records)))

    def watermark(self, us: int) -> list[Any]:
        return [r for batch in self.function.on_watermark(us) for r in batch]

    def clock(self, seconds: float) -> list[Any]:
        """Come to this moment, and call what is due on the way."""
        end, out = round(seconds * SECOND_NS), []
        while (due := self.function.next_timer) is not None and due <= end:
            self.now_ns = max(self.now_ns, due)
            self.function.next_timer = None
            out += [r for batch in self.function.on_timer(self.now_ns) for r in batch]
        self.now_ns = end
        return out

    def end(self) -> list[Any]:
        return [r for batch in self.function.on_end() for r in batch]

    @property
    def keys(self) -> dict[Any, Any]:
        return dict(self.function._keys)


class Count(ProcessFunction):
    n = ValueState(0)

    def process(self, record: Any, context: ProcessContext) -> list[Any] | None:
        self.n += 1
        return [(context.key, self.n)]


RECORDS = [("a", 1), ("b", 1), ("a", 2), ("a", 3), ("b", 2)]


@pytest.mark.table(3)
@parallelism
@batch_size
@pytest.mark.parametrize(
    "keyed",
    [
        lambda s: s.key_by(0),
        lambda s: s.key_by(lambda record: record[0]),
        lambda s: s.map(lambda r: {"k": r[0]}).key_by("k"),
        lambda s: s.map(lambda r: r[0]).key_by(),
    ],
)
def test_state_is_of_a_key(
    keyed: Callable[[Any], KeyedStream[Any, Any]], parallelism: int, batch_size: int
) -> None:
    stream = keyed(source(Collection(RECORDS * 5))).process(Count())
    out = run(stream.sink(Collect()), parallelism=parallelism, batch_size=batch_size)["collect"]
    assert sorted(out) == [("a", n + 1) for n in range(15)] + [("b", n + 1) for n in range(10)]


def test_several_items_are_a_tuple() -> None:
    stream = source(Collection([("a", 1), ("a", 2), ("a", 1)])).key_by(0, 1).process(Count())
    out = run(stream.sink(Collect()))["collect"]
    assert out == [(("a", 1), 1), (("a", 2), 1), (("a", 1), 2)]


class Records(ProcessFunction):
    def process(self, record: Any, context: ProcessContext) -> list[Any]:
        return [record]


def test_a_function_that_finds_keys_leaves_records_as_they_were() -> None:
    stream = source(Collection([1, 2, 3])).key_by(lambda n: n % 2).process(Records())
    assert run(stream.sink(Collect()))["collect"] == [1, 2, 3]


def test_keys_that_are_equal_are_one_and_so_are_all_nan() -> None:
    opened = Opened(Count(), None)
    out = opened.process(1, True, 1.0, math.nan, float("nan"), -math.nan, "1")
    assert [n for _, n in out] == [1, 2, 3, 1, 2, 3, 1]


def test_a_record_without_a_key_fails() -> None:
    for record, message in (({"k": [1]}, "not hashable"), ({"a": 1}, "KeyError: 'k'")):
        stream = source(Collection([{"k": 1}, record])).key_by("k").process(Count())
        with pytest.raises(engine.OperatorError, match=message) as caught:
            run(stream.sink(Collect()))
        assert caught.value.record == repr(record)


class All(ProcessFunction):
    """Does to its states what a record says, and gives what they then are."""

    value = ValueState[Any]()
    items = ListState[Any]()
    table = MapState[Any, Any]()

    def process(self, record: Any, context: ProcessContext) -> list[Any]:
        _, what, *rest = record
        if what == "set":
            (self.value,) = rest
        elif what == "delete":
            del self.value
        elif what == "append":
            self.items.append(*rest)
        elif what == "assign":
            self.items = rest  # type: ignore[assignment]
        elif what == "clear":
            self.items.clear()
            self.table.clear()
        elif what == "put":
            self.table[rest[0]] = rest[1]
        elif what == "drop":
            self.table.pop(rest[0], None)
        elif what == "replace":
            self.table = dict([rest])  # type: ignore[assignment]
        return [(self.value, list(self.items), dict(self.table))]


class WithTtl(All):
    value = ValueState(ttl=timedelta(seconds=10))
    items = ListState(ttl=timedelta(seconds=10))
    table = MapState(ttl=timedelta(seconds=10))


@pytest.mark.parametrize("kind", [All, WithTtl])
def test_states_are_what_was_put_in_them(kind: type[All]) -> None:
    opened = Opened(kind())
    steps: list[tuple[Any, Any]] = [
        (("a", "set", 1), (1, [], {})),
        (("a", "append", 2), (1, [2], {})),
        (("a", "append", 3), (1, [2, 3], {})),
        (("b", "append", 4), (None, [4], {})),
        (("a", "put", "x", 5), (1, [2, 3], {"x": 5})),
        (("a", "put", "y", 6), (1, [2, 3], {"x": 5, "y": 6})),
        (("a", "drop", "x"), (1, [2, 3], {"y": 6})),
        (("a", "drop", "z"), (1, [2, 3], {"y": 6})),
        (("a", "delete"), (None, [2, 3], {"y": 6})),
        (("a", "delete"), (None, [2, 3], {"y": 6})),
        (("a", "assign", 7, 8), (None, [7, 8], {"y": 6})),
        (("a", "replace", "z", 9), (None, [7, 8], {"z": 9})),
        (("a", "drop", "z"), (None, [7, 8], {})),
        (("a", "clear"), (None, [], {})),
        (("b", "clear"), (None, [], {})),
    ]
    for record, expected in steps:
        assert opened.process(record) == [expected]
    assert opened.keys == {}


class Operations(ProcessFunction):
    items = ListState[int]()
    table = MapState[str, int]()

    def process(self, record: Any, context: ProcessContext) -> list[Any]:
        assert not self.items
        assert self.items[:] == []
        with pytest.raises(IndexError):
            self.items[0]
        with pytest.raises(KeyError):
            self.table["a"]
        with pytest.raises(KeyError):
            del self.table["a"]
        self.items.extend([])
        assert not self.items
        self.items.extend(range(5))
        assert (self.items[-1], self.items[1:3], len(self.items)) == (4, [1, 2], 5)
        assert 3 in self.items
        assert self.items.index(3) == 3
        self.items = self.items[2:]  # type: ignore[assignment]
        assert repr(self.items) == "<KeyedList [2, 3, 4]>"
        for item in self.items:  # which may grow meanwhile
            self.items.append(item)
        assert len(self.items) == 6
        self.table.setdefault("a", 1)
        self.table.update(b=2)
        assert self.table.get("d") is None
        assert "a" in self.table
        assert repr(self.table) == "<KeyedMap {'a': 1, 'b': 2}>"
        self.table = self.table
        assert len(self.table) == 2
        assert sorted(self.table.items()) == [("a", 1), ("b", 2)]
        self.items.clear()
        while self.table:
            self.table.popitem()
        return []


def test_lists_and_maps_are_those_of_python() -> None:
    opened = Opened(Operations())
    opened.process(("a",), ("b",))
    assert opened.keys == {}


def test_states_do_not_hold_for_other_tasks_or_classes() -> None:
    function = Count()
    one, other = Opened(function), Opened(function)
    assert one.process(("a",), ("a",)) == [("a", 1), ("a", 2)]
    assert other.process(("a",)) == [("a", 1)]
    assert isinstance(Count.n, ValueState)


class Inherits(Count):
    more = ListState[int]()

    def process(self, record: Any, context: ProcessContext) -> list[Any]:
        self.more.append(1)
        return [*(super().process(record, context) or []), len(self.more)]


def test_states_are_inherited() -> None:
    assert Opened(Inherits()).process(("a",), ("a",)) == [("a", 1), 1, ("a", 2), 2]


def test_a_state_has_no_value_where_there_is_no_key() -> None:
    class Early(Count):
        def __init__(self) -> None:
            self.n = 3

    with pytest.raises(RuntimeError, match="a state was used where there is no key"):
        Early()
    with pytest.raises(RuntimeError, match="a state was used where there is no key"):
        _ = Count().n


# --- time to live -----------------------------------------------------------------------------


def test_what_was_not_written_for_so_long_is_gone() -> None:
    opened = Opened(WithTtl())
    opened.process(("a", "set", 1), ("a", "append", 1), ("a", "put", "x", 1))
    opened.now_ns = 6 * SECOND_NS
    opened.process(("a", "append", 2), ("a", "put", "y", 2))
    opened.now_ns = 10 * SECOND_NS - 1
    assert opened.process(("a", "look")) == [(1, [1, 2], {"x": 1, "y": 2})]
    opened.now_ns += 1
    assert opened.process(("a", "look")) == [(None, [2], {"y": 2})]
    opened.now_ns = 16 * SECOND_NS
    assert opened.process(("a", "look")) == [(None, [], {})]
    assert opened.keys == {}


def test_what_is_written_again_lives_again() -> None:
    opened = Opened(WithTtl())
    opened.process(("a", "set", 1), ("a", "put", "x", 1), ("a", "put", "y", 1))
    opened.now_ns = 6 * SECOND_NS
    opened.process(("a", "set", 2), ("a", "put", "x", 2))
    opened.now_ns = 12 * SECOND_NS
    assert opened.process(("a", "look")) == [(2, [], {"x": 2})]


def test_what_is_too_old_goes_without_a_record() -> None:
    opened = Opened(WithTtl(), batch_size=10)
    for n in range(100):
        opened.process((n, "set", 1), (n, "append", 1), (n, "put", "x", 1))
    opened.now_ns = 5 * SECOND_NS
    opened.process((7, "set", 2))
    opened.clock(10)
    assert set(opened.keys) == {7}
    opened.clock(15)
    assert opened.keys == {}
    assert opened.function.next_timer is None


def test_a_sweep_is_bounded() -> None:
    opened = Opened(WithTtl(), batch_size=10)
    for n in range(100):
        opened.process((n, "set", 1))
    opened.now_ns = 10 * SECOND_NS
    list(opened.function.on_timer(opened.now_ns))
    assert len(opened.keys) == 90
    assert opened.function.next_timer == opened.now_ns


def test_no_entry_is_left_of_what_is_written_and_cleared_again_and_again() -> None:
    opened = Opened(WithTtl())
    for _ in range(1000):
        opened.process(("a", "set", 1), ("a", "delete"))
    assert len(opened.function._context._expiry._entries) == 1


ENTRIES = {n: str(n) for n in range(5)}


class Looking(ProcessFunction):
    """Writes what lives for 10 s, and then looks at it."""

    value = ValueState(ttl=timedelta(seconds=10))
    items = ListState[int](ttl=timedelta(seconds=10))
    table = MapState[int, str](ttl=timedelta(seconds=10))

    def __init__(self, look: Callable[[Looking], Any]) -> None:
        self.look = look

    def process(self, record: Any, context: ProcessContext) -> list[Any]:
        if record[1] == "look":
            return [self.look(self)]
        self.value = "v"
        self.items.extend(ENTRIES)
        self.table.update(ENTRIES)
        context.set_timer(record[1])
        return []

    def on_timer(self, time_us: int, context: ProcessContext) -> list[Any]:
        return self.all()

    def all(self) -> list[Any]:
        return [self.value, *self.items, *self.table]

    def write_anew(self) -> list[int]:
        seen = []
        for n in self.table:
            self.table[n] = str(n)
            seen.append(n)
            assert len(seen) <= len(ENTRIES)
        return seen


class Hurried(Opened):
    """One whose clock, once it is not 0, goes on by a second whenever it is looked at."""

    _now_ns = 0

    @property
    def now_ns(self) -> int:  # type: ignore[override]
        if self._now_ns:
            self._now_ns += SECOND_NS
        return self._now_ns

    @now_ns.setter
    def now_ns(self, now_ns: int) -> None:
        self._now_ns = now_ns


@pytest.mark.parametrize(
    ("look", "expected"),
    [
        (lambda it: dict(it.table), ENTRIES),
        (lambda it: list(it.table.items()), list(ENTRIES.items())),
        (lambda it: list(it.table.values()), list(ENTRIES.values())),
        (lambda it: [it.table[n] for n in it.table], list(ENTRIES.values())),
        (lambda it: it.table == ENTRIES, True),
        (lambda it: repr(it.table), f"<KeyedMap {ENTRIES!r}>"),
        (Looking.write_anew, list(ENTRIES)),
        (lambda it: list(reversed(it.items)), list(reversed(ENTRIES))),
        (lambda it: [it.items[at] for at in range(len(it.items))], list(ENTRIES)),
        (lambda it: [it.value for _ in range(5)], ["v"] * 5),
    ],
)
def test_what_a_call_finds_stays_until_its_end(look: Any, expected: Any) -> None:
    opened = Hurried(Looking(look))
    opened.process(("a", 5))
    opened.now_ns = 8 * SECOND_NS  # by the second look, all is too old
    assert opened.process(("a", "look")) == [expected]
    opened.now_ns = 20 * SECOND_NS
    assert opened.process(("b", "look"), ("a", "look"))[1] != expected


def test_each_call_looks_at_the_clock_itself() -> None:
    opened = Hurried(Looking(Looking.all))
    opened.process(("a", 5))
    opened.now_ns = 8 * SECOND_NS
    everything = ["v", *ENTRIES, *ENTRIES]
    assert opened.process(("a", "look"), ("a", "look")) == [everything, [None]]
    opened = Hurried(Looking(Looking.all))
    opened.process(("a", 5))
    opened.now_ns = 8 * SECOND_NS
    assert opened.process(("a", "look")) == [everything]
    assert opened.watermark(5) == [None]


# --- timers -----------------------------------------------------------------------------------


class Timed(ProcessFunction):
    """Sets timers as records say: (key, time, name), where no time deletes it."""

    def process(self, record: Any, context: ProcessContext) -> None:
        _, time, name = record
        if time is None:
            context.delete_timer(name)
        elif isinstance(time, timedelta):
            context.set_processing_timer(time, name)
        else:
            context.set_timer(time, name)

    def on_timer(self, time: int, context: ProcessContext) -> list[Any]:
        return [(context.key, context.name, time)]


def test_a_timer_is_called_when_the_watermark_has_come_so_far() -> None:
    opened = Opened(Timed())
    opened.process(("a", 5, ""))
    assert opened.watermark(4) == []
    assert opened.watermark(5) == [("a", "", 5)]
    assert opened.watermark(9) == []
    assert opened.keys == {}


def test_a_timer_that_is_set_again_moves() -> None:
    opened = Opened(Timed())
    opened.process(("a", 5, ""), ("a", 9, ""), ("b", 9, ""), ("b", 5, ""))
    assert opened.watermark(8) == [("b", "", 5)]
    assert opened.watermark(9) == [("a", "", 9)]


def test_a_timer_whose_time_has_come_already_is_called_behind_the_batch() -> None:
    opened = Opened(Timed())
    opened.watermark(7)
    assert opened.process(("a", 7, ""), ("b", 3, ""), ("c", 8, "")) == [("b", "", 3), ("a", "", 7)]


def test_a_key_has_a_timer_of_each_name() -> None:
    opened = Opened(Timed())
    opened.process(("a", 5, "x"), ("a", 4, "y"), ("a", 4, "z"), ("a", None, "y"), ("a", None, "?"))
    assert opened.end() == [("a", "z", 4), ("a", "x", 5)]


def test_a_timer_is_of_event_time_or_of_the_clock() -> None:
    opened = Opened(Timed())
    second = timedelta(seconds=1)
    opened.process(("a", 5, ""), ("a", second, ""), ("b", second, ""), ("b", 5, ""))
    assert opened.watermark(9) == [("b", "", 5)]
    assert opened.clock(1) == [("a", "", 1_000_000)]
    assert opened.keys == {}
    assert opened.function.next_timer is None


def test_timers_by_the_clock_are_not_called_at_the_end() -> None:
    opened = Opened(Timed())
    opened.process(("a", timedelta(seconds=1), ""), ("b", 1, ""))
    assert opened.end() == [("b", "", 1)]


class Again(ProcessFunction):
    """Sets its timer again whenever it is called, and another one once."""

    def process(self, record: Any, context: ProcessContext) -> None:
        context.set_timer(record[1])

    def on_timer(self, time: int, context: ProcessContext) -> list[Any]:
        if not context.name:
            context.set_timer(time + 10)
            context.set_timer(time + 5, "half")
        return [(context.name, time, context.watermark)]


def test_at_the_end_each_timer_is_called_once() -> None:
    opened = Opened(Again())
    opened.process(("a", 10))
    found = [("", 10, 25), ("half", 15, 25), ("", 20, 25), ("half", 25, 25)]
    assert opened.watermark(25) == found
    assert opened.end() == [("", 30, END), ("half", 35, END)]
    assert opened.keys == {}


def test_timers_come_in_batches() -> None:
    opened = Opened(Timed(), batch_size=10)
    opened.process(*((n, n, "") for n in range(25)))
    assert [len(batch) for batch in opened.function.on_watermark(100)] == [10, 10, 5]
    opened.process(*((n, timedelta(seconds=1), "") for n in range(25)))
    opened.now_ns = SECOND_NS
    assert [len(batch) for batch in opened.function.on_timer(SECOND_NS)] == [10]
    assert opened.function.next_timer == SECOND_NS
    assert len(opened.clock(1)) == 15


def test_a_million_moves_of_a_timer_leave_one_entry() -> None:
    opened = Opened(Timed())
    for n in range(10_000):
        opened.process(("later", n, ""), ("earlier", -n, ""), ("both", n, ""), ("both", None, ""))
    assert len(opened.function._context._event._entries) < 200
    assert sorted(opened.end()) == [("earlier", "", -9999), ("later", "", 9999)]
    assert opened.keys == {}


actions = st.lists(
    st.one_of(
        st.tuples(st.sampled_from("abc"), st.integers(0, 30), st.sampled_from("xy")),
        st.tuples(st.sampled_from("abc"), st.none(), st.sampled_from("xy")),
        st.integers(0, 40),
    ),
    max_size=60,
)


@settings(max_examples=examples(300), deadline=None)
@given(actions)
def test_timers_are_those_of_a_plain_dict(actions: list[Any]) -> None:
    """An oracle that looks through all timers each time."""
    opened = Opened(Timed())
    timers: dict[tuple[str, str], tuple[int, int]] = {}
    numbers = count()
    now = -1

    def due() -> list[Any]:
        found = sorted((time, n, key) for key, (time, n) in timers.items() if time <= now)
        for _, _, key in found:
            del timers[key]
        return [(key[0], key[1], time) for time, _, key in found]

    for action in actions:
        if isinstance(action, int):
            if action > now:
                now = action
                assert opened.watermark(action) == due()
            continue
        key, time, name = action
        if time is None:
            timers.pop((key, name), None)
        else:
            number = timers[key, name][1] if (key, name) in timers else next(numbers)
            timers[key, name] = (time, number)
        assert opened.process(action) == due()
        assert len(opened.function._context._event) == len(timers)
    now = END
    assert opened.end() == due()
    assert opened.keys == {}


class Several(ProcessFunction):
    """Sets, adds and deletes timers as records say: (key, what, name, time)."""

    def process(self, record: Any, context: ProcessContext) -> None:
        _, what, name, time = record
        if what == "set":
            context.set_timer(time, name)
        elif what == "add":
            context.add_timer(time, name)
        elif what == "add by clock":
            context.add_processing_timer(timedelta(seconds=time), name)
        else:
            context.delete_timer(name, time)

    def on_timer(self, time: int, context: ProcessContext) -> Iterator[Any]:
        yield context.key, context.name, time


def test_a_name_has_several_timers() -> None:
    opened = Opened(Several())
    opened.process(
        *(("a", "add", "", time) for time in (9, 5, 7, 5)),
        *(("b", "add", "", 6), ("b", "add", "", 8), ("b", "set", "", 7)),
        *(("c", "set", "", 6), ("c", "add", "", 6), ("c", "add", "", 8), ("c", "add", "x", 8)),
        *(("c", "delete", "", 8), ("c", "delete", "", 99), ("c", "delete", "?", 8)),
        *(("d", "add", "", 6), ("d", "add", "", 7), ("d", "delete", "", None)),
    )
    assert opened.watermark(6) == [("a", "", 5), ("c", "", 6)]
    assert set(opened.keys) == {"a", "b", "c"}
    assert opened.watermark(9) == [("a", "", 7), ("b", "", 7), ("c", "x", 8), ("a", "", 9)]
    assert opened.keys == {}


def test_a_name_has_timers_of_event_time_and_of_the_clock() -> None:
    opened = Opened(Several())
    opened.process(
        *(("a", what, "", time) for what in ("add", "add by clock") for time in (2, 1)),
        *(("b", "add by clock", "", 1), ("b", "add", "", 1), ("b", "delete", "", 1)),
    )
    opened = gone_on(opened, Several(), 100 * SECOND_NS)
    second = 1_000_000
    assert opened.clock(101) == [("a", "", 101 * second), ("b", "", 101 * second)]
    assert opened.watermark(1) == [("a", "", 1)]
    opened.process(("a", "set", "", 3))
    assert opened.clock(200) == []
    assert opened.end() == [("a", "", 3)]
    assert opened.keys == {}


def test_timers_that_were_kept_one_to_a_name_go_on() -> None:
    opened = Opened(Several())
    kept = [
        ("a", ([], [(0, "", True, 5), (1, "x", False, SECOND_NS)])),
        ("b", ([], [(2, "", True, 4)])),
    ]
    opened.function.restore(KeyedState.of(kept))
    opened.process(("a", "add", "", 6))
    assert opened.clock(1) == [("a", "x", 1_000_000)]
    assert opened.watermark(9) == [("b", "", 4), ("a", "", 5), ("a", "", 6)]


def test_at_the_end_each_of_several_timers_is_called_once() -> None:
    class More(Several):
        def on_timer(self, time: int, context: ProcessContext) -> Iterator[Any]:
            context.add_timer(time + 10, context.name)
            yield time

    opened = Opened(More())
    opened.process(("a", "add", "", 1), ("a", "add", "", 2), ("a", "add", "x", 2))
    assert opened.watermark(1) == [1]
    assert opened.end() == [2, 2, 11]
    assert opened.keys == {}


several = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from("ab"),
            st.sampled_from(["set", "add", "add", "add", "delete"]),
            st.sampled_from("xy"),
            st.integers(0, 12),
        ),
        st.tuples(st.sampled_from("ab"), st.just("delete"), st.sampled_from("xy"), st.none()),
        st.integers(0, 15),
        st.just("restart"),
    ),
    max_size=60,
)


@settings(max_examples=examples(300), deadline=None)
@given(several)
def test_several_timers_are_those_of_plain_dicts(actions: list[Any]) -> None:
    """An oracle that looks through all timers each time; what is kept goes on in another task."""
    opened = Opened(Several())
    timers: dict[tuple[str, str], dict[int, int]] = {}
    numbers = count()
    now = -1

    def due() -> list[Any]:
        found = sorted(
            (time, number, key)
            for key, of_name in timers.items()
            for time, number in of_name.items()
            if time <= now
        )
        for time, _, key in found:
            del timers[key][time]
        return [(*key, time) for time, _, key in found]

    for action in actions:
        if action == "restart":
            opened = gone_on(opened, Several())
            opened.watermark(now)
            continue
        if isinstance(action, int):
            if action > now:
                now = action
                assert opened.watermark(action) == due()
            continue
        key, what, name, time = action
        of_name = timers.setdefault((key, name), {})
        if what == "add":
            of_name.setdefault(time, next(numbers))
        elif what == "set":
            number = next(iter(of_name.values())) if len(of_name) == 1 else next(numbers)
            of_name.clear()
            of_name[time] = number
        elif time is None:
            of_name.clear()
        else:
            of_name.pop(time, None)
        assert opened.process(action) == due()
        assert len(opened.function._context._event) == sum(map(len, timers.values()))
        assert set(opened.keys) == {key for (key, _), of_name in timers.items() if of_name}
    now = END
    assert opened.end() == due()
    assert opened.keys == {}


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.sampled_from(["move", "cancel", "pop"]), st.integers(0, 99))
    )
)
def test_entries_of_a_queue_are_as_many_as_its_timers(steps: list[Any]) -> None:
    queue, numbers = TimerQueue(), count()
    timers: dict[int, Timer] = {}
    for which, what, time in steps:
        if what == "pop":
            expected = min(
                ((t.time, t.number, t) for t in timers.values() if t.time <= time), default=None
            )
            found = queue.pop(time)
            assert found is (expected and expected[2])
            timers = {k: t for k, t in timers.items() if t is not found}
        elif what == "cancel":
            if which in timers:
                timers.pop(which).cancel()
        elif which in timers:
            timers[which].time = time
            if time < timers[which].queued:  # type: ignore[operator]
                queue.put(timers[which])
        else:
            timers[which] = queue.add(time, next(numbers), which, "")
        assert len(queue) == len(timers)
        assert (queue.next_time is None) == (not timers)
        if timers:
            assert queue.next_time is not None
            assert queue.next_time <= min(t.time for t in timers.values())


@pytest.mark.parametrize("time", ["soon", None, timedelta(1), math.nan, math.inf])
def test_a_time_that_is_none_is_refused(time: Any) -> None:
    class Wrong(Timed):
        def process(self, record: Any, context: ProcessContext) -> None:
            context.set_timer(time)

    with pytest.raises(TypeError, match=r"set_timer\(\) got .*, expected microseconds"):
        Opened(Wrong()).process((1,))


def test_a_timer_without_a_function_is_told() -> None:
    class Forgotten(ProcessFunction):
        def process(self, record: Any, context: ProcessContext) -> None:
            context.set_timer(1)

    message = "Forgotten has set a timer, expected it to have an on_timer"
    with pytest.raises(engine.OperatorError, match=message) as caught:
        run(source(Collection([(1,)])).key_by(0).process(Forgotten()).sink(Collect()))
    assert caught.value.operator == "process"


# --- going on elsewhere -----------------------------------------------------------------------


def gone_on(opened: Opened, function: ProcessFunction, now_ns: int = 0) -> Opened:
    """Another task, with a clock of its own, that goes on where this one is."""
    other = Opened(function)
    other.now_ns = now_ns
    other.function.restore(opened.function.snapshot())
    return other


def test_a_time_to_live_goes_on_by_another_clock() -> None:
    opened = Opened(WithTtl())
    opened.process(("a", "set", 1), ("a", "append", 1), ("a", "put", "x", 1), ("b", "set", 1))
    opened.now_ns = 6 * SECOND_NS
    opened.process(("a", "append", 2), ("a", "put", "y", 2))
    opened = gone_on(opened, WithTtl(), 1000 * SECOND_NS)
    assert opened.process(("a", "look")) == [(1, [1, 2], {"x": 1, "y": 2})]
    opened.clock(1004)
    assert opened.process(("a", "look")) == [(None, [2], {"y": 2})]
    assert set(opened.keys) == {"a"}
    opened.clock(1010)
    assert opened.keys == {}


def test_what_was_too_old_is_not_taken_along() -> None:
    opened = Opened(WithTtl())
    opened.process(("a", "set", 1), ("a", "append", 1))
    opened.now_ns = 10 * SECOND_NS
    assert gone_on(opened, WithTtl()).keys == {}


def test_timers_go_on() -> None:
    opened = Opened(Timed())
    opened.process(*((k, timedelta(seconds=s), "") for k, s in (("a", 3), ("b", 2))))
    opened.process(("c", 7, "x"), ("c", 7, "a"), ("d", 6, ""))
    opened.now_ns = SECOND_NS
    opened = gone_on(opened, Timed(), 100 * SECOND_NS)
    opened.process(("c", 7, "0"))
    assert opened.clock(102) == [("b", "", 101_000_000), ("a", "", 102_000_000)]
    assert opened.watermark(7) == [("d", "", 6), ("c", "x", 7), ("c", "a", 7), ("c", "0", 7)]
    assert opened.keys == {}


def test_what_was_kept_of_a_state_that_is_no_more_is_refused() -> None:
    opened = Opened(All())
    opened.process(("a", "set", 1))
    with pytest.raises(ValueError, match="Count got what was kept of 'value', a state without ttl"):
        gone_on(opened, Count())
    with pytest.raises(ValueError, match="WithTtl got what was kept of 'value', a state without"):
        gone_on(opened, WithTtl())


# --- in jobs ----------------------------------------------------------------------------------


class Sums(ProcessFunction):
    """Sums of what a key had between two multiples of ten of event time; and how late they came."""

    sums = MapState[int, int]()

    def process(self, record: Any, context: ProcessContext) -> None:
        _, time, n = record
        start = time - time % 10
        self.sums[start] = self.sums.get(start, 0) + n
        context.set_timer(start + 10, str(start))

    def on_timer(self, time: int, context: ProcessContext) -> list[Any]:
        return [(context.key, time, self.sums.pop(time - 10))]


def ticks(context: TaskContext) -> Iterator[Any]:
    for time in range(100):
        yield [(key, time, time % 3) for key in "abcde"]
        if time % 4 == context.index % 4:
            yield Watermark(time)


@parallelism
@batch_size
def test_windows_of_ones_own(parallelism: int, batch_size: int) -> None:
    stream = source(Function(ticks)).key_by(0).process(Sums())
    out = run(stream.sink(Collect()), parallelism=parallelism, batch_size=batch_size)["collect"]
    assert sorted(out) == sorted(
        (key, end, parallelism * sum(time % 3 for time in range(end - 10, end)))
        for key in "abcde"
        for end in range(10, 110, 10)
    )


class Idle(ProcessFunction):
    """Tells of keys that had no record for two seconds."""

    def process(self, record: Any, context: ProcessContext) -> None:
        context.set_processing_timer(timedelta(seconds=2))

    def on_timer(self, time: int, context: ProcessContext) -> list[Any]:
        return [(context.key, time)]


def test_timers_by_the_clock_in_a_job() -> None:
    clock = VirtualClock()
    words = source(Collection(["a", "b", "b", "b", "c", "c", "c"], rate=1)).key_by()
    out = run(words.process(Idle()).sink(Collect()), clock=clock, batch_size=1)["collect"]
    assert out == [("a", 2_000_000), ("b", 5_000_000)]


def test_event_time_is_optional() -> None:
    pairs = source(Collection([("a", 1, ""), ("b", 2, "")])).key_by(0)
    assert run(pairs.process(Timed()).sink(Collect()))["collect"] == [("a", "", 1), ("b", "", 2)]


class Fails(ProcessFunction):
    def process(self, record: Any, context: ProcessContext) -> list[Any]:
        _, n = record
        if n == 2:
            raise ValueError("two")
        context.set_timer(n)
        return [n]

    def on_timer(self, time: int, context: ProcessContext) -> list[Any]:
        if time == 3:
            raise ValueError("three")
        return [-time]


def test_failures_are_told_of_records_and_timers() -> None:
    def result(*numbers: int) -> list[Any]:
        stream = source(Collection([("a", n) for n in numbers])).key_by(0).process(Fails())
        return list(run(stream.map(lambda n: n).sink(Collect()))["collect"])

    assert result(1) == [1, -1]
    with pytest.raises(engine.OperatorError, match="ValueError: two") as caught:
        result(1, 2)
    assert (caught.value.operator, caught.value.record) == ("process", "('a', 2)")
    assert "in process" in str(caught.value)
    with pytest.raises(engine.OperatorError, match="ValueError: three") as caught:
        result(3)
    assert (caught.value.operator, caught.value.record) == ("process", "('a', '', 3)")


@batch_size
def test_failures_are_put_aside(batch_size: int) -> None:
    pairs = source(Collection([(n, n) for n in range(1, 6)])).key_by(0)
    out = pairs.process(Fails(), on_error="side")
    found = run(
        [out.sink(Collect()), out.side("errors").sink(Collect()).named("bad")],
        batch_size=batch_size,
    )
    assert found["collect"] == [1, 3, 4, 5, -1, -4, -5]
    assert found["bad"] == [((2, 2), "ValueError: two"), ((3, "", 3), "ValueError: three")]


class Aside(ProcessFunction):
    outputs = ("odd", "timers")

    def process(self, record: Any, context: ProcessContext) -> list[Any] | None:
        if record[0] % 2:
            context.output("odd", record)
            return None
        context.set_timer(record[0])
        return [record]

    def on_timer(self, time: int, context: ProcessContext) -> None:
        context.output("timers", time)


@batch_size
def test_side_outputs(batch_size: int) -> None:
    out = source(Collection([(n,) for n in range(5)])).key_by(0).process(Aside())
    sides = [out.side(name).sink(Collect()).named(name) for name in Aside.outputs]
    found = run([out.sink(Collect()), *sides], batch_size=batch_size)
    assert found == {"collect": [(0,), (2,), (4,)], "odd": [(1,), (3,)], "timers": [0, 2, 4]}
    assert run(out.sink(Collect())) == {"collect": [(0,), (2,), (4,)]}  # nobody reads them
    with pytest.raises(engine.GraphError, match="odd, timers"):
        out.side("even")


def test_a_side_output_that_is_not_named_is_refused() -> None:
    class Wrong(Aside):
        outputs = ("odd",)

    out = source(Collection([(2,)])).key_by(0).process(Wrong())
    with pytest.raises(engine.OperatorError, match=r"output\(\) got 'timers', expected one of odd"):
        run(out.sink(Collect()))


class Gives(ProcessFunction):
    def __init__(self, what: Any) -> None:
        self.what = what

    def process(self, record: Any, context: ProcessContext) -> Any:
        return self.what


@pytest.mark.parametrize(
    "what", ["text", b"", ("a", 1), 5, {"a": 1}, (), object(), pa.record_batch({"a": [1]})]
)
def test_what_is_one_record_or_none_at_all_is_refused(what: Any) -> None:
    message = r"process\(\) gave [\s\S]*, expected an iterable of records or None\n\nhint: yield"
    with pytest.raises(TypeError, match=message):
        Opened(Gives(what)).process((1,))


@pytest.mark.parametrize("what", [[1, 2], range(1, 3), iter([1, 2]), {1: 0, 2: 0}.keys(), {1, 2}])
def test_results_are_any_iterable(what: Any) -> None:
    assert Opened(Gives(what)).process((1,)) == [1, 2]


class Yields(ProcessFunction):
    """Yields results that tell of its state, and fails where a record says so."""

    outputs = ("aside",)
    count = ValueState(0)

    def process(self, record: Any, context: ProcessContext) -> Iterator[Any]:
        for n in range(record[1]):
            self.count += 1
            yield (context.key, self.count)
            if n == 3:
                context.output("aside", n)
                raise ValueError("three")
        context.set_timer(record[1])

    def on_timer(self, time: int, context: ProcessContext) -> Iterator[Any]:
        yield -time
        if time == 2:
            raise StopIteration


@batch_size
def test_a_generator_that_fails_gives_nothing(batch_size: int) -> None:
    pairs = source(Collection([("a", 1), ("b", 2), ("a", 5), ("a", 1), ("c", 0)])).key_by(0)
    out = pairs.process(Yields(), on_error="side")
    found = run(
        [
            out.sink(Collect()),
            out.side("errors").sink(Collect()).named("bad"),
            out.side("aside").sink(Collect()).named("aside"),
        ],
        batch_size=batch_size,
    )
    assert found["collect"] == [("a", 1), ("b", 1), ("b", 2), ("a", 6), 0, -1]
    assert found["bad"] == [
        (("a", 5), "ValueError: three"),
        (("b", "", 2), "RuntimeError: generator raised StopIteration"),
    ]
    assert found["aside"] == [3]
    with pytest.raises(engine.OperatorError, match="ValueError: three") as caught:
        run(pairs.process(Yields()).sink(Collect()), batch_size=batch_size)
    assert (caught.value.operator, caught.value.record) == ("process", "('a', 5)")
    skipped = pairs.process(Yields(), on_error="skip").sink(Collect())
    assert run(skipped, batch_size=batch_size)["collect"] == found["collect"]


def test_a_list_that_is_given_again_and_again_stays_the_users() -> None:
    kept = [1]
    opened = Opened(Gives(kept))
    assert opened.process((1,), (2,)) == [1, 1]
    assert kept == [1]


def test_a_key_of_which_nothing_is_kept_takes_no_memory() -> None:
    opened = Opened(Records())
    opened.process(*((n,) for n in range(1000)))
    assert opened.keys == {}


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (Count, r"process\(\) got ABCMeta .*\n\nhint: make one: .process\(Count\("),
        (len, r"process\(\) got .*len.*, expected a ProcessFunction\n\nhint: class F"),
        (None, r"process\(\) got NoneType None"),
    ],
)
def test_what_is_no_process_function_is_refused(function: Any, message: str) -> None:
    with pytest.raises(engine.GraphError, match=message):
        source(Collection([1])).key_by().process(function)


@pytest.mark.parametrize("outputs", ["late", ("errors",), ("a", "a"), (1,), None])
def test_side_outputs_that_mean_nothing_are_refused(outputs: Any) -> None:
    function = Count()
    vars(function)["outputs"] = outputs
    with pytest.raises(engine.GraphError, match=r"Count.outputs is .*\n\nhint: outputs ="):
        source(Collection([1])).key_by().process(function)


def test_states_that_mean_nothing_are_refused() -> None:
    with pytest.raises(engine.GraphError, match=r"ttl is 5, expected a timedelta"):
        ListState(ttl=5)  # type: ignore[arg-type]
    with pytest.raises(engine.GraphError, match="which all keys would share"):
        ValueState(default=[])


def test_a_stream_has_keys_first() -> None:
    with pytest.raises(engine.GraphError, match=r"\.process\(\) needs to know what the key"):
        source(Collection([1])).process(Count())  # type: ignore[attr-defined]


def test_states_are_made_in_the_class() -> None:
    class OfAnObject(ProcessFunction):
        def __init__(self) -> None:
            self.count = ValueState(0)

        def process(self, record: Any, context: ProcessContext) -> list[Any]:
            return [record]

    class SetTooSoon(OfAnObject):
        count = ValueState(0)

        def __init__(self) -> None:
            self.count = 5

    keyed = source(Collection([1])).key_by()
    with pytest.raises(GraphError, match=r"the state 'count' in __init__[\s\S]*count = ValueState"):
        keyed.process(OfAnObject())
    with pytest.raises(RuntimeError, match=r"there is no key[\s\S]*hint: ValueState\(default\)"):
        SetTooSoon()
