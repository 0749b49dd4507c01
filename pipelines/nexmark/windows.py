"""Nexmark's queries over windows of bids."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from operators import Session, Sliding, Stream, Tumbling
from pipelines.nexmark.source import Tables

if TYPE_CHECKING:
    import pyarrow as pa

TEN_SECONDS = timedelta(seconds=10)
TWO_SECONDS = timedelta(seconds=2)


def q5(tables: Tables) -> Stream[Any]:
    """Every two seconds, the auctions that had the most bids in the last ten.

    Counts of a window come when it is complete. What has the most is found among those of its
    task's batch first; then all that are left of one window meet in one task.
    """
    bids = tables.bids("auction", "date_time")
    counts = bids.key_by("auction").window(Sliding(TEN_SECONDS, TWO_SECONDS)).count()
    named = counts.map(lambda count: dict(zip(COUNT, count, strict=True)))
    return hottest(named.map_batches(lambda batch: highest(batch, "window_end", "count")))


def q5_columns(tables: Tables) -> Stream[Any]:
    """As `q5`; from the few that are left on, records."""
    bids = tables.bids("auction", "date_time")
    counts = bids.key_by("auction").window(Sliding(TEN_SECONDS, TWO_SECONDS)).count()
    some = counts.map_batches(lambda batch: highest_rows(batch, batch["window_end"], "count"))
    return hottest(some.to_records())


def hottest(counts: Stream[Any]) -> Stream[Any]:
    """Of the counts of each window, those that are the highest."""
    # They all end when the window does. What ends there is in the last slide before.
    windows = counts.key_by("window_end").window(
        Tumbling(TWO_SECONDS), time=lambda count: count["window_end"] - 1, unit="ms"
    )
    return windows.apply(best_counts).flat_map(lambda result: result[1])


def best_counts(
    _key: int, counts: list[dict[str, Any]], _start: int, _end: int
) -> list[dict[str, Any]]:
    """Those that are the highest, as `q5` tells them."""
    best = highest(counts, "window_end", "count")
    return [{"auction": each["auction"], "num": each["count"]} for each in best]


def q7(tables: Tables) -> Stream[Any]:
    """The highest bids of each ten seconds, found among those of each batch first."""
    bids = tables.bids("auction", "bidder", "price", "date_time")
    return highest_bids(bids.map_batches(lambda batch: highest(batch, window_of, "price")))


def q7_columns(tables: Tables) -> Stream[Any]:
    """As `q7`; from the few that are left on, records."""
    bids = tables.bids("auction", "bidder", "price", "date_time")
    return highest_bids(bids.map_batches(highest_bid_rows).to_records())


def highest_bids(bids: Stream[Any]) -> Stream[Any]:
    """The highest bids of each window."""
    windows = bids.key_by(window_of).window(Tumbling(TEN_SECONDS), time="date_time", unit="ms")
    return windows.apply(best_bids).flat_map(lambda result: result[1])


def best_bids(
    _key: int, bids: list[dict[str, Any]], _start: int, _end: int
) -> list[dict[str, Any]]:
    """Those of a window that are the highest."""
    return highest(bids, window_of, "price")


def highest_bid_rows(bids: pa.RecordBatch) -> pa.RecordBatch:
    """The highest of each window in a batch."""
    return highest_rows(bids, bids["date_time"].to_numpy() // 10_000, "price")


def window_of(bid: dict[str, Any]) -> int:
    """The ten seconds that it is in, since 1970."""
    time: int = bid["date_time"]
    return time // 10_000


def q11(tables: Tables) -> Stream[Any]:
    """How many bids each bidder made in one go, without ten seconds of pause."""
    bids = tables.bids("bidder", "date_time")
    counts = bids.key_by("bidder").window(Session(TEN_SECONDS)).count()
    return counts.map(lambda count: dict(zip(SESSION, count, strict=True)))


def q11_columns(tables: Tables) -> Stream[Any]:
    """As `q11`."""
    bids = tables.bids("bidder", "date_time")
    counts = bids.key_by("bidder").window(Session(TEN_SECONDS)).count()
    return counts.map_batches(lambda batch: batch.rename_columns([*SESSION]))


def highest(records: Iterable[dict[str, Any]], group: Any, value: str) -> list[dict[str, Any]]:
    """Those that have the highest value of their group, which a field or a function tells."""
    best: dict[Any, list[dict[str, Any]]] = {}
    for record in records:
        key = group(record) if callable(group) else record[group]
        found = best.setdefault(key, [record])
        if record[value] > found[0][value]:
            best[key] = [record]
        elif found[0] is not record and record[value] == found[0][value]:
            found.append(record)
    return [record for found in best.values() for record in found]


def highest_rows(batch: pa.RecordBatch, group: Any, value: str) -> pa.RecordBatch:
    """Those rows that have the highest value of their group; a batch has rows of few groups."""
    import numpy as np

    groups, values = np.asarray(group), np.asarray(batch[value])
    chosen = np.zeros(len(values), dtype=bool)
    for each in np.unique(groups):
        rows = groups == each
        chosen |= rows & (values == values[rows].max())
    return batch.filter(chosen)


COUNT = ("auction", "count", "window_start", "window_end")
SESSION = ("bidder", "bid_count", "starttime", "endtime")
