"""Aggregations of windows in Rust, on encoded records from the network."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.errors import GraphError
from engine.graph.batch_operator import BatchFunction, BatchOperator
from engine.graph.context import TaskContext
from engine.graph.operator import OnError, Properties
from engine.graph.watermark import END_OF_TIME
from engine.state import KeyedState
from operators.aggregates import Aggregation, NativeAggregate
from operators.durations import microseconds, nanoseconds
from operators.event_time import LATE, GivesTime, TimeSelector, with_units_checked
from operators.event_time.in_rust import TimedFunction, TimesForRust, path_to_time
from operators.windows.assigners import CountWindow, Every, Session
from operators.windows.windowing import Windowing, check_length, in_numbers

if TYPE_CHECKING:
    from engine.network import WindowAggregate


@dataclass(frozen=True)
class NativeWindows(BatchOperator, GivesTime):
    """Count, sum and others of each key and window; it emits (key, value, start, end).

    A value is that of the only aggregation, or a dict of all values by name. If a function gives
    the time of a record, or the time is no number, Python reads the time of each record; Rust still
    reads keys and values.
    """

    windowing: Windowing
    of_keys: NativeAggregate
    """The aggregations, and the places of keys and values in a record."""

    @classmethod
    def of(
        cls,
        method: str,
        aggregations: Aggregation | Mapping[str, Aggregation],
        by: Windowing,
        on_error: OnError = "fail",
    ) -> "NativeWindows":
        """One aggregation, or several by name."""
        check_length(method, by.assigner)
        if isinstance(by.emit, Every) and by.allowed_lateness:
            raise GraphError(
                f"{method}() follows windows with emit={by.emit!r} and allowed_lateness, expected "
                "one of them",
                hint="emit='updates' goes with allowed_lateness, and .reduce(...) with both",
            )
        key = 0 if by.paired else by.key
        of_keys = NativeAggregate.of(aggregations, key, "final", on_error, paired=by.paired)
        return cls(by, of_keys)

    @property
    def given_time(self) -> TimeSelector | None:
        """The selector of results' time."""
        return self.windowing.time_of_results

    @property
    def properties(self) -> Properties:
        """It takes encoded batches, and columns unless a function gets a record."""
        time = self.windowing.time
        by_column = time is None or time.takes_columns
        return Properties(
            alone=not self.windowing.is_keyed,
            accepts_encoded=True,
            accepts_columns=by_column and self.of_keys.takes_columns,
            outputs=(LATE,),
            on_error=self.of_keys.on_error,
            functions=() if time is None else time.functions,
            meaning={
                "kind": "windows",
                **self.windowing.meaning,
                "value": self.of_keys.meaning,
            },
        )

    @property
    def has_parts(self) -> bool:
        """Whether windows have no key, and are merged of slices, in which no record may fail."""
        by = self.windowing
        if by.is_keyed or self.of_keys.on_error != "fail":
            return False
        return not isinstance(by.assigner, Session | CountWindow)

    def open(self, context: TaskContext) -> BatchFunction:
        """The native function, with windows of its own."""
        function = self.function(self.in_task(context), context)
        return with_units_checked(function, [self.windowing.time], context)

    def in_task(self, context: TaskContext) -> "WindowAggregate":
        """The windows of a task, in Rust."""
        return self.aggregate(
            TimesForRust.of(self.windowing.time, context, self.of_keys.on_error),
            keeps_late=LATE in context.side_outputs,
            copies_keys=context.checkpoints,
            rescue=self.of_keys.rescue(context),
        )

    def aggregate(self, times: TimesForRust | None, **settings: Any) -> "WindowAggregate":
        """The same, with what reads their times, and settings of their use."""
        from engine.network import WindowAggregate

        by = self.windowing
        return WindowAggregate(
            *self.of_keys.arguments,
            time=path_to_time(by.time),
            times=times,
            windows=in_numbers(by.assigner),
            lateness=min(microseconds(by.allowed_lateness), END_OF_TIME),
            updates=by.emit != "final",
            **settings,
        )

    def function(self, windows: Any, context: TaskContext) -> BatchFunction:
        """What brings records and watermarks to such windows, and gives their results."""
        by = self.windowing
        if isinstance(by.emit, Every):
            return _Every(windows, context, self, nanoseconds(by.emit.period))
        if by.emit == "final" and not by.allowed_lateness:
            return _Final(windows, context, self)
        return _Changes(windows, context, self)


class _Final(TimedFunction):
    """Takes records, and gives each window when it is complete."""

    def __init__(self, aggregate: Any, context: TaskContext, operator: NativeWindows) -> None:
        by = operator.windowing
        super().__init__(aggregate, context, paired=by.paired)
        self._meaning = operator.of_keys.meaning
        self._fills = isinstance(by.assigner, CountWindow)
        """Whether records complete windows, rather than watermarks."""

    def process(self, batch: Any) -> Any:
        self._add(batch)
        return self._full()

    def on_watermark(self, watermark_us: int) -> Iterator[Any]:
        return iter(()) if self._fills else self._complete(watermark_us)

    def restore(self, state: KeyedState) -> None:
        self._restore(state, touched=False)

    def _restore(self, state: KeyedState, *, touched: bool) -> None:
        entries = state.entries
        if (order := state.order_of(self._meaning)) is not None:
            entries = entries.reordered(order, in_windows=True)
        self._aggregate.restore(state.columns, entries, touched)

    def _full(self) -> Any:
        return self._aggregate.complete(END_OF_TIME) if self._fills else []


class _Changes(_Final):
    """Gives the windows that each batch changed: all of them, or those that were given before."""

    def process(self, batch: Any) -> Any:
        self._add(batch)
        return self._aggregate.changes()


class _Every(_Final):
    """Gives the windows that changed, once in a period."""

    def __init__(
        self, aggregate: Any, context: TaskContext, operator: NativeWindows, period_ns: int
    ) -> None:
        super().__init__(aggregate, context, operator)
        self._period_ns = period_ns

    def process(self, batch: Any) -> Any:
        self._add(batch)
        self._set_timer()
        return self._full()

    def on_timer(self, now_ns: int) -> Iterator[Any]:
        changed, most = self._aggregate.changes(), self._context.batch_size
        return (changed[at : at + most] for at in range(0, len(changed), most))

    def restore(self, state: KeyedState) -> None:
        self._restore(state, touched=True)
        self._set_timer()

    def _set_timer(self) -> None:
        if self.next_timer is None and self._aggregate.has_changes():
            self.next_timer = self._context.now_ns() + self._period_ns
