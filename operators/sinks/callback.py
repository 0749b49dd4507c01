"""A sink that calls a user's function."""

from collections.abc import Callable
from typing import Any

from engine.graph.context import TaskContext
from engine.graph.failing import FailureContext
from engine.graph.operator import Properties
from engine.graph.sink import SinkOperator, SinkWriter
from operators.elementwise import check_function


class Callback(SinkOperator[Any]):
    """Calls the function with every record, or with every batch if `batches` is true.

    If the stream has columns, such a batch is a `pyarrow.RecordBatch`; no batch is empty. The
    function runs in the sink's tasks, not on the driver; its results are dropped. A record counts
    as delivered when the function has returned for its batch.

    >>> seen = []
    >>> writer = Callback(seen.append).open(TaskContext("callback[0]", 0, 1, 100, "job"))
    >>> writer.write(["a", "b"])
    >>> seen
    ['a', 'b']
    """

    def __init__(self, function: Callable[[Any], object], batches: bool = False) -> None:
        check_function("Callback", function, 1)
        self.function = function
        self.batches = batches

    @property
    def properties(self) -> Properties:
        """It takes columns if it takes batches."""
        return Properties(accepts_columns=self.batches)

    def open(self, context: TaskContext) -> SinkWriter:
        """The function in a loop, or the function itself."""
        if self.batches:
            return _BatchWriter(self.function)
        return _RecordWriter(self.function, context.failing)


class _RecordWriter(SinkWriter):
    def __init__(self, function: Callable[[Any], object], failing: FailureContext) -> None:
        self._function = function
        self._failing = failing

    def write(self, records: list[Any]) -> None:
        function = self._function
        record = None
        try:
            for record in records:
                function(record)
        except BaseException:
            self._failing.on(record)
            raise


class _BatchWriter(SinkWriter):
    def __init__(self, function: Callable[[Any], object]) -> None:
        self._function = function

    def write(self, records: Any) -> None:
        self._function(records)
