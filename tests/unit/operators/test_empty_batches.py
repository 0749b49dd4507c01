"""Sinks that take columns get columns, and no batch without a row, whatever is in front of them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from engine.graph import BatchFunction, BatchOperator, Properties, SinkOperator, SinkWriter
from engine.testing import VirtualClock, run
from operators import Count, CountWindow, Every, Session, Sliding, Stream, Sum, Tumbling, source
from operators.sinks import Callback, Collect, Discard
from operators.sources import Collection

SECOND = timedelta(seconds=1)
BATCHES = [
    pa.record_batch(
        {"id": pa.array(["ann", "bob"][second % 2 :]), "at": [second] * (2 - second % 2)}
    )
    for second in range(9)
]


def timed() -> Stream[Any]:
    return source(Collection(BATCHES, rate=1)).with_parallelism(1).with_event_time("at", unit="s")


def of_keys() -> Any:
    return timed().key_by("id")


def no_odd(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.filter(pa.array([at % 2 == 0 for at in batch["at"].to_pylist()]))


def last_rows(rows: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        list({row["id"]: row for row in rows.to_pylist()}.values()), schema=rows.schema
    )


GOT: dict[str, list[Any]] = {"called": [], "own": [], "passed": []}
"""What operators got, which are copies of those that the test declares."""


@pytest.fixture(autouse=True)
def nothing_came() -> None:
    for batches in GOT.values():
        batches.clear()


def called(batch: Any) -> None:
    GOT["called"].append(batch)


class Passes(BatchOperator):
    """An operator of the user's."""

    properties = Properties(accepts_columns=True)

    def open(self, _context: Any) -> BatchFunction:
        return Passing()


class Passing(BatchFunction):
    def process(self, batch: Any) -> Any:
        GOT["passed"].append(batch)
        return batch


class Own(SinkOperator[Any]):
    """A sink of the user's."""

    properties = Properties(accepts_columns=True)

    def open(self, _context: Any) -> SinkWriter:
        return Writer()


class Writer(SinkWriter):
    def write(self, records: Any) -> None:
        GOT["own"].append(records)


INTERVAL = (0 * SECOND, 2 * SECOND)
OF_COLUMNS: dict[str, Callable[[], Stream[Any]]] = {
    "source": timed,
    "a filter": lambda: timed().map_batches(no_odd),
    "a filter of all": lambda: timed().map_batches(lambda batch: batch.slice(0, 0)),
    "rebalance": lambda: timed().map_batches(no_odd).rebalance(),
    "a union": lambda: timed().map_batches(no_odd).union(timed()),
    "take": lambda: timed().take(3),
    "count": lambda: of_keys().count(),
    "final": lambda: of_keys().aggregate(n=Count(), s=Sum("at"), emit="final"),
    "reduce_batches": lambda: of_keys().reduce_batches(last_rows),
    "reduce_batches, final": lambda: of_keys().reduce_batches(last_rows, emit="final"),
    "tumbling": lambda: of_keys().window(Tumbling(3 * SECOND)).count(),
    "sliding": lambda: of_keys().window(Sliding(3 * SECOND, SECOND)).sum("at"),
    "session": lambda: of_keys().window(Session(3 * SECOND)).count(),
    "count windows": lambda: of_keys().window(CountWindow(2)).count(),
    "updates": lambda: of_keys().window(Tumbling(3 * SECOND), emit="updates").count(),
    "every": lambda: of_keys().window(Tumbling(3 * SECOND), emit=Every(2 * SECOND)).count(),
    "interval_join": lambda: of_keys().interval_join(of_keys(), between=INTERVAL),
    "interval_join, full": lambda: of_keys().interval_join(of_keys(), between=INTERVAL, how="full"),
    "window_join": lambda: of_keys().window_join(of_keys(), Tumbling(3 * SECOND)),
    "temporal_join": lambda: of_keys().temporal_join(of_keys(), how="left"),
    "lookup_join": lambda: timed().lookup_join({"ann": 1}, "id"),
}


@pytest.mark.table(2)
@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("name", OF_COLUMNS)
def test_of_columns(name: str, parallelism: int) -> None:
    sinks: list[Any] = [Callback(called, batches=True), Own(), Collect()]
    pipelines = [OF_COLUMNS[name]().sink(sink) for sink in sinks]
    pipelines.append(OF_COLUMNS[name]().then(Passes()).sink(Discard()))
    settings: Any = {"parallelism": parallelism, "batch_size": 2, "marker_interval": 1}
    found = run(pipelines, clock=VirtualClock(), **settings)
    written = [GOT["called"], GOT["own"], found["collect"]]
    for batches in (*written, GOT["passed"]):
        assert all(isinstance(batch, pa.RecordBatch) for batch in batches)
    for batches in written:
        assert all(len(batch) for batch in batches)
        assert bool(batches) == (name != "a filter of all")
    counts = {sum(map(len, batches)) for batches in (*written, GOT["passed"])}
    assert len(counts) == 1 or name in ("count", "updates", "reduce_batches", "every")


def test_of_records() -> None:
    records = source(Collection(range(9), rate=1)).filter(lambda n: n % 3 == 0)
    pipeline = records.rebalance().filter(lambda n: n > 3).sink(Callback(called, batches=True))
    run(pipeline, clock=VirtualClock(), parallelism=2, batch_size=1, marker_interval=1)
    assert GOT["called"] == [[6]]
