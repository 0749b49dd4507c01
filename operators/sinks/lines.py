"""Records as lines of text."""

from typing import Any

from engine.graph.failing import FailureContext


def lines(batch: list[Any], failing: FailureContext) -> str:
    """`str` of each record, with a line feed behind it; notes a record whose `str` fails."""
    records = iter(batch)
    try:
        # `map` would take a StopIteration of a record's `__str__` for its end.
        return "\n".join([str(record) for record in records]) + "\n"
    except BaseException:
        failing.at(batch, records)
        raise
