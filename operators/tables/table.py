"""Tables: rows by key that change, as streams of their changes."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from operator import itemgetter
from typing import Any, Generic, TypeVar

from engine.errors import GraphError
from engine.graph.checks import check_integer
from engine.graph.declaration import Input, shown
from engine.partitioner import Forward, Hash
from operators.aggregates import (
    Aggregation,
    Count,
    CountDistinct,
    Max,
    Mean,
    Min,
    Sum,
    check_aggregations,
)
from operators.changes import KIND, Change, Suppress, TableAggregate, check_taken
from operators.columns.declared import declared_schema
from operators.durations import check_duration, nanoseconds
from operators.event_time import Time, Unit, time_of
from operators.in_cells import stream_html
from operators.joins import JoinInput
from operators.keys import Key
from operators.stream import Stream, side, then
from operators.tables.joins import Joins

T = TypeVar("T")
K = TypeVar("K")


class Table(Joins[K], Generic[K, T]):
    """Rows of type T by a key of type K that come and go: `KeyedStream.latest` and `as_table`.

    What travels are its changes. A row that goes is taken back from whatever was made of it.

        >>> import engine.testing
        >>> from operators import source
        >>> from operators.sinks import Collect
        >>> from operators.sources import Collection
        >>> prices = source(Collection([("tea", 2), ("cup", 5), ("tea", 3)])).key_by(0).latest()
        >>> for change in engine.testing.run(prices.changes().sink(Collect()))["collect"]:
        ...     print(change.kind, change.record)
        +I ('tea', 2)
        +I ('cup', 5)
        -U ('tea', 2)
        +U ('tea', 3)
    """

    def __init__(
        self, inputs: tuple[Input, ...], key: Key, columns: Key = None, *, paired: bool = False
    ) -> None:
        """`key` says where the key is in a change, `columns` where in columns."""
        self._inputs = inputs
        self._key = key
        self._columns = columns
        self._paired = paired

    def __repr__(self) -> str:
        return f"<Table {shown(self._inputs)}>"

    def _repr_html_(self) -> str | None:
        return stream_html(self._inputs)

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The edges that the next operator will have."""
        return self._inputs

    def changes(self) -> Stream[Change]:
        """The changes of the rows: a `Change` of each, or a row with a column "kind".

        An update is two changes behind each other, "-U" with the row as it was and "+U" with the
        new one; an insert is "+I" and a delete "-D", with the row as it was. The changes of a row
        come in their order.
        """
        edges = tuple(replace(edge, partitioner=Forward()) for edge in self._inputs)
        return Stream(edges).map(itemgetter(1)) if self._paired else Stream(edges)

    def side(self, name: str) -> Stream[Any]:
        """A side output of what made the table: `.latest(...).side("late")`."""
        return side(tuple(replace(edge, partitioner=Forward()) for edge in self._inputs), name)

    def count(self) -> "Table[K, tuple[K, int]]":
        """The number of rows of each key, as a table of pairs of the key and the number.

        The aggregates of a table take back what a row gave when it goes; the row of a key goes with
        the last row that it is of. They change once per batch of input for each key that the batch
        had. Of columns they have the columns of the key and one of the values, as those of a
        `KeyedStream` do; null values are left out.

            >>> import engine.testing
            >>> from operators import source
            >>> from operators.sinks import Collect
            >>> from operators.sources import Collection
            >>> given = [("ann", "Oslo"), ("bob", "Oslo"), ("ann", "Rome")]
            >>> homes = source(Collection(given)).key_by(0).latest()
            >>> cities = homes.changes().key_by(lambda change: change.record[1]).as_table()
            >>> counts = cities.count().changes().sink(Collect())
            >>> for change in engine.testing.run(counts)["collect"]:
            ...     print(change.kind, change.record)
            +I ('Oslo', 1)
            +I ('Rome', 1)
        """
        return self._aggregated("count", [Count()])

    def sum(self, item: int | str) -> "Table[K, tuple[K, Any]]":
        """The sum of an item of the rows of each key, exactly.

        Floats are added up without rounding, and the result is rounded: what has gone leaves
        nothing behind.
        """
        return self._aggregated("sum", [Sum(item)])

    def mean(self, item: int | str) -> "Table[K, tuple[K, Any]]":
        """The mean of an item of the rows of each key: the sum divided by the number."""
        return self._aggregated("mean", [Mean(item)])

    def min(self, item: int | str) -> "Table[K, tuple[K, Any]]":
        """The least value of an item of the rows of each key; each different value is kept.

        When the least goes, the next is found among all of them. NaN is left out.
        """
        return self._aggregated("min", [Min(item)])

    def max(self, item: int | str) -> "Table[K, tuple[K, Any]]":
        """The greatest value of an item of the rows of each key, as `min`."""
        return self._aggregated("max", [Max(item)])

    def count_distinct(self, item: int | str) -> "Table[K, tuple[K, int]]":
        """The number of different values of an item; each is kept, with how often it is there."""
        return self._aggregated("count_distinct", [CountDistinct(item)])

    def aggregate(self, **aggregations: Aggregation) -> "Table[K, tuple[K, dict[str, Any]]]":
        """Several of these at once, by name: `.aggregate(n=Count(), total=Sum("price"))`.

        Others cannot take back what a row gave.
        """
        check_aggregations(aggregations, self._key_of_columns)
        return self._aggregated("aggregate", list(aggregations.values()), tuple(aggregations))

    def suppress(
        self,
        until: timedelta | None = None,
        *,
        most_keys: int | None = None,
        most_bytes: int | None = None,
    ) -> "Table[K, T]":
        """Hold the changes of each key back, so that fewer go on: `.suppress(timedelta(hours=1))`.

        Of a key that changes several times, only what is left goes on: of updates the row before
        the first and the one behind the last, and nothing of a row that came and went. They go on
        `until` so long after the first that is held, by the clock of the task; when more than
        `most_keys` keys or `most_bytes` bytes of rows are held in a task, those of the oldest keys
        do; and all at the end. After a restart the time begins anew for what is held.

            >>> import engine.testing
            >>> from operators import source
            >>> from operators.sinks import Collect
            >>> from operators.sources import Collection
            >>> given = source(Collection([("tea", 2), ("cup", 5), ("tea", 3), ("tea", 4)]))
            >>> prices = given.key_by(0).latest().suppress(most_keys=2).changes().sink(Collect())
            >>> for change in engine.testing.run(prices, parallelism=1)["collect"]:
            ...     print(change.kind, change.record)
            +I ('tea', 4)
            +I ('cup', 5)
        """
        limits = {"most_keys": most_keys, "most_bytes": most_bytes}
        for name, limit in limits.items():
            if limit is not None:
                check_integer(f"suppress(): {name}", limit, 0)
        if until is not None:
            check_duration("suppress(): until", until)
        elif most_keys is None and most_bytes is None:
            raise GraphError(
                "suppress() got no limit, expected until=, most_keys= or most_bytes=",
                hint=".suppress(timedelta(seconds=1)) lets one update of a key through a second",
            )
        until_ns = None if until is None else nanoseconds(until)
        place = self._key, self._key_of_columns, self._paired
        stream = then(self._inputs, Suppress(*place, until_ns, most_keys, most_bytes), "suppress")
        return table_behind(stream, self._key_of_columns, paired=self._paired)

    @property
    def _key_of_columns(self) -> Key:
        """The columns of the key; None where it is a function of the record."""
        if self._paired:
            return None
        return self._key if self._columns is None else self._columns

    def _aggregated(
        self, method: str, wanted: Sequence[Aggregation], names: tuple[str, ...] | None = None
    ) -> "Table[K, Any]":
        for each in wanted:
            check_taken(method, each)
        columns = self._key_of_columns
        operator = TableAggregate(self._key, columns, self._paired, tuple(wanted), names)
        return table_behind(then(self._inputs, operator, method), columns)

    def _side(self, method: str, time: Time, unit: Unit, *, timed: bool) -> JoinInput:
        schema = declared_schema(self._inputs)
        if schema is not None and KIND in schema.names:
            schema = schema.remove(schema.get_field_index(KIND))
        return JoinInput(
            self._key,
            self._paired,
            time_of(self._inputs, method, time, unit) if timed else None,
            schema,
            changes=True,
            times_changes=time is None,
            columns=self._columns,
        )


def table_behind(stream: Stream[Any], key: Key, *, paired: bool = False) -> Table[Any, Any]:
    """The table whose changes an operator gives, each with its key, or in these columns.

    They are `paired` if they came in pairs with their keys, and still are.
    """
    if paired:
        edges = tuple(replace(edge, partitioner=Hash(0)) for edge in stream.inputs)
        return Table(edges, 0, paired=True)
    edges = tuple(replace(edge, partitioner=Hash(_KEY, key)) for edge in stream.inputs)
    return Table(edges, _KEY, key)


_KEY = Change._fields.index("key")
