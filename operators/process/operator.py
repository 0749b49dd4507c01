"""`Process` and `CoProcess`, the operators of process functions, and their keys in one task."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

from engine.columns import is_columns
from engine.errors import GraphError
from engine.graph.batch_operator import BatchFunction, BatchOperator
from engine.graph.context import TaskContext
from engine.graph.operator import ERRORS, OnError, Properties
from engine.graph.watermark import END_OF_TIME
from engine.record import dict_key
from engine.state import KeyedState
from operators.keys import NONE, Key, Pairs, found_again, key_meaning, keyed_pairs
from operators.process.broadcast import (
    BroadcastContext,
    BroadcastMap,
    BroadcastProcessFunction,
    BroadcastState,
)
from operators.process.context import TIMERS, ProcessContext
from operators.process.function import NO_KEY, CoProcessFunction, KeyedFunction
from operators.process.states import State
from operators.process.timers import KeyTimers, Timer, TimerQueue


@dataclass(frozen=True)
class Process(BatchOperator):
    """Calls a `ProcessFunction` with the records and timers of each key.

    The side input of a `BroadcastProcessFunction` is its broadcast stream. `key` and `paired` say
    where the key is, as for `Reduce`.
    """

    function: KeyedFunction
    key: Key
    paired: bool = False
    on_error: OnError = "fail"

    @property
    def properties(self) -> Properties:
        """The treatment of records that fail, the function's outputs and its inputs."""
        both = isinstance(self.function, BroadcastProcessFunction)
        return Properties(
            on_error=self.on_error,
            outputs=tuple(self.function.outputs),
            side_input=both,
            ends_with_side=both,
            meaning={
                "kind": "process",
                "key": key_meaning(self.key, self.paired),
                **_states_in_words(self.function),
            },
        )

    def __post_init__(self) -> None:
        function = self.function
        for name, value in vars(function).items():
            if isinstance(value, State | BroadcastState):
                raise GraphError(
                    f"{type(function).__name__} makes the state {name!r} in __init__, expected it "
                    "in the class",
                    hint=f"{name} = {type(value).__name__}(…) in the body of the class: each key "
                    "has its own",
                )
        outputs = function.outputs
        names = isinstance(outputs, tuple | list) and all(isinstance(o, str) for o in outputs)
        if not names or ERRORS in outputs or len(set(outputs)) < len(outputs):
            raise GraphError(
                f"{type(function).__name__}.outputs is {outputs!r:.80}, expected a tuple of names, "
                f"each once, and none of them {ERRORS!r}",
                hint="outputs = ('late',)",
            )

    def open(self, context: TaskContext) -> BatchFunction:
        """The keys of one task."""
        return ProcessTask(self, context)


@dataclass(frozen=True)
class CoProcess(Process):
    """Calls a `CoProcessFunction` with the records and timers of each key of two streams.

    `right_key` and `right_paired` say where the key is in records of the second one.
    """

    right_key: Key = None
    right_paired: bool = False

    @property
    def properties(self) -> Properties:
        """The treatment of records that fail, the function's outputs and its inputs."""
        return Properties(
            accepts_encoded=True,
            two_inputs=True,
            on_error=self.on_error,
            outputs=tuple(self.function.outputs),
            meaning={
                "kind": "process of two streams",
                "key": key_meaning(self.key, self.paired),
                "key of the right": key_meaning(self.right_key, self.right_paired),
                **_states_in_words(self.function),
            },
        )

    def open(self, context: TaskContext) -> BatchFunction:
        """The keys of one task."""
        return _CoProcess(self, context)


