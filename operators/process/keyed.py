"""`process`, `process_with` and `connect`: the methods of keyed streams for process functions."""

from __future__ import annotations

from typing import Any

from engine.errors import GraphError
from engine.graph.declaration import Input, shown
from engine.graph.operator import OnError
from operators.keys import Key, check_keys_alike
from operators.process.broadcast import BroadcastProcessFunction
from operators.process.function import CoProcessFunction, ProcessFunction
from operators.process.operator import CoProcess, Process, check_process_function
from operators.stream import Stream, broadcast_sides, check_on_error, second, then


class KeyedProcess:
    """The part of a `KeyedStream` whose methods take process functions."""

    _inputs: tuple[Input, ...]
    _key: Key
    _paired: bool

    def process(self, function: ProcessFunction, *, on_error: OnError = "fail") -> Stream[Any]:
        """Call a function with state and timers for the records of each key: `ProcessFunction`.

        Where `key_by` got a function, it gets the records as they were. With `on_error`, as in
        `reduce`, changes that a function made before it failed stay. If a timer fails, the record
        is the key, the timer's name and its time.
        """
        check_on_error("process", on_error)
        check_process_function("process", function, ProcessFunction)
        if isinstance(function, BroadcastProcessFunction):
            raise GraphError(
                f"process() got {type(function).__name__}, a BroadcastProcessFunction, expected "
                "one of a single stream",
                hint=f".process_with(other.broadcast(), {type(function).__name__}(...))",
            )
        operator = Process(function, self._key, self._paired, on_error)
        return then(self._inputs, operator, "process")

    def process_with(
        self,
        broadcast: Stream[Any],
        function: BroadcastProcessFunction,
        *,
        on_error: OnError = "fail",
    ) -> Stream[Any]:
        """As `process`, with a second stream whose records every task gets, such as rules.

        See `BroadcastProcessFunction`: `.process_with(rules.broadcast(), F())`. With `on_error`, a
        record of either stream may be one that fails.
        """
        check_on_error("process_with", on_error)
        check_process_function("process_with", function, BroadcastProcessFunction)
        sides = broadcast_sides("process_with", broadcast, "records")
        operator = Process(function, self._key, self._paired, on_error)
        return then((*self._inputs, *sides), operator, "process_with")

    def connect(self, right: KeyedProcess) -> ConnectedStreams:
        """Have one function process two streams by key: `.connect(fares.key_by(0)).process(F())`.

        See `CoProcessFunction`: records of equal keys come to the same task, where they share
        states and timers.
        """
        if not isinstance(right, KeyedProcess):
            raise GraphError(
                f"connect() got {type(right).__name__} {right!r:.80}, expected a keyed stream",
                hint="call .key_by(...) on both: left.key_by('id').connect(right.key_by('of'))",
            )
        if not (self._paired or right._paired):
            check_keys_alike("connect", self._key, right._key)
        return ConnectedStreams(self, right)


class ConnectedStreams:
    """Two keyed streams that one function is to process."""

    def __init__(self, left: KeyedProcess, right: KeyedProcess) -> None:
        self._left, self._right = left, right

    def __repr__(self) -> str:
        left, right = (shown(each._inputs) for each in (self._left, self._right))
        return f"<ConnectedStreams {left}, {right}>"

    def process(self, function: CoProcessFunction, *, on_error: OnError = "fail") -> Stream[Any]:
        """Call a function with state and timers for the records of each key: `CoProcessFunction`.

        All else is as in `KeyedStream.process`. A record of either stream may be one that fails.
        """
        check_on_error("process", on_error)
        check_process_function("process", function, CoProcessFunction)
        left, right = self._left, self._right
        operator = CoProcess(
            *(function, left._key, left._paired, on_error),
            right_key=right._key,
            right_paired=right._paired,
        )
        return then((*left._inputs, *second(right._inputs)), operator, "process")
