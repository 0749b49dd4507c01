"""`reduce`: a function of two records combines those of each key.

Each task sees all records of its keys and keeps one value per key, for as long as the job runs.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias

from engine.graph.batch_operator import BatchFunction, BatchOperator
from engine.graph.context import Rescue, TaskContext
from engine.graph.failing import FailureContext
from engine.graph.operator import OnError, Properties
from engine.record import dict_key
from engine.state import KeyedState
from operators.aggregates import Emit, emit_meaning
from operators.elementwise import check_function
from operators.keys import NONE, Key, Pairs, found_again, key_finder, key_meaning, keyed_pairs

Combine: TypeAlias = Callable[[Any, Any], Any]
State: TypeAlias = dict[Any, Any]
Loop: TypeAlias = Callable[[list[Any]], list[Any]]


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
        """The treatment of records that fail, and the meaning of the state."""
        key = key_meaning(self.key, self.paired)
        meaning = {"kind": "reduce", "key": key, **emit_meaning(self.emit)}
        return Properties(on_error=self.on_error, meaning=meaning)

    def __post_init__(self) -> None:
        check_function("reduce", self.function, 2)

    def open(self, context: TaskContext) -> BatchFunction:
        """The loop over a batch for this kind of key, with a dict of its own."""
        state: State = {}
        loop = self._loop(state, context)
        return (_Reduce if self.emit == "updates" else _Final)(loop, state, context)

    def _loop(self, state: State, context: TaskContext) -> Loop:
        function, key, rescue, failing = self.function, self.key, context.rescue, context.failing
        if rescue is None and not self.paired and isinstance(key, int | str):
            return _reduce_by_item(function, key, state, failing)
        pairs = keyed_pairs(key, paired=self.paired)
        return _reduce_pairs(pairs, function, state, rescue, failing)


class _Reduce(BatchFunction):
    """A loop and its dict."""

    def __init__(self, reduce: Loop, state: State, context: TaskContext) -> None:
        self._reduce = reduce
        self._state = state
        self._context = context

    @property
    def process(self) -> Loop:
        return self._reduce

    def snapshot(self) -> KeyedState:
        pickle = self._context.pickle
        return KeyedState.of_dicts(lambda dicts: dicts[0].items(), [self._state], pickle=pickle)

    def restore(self, state: KeyedState) -> None:
        self._state.update((dict_key(key), value) for key, value in state.items())


class _Final(_Reduce):
    """Combines records in the same way, and gives each key's combined record at the end."""

    def process(self, batch: list[Any]) -> list[Any]:
        self._reduce(batch)
        return []

    def on_end(self) -> Iterator[list[Any]]:
        values = iter(self._state.values())
        while batch := list(islice(values, self._context.batch_size)):
            yield batch


# The loops below are the hot path of a program with reduce: a batch in, a list out, one dict, no
# call but that of the user's function. A key that is not there may be a NaN, which only `dict_key`
# finds again.


def _reduce_by_item(function: Combine, item: Any, state: State, failing: FailureContext) -> Loop:
    def reduce(batch: list[Any]) -> list[Any]:
        values, combine, index, find = state, function, item, key_finder(item)
        out: list[Any] = []
        try:
            for record in batch:
                try:
                    key = record[index]
                except TypeError:  # the record is an object with fields
                    key = find(record)
                try:
                    value = values[key]
                except (KeyError, TypeError):
                    key, value = found_again(key, values)
                    if value is NONE:
                        values[key] = record
                        out.append(record)
                        continue
                values[key] = value = combine(value, record)
                out.append(value)
        except BaseException:
            failing.on(record)
            raise
        return out

    return reduce


def _reduce_pairs(
    pairs: Pairs, function: Combine, state: State, rescue: Rescue | None, failing: FailureContext
) -> Loop:
    """A record that the function fails on does not change its key, if `rescue` takes it."""

    def reduce(batch: list[Any]) -> list[Any]:
        values, combine = state, function
        out: list[Any] = []
        records = iter(batch)
        try:
            for key, record in pairs(batch, records):
                try:
                    value = values[key]
                except (KeyError, TypeError):
                    key, value = found_again(key, values)
                    if value is NONE:
                        values[key] = record
                        out.append(record)
                        continue
                try:
                    values[key] = value = combine(value, record)
                except BaseException as error:
                    if rescue is None:
                        failing.on(record)
                        raise
                    rescue(record, error)  # it raises errors that are not the record's
                else:
                    out.append(value)
        except BaseException:
            failing.at(batch, records)
            raise
        return out

    return reduce
