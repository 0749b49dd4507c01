"""What tests of event time share: an operator that tells of watermarks, and streams with times."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from engine.testing import VirtualClock, run
from operators import (
    BatchFunction,
    BatchOperator,
    Properties,
    Stream,
    TaskContext,
    source,
)
from operators.sinks import Collect
from operators.sources import Collection

SECOND = timedelta(seconds=1)


class Told(BatchOperator):
    """Passes records on, and gives a record for each watermark."""

    properties = Properties(accepts_columns=True)

    def __init__(self, name: str = "W") -> None:
        self.name = name

    def open(self, context: TaskContext) -> BatchFunction:
        return TellsWatermarks(self.name)


class TellsWatermarks(BatchFunction):
    def __init__(self, name: str) -> None:
        self._name = name

    def process(self, batch: Any) -> Any:
        return batch

    def on_watermark(self, watermark_us: int) -> Iterable[list[Any]]:
        yield [(self._name, watermark_us)]


def timed(records: Iterable[Any], **settings: Any) -> Stream[Any]:
    """A stream of pairs with their time in item 1, one a second; and what is told behind it."""
    return source(Collection(records, rate=1)).with_event_time(1, **settings)


def bursts(*batches: Any) -> Stream[Any]:
    """These batches, of records or of columns, one a second."""
    numbers = source(Collection(range(len(batches)), rate=1))
    return numbers.map_batches(lambda one: batches[one[0]])


def out(stream: Stream[Any], **settings: Any) -> list[Any]:
    """What comes out of it, in batches of one record, up to the last record.

    Whether a task hears of a watermark in front of the end, or of the end at once, is open.
    """
    settings = {"clock": VirtualClock(), "batch_size": 1, **settings}
    sink = stream.sink(Collect()).with_parallelism(1)
    found = list(run(sink, **settings)["collect"])
    while found and isinstance(found[-1], tuple) and found[-1][0] == "W":
        found.pop()
    return found
