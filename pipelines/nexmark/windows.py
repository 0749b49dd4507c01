"""Nexmark's queries over windows of bids."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from operators import Session, Sliding, Stream, Tumbling
from pipelines.nexmark.columns import renamed
from pipelines.nexmark.source import Tables

if TYPE_CHECKING:
    import pyarrow as pa

TEN_SECONDS = timedelta(seconds=10)
TWO_SECONDS = timedelta(seconds=2)


def q5(tables: Tables) -> Stream[Any]:
    """Every two seconds, the auctions with the most bids in the last ten seconds.

     Counts of a window come when it is complete. First the highest counts of each batch are found;
    then the remaining ones of a window meet in one task.
    """
    bids = tables.bids("auction", "date_time")
    counts = bids.key_by("auction").window(Sliding(TEN_SECONDS, TWO_SECONDS)).count()
    named = counts.map(lambda count: dict(zip(COUNT, count, strict=True)))
    return hottest(named.map_batches(lambda batch: highest(batch, "window_end", "count")))


def q5_columns(tables: Tables) -> Stream[Any]:
    """As `q5`; the few remaining rows become records."""
    bids = tables.bids("auction", "date_time")
    counts = bids.key_by("auction").window(Sliding(TEN_SECONDS, TWO_SECONDS)).count()
    some = counts.map_batches(highest_counts)
    return hottest(some.to_records())


def highest_counts(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of `q5` with the highest count of their window."""
    return highest_rows(batch, batch["window_end"], "count")


def hottest(counts: Stream[Any]) -> Stream[Any]:
    """The highest counts of each window."""
    # All counts of a window end with it, so their last instant is in the last slide before its end.
    windows = counts.key_by("window_end").window(
        Tumbling(TWO_SECONDS), time=lambda count: count["window_end"] - 1, unit="ms"
    )
    return windows.apply(best_counts).flat_map(lambda result: result[1])


def best_counts(
    _key: int, counts: list[dict[str, Any]], _start: int, _end: int
) -> list[dict[str, Any]]:
    """The highest counts, as results of `q5`."""
    best = highest(counts, "window_end", "count")
    return [{"auction": each["auction"], "num": each["count"]} for each in best]


def q7(tables: Tables) -> Stream[Any]:
    """The highest bids of each ten seconds; first those of each batch are found."""
    bids = tables.bids("auction", "bidder", "price", "date_time")
    return highest_bids(bids.map_batches(lambda batch: highest(batch, window_of, "price")))


def q7_columns(tables: Tables) -> Stream[Any]:
    """As `q7`; the few remaining rows become records."""
    bids = tables.bids("auction", "bidder", "price", "date_time")
    return highest_bids(bids.map_batches(highest_bid_rows).to_records())


def highest_bids(bids: Stream[Any]) -> Stream[Any]:
    """The highest bids of each window."""
    windows = bids.key_by(window_of).window(Tumbling(TEN_SECONDS), time="date_time", unit="ms")
    return windows.apply(best_bids).flat_map(lambda result: result[1])


def best_bids(
    _key: int, bids: list[dict[str, Any]], _start: int, _end: int
) -> list[dict[str, Any]]:
    """The highest bids of a window."""
    return highest(bids, window_of, "price")


def highest_bid_rows(bids: pa.RecordBatch) -> pa.RecordBatch:
    """The highest bids of each window in a batch."""
    return highest_rows(bids, bids["date_time"].to_numpy() // 10_000, "price")


def window_of(bid: dict[str, Any]) -> int:
    """The number of its ten seconds since 1970."""
    time: int = bid["date_time"]
    return time // 10_000


def q11(tables: Tables) -> Stream[Any]:
    """The number of bids of each bidder without a pause of ten seconds."""
    bids = tables.bids("bidder", "date_time")
    counts = bids.key_by("bidder").window(Session(TEN_SECONDS)).count()
    return counts.map(lambda count: dict(zip(SESSION, count, strict=True)))


def q11_columns(tables: Tables) -> Stream[Any]:
    """As `q11`."""
    bids = tables.bids("bidder", "date_time")
    counts = bids.key_by("bidder").window(Session(TEN_SECONDS)).count()
    return counts.map_batches(renamed(SESSION))


def q12(tables: Tables) -> Stream[Any]:
    """The number of bids of each bidder in each ten seconds of the machine's clock."""
    timed = tables.bids("bidder").with_ingestion_time()
    counts = timed.key_by(lambda each: each[0]["bidder"]).window(Tumbling(TEN_SECONDS)).count()
    return counts.map(lambda count: dict(zip(SESSION, count, strict=True)))


def q12_columns(tables: Tables) -> Stream[Any]:
    """As `q12`."""
    timed = tables.bids("bidder").with_ingestion_time("arrived")
    counts = timed.key_by("bidder").window(Tumbling(TEN_SECONDS)).count()
    return counts.map_batches(renamed(SESSION))


def highest(records: Iterable[dict[str, Any]], group: Any, value: str) -> list[dict[str, Any]]:
    """The records with the highest value of their group; a field or a function gives the group."""
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
    """The rows with the highest value of their group; a batch has rows of few groups."""
    import numpy as np

    groups, values = np.asarray(group), np.asarray(batch[value])
    chosen = np.zeros(len(values), dtype=bool)
    for each in np.unique(groups):
        rows = groups == each
        chosen |= rows & (values == values[rows].max())
    return batch.filter(chosen)


COUNT: tuple[str, ...] = ("auction", "count", "window_start", "window_end")
SESSION: tuple[str, ...] = ("bidder", "bid_count", "starttime", "endtime")
