"""A sink that prints."""

import sys
from typing import Any

from engine.graph.operator import SinkOperator, SinkWriter, TaskContext


class Print(SinkOperator[Any]):
    """Prints each record on a line of its own, on the standard output of the sink's tasks."""

    def open(self, context: TaskContext) -> SinkWriter:
        """The standard output; OSError where there is none."""
        if sys.stdout is None:
            raise OSError(
                "there is no standard output to print to: it was closed when the job started\n\n"
                "hint: LineFiles(folder) writes lines to files"
            )
        return _PrintWriter()


class _PrintWriter(SinkWriter):
    def write(self, batch: list[Any]) -> None:
        if not batch:
            return
        records = iter(batch)  # error reports find the record that it is at
        text = "\n".join(map(str, records)) + "\n"
        try:
            sys.stdout.write(text)  # at once, so that lines of several tasks do not mix
        except UnicodeEncodeError:
            for record in batch:
                sys.stdout.write(str(record) + "\n")
        sys.stdout.flush()

    def close(self) -> None:
        return None
