"""Windows in Rust over columns: what the same windows in Python give of the rows, in any order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.graph.context import TaskContext
from engine.testing import VirtualClock, run
from operators import (
    Count,
    CountDistinct,
    CountWindow,
    First,
    Last,
    Max,
    Mean,
    Min,
    Quantile,
    Quantiles,
    Session,
    Sliding,
    Sum,
    Top,
    Tumbling,
    Watermark,
    source,
)
from operators.sinks import Collect
from operators.sources import Function
from tests.part import examples
from tests.windowing import us

pytestmark = pytest.mark.usefixtures("nothing_left")

OF_COLUMNS: dict[str, Any] = {
    "n": Count(),
    "s": Sum("value"),
    "lo": Min("value"),
    "hi": Max("value"),
    "m": Mean("value"),
    "f": First("value"),
    "l": Last("value"),
    "d": CountDistinct("value"),
    "q": Quantile("value", 0.3),
    "qs": Quantiles("value", [0, 0.99]),
    "t": Top("value", 2),
}


def in_python(key: Any, records: list[Any], start: Any, end: Any) -> Any:
    values = [record["value"] for record in records]
    return {
        "n": len(values),
        "s": sum(values),
        "lo": min(values),
        "hi": max(values),
        "m": sum(values) / len(values),
        "f": values[0],
        "l": values[-1],
        "d": len(set(values)),
        "q": float(numpy.quantile(values, 0.3)),
        "qs": [float(min(values)), float(numpy.quantile(values, 0.99))],
        "t": [{"value": each, "count": n} for each, n in Counter(values).most_common(2)],
    }


def rows_of(results: Any) -> list[Any]:
    """The rows of batches, as results of records."""
    found = []
    for batch in results:
        for row in batch.to_pylist() if len(batch) else []:
            key, start, end = (row.pop(name) for name in ("key", "window_start", "window_end"))
            found.append((key, row, start, end))
    return found


def frame(given: list[Any]) -> pa.RecordBatch:
    keys, values, times = zip(*given, strict=True)
    arrays = [pa.array(keys, pa.string()), pa.array(values), pa.array(times)]
    return pa.RecordBatch.from_arrays(arrays, names=["key", "value", "ts"])


def records_of(given: list[Any]) -> list[Any]:
    return [dict(zip(("key", "value", "ts"), row, strict=True)) for row in given]


assigners = st.one_of(
    st.builds(lambda gap: Session(us(gap)), st.integers(1, 20)),
    st.tuples(st.integers(1, 6), st.integers(1, 6)).map(lambda it: CountWindow(max(it), min(it))),
    st.builds(lambda size: Tumbling(us(size)), st.integers(1, 20)),
    st.tuples(st.integers(1, 20), st.integers(1, 20)).map(
        lambda it: Sliding(us(max(it)), us(min(it)))
    ),
)
drawn = st.tuples(st.sampled_from(["a", "b", "", None]), st.integers(-5, 5), st.integers(-60, 60))
steps = st.lists(st.lists(drawn, min_size=1, max_size=8) | st.integers(-70, 70), max_size=12)


def keyed(steps: list[Any], shape: Callable[[list[Any]], Any]) -> Any:
    """Rows in that shape, and watermarks, one after the other."""

    def given(context: TaskContext) -> Iterator[Any]:
        if context.index == 0:
            for step in steps:
                yield Watermark(step) if isinstance(step, int) else shape(step)

    return source(Function(given, rate=1)).key_by("key")


def so_that_none_is_late(steps: list[Any]) -> list[Any]:
    """With watermarks as high as the rows that follow let them be."""
    found, least = [], 1000
    for step in reversed(steps):
        found.append(least - 1 if isinstance(step, int) else step)
        if not isinstance(step, int):
            least = min(least, *(row[2] for row in step))
    return found[::-1]


@pytest.mark.parametrize("parallelism", [1, 2])
@settings(max_examples=examples(40), deadline=None)
@given(assigner=assigners, steps=steps.map(so_that_none_is_late))
def test_what_windows_in_python_give(parallelism: int, assigner: Any, steps: list[Any]) -> None:
    time: Any = {} if isinstance(assigner, CountWindow) else {"time": "ts"}
    native = keyed(steps, frame).window(assigner, **time).aggregate(**OF_COLUMNS)
    by_hand = keyed(steps, records_of).window(assigner, **time).apply(in_python)
    found, expected = (
        run(each.sink(Collect()), clock=VirtualClock(), parallelism=parallelism)["collect"]
        for each in (native, by_hand)
    )
    assert sorted(map(repr, rows_of(found))) == sorted(map(repr, expected))


@pytest.mark.parametrize("assigner", [Session(us(3)), CountWindow(2)])
def test_nothing_is_left_of_many_keys(assigner: Any) -> None:
    def given() -> Iterator[Any]:
        for at in range(0, 40_000, 1000):
            yield frame([(f"key {number // 2}", 1, number) for number in range(at, at + 1000)])
            yield Watermark(at + 990)

    time = {} if isinstance(assigner, CountWindow) else {"time": "ts"}
    windows = source(Function(given)).key_by("key").window(assigner, **time)
    found = rows_of(run(windows.aggregate(**OF_COLUMNS).sink(Collect()))["collect"])
    assert [row["n"] for _, row, _, _ in found] == [2] * 20_000
    assert len({key for key, *_ in found}) == 20_000
