"""Temporal joins: a record of a stream with the version of a table that was there at its time."""

from dataclasses import dataclass

from engine.graph.context import TaskContext
from engine.network import Join as Matcher
from operators.joins.function import ColumnState, Join, JoinState
from operators.joins.records import JoinRecords


@dataclass(frozen=True)
class TemporalJoin(Join):
    """Joins a record of the left at t with the newest one of the right of its key, up to t."""

    name = "temporal_join"

    def watermark_of_results(self, watermark_us: int) -> int:
        """The same: a record waits for it."""
        return watermark_us

    def of_records(self, context: TaskContext) -> JoinState:
        """Records by their numbers."""
        return JoinRecords(self, Matcher(self.joining.outer), context, keeps_joined=False)

    def of_columns(self, _context: TaskContext) -> ColumnState:
        """Rows of batches by their numbers."""
        from operators.joins.columns import JoinColumns

        return JoinColumns(self, Matcher(self.joining.outer))
