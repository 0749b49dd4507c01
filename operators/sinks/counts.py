"""A sink that keeps the last value of each key."""

from collections.abc import Iterator
from itertools import islice
from typing import Any, TypeAlias

from engine.columns import is_columns
from engine.graph.context import TaskContext
from engine.graph.operator import Properties
from engine.graph.sink import SinkOperator, SinkWriter
from engine.network import Batch, Latest, LatestPairs
from engine.record import dict_key
from engine.record.column_values import values_of
from operators.sinks.gathered import decoded, encoded, gathered, newest, restored

_Result: TypeAlias = tuple[list[Batch], dict[Any, Any]]
"""The result of one task: encoded pairs, and columns."""


class Counts(SinkOperator[tuple[Any, Any]]):
    """A dict of the last value of each key, from records (key, value), as the job's output.

    A stream of columns has two: keys and values. It takes the output of a keyed aggregation, with
    the types that channels take, as `Collect` does. The order of a key's updates must be kept on
    the way, as it is at the aggregation's own parallelism and at any lower one.
    """

    properties = Properties(
        accepts_batches=True,
        accepts_columns=True,
        only_last=True,
        driver=True,
        meaning={"kind": "counts"},
    )

    def open(self, context: TaskContext) -> SinkWriter:
        """An empty dict."""
        return _CountsWriter(context)

    def commit(self, _epoch: int, committed: list[_Result]) -> dict[Any, Any]:
        """The dicts of the tasks in one; each key was in one task only."""
        merged: dict[Any, Any] = {}
        for batches, of_columns in committed:
            for batch in batches:
                merged.update(_pairs_of(batch))
            merged.update(of_columns)
        return merged


class _CountsWriter(SinkWriter):
    def __init__(self, context: TaskContext) -> None:
        self._values: dict[Any, Any] = {}
        self._encoded = LatestPairs()
        """Pairs that are newer than these values."""
        self._columns = Latest()
        self._of_columns: dict[Any, Any] = {}
        """The last values of keys, as far as they came in columns."""
        self._has_columns = False
        self._context = context
        self._failing = context.failing
        self._is_checked = False

    def write(self, records: Any) -> None:
        if type(records) is Batch:
            if not self._has_columns and self._encoded.add(records):
                return
            records = records.decode()
        if is_columns(records):
            self._has_columns = True
            self._write_columns(records)
            return
        self._write_records(records)
        if self._has_columns:  # these pairs are newer
            self._update(self._columns.take())
            for key, _ in records:
                self._of_columns.pop(dict_key(key), None)

    def _write_records(self, records: list[Any]) -> None:
        if not self._is_checked and records:
            self._is_checked = True
            # A value that cannot travel is refused at once.
            Batch.from_list(records[:1], self._context.pickle)
        self._decode()
        values, known = self._values, len(self._values)
        if not set(map(type, records)) <= _PAIRS:  # a dict takes a text of two letters for one
            self._write_one_by_one(records)
            return
        try:
            values.update(records)
        except (TypeError, ValueError):
            self._write_one_by_one(records)
            return
        if len(values) > known:
            added = list(islice(reversed(values), len(values) - known))
            if nans := [key for key in added if dict_key(key) is not key]:
                for key in nans:
                    del values[key]
                self._write_one_by_one(records)

    def _decode(self) -> None:
        """Take in the pairs that came encoded."""
        if (pairs := self._encoded.take()) is not None:
            self._values.update(_pairs_of(pairs))

    def _write_one_by_one(self, records: list[Any]) -> None:
        """Take pairs one by one, if keys may be NaN or some record is no pair."""
        taken = iter(records)
        try:
            for record in taken:
                if not isinstance(record, tuple | list) or len(record) != 2:
                    raise TypeError(
                        f"Counts got {type(record).__name__}, expected pairs (key, value)"
                    ) from None
                self._values[dict_key(record[0])] = record[1]
        except BaseException:
            self._failing.at(records, taken)
            raise

    def prepare(self, _epoch: int) -> Any:
        self._decode()
        self._update(self._columns.take())
        pieces = self._pieces()
        if not self._context.checkpoints:
            return pieces, self._of_columns
        return gathered(self._context, (list(map(encoded, pieces)), dict(self._of_columns)))

    def commit(self, _epoch: int, prepared: Any) -> _Result:
        if not self._context.checkpoints:
            result: _Result = prepared
            return result
        encodings, of_columns = prepared[2]
        return list(map(decoded, encodings)), of_columns

    def restore(self, _epoch: int, prepared: list[tuple[int, Any]]) -> None:
        for encodings, of_columns in newest(prepared):
            for batch in map(restored, encodings):
                self._values.update(_pairs_of(batch))
            self._of_columns.update(of_columns)
            self._has_columns |= bool(of_columns)

    def _pieces(self) -> list[Batch]:
        pairs = list(self._values.items())
        return [
            Batch.from_list(pairs[start : start + _PIECE], self._context.pickle)
            for start in range(0, len(pairs), _PIECE)
        ]

    def _write_columns(self, batch: Any) -> None:
        if batch.num_columns != 2:
            names = ", ".join(batch.schema.names)
            raise TypeError(f"Counts got the columns {names}, expected two: keys and values")
        if not self._columns.add(batch):
            self._update(self._columns.take())
            if not self._columns.add(batch):  # keys of a type that native code does not know
                self._update(batch)

    def _update(self, batch: Any) -> None:
        if batch is not None:
            pairs = zip(values_of(batch.column(0)), values_of(batch.column(1)), strict=True)
            self._of_columns.update((dict_key(key), value) for key, value in pairs)


def _pairs_of(batch: Batch) -> Iterator[tuple[Any, Any]]:
    """The pairs of a batch, for a dict."""
    return ((dict_key(key), value) for key, value in batch.to_list())


_PAIRS = {tuple, list}
_PIECE = 10_000
"""The number of pairs that are encoded together."""