class ProcessTask(BatchFunction):
    """The keys of one task, each with its slots unless these are empty."""

    def __init__(self, operator: Process, context: TaskContext) -> None:
        self._task = context
        self._outputs: dict[str, list[Any]] = {name: [] for name in operator.function.outputs}
        self._function = copy.copy(operator.function)
        both = isinstance(self._function, BroadcastProcessFunction)
        self._context = (BroadcastContext if both else ProcessContext)(
            context.now_ns, self._outputs
        )
        vars(self._function)["_oka_context"] = self._context
        found = attributes(self._function)
        self._states = {n: state for n, state in found.items() if isinstance(state, State)}
        for name, state in self._states.items():
            self._context._handles[name] = state.handle(self._context)
        self._keys: dict[Any, dict[str, Any]] = {}
        self._broadcast: dict[str, BroadcastMap[Any, Any]] = {}
        if isinstance(self._context, BroadcastContext):
            self._context._keys, self._context._broadcast = self._keys, self._broadcast
            for name, state in found.items():
                if isinstance(state, BroadcastState):
                    self._broadcast[name] = BroadcastMap(name, self._context)
        self._pairs = keyed_pairs(operator.key, paired=operator.paired)

    def process(self, batch: list[Any]) -> list[Any]:
        """The results for the records of a batch."""
        return self._take(batch, self._pairs, "process")

    def _take(self, batch: list[Any], pairs: Pairs, method: str) -> list[Any]:
        """The results for a batch, and for timers that have become due."""
        records = iter(batch)
        try:
            out = self._process(pairs(batch, records), method)
        except BaseException:
            self._task.failing.at(batch, records)
            raise
        for part in self._fire(self._context._event, self._context.watermark):
            out += part
        self._plan()
        return out

    def _process(self, pairs: Iterable[tuple[Any, Any]], method: str) -> list[Any]:
        """The results of this method for records behind their keys: the hot path."""
        keys, context, function = self._keys, self._context, getattr(self._function, method)
        out: list[Any] = []
        context.name = ""
        for key, record in pairs:
            try:
                slots = keys[key]
            except (KeyError, TypeError):
                key, slots = self._new(key)
            context.key = key
            context._slots = slots
            context._looked_ns = None
            try:
                if (given := function(record, context)) is not None:
                    out += given if type(given) is list else _results(method, given)
            except BaseException as error:  # noqa: BLE001 - raised, unless it is the record's alone
                self._fail(record, error)
            if not slots:
                del keys[key]
        return out

    def take_side(self, records: list[Any]) -> Iterator[list[Any]]:
        """The results for records of the broadcast stream."""
        out = self._process_broadcast(records)
        for at in range(0, len(out), self._task.batch_size):
            yield out[at : at + self._task.batch_size]
        yield from self._fire(self._context._event, self._context.watermark)
        self._plan()

    def _process_broadcast(self, records: list[Any]) -> list[Any]:
        """The function's results for records of the broadcast stream."""
        context, function = self._context, self._function
        assert isinstance(context, BroadcastContext)
        assert isinstance(function, BroadcastProcessFunction)
        out: list[Any] = []
        context.key, context.name, context._slots = None, "", NO_KEY
        context._in_broadcast = True
        for record in records:
            context._looked_ns = None
            try:
                if (given := function.process_broadcast(record, context)) is not None:
                    out += given if type(given) is list else _results("process_broadcast", given)
            except BaseException as error:  # noqa: BLE001 - as in `process`
                self._fail(record, error)
            context._leave_key()
        context._in_broadcast = False
        return out

    def on_watermark(self, watermark_us: int) -> Iterator[list[Any]]:
        """The results of timers that event time has come to."""
        self._context.watermark = watermark_us
        yield from self._fire(self._context._event, watermark_us)
        self._plan()

    def on_timer(self, now_ns: int) -> Iterator[list[Any]]:
        """The results of timers by the clock; drops old values."""
        self._drop_old(now_ns)
        yield from self._fire(self._context._processing, now_ns, self._task.batch_size)
        self._plan()

    def on_end(self) -> Iterator[list[Any]]:
        """The results of all timers of event time."""
        self._context.watermark = END_OF_TIME
        self._context._over = set()
        yield from self._fire(self._context._event, END_OF_TIME)

    def snapshot(self) -> KeyedState:
        """The states and timers of all keys."""
        now_ns = self._task.now_ns()
        kept = ((key, self._saved(slots, now_ns)) for key, slots in self._keys.items())
        shared = [(name, list(state.items())) for name, state in self._broadcast.items()]
        return KeyedState.of(kept, pickle=self._task.pickle, shared=shared or None)

    def restore(self, state: KeyedState) -> None:
        """Go on with them."""
        now_ns = self._task.now_ns()
        for name, items in state.shared or ():
            if name not in self._broadcast:
                raise self._unknown(name, "a broadcast state")
            dict.update(self._broadcast[name], items)
        timers: list[tuple[int, Any, str, bool, int]] = []
        for key, (states, of_key) in state.items():
            key = dict_key(key)
            slots = self._keys[key] = {}
            for name, had_ttl, saved in states:
                slots[name] = self._kept_of(name, had_ttl).restored(saved, now_ns)
                self._look_again(key, slots, name, now_ns)
            if not (slots or of_key):
                del self._keys[key]
            timers += [(number, key, *timer) for number, *timer in of_key]
        for number, key, name, is_event, time in timers:
            queue = self._context._event if is_event else self._context._processing
            timer = queue.add(time if is_event else time + now_ns, number, key, name)
            self._keys[key].setdefault(TIMERS, KeyTimers()).add(timer)
        self._context._numbers = count(1 + max((timer[0] for timer in timers), default=-1))
        self._plan()

    def _saved(self, slots: dict[str, Any], now_ns: int) -> Any:
        """States by name, and timers, those of the clock with the time left."""
        states = [
            (name, self._states[name].ttl_ns is not None, self._states[name].saved(kept, now_ns))
            for name, kept in slots.items()
            if name != TIMERS
        ]
        timers = []
        of_key: KeyTimers = slots.get(TIMERS, KeyTimers())
        for timer in (timer for name in of_key for timer in of_key.named(name)):
            is_event = timer.queue is self._context._event
            time = timer.time if is_event else timer.time - now_ns
            timers.append((timer.number, timer.name, is_event, time))
        return states, timers

    def _kept_of(self, name: str, had_ttl: bool) -> State:
        """The state with this name in the snapshot."""
        state = self._states.get(name)
        if state is None or (state.ttl_ns is not None) != had_ttl:
            raise self._unknown(name, f"a state {'with' if had_ttl else 'without'} ttl")
        return state

    def _unknown(self, name: str, kind: str) -> ValueError:
        return ValueError(
            f"{type(self._function).__name__} got what was kept of {name!r}, {kind}, expected one "
            "that it has"
        )

    def _new(self, key: Any) -> tuple[Any, dict[str, Any]]:
        """The key as a dict finds it again, and its slots."""
        key, slots = found_again(key, self._keys)
        if slots is NONE:
            slots = self._keys[key] = {}
        return key, slots

    def _fire(self, queue: TimerQueue, until: int, most: float = float("inf")) -> Iterator[Any]:
        """The results of timers that are due by then, in batches.

        Some may be empty: if each timer sets the next, a job can be cancelled at a batch.
        """
        if not len(queue):
            self._send()
            return
        out: list[Any] = []
        fired = 0
        while fired < most and (timer := queue.pop(until)) is not None:
            self._call(timer, out)
            fired += 1
            if len(out) >= self._task.batch_size or fired % self._task.batch_size == 0:
                self._send()
                yield out
                out = []
        self._send()
        if out:
            yield out

    def _call(self, timer: Timer, out: list[Any]) -> None:
        """Call a timer that has left its queue."""
        context, key, name = self._context, timer.key, timer.name
        slots = self._keys[key]
        slots[TIMERS].remove(timer)
        if not slots[TIMERS]:
            del slots[TIMERS]
        context.key, context.name, context._slots = key, name, slots
        context._looked_ns = None
        if context._over is not None:
            context._over.add((key, name))
        time_us = timer.time if timer.queue is context._event else timer.time // 1000
        try:
            if (given := self._function.on_timer(time_us, context)) is not None:
                out += given if type(given) is list else _results("on_timer", given)
        except BaseException as error:  # noqa: BLE001 - as in `process`
            self._fail((key, name, time_us), error)
        if not slots:
            del self._keys[key]

    def _fail(self, record: Any, error: BaseException) -> None:
        """Rescue a record, or raise the error."""
        if self._task.rescue is None:
            self._task.failing.on(record)
            raise error
        self._task.rescue(record, error)

    def _send(self) -> None:
        """Send the records of side outputs."""
        for name, records in self._outputs.items():
            if records:
                if (send := self._task.side_outputs.get(name)) is not None:
                    send(records[:])
                records.clear()

    def _drop_old(self, now_ns: int) -> None:
        """Drop some old values; the next timer is for the others."""
        for _ in range(self._task.batch_size):
            if (due := self._context._expiry.pop(now_ns)) is None:
                return
            key, name = due
            slots = self._keys.get(key)
            if slots is not None and name in slots:
                self._look_again(key, slots, name, now_ns)
                if not slots:
                    del self._keys[key]

    def _look_again(self, key: Any, slots: dict[str, Any], name: str, now_ns: int) -> None:
        """Drop a state's old values, and plan the check for its next one."""
        state = self._states[name]
        if state.ttl_ns is not None and (next_ns := state.drop_old(slots, now_ns)) is not None:
            self._context._expiry.add(next_ns, key, name)

    def _plan(self) -> None:
        timer, expiry = self._context._processing.next_time, self._context._expiry.next_ns
        self.next_timer = min((at for at in (timer, expiry) if at is not None), default=None)


