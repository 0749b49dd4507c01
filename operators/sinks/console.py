"""A sink that prints."""

import sys
from typing import Any

from engine.graph.operator import SinkOperator, SinkWriter, TaskContext


class Print(SinkOperator[Any]):
    """Prints each record on a line of its own, on the standard output of the sink's tasks."""

    def open(self, context: TaskContext) -> SinkWriter:
        """The standard output."""
        return _PrintWriter()


class _PrintWriter(SinkWriter):
    def write(self, records: list[Any]) -> None:
        if records:
            # One write for a batch, so that lines of several tasks do not mix.
            sys.stdout.write("\n".join(map(str, records)) + "\n")
            sys.stdout.flush()

    def close(self) -> None:
        return None
