"""Aggregations of the records of each key that are written in Python: `Accumulator`."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from engine.graph.batch_operator import BatchFunction, BatchOperator
from engine.graph.context import TaskContext
from engine.graph.operator import OnError, Properties
from engine.record import dict_key
from engine.state import KeyedState
from operators.aggregates.fold import Fold
from operators.aggregates.native import Emit, emit_meaning
from operators.keys import NONE, Key, found_again, key_meaning, keyed_pairs


@dataclass(frozen=True)
class KeyedFold(BatchOperator):
    """Computes a value from the records of each key, in Python; it emits (key, value).

    It emits once per batch for every key in the batch, or each key once at the end. With an empty
    tuple as the key, all records have one key, and values come alone.
    """

    fold: Fold
    key: Key
    paired: bool
    emit: Emit = "updates"
    on_error: OnError = "fail"

    @property
    def properties(self) -> Properties:
        """It merges updates if it emits them."""
        meaning = {
            "kind": "aggregate",
            "key": key_meaning(self.key, self.paired),
            "value": self.fold.meaning,
            **emit_meaning(self.emit),
        }
        return Properties(
            alone=self.key == () and not self.paired,
            compacts=self.emit == "updates",
            on_error=self.on_error,
            meaning=meaning,
        )

    def open(self, context: TaskContext) -> BatchFunction:
        """The loop over a batch, with a dict of its own."""
        return (_Folded if self.emit == "updates" else _Final)(self, context)


class _Folded(BatchFunction):
    """Takes records, and gives the new values of each batch's keys."""

    def __init__(self, operator: KeyedFold, context: TaskContext) -> None:
        self._fold = operator.fold
        self._pairs = keyed_pairs(operator.key, paired=operator.paired)
        self._is_keyed = not operator.properties.alone
        self._context = context
        self._values: dict[Any, Any] = {}
        """What each key has come to."""

    def process(self, batch: list[Any]) -> list[Any]:
        return [self._result(key) for key in self._add(batch)]

    def snapshot(self) -> KeyedState:
        pickle = self._context.pickle
        return KeyedState.of_dicts(lambda dicts: dicts[0].items(), [self._values], pickle=pickle)

    def restore(self, state: KeyedState) -> None:
        order = state.order_of(self._fold.meaning)
        for key, value in state.items():
            kept = value if order is None else [value[at] for at in order]
            self._values[dict_key(key)] = kept

    def _add(self, batch: list[Any]) -> dict[Any, None]:
        """Add records; the keys that they have."""
        create, add, values = self._fold.create, self._fold.add, self._values
        rescue, failing = self._context.rescue, self._context.failing
        assert create is not None
        assert add is not None
        touched: dict[Any, None] = {}
        records = iter(batch)
        try:
            for key, record in self._pairs(batch, records):
                try:
                    value = values[key]
                except (KeyError, TypeError):
                    key, value = found_again(key, values)
                try:
                    values[key] = create(record) if value is NONE else add(value, record)
                except BaseException as error:
                    if rescue is None:
                        failing.on(record)
                        raise
                    rescue(record, error)  # it raises errors that are not the record's
                else:
                    touched[key] = None
        except BaseException:
            failing.at(batch, records)
            raise
        return touched

    def _result(self, key: Any) -> Any:
        value = self._fold.value
        assert value is not None
        result = value(key, self._values[key], None, None)
        return (key, result) if self._is_keyed else result


class _Final(_Folded):
    """Takes records, and gives each key once at the end."""

    def process(self, batch: list[Any]) -> list[Any]:
        self._add(batch)
        return []

    def on_end(self) -> Iterator[list[Any]]:
        keys = iter(self._values)
        while some := list(islice(keys, self._context.batch_size)):
            yield [self._result(key) for key in some]
