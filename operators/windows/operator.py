"""The operator of windows: their state in each task, with watermarks, timers and the end."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from engine.expression.lift import Refusal
from engine.expression.understood import are_lifted, understood
from engine.graph.batch_operator import BatchFunction, BatchOperator
from engine.graph.context import TaskContext
from engine.graph.operator import OnError, Properties
from engine.state import KeyedState
from operators.aggregates.fold import Fold
from operators.durations import nanoseconds
from operators.event_time import LATE, GivesTime, TimeSelector, with_units_checked
from operators.windows.assigners import Every
from operators.windows.both_ways import BothWays
from operators.windows.values import AT_THE_END, Result, WindowValues
from operators.windows.windowing import Windowing


@dataclass(frozen=True)
class Windows(BatchOperator, GivesTime):
    """Computes a value from the records of each key and window, in Python."""

    windowing: Windowing
    fold: Fold
    on_error: OnError = "fail"

    @property
    def given_time(self) -> TimeSelector | None:
        """The selector of results' time."""
        return self.windowing.time_of_results

    @property
    def properties(self) -> Properties:
        """The output of late records, the treatment of those that fail, the state's meaning."""
        meaning = {"kind": "windows", **self.windowing.meaning, "value": self.fold.meaning}
        return Properties(
            alone=not self.windowing.is_keyed,
            accepts_encoded=self._is_lifted,
            functions=self._functions,
            way=self._way,
            on_error=self.on_error,
            outputs=(LATE,),
            meaning=meaning,
        )

    @property
    def _way(self) -> str | None:
        """Why the function of `reduce` is called itself, whatever it is."""
        if self.fold.meaning != "reduce" or self._functions:
            return None
        if not self.windowing.is_keyed:
            return "Python: has no key"
        return f"Python: on_error={self.on_error!r} looks at each record"

    @property
    def _functions(self) -> tuple[tuple[Callable[..., Any], int], ...]:
        """That of `reduce`, and that of times if there is one."""
        reduce, time = self.fold.add, self.windowing.time
        is_reduce = self.fold.meaning == "reduce" and self.on_error == "fail"
        if not is_reduce or reduce is None or not self.windowing.is_keyed:
            return ()
        return ((reduce, 2), *(() if time is None else time.functions))

    @cached_property
    def _is_lifted(self) -> bool:
        """Whether its functions are understood: `properties` is asked for again and again."""
        return are_lifted(self._functions)

    def open(self, context: TaskContext) -> BatchFunction:
        """The windows of one task, still without records."""
        return with_units_checked(self._open(context), [self.windowing.time], context)

    def _open(self, context: TaskContext) -> BatchFunction:
        emit = self.windowing.emit
        called = WindowValues(self.windowing, self.fold, context)
        state: WindowValues | BothWays = called
        if self._is_lifted and context.native != "off" and context.rescue is None:
            found = understood(self)
            if not isinstance(found, Refusal):
                lifted = WindowValues(self.windowing, self.fold, context, found)
                state = BothWays(lifted, called) if context.native == "check" else lifted
        if isinstance(emit, Every):
            return _Every(state, self.fold, context, nanoseconds(emit.period))
        return (_Updates if emit == "updates" else _Windows)(state, self.fold, context)


class _Windows(BatchFunction):
    """Brings records and watermarks to the windows, and late records to their output."""

    def __init__(self, state: WindowValues | BothWays, fold: Fold, context: TaskContext) -> None:
        self._state = state
        self.native = state.native
        self._context = context
        self._fold = fold
        self._send_late = context.side_outputs.get(LATE)

    def process(self, batch: Any) -> list[Result]:
        state = self._state
        out = state.add(batch)
        if state.late:
            late, state.late = state.late, []
            self.late += len(late)
            if self._send_late is not None:
                self._send_late(late)
        return out

    def on_watermark(self, watermark_us: int) -> Iterator[list[Result]]:
        return self._state.close(watermark_us)

    def on_end(self) -> Iterator[list[Result]]:
        return self._state.close(AT_THE_END)

    def snapshot(self) -> KeyedState:
        return self._state.snapshot(self._context.pickle)

    def restore(self, state: KeyedState) -> None:
        self._restore(state, touched=False)

    def _restore(self, state: KeyedState, *, touched: bool) -> None:
        pairs = state.items()
        if (order := state.order_of(self._fold.meaning)) is not None:
            pairs = _reordered(pairs, order)
        self._state.restore(pairs, touched=touched)


def _reordered(pairs: Iterable[tuple[Any, Any]], order: list[int]) -> Iterator[tuple[Any, Any]]:
    """The values of several accumulators in each window, in another order."""
    for key, (how_far, windows) in pairs:
        told = [(*bounds, [values[at] for at in order]) for *bounds, values in windows]
        yield key, (how_far, told)


class _Updates(_Windows):
    """Gives the windows that each batch changed."""

    def process(self, batch: Any) -> list[Result]:
        out = super().process(batch)
        out += self._state.changed()
        return out


class _Every(_Windows):
    """Gives the windows that changed, once in a period."""

    def __init__(
        self,
        state: WindowValues | BothWays,
        fold: Fold,
        context: TaskContext,
        period_ns: int,
    ) -> None:
        super().__init__(state, fold, context)
        self._period_ns = period_ns

    def process(self, batch: Any) -> list[Result]:
        out = super().process(batch)
        self._set_timer()
        return out

    def on_timer(self, now_ns: int) -> Iterator[list[Result]]:
        changed, most = self._state.changed(), self._context.batch_size
        return (changed[at : at + most] for at in range(0, len(changed), most))

    def restore(self, state: KeyedState) -> None:
        self._restore(state, touched=True)
        self._set_timer()

    def _set_timer(self) -> None:
        if self.next_timer is None and self._state.has_changed:
            self.next_timer = self._context.now_ns() + self._period_ns
