"""A sink that keeps the last value of each key."""

from typing import Any, ClassVar

from engine.graph.operator import SinkOperator, SinkWriter, TaskContext


class Counts(SinkOperator[tuple[Any, Any]]):
    """A dict of the last value of each key, from records (key, value), as the job's output.

    It takes what a keyed aggregation emits. The order of a key's updates must be kept on the way:
    it is at the aggregation's own parallelism and at any lower one.
    """

    driver: ClassVar[bool] = True

    def open(self, context: TaskContext) -> SinkWriter:
        """An empty dict."""
        return _CountsWriter()

    def merge(self, results: list[dict[Any, Any]]) -> dict[Any, Any]:
        """The dicts of the tasks in one; each key was in one task only."""
        merged: dict[Any, Any] = {}
        for result in results:
            merged.update(result)
        return merged


class _CountsWriter(SinkWriter):
    def __init__(self) -> None:
        self._values: dict[Any, Any] = {}

    def write(self, records: list[Any]) -> None:
        try:
            self._values.update(records)
        except (TypeError, ValueError):
            # Find the record; `record` is the name that error reports look for.
            for record in records:
                if not isinstance(record, tuple | list) or len(record) != 2:
                    raise TypeError(
                        f"Counts got {type(record).__name__}, expected pairs (key, value)"
                    ) from None
                self._values[record[0]] = record[1]

    def close(self) -> dict[Any, Any]:
        return self._values
