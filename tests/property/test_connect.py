"""Random functions of two streams give what plain Python does, by any tasks, cut anywhere."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import count
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.graph import TaskContext
from engine.network import partition
from engine.state import KeyedState
from operators import (
    CoProcessFunction,
    ListState,
    MapState,
    ProcessContext,
    ValueState,
)
from operators.process.operator import CoProcess
from tests.part import examples

Step = tuple[Any, ...]
"""What a function does, and with what numbers or names."""

changes = st.one_of(
    st.just(("emit",)),
    st.just(("push",)),
    st.just(("clear",)),
    st.tuples(st.just("put"), st.integers(0, 2)),
    st.tuples(st.just("add"), st.integers(-2, 2)),
    st.tuples(st.just("fail"), st.integers(2, 4)),
)
timers = st.one_of(
    st.tuples(st.sampled_from(["set", "also", "unset"]), st.sampled_from("xy"), st.integers(0, 9)),
    st.tuples(st.just("delete"), st.sampled_from("xy")),
)
programs = st.fixed_dictionaries(
    {
        "left": st.lists(changes | timers, max_size=4),
        "right": st.lists(changes | timers, max_size=4),
        "timer": st.lists(changes, max_size=3),
    }
)


class Program(CoProcessFunction):
    """Does the steps of a program; a record is (time, number)."""

    total = ValueState(0)
    items = ListState[int]()
    latest = MapState[int, int]()

    def __init__(self, program: dict[str, list[Step]]) -> None:
        self.program = program

    def process_left(self, record: Any, context: ProcessContext) -> Iterator[Any]:
        return self.follow("left", *record, context)

    def process_right(self, record: Any, context: ProcessContext) -> Iterator[Any]:
        return self.follow("right", *record, context)

    def on_timer(self, time: int, context: ProcessContext) -> Iterator[Any]:
        yield context.key, context.name, time
        yield from self.follow("timer", time, time, context)

    def follow(self, what: str, time: int, n: int, context: ProcessContext) -> Iterator[Any]:
        for step, *rest in self.program[what]:
            match step, rest:
                case "emit", _:
                    yield context.key, self.total, list(self.items), sorted(self.latest.items())
                case "push", _:
                    self.items.append(n)
                case "clear", _:
                    self.items.clear()
                    del self.total
                case "put", [at]:
                    self.latest[at] = n
                case "add", [more]:
                    self.total += n + more
                case "fail", [every]:
                    if n % every == 0:
                        raise ValueError(n)
                case "set", [name, after]:
                    context.set_timer(time + after, name)
                case "also", [name, after]:
                    context.add_timer(time + after, name)
                case "unset", [name, after]:
                    context.delete_timer(name, time + after)
                case "delete", [name]:
                    context.delete_timer(name)


class InPython:
    """What the program makes of all records of one key, by dicts."""

    def __init__(self, key: str, program: dict[str, list[Step]]) -> None:
        self.key, self.program = key, program
        self.total, self.items, self.latest = 0, list[int](), dict[int, int]()
        self.timers: dict[str, dict[int, int]] = defaultdict(dict)
        self.numbers = count()
        self.out: list[Any] = []
        self.failed: list[Any] = []

    def fire(self, watermark: int) -> None:
        due = [
            (time, number, name)
            for name, of_name in self.timers.items()
            for time, number in of_name.items()
            if time <= watermark
        ]
        for time, _, name in sorted(due):
            del self.timers[name][time]
            self.call("timer", time, time, [(self.key, name, time)], (self.key, name, time))

    def call(self, what: str, time: int, n: int, out: list[Any], record: Any) -> None:
        try:
            for step in self.program[what]:
                self.step(step, time, n, out)
        except ValueError:
            self.failed.append(record)
        else:
            self.out += out

    def step(self, step: Step, time: int, n: int, out: list[Any]) -> None:
        match step:
            case ("emit",):
                out.append((self.key, self.total, self.items[:], sorted(self.latest.items())))
            case ("push",):
                self.items.append(n)
            case ("clear",):
                self.total, self.items = 0, []
            case "put", at:
                self.latest[at] = n
            case "add", more:
                self.total += n + more
            case "fail", every:
                if n % every == 0:
                    raise ValueError
            case "delete", name:
                self.timers[name].clear()
            case what, name, after:
                of_name = self.timers[name]
                if what == "also":
                    of_name.setdefault(time + after, next(self.numbers))
                elif what == "unset":
                    of_name.pop(time + after, None)
                else:
                    alone = next(iter(of_name.values())) if len(of_name) == 1 else None
                    of_name.clear()
                    of_name[time + after] = next(self.numbers) if alone is None else alone


class Sent:
    """A batch of one of the two inputs, as it comes over the network."""

    def __init__(self, number: int, records: list[Any]) -> None:
        self.input, self._records = number, records

    def to_list(self) -> list[Any]:
        return self._records


class Tasks:
    """All tasks of the function; records come as pairs behind their keys."""

    def __init__(self, program: Any, parallelism: int, before: Tasks | None = None) -> None:
        self.failed: list[Any] = [] if before is None else before.failed
        operator = CoProcess(Program(program), None, True, right_paired=True)
        kept = [] if before is None else [each.snapshot() for each in before.functions]
        self.functions: list[Any] = []
        for index in range(parallelism):
            context = TaskContext(
                *(f"task[{index}]", index, parallelism, 7, "job"),
                now_ns=lambda: 0,
                rescue=lambda record, _error: self.failed.append(record),
            )
            function: Any = operator.open(context)
            if kept:
                function.restore(KeyedState.share(kept, index, parallelism))
            self.functions.append(function)

    def take(self, side: int, pairs: list[Any]) -> list[Any]:
        found = []
        places = partition([key for key, _ in pairs], len(self.functions))
        for at, function in enumerate(self.functions):
            own = [pair for pair, place in zip(pairs, places, strict=True) if place == at]
            if own:
                found += function.process(Sent(side, own))
        return found

    def on_watermark(self, watermark: int) -> list[Any]:
        given = (batch for each in self.functions for batch in each.on_watermark(watermark))
        return [result for batch in given for result in batch]


pairs = st.lists(
    st.tuples(st.sampled_from("abcd"), st.tuples(st.integers(0, 20), st.integers(0, 5))),
    min_size=1,
    max_size=6,
)
events = st.lists(
    st.one_of(
        st.tuples(st.sampled_from([0, 1]), pairs),
        st.integers(0, 25),
        st.tuples(st.just("restart"), st.integers(1, 4)),
    ),
    max_size=25,
)


@settings(max_examples=examples(200), deadline=None)
@given(programs, st.integers(1, 4), events)
def test_any_program(program: Any, parallelism: int, happens: list[Any]) -> None:
    tasks = Tasks(program, parallelism)
    keys = {key: InPython(key, program) for key in "abcd"}
    found: list[Any] = []
    watermark = -1
    for event in happens:
        if isinstance(event, int):
            if event > watermark:
                watermark = event
                found += tasks.on_watermark(event)
                for each in keys.values():
                    each.fire(event)
        elif event[0] == "restart":
            tasks = Tasks(program, event[1], tasks)
            found += tasks.on_watermark(watermark)
        else:
            side, batch = event
            found += tasks.take(side, batch)
            for key, record in batch:
                keys[key].call(("left", "right")[side], *record, [], record)
            for each in keys.values():
                each.fire(watermark)
    for key, each in keys.items():
        assert [result for result in found if result[0] == key] == each.out
    failed = [record for each in keys.values() for record in each.failed]
    assert sorted(map(repr, tasks.failed)) == sorted(map(repr, failed))
