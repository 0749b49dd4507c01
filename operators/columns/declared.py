"""The declared columns of a stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from engine.graph.declaration import Input
from operators.elementwise import ToColumns
from operators.event_time import WithEventTime
from operators.take import Take

if TYPE_CHECKING:
    import pyarrow as pa


def declared_schema(inputs: Sequence[Input]) -> pa.Schema | None:
    """The schema that `to_columns(schema)` has declared for all rows of these edges.

    None if other rows may come, too.
    """
    found: list[Any] = []
    ways = list(inputs)
    while ways:
        edge = ways.pop()
        operator = edge.source.operator
        if edge.output is None and isinstance(operator, _KEEP_COLUMNS):
            ways += edge.source.inputs
        elif edge.output is None and isinstance(operator, ToColumns):
            found.append(operator.schema)
        else:
            return None
    first, *others = found
    return first if all(first == each for each in others) else None


_KEEP_COLUMNS = (WithEventTime, Take)