class _CoProcess(ProcessTask):
    """As `ProcessTask`, of two streams."""

    def __init__(self, operator: CoProcess, context: TaskContext) -> None:
        super().__init__(operator, context)
        right = keyed_pairs(operator.right_key, paired=operator.right_paired)
        self._sides = (self._pairs, "process_left"), (right, "process_right")

    def process(self, batch: Any) -> list[Any]:
        return self._take(batch.to_list(), *self._sides[batch.input])


def check_process_function(method: str, function: object, kind: type[KeyedFunction]) -> None:
    """Raise `GraphError` unless the method got a function of this kind."""
    if isinstance(function, kind):
        return
    if isinstance(function, type) and issubclass(function, kind):
        hint = f"make one: .{method}({function.__name__}(...))"
    elif isinstance(function, CoProcessFunction):
        hint = f".connect(other.key_by(...)).process({type(function).__name__}(...))"
    else:
        methods = " and ".join(
            f"{each}()" for each in sorted(getattr(kind, "__abstractmethods__", ()))
        )
        hint = f"class F({kind.__name__}), with {methods}; an instance of it: F()"
    raise GraphError(
        f"{method}() got {type(function).__name__} {function!r:.80}, expected a {kind.__name__}",
        hint=hint,
    )


def attributes(function: KeyedFunction) -> dict[str, Any]:
    """The attributes of its class and of the class's bases."""
    kinds = reversed(type(function).__mro__)
    return {name: value for kind in kinds for name, value in vars(kind).items()}


def _states_in_words(function: KeyedFunction) -> dict[str, str]:
    """The kinds of its states, for `Properties.meaning`."""
    return {
        f"state {name!r}": _in_words(state)
        for name, state in attributes(function).items()
        if isinstance(state, State | BroadcastState)
    }


def _in_words(state: State | BroadcastState[Any, Any]) -> str:
    has_ttl = isinstance(state, State) and state.ttl_ns is not None
    return type(state).__name__ + (" with ttl" if has_ttl else "")


def _results(method: str, given: Any) -> list[Any]:
    """The results that a function gave as anything but a list, such as a generator."""
    if isinstance(given, Iterable) and not isinstance(given, _RECORDS) and not is_columns(given):
        return list(given)
    raise TypeError(
        f"{method}() gave {type(given).__name__} {given!r:.80}, expected an iterable of records "
        "or None\n\nhint: yield record, or return [record]; a tuple, a dict or a text is one record"
    )


_RECORDS = (tuple, str, bytes, bytearray, Mapping)
"""Iterables that are rather meant as a single record."""
