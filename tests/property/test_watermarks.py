"""No record is late that disorder within what was declared brings, however it travels."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.columns import is_columns, rows
from engine.testing import run
from operators import BatchFunction, BatchOperator, Properties, TaskContext, source
from operators.sinks import Collect
from operators.sources import Collection
from tests.part import examples


class Checks(BatchOperator):
    """Passes on what is later than the watermark, and marks what is not."""

    properties = Properties(accepts_columns=True)

    def open(self, context: TaskContext) -> BatchFunction:
        return _Checks()


class _Checks(BatchFunction):
    def __init__(self) -> None:
        self._watermark: int | None = None

    def process(self, batch: Any) -> list[Any]:
        records = rows(batch) if is_columns(batch) else batch
        return [
            {**record, "late": record.get("late", False) or self._is_late(record["ts"])}
            for record in records
        ]

    def _is_late(self, time: int) -> bool:
        return self._watermark is not None and time <= self._watermark

    def on_watermark(self, watermark_us: int) -> Iterable[list[Any]]:
        assert self._watermark is None or watermark_us > self._watermark
        self._watermark = watermark_us
        return ()


@st.composite
def disordered(draw: st.DrawFn) -> tuple[list[dict[str, Any]], int]:
    """Records none of which is farther than this behind any before it."""
    disorder = draw(st.sampled_from([0, 1, 10, 1000]))
    steps = st.sampled_from([0, 0, 1, 1, 5, 100, 3 * 86_400_000_000])
    wanted = draw(st.lists(st.tuples(steps, st.integers(0, disorder)), max_size=150))
    records, now = [], draw(st.sampled_from([-5, 0, 1_700_000_000_000_000]))
    for number, (step, behind) in enumerate(wanted):
        now += step
        records.append({"key": number % 5, "n": number, "ts": now - behind})
    return records, disorder


@pytest.mark.parametrize("columns", [False, True])
@settings(max_examples=examples(40), deadline=None)
@given(
    disordered(),
    st.integers(1, 3),
    st.sampled_from([1, 7, 1000]),
    st.sampled_from(["chained", "keyed", "dealt"]),
)
def test_nothing_is_late(
    columns: bool, given: tuple[list[dict[str, Any]], int], parallelism: int, batch: int, way: str
) -> None:
    records, disorder = given
    size = max(1, len(records) // 4)
    batches = [
        pa.RecordBatch.from_pylist(records[start : start + size])
        for start in range(0, len(records), size)
    ]
    words = source(Collection(batches if columns else records))
    timed = words.with_event_time("ts", out_of_orderness=timedelta(microseconds=disorder))
    checked = {
        "chained": timed.then(Checks()),
        "keyed": timed.key_by("key").then(Checks()),
        "dealt": timed.rebalance().then(Checks()).key_by("key").then(Checks()),
    }[way]
    found = run(checked.sink(Collect()), parallelism=parallelism, batch_size=batch)["collect"]
    assert sorted(found, key=lambda each: each["n"]) == [
        {**record, "late": False} for record in records
    ]
