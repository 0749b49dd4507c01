"""The operator of spans: aggregations in Rust, on encoded records or on columns."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from engine.graph.batch_operator import BatchFunction, BatchOperator
from engine.graph.context import TaskContext
from engine.graph.operator import OnError, Properties
from engine.graph.watermark import END_OF_TIME
from engine.state import KeyedState
from operators.aggregates import Aggregation, NativeAggregate
from operators.event_time import LATE, GivesTime, TimeSelector, with_units_checked
from operators.event_time.in_rust import TimedFunction, TimesForRust, path_to_time
from operators.rolling.spans import Rolling


@dataclass(frozen=True)
class NativeRolling(BatchOperator, GivesTime):
    """Each record with count, sum and others of the records within spans; it emits (record, value).

    A value is that of the only aggregation and span, or a dict of all by name.
    """

    rolling: Rolling
    of_keys: NativeAggregate
    """The aggregations, and the places of keys and values in a record."""

    function: ClassVar[type["RollingFunction"]]

    @classmethod
    def of(
        cls,
        aggregations: Aggregation | Mapping[str, Aggregation],
        by: Rolling,
        on_error: OnError = "fail",
    ) -> "NativeRolling":
        """One aggregation, or several by name."""
        key = 0 if by.paired else by.key
        of_keys = NativeAggregate.of(aggregations, key, "final", on_error, paired=by.paired)
        return cls(by, of_keys)

    @property
    def given_time(self) -> TimeSelector:
        """The record is in front, and has its time."""
        return replace(self.rolling.time, paired=False, in_front=True)

    @property
    def properties(self) -> Properties:
        """It takes encoded batches, and columns unless a function gives the time of a record."""
        value = self.of_keys.meaning
        if isinstance(value, Mapping):  # in this order, which that of the state is
            value = ", ".join(f"{name}={each}" for name, each in value.items())
        return Properties(
            accepts_encoded=True,
            accepts_columns=self.rolling.time.takes_columns and self.of_keys.takes_columns,
            outputs=(LATE,),
            on_error=self.of_keys.on_error,
            functions=self.rolling.time.functions,
            meaning={"kind": "over", **self.rolling.meaning, "value": value},
        )

    def open(self, context: TaskContext) -> BatchFunction:
        """The native function, with spans of its own."""
        from engine.network import RollingAggregate

        by, of_keys = self.rolling, self.of_keys
        names = of_keys.names or (of_keys.wanted[0][0],)
        is_alone = by.names is None and of_keys.names is None
        aggregate = RollingAggregate(
            *of_keys.arguments,
            spans=by.in_numbers,
            fields=names[0] if is_alone else by.fields(names),
            time=path_to_time(by.time),
            times=TimesForRust(by.time, context, of_keys.on_error),
            paired=by.paired,
            updates=by.emit == "updates",
            keeps_late=LATE in context.side_outputs,
            rescue=of_keys.rescue(context),
        )
        return with_units_checked(self.function(aggregate, context, self), [by.time], context)


class RollingFunction(TimedFunction):
    """Takes records; gives each with its values when the watermark has passed it, or at once."""

    def __init__(self, aggregate: Any, context: TaskContext, operator: NativeRolling) -> None:
        by = operator.rolling
        super().__init__(aggregate, context, paired=by.paired)
        self._at_once = by.emit == "updates"

    def process(self, batch: Any) -> Any:
        """What comes at once."""
        self._add(batch)
        return self._aggregate.complete(END_OF_TIME) if self._at_once else []

    def restore(self, state: KeyedState) -> None:
        """Go on with what others kept."""
        self._aggregate.restore(state.columns, state.entries)


NativeRolling.function = RollingFunction
