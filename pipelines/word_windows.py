"""Words by time: how often each of a stream of random words occurs in each tenth of a second.

The same tumbling windows are written with three APIs, as in `word_count`:

- `windows_per_record`: a Python function combines the records of each word and window;
- `windows_native`: the count runs in Rust on records;
- `windows_columnar`: the same over columns, from the source on.

Run it with `oka run pipelines/word_windows.py --parallelism 2`.
"""

from __future__ import annotations

import time
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from operators import Pipeline, Stream, Tumbling, source
from operators.sinks import Counts
from operators.sources import RandomWords

if TYPE_CHECKING:
    import pyarrow as pa

WindowApi = Literal["windows_per_record", "windows_native", "windows_columnar"]


def word_windows(
    seconds: float | None = 10,
    length: int = 32,
    *,
    rate: float | None = None,
    seed: int = 0,
    api: WindowApi = "windows_native",
) -> Pipeline:
    """Count random words of `length` bytes by the tenth of a second in which they were made.

    Its output is the sum of all windows of each word: its total count.
    """
    columnar = api == "windows_columnar"
    words = source(
        RandomWords(length=length, seconds=seconds, rate=rate, seed=seed, columnar=columnar)
    )
    return count_by_time(words, api).map(Totals()).sink(Counts())


def count_by_time(words: Stream[Any], api: WindowApi) -> Stream[tuple[str, int, int, int]]:
    """Records (word, count, start, end) of each word and tenth of a second, in microseconds."""
    tenths = Tumbling(timedelta(seconds=0.1))
    if api == "windows_columnar":
        rows = words.map_batches(column_of_times).with_event_time("time")
        return rows.key_by("word").window(tenths).count().to_records().map(in_order)
    pairs = words.with_ingestion_time()
    if api == "windows_native":
        return pairs.key_by(0).window(tenths).count()
    if api == "windows_per_record":
        ones = pairs.map(lambda pair: (pair[0], 1, pair[1]))
        windows = ones.key_by(0).window(tenths, time=2)
        counts = windows.reduce(lambda a, b: (a[0], a[1] + b[1], a[2]))
        return counts.map(lambda result: (result[0], result[1][1], result[2], result[3]))
    raise ValueError(
        f"api is {api!r}, expected windows_per_record, windows_native or windows_columnar"
    )


def column_of_times(words: pa.RecordBatch) -> pa.RecordBatch:
    """The words with the time now in a column beside them."""
    import pyarrow as pa

    now = pa.scalar(time.time_ns() // 1000, pa.int64())
    return words.append_column("time", pa.repeat(now, len(words)))


def in_order(row: dict[str, Any]) -> tuple[str, int, int, int]:
    """A row of columns as a record."""
    return tuple(row.values())


class Totals:
    """How often each word has occurred up to a window's end."""

    def __init__(self) -> None:
        self._totals: Counter[str] = Counter()

    def __call__(self, window: tuple[str, int, int, int]) -> tuple[str, int]:
        """Add the count of one window."""
        word, count, _start, _end = window
        self._totals[word] += count
        return word, self._totals[word]
