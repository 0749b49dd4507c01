"""`map_async`: a coroutine function of each record or batch, with many concurrent calls."""

from __future__ import annotations

import inspect
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain
from typing import Any

from engine.errors import GraphError
from engine.graph.batch_operator import BatchFunction, BatchOperator
from engine.graph.checks import check_integer
from engine.graph.context import TaskContext
from engine.graph.operator import OnError, Properties
from engine.graph.watermark import Watermark
from engine.network import Cancelled
from engine.state import KeyedState
from operators.durations import check_duration
from operators.elementwise import check_arguments, check_function, checked_batch
from operators.map_async.pace import Pace
from operators.map_async.under_way import AsTheyCome, Call, InOrder, UnderWay
from operators.sources.rate import check_rate


@dataclass(frozen=True)
class MapAsync(BatchOperator):
    """Calls a coroutine function with each record, and emits the results.

    A task has at most `max_in_flight` calls whose results have not left; at this limit it takes no
    records. With `of_batches` the function is called with lists of at most `max_records`, and
    returns lists.
    """

    function: Any
    max_in_flight: int = 100
    timeout: timedelta | None = None
    ordered: bool = True
    retries: int = 0
    on_error: OnError = "fail"
    of_batches: bool = False
    max_records: int | None = None
    rate: float | None = None
    retry_if: Callable[[Any], object] | None = None

    @property
    def method(self) -> str:
        """Its name as a method of streams."""
        return "map_batches_async" if self.of_batches else "map_async"

    @property
    def properties(self) -> Properties:
        """The treatment of records that fail; it holds watermarks back."""
        return Properties(
            on_error=self.on_error, makes_watermarks=True, meaning={"kind": self.method}
        )

    def __post_init__(self) -> None:
        _check_coroutine_function(self.method, self.function)
        check_integer("max_in_flight", self.max_in_flight, 1)
        check_integer("retries", self.retries, 0)
        check_rate(self.rate, "calls")
        if self.retry_if is not None:
            check_function(f"{self.method}(): retry_if", self.retry_if, 1)
            if not self.retries:
                raise GraphError(
                    f"{self.method}() got retry_if and retries=0, expected retries of at least 1",
                    hint="retries=3 makes up to 3 further attempts while retry_if is true",
                )
        if self.max_records is not None:
            check_integer("max_records", self.max_records, 1)
        if self.timeout is not None:
            check_duration("timeout", self.timeout)
        if not isinstance(self.ordered, bool):
            raise GraphError(f"ordered is {self.ordered!r:.80}, expected True or False")

    def open(self, context: TaskContext) -> BatchFunction:
        """The calls of one task, and their event loop."""
        return _MapAsync(self, context)


