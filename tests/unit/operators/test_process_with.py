"""process_with: state that every task has as a whole, beside the states of keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import engine
from engine.graph import TaskContext
from engine.testing import VirtualClock, run
from operators import (
    BroadcastContext,
    BroadcastProcessFunction,
    BroadcastState,
    KeyedState,
    ListState,
    ProcessContext,
    ProcessFunction,
    Stream,
    ValueState,
    Watermark,
    source,
)
from operators.process import Process
from operators.sinks import Collect
from operators.sources import Collection, Function
from tests.part import examples

pytestmark = pytest.mark.usefixtures("nothing_left")

parallelism = pytest.mark.parametrize("parallelism", [1, 2, 3])
batch_size = pytest.mark.parametrize("batch_size", [1, 7, 100])


class Factors(BroadcastProcessFunction):
    """Records times the factor of their name; those wait for whom there is none yet."""

    outputs = ("unknown",)
    factors = BroadcastState[str, int]()
    waiting = ListState[Any]()

    def process(self, record: Any, context: ProcessContext) -> list[Any] | None:
        key, name, n = record
        if name in self.factors:
            return [(key, n * self.factors[name])]
        self.waiting.append(record)
        context.output("unknown", name)
        return None

    def process_broadcast(self, record: Any, context: BroadcastContext) -> list[Any]:
        name, factor = record
        self.factors[name] = factor
        given = []
        for key in context.each_key():
            waiting = list(self.waiting)
            self.waiting = [each for each in waiting if each[1] != name]  # type: ignore[assignment]
            given += [(key, n * factor) for _, which, n in waiting if which == name]
        return given


class Opened:
    """A function at work in one task, whose two streams a test interleaves."""

    def __init__(self, function: BroadcastProcessFunction, **settings: Any) -> None:
        batch_size = settings.pop("batch_size", 100)
        context = TaskContext(*("task[0]", 0, 1, batch_size, "job"), now_ns=lambda: 0, **settings)
        self.function: Any = Process(function, 0).open(context)

    def process(self, *records: Any) -> list[Any]:
        return list(self.function.process(list(records)))

    def broadcast(self, *records: Any) -> list[Any]:
        return [r for batch in self.function.take_side(list(records)) for r in batch]

    def watermark(self, us: int) -> list[Any]:
        return [r for batch in self.function.on_watermark(us) for r in batch]

    @property
    def keys(self) -> dict[Any, Any]:
        return dict(self.function._keys)


def factored(values: Stream[Any], factors: Stream[Any]) -> Stream[Any]:
    return values.key_by(0).process_with(factors.broadcast(), Factors())


RECORDS = [(key, name, n) for n in range(20) for key in "abc" for name in "xy"]


@parallelism
@batch_size
def test_every_task_has_every_record_of_the_broadcast_stream(
    parallelism: int, batch_size: int
) -> None:
    stream = factored(source(Collection(RECORDS)), source(Collection([("x", 2), ("y", 3)])))
    out = run(stream.sink(Collect()), parallelism=parallelism, batch_size=batch_size)["collect"]
    assert sorted(out) == sorted((k, n * {"x": 2, "y": 3}[name]) for k, name, n in RECORDS)


@parallelism
def test_it_goes_on_until_both_streams_have_ended(parallelism: int) -> None:
    clock = VirtualClock()
    factors = source(Collection([("x", 2), ("y", 3)], rate=0.1))
    stream = factored(source(Collection(RECORDS)), factors)
    out = run(stream.sink(Collect()), clock=clock, parallelism=parallelism, batch_size=1)
    assert sorted(out["collect"]) == sorted((k, n * {"x": 2, "y": 3}[i]) for k, i, n in RECORDS)
    late = source(Collection([("a", "x", 1)], rate=1))
    out = run(factored(late, source(Collection([("x", 2)]))).sink(Collect()), clock=VirtualClock())
    assert out["collect"] == [("a", 2)]


def test_nothing_is_waited_for() -> None:
    opened = Opened(Factors())
    assert opened.process(("a", "x", 1), ("b", "y", 2), ("a", "x", 3)) == []
    assert opened.broadcast(("x", 10)) == [("a", 10), ("a", 30)]
    assert set(opened.keys) == {"b"}
    assert opened.process(("a", "x", 4)) == [("a", 40)]
    assert opened.broadcast(("y", 100), ("x", 1)) == [("b", 200)]
    assert opened.keys == {}


@settings(max_examples=examples(150), deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from("xy"), st.integers(0, 9))
        | st.tuples(st.sampled_from("xy"), st.integers(1, 9)),
        max_size=30,
    ),
    st.integers(1, 4),
    st.integers(1, 3),
)
def test_any_interleaving(events: list[Any], batch_size: int, gone_on: int) -> None:
    """As in plain Python, also where the state goes on in another task on the way."""
    opened = Opened(Factors(), batch_size=batch_size)
    factors: dict[str, int] = {}
    waiting: dict[str, list[Any]] = {}
    for at, event in enumerate(events):
        if at % (len(events) // gone_on + 1) == 2:
            state = opened.function.snapshot()
            opened = Opened(Factors(), batch_size=batch_size)
            opened.function.restore(KeyedState.share([state], 0, 1))
        if len(event) == 3:
            key, name, n = event
            given = opened.process(event)
            if name in factors:
                assert given == [(key, n * factors[name])]
            else:
                assert given == []
                waiting.setdefault(key, []).append(event)
        else:
            name, factor = event
            factors[name] = factor
            expected = [
                (key, n * factor) for key, kept in waiting.items() for _, i, n in kept if i == name
            ]
            assert sorted(opened.broadcast(event)) == sorted(expected)
            waiting = {
                k: left for k, w in waiting.items() if (left := [e for e in w if e[1] != name])
            }
        assert set(opened.keys) == set(waiting)


@pytest.mark.parametrize("before", [1, 2, 3])
@pytest.mark.parametrize("after", [1, 2, 3])
def test_broadcast_state_goes_on_in_any_number_of_tasks(before: int, after: int) -> None:
    tasks = [Opened(Factors()) for _ in range(before)]
    for task in tasks:
        task.broadcast(("x", 2), (("of", "any", 1), 3))
    states = [task.function.snapshot() for task in tasks]
    for index in range(after):
        task = Opened(Factors())
        task.function.restore(KeyedState.share(states, index, after))
        assert task.process(("a", "x", 1), ("a", ("of", "any", 1), 1)) == [("a", 2), ("a", 3)]
        task.broadcast(("x", 5))
        assert task.process(("a", "x", 1)) == [("a", 5)]


def test_what_was_kept_of_a_broadcast_state_that_is_no_more_is_refused() -> None:
    class Other(Rules):
        pass

    opened = Opened(Factors())
    opened.broadcast(("x", 2))
    message = "Other got what was kept of 'factors', a broadcast state, expected one that it has"
    with pytest.raises(ValueError, match=message):
        Opened(Other()).function.restore(opened.function.snapshot())


class Rules(BroadcastProcessFunction):
    """Does what records say, where it may and where it may not."""

    outputs = ("told",)
    rules = BroadcastState[str, Any]()
    n = ValueState(0)

    def process(self, record: Any, context: ProcessContext) -> list[Any] | None:
        return self._do(record[1], context)

    def on_timer(self, time: int, context: ProcessContext) -> list[Any] | None:
        return self._do(context.name, context)

    def process_broadcast(self, record: Any, context: BroadcastContext) -> list[Any] | None:
        return self._do(record, context)

    def _do(self, what: str, context: Any) -> list[Any] | None:
        if what == "put":
            self.rules["a"] = 1
        elif what == "assign":
            self.rules = {"b": 2}  # type: ignore[assignment]
        elif what == "delete":
            del self.rules["a"]
        elif what == "pop":
            self.rules.pop("a", None)
        elif what == "update":
            self.rules.update({"c": 3})
        elif what == "setdefault":
            self.rules.setdefault("d", 4)
        elif what == "clear":
            self.rules.clear()
        elif what == "merge":
            self.rules |= {"e": 5}
        elif what == "count":
            self.n += 1
        elif what == "timer":
            context.set_timer(10)
        elif what == "put later":
            context.set_timer(10, "put")
        elif what == "keys":
            return list(context.each_key())
        elif what == "count all":
            for _ in context.each_key():
                self.n += 1
        elif what == "forget":
            for _ in context.each_key():
                del self.n
        elif what == "forget, then fail":
            for _ in context.each_key():
                del self.n
                raise KeyError("on the way")
        elif what == "time all":
            for _ in context.each_key():
                context.set_timer(10, "look")
        elif what == "tell":
            context.output("told", dict(self.rules))
        elif what == "wrong":
            return 1  # type: ignore[return-value]
        return [(context.key, self.n if context.key else None, dict(self.rules))]


@pytest.mark.parametrize(
    "change", ["put", "assign", "delete", "pop", "update", "setdefault", "clear", "merge"]
)
def test_broadcast_state_is_changed_by_broadcast_records_alone(change: str) -> None:
    message = "the broadcast state 'rules' was to be changed outside of process_broadcast"
    opened = Opened(Rules())
    opened.broadcast("put")
    with pytest.raises(RuntimeError, match=message):
        opened.process(("k", change))
    rules: dict[str, Any] = {"a": 1}
    expected: dict[str, Any] = {
        "put": rules,
        "assign": {"b": 2},
        "delete": {},
        "pop": {},
        "update": rules | {"c": 3},
        "setdefault": rules | {"d": 4},
        "clear": {},
        "merge": rules | {"e": 5},
    }
    assert opened.process(("k", "look")) == [("k", 0, rules)]
    assert opened.broadcast(change) == [(None, None, expected[change])]
    assert opened.process(("k", "look")) == [("k", 0, expected[change])]


def test_a_timer_only_reads_broadcast_state() -> None:
    opened = Opened(Rules())
    opened.process(("k", "put later"))
    with pytest.raises(RuntimeError, match="was to be changed outside of process_broadcast"):
        opened.watermark(10)


@pytest.mark.parametrize("what", ["count", "timer"])
def test_where_no_key_is_at_work_nothing_is_of_one(what: str) -> None:
    opened = Opened(Rules())
    opened.process(("k", "count"))
    with pytest.raises(RuntimeError, match="a state was used where there is no key"):
        opened.broadcast(what)
    assert set(opened.keys) == {"k"}


def test_keys_are_those_of_which_something_is_kept() -> None:
    opened = Opened(Rules(), batch_size=2)
    opened.process(("a", "count"), ("b", "look"), (None, "count"), ("c", "count"))
    assert opened.broadcast("keys") == ["a", None, "c"]
    opened.broadcast("count all")
    assert opened.process(("a", "look"), ("c", "look")) == [("a", 2, {}), ("c", 2, {})]
    opened.broadcast("time all")
    assert opened.watermark(10) == [("a", 2, {}), (None, None, {}), ("c", 2, {})]
    opened.broadcast("time all")  # their time has come: they are called behind
    assert [len(batch) for batch in opened.function.take_side(["time all"])] == [1, 2, 1]
    opened.broadcast("forget")
    assert opened.keys == {}
    with pytest.raises(RuntimeError, match=r"each_key\(\) was called outside of process_broadcast"):
        opened.process(("a", "keys"))


def test_a_record_that_fails_between_keys_leaves_none_at_work() -> None:
    failed: list[Any] = []
    opened = Opened(Rules(), rescue=lambda record, error: failed.append((record, error)))
    opened.process(("a", "count"), ("b", "count"))
    assert opened.broadcast("forget, then fail", "look", "count", "put") == [
        (None, None, {}),
        (None, None, {"a": 1}),
    ]
    assert [record for record, _ in failed] == ["forget, then fail", "count"]
    assert set(opened.keys) == {"b"}
    assert opened.process(("a", "count")) == [("a", 1, {"a": 1})]


def test_a_record_that_fails_goes_aside() -> None:
    values = source(Collection([("k", "wrong"), ("k", "count")])).key_by(0)
    rules = source(Collection(["timer", "put"])).broadcast()
    stream = values.process_with(rules, Rules(), on_error="side")
    out = run(
        [stream.sink(Collect()), stream.side("errors").sink(Collect()).named("bad")],
        batch_size=1,
    )
    assert len(out["collect"]) == 2
    assert sorted(record for record, _ in map(_flat, out["bad"])) == ["timer", "wrong"]


def _flat(pair: Any) -> Any:
    record, error = pair
    return (record if isinstance(record, str) else record[1]), error


def test_an_error_names_the_record_and_the_operator() -> None:
    values = source(Collection([("k", "look")])).key_by(0)
    for rule, message in (
        ("count", "a state was used where there is no key"),
        ("wrong", r"process_broadcast\(\) gave int 1, expected an iterable of records or None"),
    ):
        stream = values.process_with(source(Collection([rule])).broadcast(), Rules())
        with pytest.raises(engine.OperatorError, match=message) as caught:
            run(stream.sink(Collect()))
        assert (caught.value.operator, caught.value.record) == ("process_with", repr(rule))


@parallelism
def test_side_outputs_are_of_both_streams(parallelism: int) -> None:
    values = source(Collection([(k, "tell") for k in "abc"])).key_by(0)
    stream = values.process_with(source(Collection(["tell"])).broadcast(), Rules())
    told = stream.side("told").sink(Collect()).named("told")
    out = run([stream.sink(Collect()), told], parallelism=parallelism)
    assert out["told"] == [{}] * (3 + parallelism)


def ticks(context: TaskContext) -> Iterator[Any]:
    for time in range(40):
        yield [("k", "look")]
        yield Watermark(time)


class Times(BroadcastProcessFunction):
    times = BroadcastState[int, int]()

    def process(self, record: Any, context: ProcessContext) -> list[Any]:
        context.set_timer(30)
        return []

    def on_timer(self, time: int, context: ProcessContext) -> list[Any]:
        return [context.watermark >= 30]

    def process_broadcast(self, record: Any, context: BroadcastContext) -> None:
        self.times[record] = context.watermark


@parallelism
def test_time_is_that_of_the_records_of_keys(parallelism: int) -> None:
    """Neither without watermarks nor with its own does a broadcast stream hold up time."""
    times = source(Collection([5, 6])).with_event_time(None)
    for other in (times, source(Collection([5, 6], rate=1 / 3600))):
        stream = source(Function(ticks)).key_by(0).process_with(other.broadcast(), Times())
        clock = VirtualClock()
        out = run(stream.sink(Collect()), clock=clock, parallelism=parallelism, batch_size=1)
        assert out["collect"][:1] == [True]


def test_what_is_not_two_streams_is_refused() -> None:
    values = source(Collection([("k", 1)]))
    with pytest.raises(engine.GraphError, match=r"process\(\) got Rules, .*expected one of a sin"):
        values.key_by(0).process(Rules())
    plain: Any = type("Plain", (ProcessFunction,), {"process": lambda *_: None})()
    with pytest.raises(engine.GraphError, match=r"process_with\(\) got Plain .*expected a Broadc"):
        values.key_by(0).process_with(values.broadcast(), plain)
    for wrong, message in (
        (values, "divided among tasks"),
        (values.key_by(0), "expected a stream of records"),
        ([1], r"process_with\(\) got list \[1\], expected a stream of records"),
    ):
        with pytest.raises(engine.GraphError, match=message):
            values.key_by(0).process_with(wrong, Rules())  # type: ignore[arg-type]
