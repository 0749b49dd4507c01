"""Tables: rows by key that change, as streams of their changes."""

from dataclasses import replace
from operator import itemgetter
from typing import Any, Generic, TypeVar

from engine.graph.declaration import Input, shown
from engine.partitioner import Forward, Hash
from operators.changes import KIND, Change
from operators.columns.declared import declared_schema
from operators.event_time import Time, Unit, time_of
from operators.joins import JoinInput
from operators.keys import Key
from operators.stream import Stream, side
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


def table_behind(stream: Stream[Any], key: Key) -> Table[Any, Any]:
    """The table whose changes an operator gives, each with its key, or in these columns."""
    edges = tuple(replace(edge, partitioner=Hash(_KEY, key)) for edge in stream.inputs)
    return Table(edges, _KEY, key)


_KEY = Change._fields.index("key")
