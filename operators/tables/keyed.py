"""Tables of keyed streams: their last records, or changes that they bring."""

from datetime import timedelta
from typing import Any, Generic, TypeVar

from engine.graph.declaration import Input
from operators.changes import Place, latest_of
from operators.columns.declared import declared_schema
from operators.event_time import Time, Unit, time_of
from operators.joins import JoinInput
from operators.keys import Key
from operators.stream import then
from operators.tables.joins import Joins
from operators.tables.table import Table, table_behind

T = TypeVar("T")
K = TypeVar("K")


class KeyedTables(Joins[K], Generic[K, T]):
    """The methods of a `KeyedStream` that make a `Table`, and its joins without a bound in time."""

    _inputs: tuple[Input, ...]
    _key: Key
    _paired: bool

    def latest(
        self,
        by: Place = None,
        *,
        tombstone: Place = None,
        expire_after: timedelta | None = None,
        time: Time = None,
        unit: Unit = "us",
    ) -> Table[K, T]:
        """The last record of each key, as a table: each record replaces the one before.

        With `by`, an item or a function of the record such as a version or a time, a record does
        not replace one with a higher value. It is left out then, and goes to `.side("late")`; it is
        not counted among late records, which event time has passed. The later of two equal ones
        stays.

        A record is a `tombstone` if this item of it is None, or this function of it true: it
        deletes the row of its key. One for a key without a row does nothing. With `by`, its value
        is kept, so that no older record brings the row back.

            >>> import engine.testing
            >>> from operators import source
            >>> from operators.sinks import Collect
            >>> from operators.sources import Collection
            >>> given = [("tea", 2, 1), ("cup", 5, 1), ("tea", 9, 0), ("cup", None, 2)]
            >>> prices = source(Collection(given)).key_by(0).latest(by=2, tombstone=1)
            >>> for change in engine.testing.run(prices.changes().sink(Collect()))["collect"]:
            ...     print(change.kind, change.record)
            +I ('tea', 2, 1)
            +I ('cup', 5, 1)
            -D ('cup', 5, 1)

        One row of each key is kept for as long as the job runs, or until it expires: when the
        watermark is `expire_after` behind the highest time of the key's records. The row is deleted
        then, by a change "-D", and what is kept of a tombstone is forgotten. A record that comes
        when it would have expired is late. Times are as in `window`.

        Of columns, `by`, `tombstone` and `time` are names or indexes of columns, and a tombstone
        has null there.
        """
        places, times = (by, tombstone), (time, unit)
        operator = latest_of(self._inputs, self._key, self._paired, places, expire_after, times)
        columns = None if self._paired else self._key
        return table_behind(then(self._inputs, operator, "latest"), columns)

    def as_table(self) -> Table[K, Any]:
        """The table whose changes these records are: each a `Change`, or a row with its "kind".

        A key may have many rows. What goes is equal to what came, and the changes of a row come in
        order: from one task, and through operators of the same parallelism. Here from Debezium's
        messages:

            >>> import engine.testing
            >>> from operators import Change, source
            >>> from operators.sinks import Collect
            >>> from operators.sources import Collection
            >>> def changes(message):
            ...     before, after = message.get("before"), message.get("after")
            ...     if before is not None:
            ...         yield Change("-D" if after is None else "-U", before)
            ...     if after is not None:
            ...         yield Change("+I" if before is None else "+U", after)
            >>> messages = [{"op": "c", "after": {"id": 1, "thing": "hat"}},
            ...     {"op": "u", "before": {"id": 1, "thing": "hat"},
            ...      "after": {"id": 1, "thing": "cup"}}]
            >>> orders = source(Collection(messages)).with_parallelism(1)
            >>> orders = orders.flat_map(changes).with_parallelism(1)
            >>> things = orders.key_by(lambda change: change.record["thing"]).as_table()
            >>> for change in engine.testing.run(things.changes().sink(Collect()))["collect"]:
            ...     print(change.kind, change.record)
            +I {'id': 1, 'thing': 'hat'}
            -U {'id': 1, 'thing': 'hat'}
            +U {'id': 1, 'thing': 'cup'}
        """
        return Table(self._inputs, self._key, paired=self._paired)

    def _side(self, method: str, time: Time, unit: Unit, *, timed: bool) -> JoinInput:
        return JoinInput(
            self._key,
            self._paired,
            time_of(self._inputs, method, time, unit) if timed else None,
            declared_schema(self._inputs),
        )
