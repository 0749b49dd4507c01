"""The source of Nexmark's events, and the streams that queries read: columns, or dicts."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from datetime import timedelta
from functools import partial
from typing import Any, Literal, get_args

import engine
from engine.columns import import_pyarrow
from engine.graph.context import TaskContext
from engine.graph.operator import Properties
from engine.graph.source import SourceOperator
from operators import Stream, source
from operators.sources.batches import Blocks
from operators.sources.rate import check_rate
from pipelines.nexmark.events import COLUMNS, Events, Kind, program

Api = Literal["per_record", "columnar"]


class Nexmark(SourceOperator[Any]):
    """The named columns of all events of a kind; without names, all columns.

    They come as `pyarrow.RecordBatch`es; `rate` is events of this kind per second over all tasks.
    """

    def __init__(
        self,
        events: Events,
        kind: Kind,
        columns: tuple[str, ...] = (),
        rate: float | None = None,
    ) -> None:
        there = [name for names in COLUMNS[kind] for name in names]
        for name in columns:
            if name not in there:
                raise engine.GraphError(f"a {kind} has no {name!r}, expected {', '.join(there)}")
        check_rate(rate)
        self.rate = rate
        self.events = events
        self.kind: Kind = kind
        self.columns = list(columns or there)

    @property
    def properties(self) -> Properties:
        """Its rate, that records are columns, and that it never waits."""
        return Properties(rate=self.rate, emits_columns=True, never_waits=True)

    def validate_here(self) -> None:
        """Raise ConfigError without a generator or files."""
        import_pyarrow("Nexmark")
        if self.events.folder is None:
            program()

    def open(self, context: TaskContext) -> Blocks:
        """The blocks of this task, in batches."""
        return Blocks(partial(self._blocks, context), 0, context.batch_size)

    def _blocks(self, context: TaskContext, start: int) -> Iterator[tuple[int, Any]]:
        first = context.index + start * context.parallelism
        batches = self.events.batches(self.kind, first, context.parallelism)
        for at, batch in enumerate(batches, start):
            yield at, batch.select(self.columns)


class Tables:
    """The streams that queries read: `tables.bids("auction", "price")` are two columns of bids.

    With `api="per_record"` they are dicts, which are made where a function looks at them. If
    "date_time" is one of the columns, the stream has event time.
    """

    def __init__(self, events: Events, api: Api) -> None:
        if api not in get_args(Api):
            raise engine.GraphError(f"api is {api!r}, expected 'per_record' or 'columnar'")
        self.events = events
        self.api = api
        self._max_drift: timedelta | None = None

    def together(self) -> Tables:
        """The same tables, none of which is read over half a million events ahead of another."""
        aligned = copy(self)
        aligned._max_drift = self.events.time_of(_AHEAD)
        return aligned

    def persons(self, *columns: str) -> Stream[Any]:
        """The persons, who sell and bid."""
        return self._stream("person", columns)

    def auctions(self, *columns: str) -> Stream[Any]:
        """The auctions, with item, seller and end."""
        return self._stream("auction", columns)

    def bids(self, *columns: str) -> Stream[Any]:
        """The bids, with bidder, price and auction."""
        return self._stream("bid", columns)

    def _stream(self, kind: Kind, columns: tuple[str, ...]) -> Stream[Any]:
        stream = self._read(kind, columns)
        if not columns or "date_time" in columns:
            late = self.events.out_of_orderness(kind)
            stream = stream.with_event_time(
                "date_time", unit="ms", out_of_orderness=late, max_drift=self._max_drift
            )
        return stream if self.api == "columnar" else stream.to_records()

    def _read(self, kind: Kind, columns: tuple[str, ...]) -> Stream[Any]:
        return source(Nexmark(self.events, kind, columns)).named(f"{kind}s")


_AHEAD = 500_000
"""In events of all kinds.

Sources of dicts read so many in some 50 ms, much longer than the master needs to let them go on.
Columns are ten times as fast, and would wait for it.
"""
