"""A column whose batches come plain, with dictionaries and in runs, as streams that meet bring it.

Joins and `reduce_batches` refuse it by name: they keep rows of one schema.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from engine.testing import run
from operators import (
    Count,
    CountDistinct,
    CountWindow,
    First,
    Last,
    Max,
    Min,
    Session,
    Sliding,
    Top,
    Tumbling,
    source,
)
from operators.sinks import Collect
from operators.sources import Collection

SECOND = timedelta(seconds=1)
LONG = "a text that is longer than twelve bytes"
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "texts": (pa.string(), ["b", LONG, None, "b", "c", LONG, "b", None]),
    "large texts": (pa.large_string(), ["b", LONG, None, "b", "c", LONG, "b", None]),
    "bytes": (pa.binary(), [b"b", LONG.encode(), None, b"b", b"c", b"b", b"c", None]),
    "integers": (pa.int64(), [3, 1, None, 3, 2, 1, 3, None]),
    "floats": (pa.float64(), [3.5, 1.0, None, 3.5, 2.0, 1.0, 3.5, None]),
    "times": (pa.timestamp("us"), [3, 1, None, 3, 2, 1, 3, None]),
}


def backwards(column: pa.Array) -> pa.Array:
    """With a dictionary in another order, and small codes."""
    codes = column.dictionary_encode()
    last = len(codes.dictionary) - 1
    turned = codes.dictionary.take(pa.array(range(last, -1, -1), pa.int64()))
    return pa.DictionaryArray.from_arrays(pc.subtract(last, codes.indices).cast(pa.int8()), turned)


ENCODINGS: list[Callable[[pa.Array], pa.Array]] = [
    lambda column: column,
    lambda column: column.dictionary_encode(),
    backwards,
    lambda column: pc.run_end_encode(column, pa.int32()),
]


def batches(name: str, encodings: list[Callable[[pa.Array], pa.Array]]) -> list[pa.RecordBatch]:
    """`x` in these encodings in turn; `k` has two keys, `at` a second from row to row."""
    kind, values = VALUES[name]
    found, row = [], 0
    for turn in range(6):
        some = values[turn:] + values[:turn]
        at = range(row, row + len(some))
        row = at.stop
        found.append(
            pa.record_batch(
                {
                    "x": encodings[turn % len(encodings)](pa.array(some, kind)),
                    "k": [each % 2 for each in at],
                    "at": at,
                }
            )
        )
    return found


OF_X: dict[str, Any] = {
    "n": Count(),
    "distinct": CountDistinct("x"),
    "top": Top("x", 2),
    "min": Min("x"),
    "max": Max("x"),
    "first": First("x"),
    "last": Last("x"),
}
WAYS: dict[str, Callable[[Any], Any]] = {
    "aggregate": lambda s: s.key_by("k").aggregate(**OF_X, emit="final"),
    "tumbling": lambda s: s.key_by("k").window(Tumbling(11 * SECOND)).aggregate(**OF_X),
    "sliding": lambda s: s.key_by("k").window(Sliding(9 * SECOND, 3 * SECOND)).aggregate(**OF_X),
    "session": lambda s: s.key_by("k").window(Session(9 * SECOND)).aggregate(**OF_X),
    "count window": lambda s: s.key_by("k").window(CountWindow(5)).aggregate(**OF_X),
    "key": lambda s: s.key_by("x").aggregate(n=Count(), last=Last("at"), emit="final"),
    "key of windows": lambda s: s.key_by("x").window(Tumbling(9 * SECOND)).aggregate(n=Count()),
    "keys": lambda s: s.key_by("x", "k").count(emit="final"),
}


@pytest.mark.table(6)
@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", VALUES)
def test_encodings_in_turn_give_what_one_gives(name: str, way: str, parallelism: int) -> None:
    results = []
    for encodings in (ENCODINGS[:1], ENCODINGS, ENCODINGS[1:], ENCODINGS[::-1]):
        stream = source(Collection(batches(name, encodings))).with_parallelism(1)
        timed = stream.with_event_time("at", unit="s")
        found = run(WAYS[way](timed).sink(Collect()), parallelism=parallelism)["collect"]
        results.append(sorted(repr(row) for batch in found for row in batch.to_pylist()))
    assert results[0]
    assert results == results[:1] * 4
