"""`over(...).apply`: a function of the values within each span, in Python."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

from engine.columns import is_columns
from engine.graph.context import TaskContext
from engine.graph.operator import OnError
from operators.aggregates import Array
from operators.keys import Item
from operators.rolling.operator import NativeRolling, RollingFunction
from operators.rolling.spans import Rolling

Function = Callable[[list[Any]], Any]


@dataclass(frozen=True)
class ApplyRolling(NativeRolling):
    """Each record with a function's result for each span; it emits (record, value).

    Rust keeps the values, and gives a list of those within a span.
    """

    applied: Function

    @classmethod
    def by(
        cls, function: Function, item: Item | None, rolling: Rolling, on_error: OnError
    ) -> "ApplyRolling":
        """The function of the values of this item, or of the records."""
        lists = NativeRolling.of(Array(item), rolling, on_error)
        return cls(rolling, lists.of_keys, function)


class _Applied(RollingFunction):
    def __init__(self, aggregate: Any, context: TaskContext, operator: ApplyRolling) -> None:
        super().__init__(aggregate, context, operator)
        self._function = operator.applied
        self._by_name = operator.rolling.names is not None

    def process(self, batch: Any) -> list[Any]:
        self._add(batch)
        return list(chain.from_iterable(self._results())) if self._at_once else []

    def _results(self) -> Iterator[Any]:
        # A list for each record may be long: only a few of them are there at a time.
        batch: list[Any] = []
        while len(lists := self._aggregate.complete(_TOGETHER)):
            if is_columns(lists):
                raise TypeError(
                    f"apply() behind over() got columns ({', '.join(lists.schema.names)}), "
                    "expected records\n\nhint: .to_records() before key_by(); what aggregate() "
                    "takes is computed of columns, too"
                )
            batch += self._applied(lists)
            if len(batch) >= self._context.batch_size:
                yield batch
                batch = []
        if batch:
            yield batch

    def _applied(self, lists: list[Any]) -> list[Any]:
        function, rescue, out = self._function, self._context.rescue, []
        for record, values in lists:
            try:
                if self._by_name:
                    value = {name: function(each) for name, each in values.items()}
                else:
                    value = function(values)
            except BaseException as error:
                if rescue is None:
                    self._context.failing.on(record)
                    raise
                rescue(record, error)  # it raises errors that are not the record's
            else:
                out.append((record, value))
        return out


ApplyRolling.function = _Applied

_TOGETHER = 16
"""Records whose lists are made together."""
