"""`reduce`: a function of two records combines those of each key.

Each task sees all records of its keys and keeps one value per key, for as long as the job runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from engine.expression.attempts import Attempts
from engine.expression.lift import Lifted, Refusal
from engine.expression.understood import are_lifted, understood
from engine.graph.batch_operator import BatchFunction, BatchOperator, NativeFigures
from engine.graph.context import TaskContext
from engine.graph.operator import OnError, Properties
from engine.network import Batch, Fold
from engine.state import KeyedState
from engine.task.compared import check_alike
from operators.aggregates import Emit, emit_meaning
from operators.elementwise import check_function
from operators.keys import KEY_FORMS, Key, key_meaning

Combine: TypeAlias = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Reduce(BatchOperator):
    """Combines the records of each key; emits the combined record, for every record or at the end.

    `key` is the place of the key in a record, None for the record itself. With `paired`, pairs of a
    key and a record arrive.

    >>> context = TaskContext("reduce[0]", 0, 1, 100, "job")
    >>> add = Reduce(lambda a, b: (a[0], a[1] + b[1]), key=0)
    >>> add.open(context).process([("a", 1), ("b", 1), ("a", 1)])
    [('a', 1), ('b', 1), ('a', 2)]
    """

    function: Combine
    key: Key
    paired: bool = False
    emit: Emit = "updates"
    on_error: OnError = "fail"

    @property
    def properties(self) -> Properties:
        """The treatment of records that fail, its function, and the meaning of the state."""
        key = key_meaning(self.key, self.paired)
        return Properties(
            accepts_encoded=self._is_lifted,
            emits_encoded=self._is_lifted,
            compacts=self.emit == "updates" and self.on_error == "fail",
            on_error=self.on_error,
            functions=((self.function, 2),),
            meaning={"kind": "reduce", "key": key, **emit_meaning(self.emit)},
        )

    def __post_init__(self) -> None:
        check_function("reduce", self.function, 2)

    @cached_property
    def _is_lifted(self) -> bool:
        """Whether its function is understood: `properties` is asked for again and again."""
        return are_lifted([(self.function, 2)])

    def open(self, context: TaskContext) -> BatchFunction:
        """The values of one task's keys."""
        return (_Reduce if self.emit == "updates" else _Final)(self, context)


class _Reduce(BatchFunction):
    """Gives the value of the key of each record, behind that record.

    Where only the last of each key matters to the sink behind it, Rust gives one for each key of a
    batch.
    With `native="check"`, there is a second table of values, of the function alone.
    """

    def __init__(self, operator: Reduce, context: TaskContext) -> None:
        self._context = context
        self._attempts = Attempts()
        self._mean_size = _FIRST_SIZE
        self._lifted = _lifted(operator, context)
        expression = None if self._lifted is None else self._lifted.expression.to_data()
        # Results are compared one by one with those of the function.
        only_last = context.only_last and context.native != "check" and _is_first(operator)
        self._fold = _fold(operator, context.rescue, expression, only_last=only_last)
        self._called: Fold | None = None
        if self._lifted is not None:
            self.native = NativeFigures()
            if context.native == "check":
                self._called = _fold(operator, context.rescue and _ignore)

    def process(self, batch: Any) -> Any:
        try:
            out: Any = self._natively(batch)
            if out is None:
                out = self._fold.update(_listed(batch))
            if self._called is not None:
                check_alike(out, self._called.update(_listed(batch)), batch, "reduce")
            return out
        except BaseException:
            if (failed := self._fold.failed) is not None:
                self._context.failing.on(failed[0])
            raise

    def _natively(self, batch: Any) -> Batch | None:
        """The results of an encoded batch in Rust, if they can be computed there now."""
        lifted, native = self._lifted, self.native
        if lifted is None or native is None or type(batch) is not Batch:
            return None
        if not self._attempts.is_due() or not lifted.guards.hold():
            return None
        if self._are_small(len(batch)):
            self._attempts.rest()
            return None
        records = Batch.of_rows(batch.decode()) if batch.has_columns else batch
        out = self._fold.run(records)
        if isinstance(out, str):
            self._attempts.note(gave_up=True)
            native.fell_back(out)
            return None
        self._attempts.note(gave_up=False)
        native.native += len(batch)
        return out

    def _are_small(self, records: int) -> bool:
        """Whether the last batches had so few records that Python takes less for them."""
        self._mean_size += (records - self._mean_size) / _MEMORY
        if self._mean_size >= _FEWEST or self._context.native != "auto":
            return False
        self._mean_size = _FIRST_SIZE
        return True

    def snapshot(self) -> KeyedState:
        pickle = self._context.pickle
        encoded = self._fold.entries(pickle)
        objects = self._fold.objects()
        if encoded is not None and not objects:
            return KeyedState(encoded)
        state = KeyedState.of_dicts(lambda dicts: dicts[0].items(), [objects], pickle=pickle)
        return state if encoded is None else KeyedState.share([state, KeyedState(encoded)], 0, 1)

    def restore(self, state: KeyedState) -> None:
        self._fold.restore(state.entries)
        if self._called is not None:
            self._called.restore(state.entries)


class _Final(_Reduce):
    """Combines records in the same way, and gives each key's combined record at the end."""

    def process(self, batch: Any) -> list[Any]:
        super().process(batch)
        return []

    def on_end(self) -> Iterator[list[Any]]:
        first, size = 0, self._context.batch_size
        while batch := self._fold.values(first, size):
            yield batch
            first += size


def _lifted(operator: Reduce, context: TaskContext) -> Lifted | None:
    """The function as an expression, if it is to run as one and can."""
    answers_requests = context.rescue is not None and operator.on_error == "fail"
    if context.native == "off" or answers_requests:
        return None
    found = understood(operator)
    return None if isinstance(found, Refusal) else found[0]


def _fold(operator: Reduce, rescue: Any, lifted: Any = None, *, only_last: bool = False) -> Fold:
    return Fold(
        operator.function,
        operator.key,
        paired=operator.paired,
        key_forms=list(KEY_FORMS),
        rescue=rescue,
        lifted=lifted,
        only_last=only_last,
    )


def _is_first(operator: Reduce) -> bool:
    """Whether the key of a record is its first item."""
    return operator.key == 0 and type(operator.key) is int and not operator.paired


def _listed(batch: Any) -> list[Any]:
    records: list[Any] = batch.to_list() if type(batch) is Batch else batch
    return records


def _ignore(_record: Any, _error: BaseException) -> None:
    """Leave a record out that was rescued already."""


_MEMORY = 16
"""About how many batches the mean of their sizes looks back over."""
_FIRST_SIZE = 64.0
_FEWEST = 6
"""Records in a batch, in the mean, from which on it pays."""
