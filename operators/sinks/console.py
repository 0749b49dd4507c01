"""A sink that prints."""

import sys
from typing import Any

from engine.graph.context import TaskContext
from engine.graph.failing import FailureContext
from engine.graph.sink import SinkOperator, SinkWriter
from operators.sinks.lines import lines


class Print(SinkOperator[Any]):
    """Prints each record on a line of its own, on the standard output of the sink's tasks."""

    def open(self, context: TaskContext) -> SinkWriter:
        """The standard output; OSError where there is none."""
        if sys.stdout is None:
            raise OSError(
                "there is no standard output to print to: it was closed when the job started\n\n"
                "hint: LineFiles(folder) writes lines to files"
            )
        return _PrintWriter(context.failing)


class _PrintWriter(SinkWriter):
    def __init__(self, failing: FailureContext) -> None:
        self._failing = failing

    def write(self, batch: list[Any]) -> None:
        if not batch:
            return
        text = lines(batch, self._failing)
        try:
            sys.stdout.write(text)  # in one call, so that lines of several tasks do not mix
        except UnicodeEncodeError:
            for record in batch:
                try:
                    sys.stdout.write(str(record) + "\n")
                except UnicodeEncodeError:
                    self._failing.on(record)
                    raise
        sys.stdout.flush()
