"""Records as lines of text."""

from typing import Any

from engine.graph.failing import Failing


def lines(batch: list[Any], failing: Failing) -> str:
    """`str` of each record, with a line feed behind it; tells which record has none."""
    records = iter(batch)
    try:
        return "\n".join(map(str, records)) + "\n"
    except BaseException:
        failing.at(batch, records)
        raise