class _MapAsync(BatchFunction):
    """The calls of one task: some wait until they may begin, the others are under way.

    In this order the two are all records whose results have not left: those a snapshot has to keep.
    A watermark waits until the results of all records in front of it have left; records behind it
    need not wait for that.
    """

    def __init__(self, operator: MapAsync, context: TaskContext) -> None:
        from operators.map_async.calls import CallLoop  # asyncio, which takes 20 ms to import

        self._operator = operator
        self._context = context
        self._waiting: deque[Call] = deque()
        self._under_way: UnderWay = InOrder() if operator.ordered else AsTheyCome()
        self._spans = deque([_Span()])
        self._last: Call | None = None
        """The call of the last record, if its result has not left."""
        self._stamps: list[int] = []
        """The stamps of markers whose records have left."""
        self._changed = threading.Condition()
        self._cancelled = False
        timeout = None if operator.timeout is None else operator.timeout.total_seconds()
        rate = operator.rate
        self._calls = CallLoop(
            *(operator.function, self._on_done, timeout, operator.retries, operator.retry_if),
            pace=None if rate is None else Pace(rate / context.parallelism),
        )

    def process(self, batch: list[Any]) -> list[Any]:
        out: list[Any] = []
        while self._waiting:  # an operator in front gives several batches at once
            self._wait()
            out += self._step()
        pieces, span = self._pieces(batch), self._spans[-1]
        span.results += len(pieces)
        self._waiting.extend(Call(piece, span) for piece in pieces)
        if pieces:
            self._last = self._waiting[-1]
        return out + self._step()

    def on_timer(self, now_ns: int) -> Iterator[list[Any]]:
        if self.full:
            self._wait()
        if out := self._step():
            yield out

    def on_watermark(self, watermark_us: int) -> None:
        self._hold(Watermark(watermark_us))
        self._plan()

    def on_idle(self) -> None:
        self._hold(Watermark(None))
        self._plan()

    def on_end(self) -> Iterator[list[Any]]:
        while self._waiting or len(self._under_way):
            self._wait()
            yield self._step()

    def hold_markers(self, stamps: list[int]) -> list[int]:
        if stamps and self._last is not None:
            self._last.stamps = [*(self._last.stamps or ()), *stamps]
        else:
            self._stamps += stamps
        left, self._stamps = self._stamps, []
        return left

    def snapshot(self) -> KeyedState:
        """The input whose results have not left, in order: records in tuples, and watermarks."""
        calls = deque((*self._under_way.calls(), *self._waiting))
        kept: list[Any] = []
        for span in self._spans:
            while calls and calls[0].span is span:
                kept.append((calls.popleft().record,))
            if span.end is not None:
                kept.append(span.end.time_us)
        index = self._context.index
        return KeyedState.of((), own=(index, kept), pickle=self._context.pickle)

    def restore(self, state: KeyedState) -> None:
        """Begin all calls again."""
        for kept in chain.from_iterable(state.own):
            if isinstance(kept, tuple):
                self._spans[-1].results += 1
                self._waiting.append(Call(kept[0], self._spans[-1]))
            else:
                self._hold(Watermark(kept))
        self._step()  # gives no result yet, but begins calls

    def cancel(self) -> None:
        with self._changed:
            self._cancelled = True
            self._changed.notify()

    def close(self) -> None:
        self._calls.close()

    def _hold(self, watermark: Watermark) -> None:
        """Put the watermark behind all results of earlier records."""
        spans, is_idle = self._spans, watermark.time_us is None
        while len(spans) > 1 and not spans[-1].results and (spans[-2].is_idle or not is_idle):
            spans.pop()  # the new watermark replaces the one before
        spans[-1].end = watermark
        spans.append(_Span())
        self._end_spans()

    def _end_spans(self) -> None:
        """Let watermarks leave that no result precedes any more: the highest for all.

        An idle input no longer counts as idle once records have come.
        """
        spans = self._spans
        while spans[0].is_over:
            if spans[0].is_idle:
                if self.watermark is not None:
                    return  # which must leave first
                if len(spans) > 2 or spans[1].results:
                    spans.popleft()
                    continue
            self.watermark = spans.popleft().end

    def _pieces(self, batch: list[Any]) -> list[Any]:
        """The argument of the function."""
        if not self._operator.of_batches:
            return batch
        size = self._operator.max_records or max(1, len(batch))
        return [batch[start : start + size] for start in range(0, len(batch), size)]

    def _step(self) -> list[Any]:
        """Let results leave, and begin calls in their place."""
        if self._calls.failure is not None:
            raise self._calls.failure
        out: list[Any] = []
        while len(out) < self._context.batch_size and (call := self._under_way.pop()) is not None:
            call.span.results -= 1
            self._stamps += call.stamps or ()
            if call is self._last:
                self._last = None
            self._put(call, out)
        self._end_spans()
        free = self._operator.max_in_flight - len(self._under_way)
        if free > 0 and self._waiting:
            calls = [self._waiting.popleft() for _ in range(min(free, len(self._waiting)))]
            self._under_way.add(calls)
            self._calls.begin(calls)
        self._plan()
        return out

    def _put(self, call: Call, out: list[Any]) -> None:
        """Add the result behind the others, or rescue a record whose call failed."""
        error, of_batches = call.error, self._operator.of_batches
        rescue, check = self._context.rescue, self._context.check
        if error is None and not of_batches and check is None:
            out.append(call.result)
            return
        try:
            if error is not None:
                raise error
            given = [call.result]
            if of_batches:
                given = checked_batch(call.result, self._operator.method)
            if check is not None:
                for each in given:
                    check(each)
            out += given
        except BaseException as error:
            if rescue is None:
                self._context.failing.on(call.record)
                raise
            for record in call.record if of_batches else (call.record,):
                rescue(record, error)

    def _plan(self) -> None:
        """Set the time of the next look: at once if a result can leave, else when a call has ended.

        It sets "never" before it looks, so that a call that ends meanwhile sets a time after that.
        """
        self.full = bool(self._waiting)
        stands_still = self._context.is_virtual and len(self._under_way)  # time, until they end
        self.next_timer = _AT_ONCE if stands_still else None
        if self.full or self._spans[0].is_over or self._is_over():
            self.next_timer = _AT_ONCE

    def _wait(self) -> None:
        """Wait until a result can leave. Raises Cancelled."""
        with self._changed:
            self._changed.wait_for(self._is_over)
        if self._cancelled:
            raise Cancelled("cancelled while calls were under way")

    def _is_over(self) -> bool:
        failed = self._calls.failure is not None
        return self._under_way.is_ready() or self._cancelled or failed

    def _on_done(self, call: Call | None) -> None:
        """Note, in the thread of the loop, that a call is done, or that no more will be."""
        if call is not None:
            self._under_way.done(call)
            if not self._under_way.is_ready():
                return
        if self.next_timer is None:  # otherwise the task looks anyway
            self.next_timer = _AT_ONCE
            self._context.wake()
        with self._changed:
            self._changed.notify()


class _Span:
    """The records between two watermarks."""

    def __init__(self) -> None:
        self.results = 0
        """The number of results that have not left."""
        self.end: Watermark | None = None
        """The watermark behind them; None while records still come."""

    @property
    def is_idle(self) -> bool:
        """Whether the input was idle behind it."""
        return self.end is not None and self.end.time_us is None

    @property
    def is_over(self) -> bool:
        """Whether the watermark can leave."""
        return self.end is not None and not self.results


def _check_coroutine_function(method: str, function: Any) -> None:
    """Raise `GraphError` unless a call can be awaited."""
    if isinstance(function, type):
        raise GraphError(
            f"{method}() got the class {function.__name__}, expected a coroutine function",
            hint=f"make one: .{method}({function.__name__}(...))",
        )
    if hasattr(function, "__aenter__"):  # which returns the function
        return
    called = type(function).__call__ if callable(function) else None
    if not (inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)):
        name = f"{type(function).__name__} {function!r:.80}"
        if callable(function):
            name = getattr(function, "__qualname__", name)
        raise GraphError(
            f"{method}() got {name}, expected a coroutine function",
            hint="async def f(record): return await ...; one that awaits nothing goes into .map(f)",
        )
    check_arguments(method, function, 1)


_AT_ONCE = 0
