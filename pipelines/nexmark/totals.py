"""Nexmark's queries over all bids of a day, of an auction, or of a channel."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from operators import Accumulator, Count, CountDistinct, Max, Mean, Min, Stream, Sum, Tumbling
from pipelines.nexmark.source import Tables

if TYPE_CHECKING:
    import pyarrow as pa

A_DAY = timedelta(days=1)


def q15(tables: Tables) -> Stream[Any]:
    """Bids, bidders and auctions of each day, by price."""
    bids = tables.bids("auction", "bidder", "price", "date_time")
    days = bids.key_by(lambda bid: bid["date_time"] // DAY).window(Tumbling(A_DAY))
    return days.aggregate(all=Statistics()).map(lambda day: {"day": day[0], **day[1]["all"]})


def q16(tables: Tables) -> Stream[Any]:
    """As `q15`, of each channel, with the time of its last bid."""
    bids = tables.bids("auction", "bidder", "price", "date_time", "channel")
    days = bids.key_by("channel").window(Tumbling(A_DAY))
    found = days.aggregate(all=Statistics(), last=Last())
    return found.map(
        lambda day: {
            "channel": day[0],
            "day": day[2] // DAY,
            "minute": day[1]["last"] // MINUTE % (24 * 60),
            **day[1]["all"],
        }
    )


def q15_columns(tables: Tables) -> Stream[Any]:
    """As `q15`."""
    bids = tables.bids("auction", "bidder", "price", "date_time").map_batches(with_parts)
    days = bids.key_by("day").window(Tumbling(A_DAY), time="date_time", unit="ms")
    found = days.aggregate(**STATISTICS)
    return found.map_batches(lambda batch: batch.drop_columns(["window_start", "window_end"]))


def q16_columns(tables: Tables) -> Stream[Any]:
    """As `q16`."""
    bids = tables.bids("auction", "bidder", "price", "date_time", "channel").map_batches(with_parts)
    days = bids.key_by("channel", "day").window(Tumbling(A_DAY), time="date_time", unit="ms")
    return days.aggregate(last=Max("date_time"), **STATISTICS).map_batches(with_minute)


def with_parts(bids: pa.RecordBatch) -> pa.RecordBatch:
    """The bids with their days, and bidder and auction for each rank; null for other ranks."""
    import numpy as np
    import pyarrow as pa

    ranks = np.digitize(bids["price"].to_numpy(), RANKS) + 1
    bids = bids.append_column("day", bids["date_time"].to_numpy() // DAY)
    for at, part in enumerate(PARTS[1:], 1):
        bids = bids.append_column(f"{part}_bid", (ranks == at).astype(np.int64))
        for name in ("bidder", "auction"):
            values = pa.array(bids[name].to_numpy(), mask=ranks != at)
            bids = bids.append_column(f"{part}_{name}", values)
    return bids


def with_minute(found: pa.RecordBatch) -> pa.RecordBatch:
    """The minute of the last bid in place of its time."""
    minutes = found["last"].to_numpy() // MINUTE % (24 * 60)
    found = found.drop_columns(["last", "window_start", "window_end"])
    return found.append_column("minute", minutes)


class Statistics(Accumulator[Any, Any, Any]):
    """Numbers of bids, bidders and auctions: in total, and for each of three ranks of prices."""

    def create(self) -> list[list[Any]]:
        """Bids, bidders and auctions, in total and for each rank."""
        return [[0, set(), set()] for _ in range(4)]

    def add(self, so_far: list[list[Any]], bid: dict[str, Any]) -> list[list[Any]]:
        """Add a bid, in total and for its rank."""
        for each in (so_far[0], so_far[rank(bid["price"])]):
            each[0] += 1
            each[1].add(bid["bidder"])
            each[2].add(bid["auction"])
        return so_far

    def merge(self, one: list[list[Any]], other: list[list[Any]]) -> list[list[Any]]:
        """The union of both."""
        return [[a[0] + b[0], a[1] | b[1], a[2] | b[2]] for a, b in zip(one, other, strict=True)]

    def finish(self, so_far: list[list[Any]]) -> dict[str, int]:
        """The numbers, by name."""
        found: dict[str, int] = {}
        for part, (bids, bidders, auctions) in zip(PARTS, so_far, strict=True):
            found |= {
                f"{part}_bids": bids,
                f"{part}_bidders": len(bidders),
                f"{part}_auctions": len(auctions),
            }
        return found


class Last(Accumulator[Any, int, int]):
    """The time of the last bid."""

    def create(self) -> int:
        """The lowest time."""
        return 0

    def add(self, so_far: int, bid: dict[str, Any]) -> int:
        """The later one."""
        time: int = bid["date_time"]
        return max(so_far, time)

    def merge(self, one: int, other: int) -> int:
        """The later one."""
        return max(one, other)


def q17(tables: Tables) -> Stream[Any]:
    """Bids of each auction and day, by price, with lowest and highest price, mean and sum."""
    bids = tables.bids("auction", "price", "date_time").map(with_ranks)
    days = bids.key_by("auction").window(Tumbling(A_DAY), time="date_time", unit="ms")
    return days.aggregate(**OF_AUCTIONS).map(
        lambda day: {"auction": day[0], "day": day[2] // DAY, **day[1]}
    )


def with_ranks(bid: dict[str, Any]) -> dict[str, Any]:
    """The bid with 1 for its rank and 0 for the others."""
    found = rank(bid["price"])
    return bid | {f"{part}_bids": int(found == at) for at, part in enumerate(PARTS) if at}


def q17_columns(tables: Tables) -> Stream[Any]:
    """As `q17`."""
    bids = tables.bids("auction", "price", "date_time").map_batches(with_rank_columns)
    days = bids.key_by("auction").window(Tumbling(A_DAY), time="date_time", unit="ms")
    return days.aggregate(**OF_AUCTIONS).map_batches(with_day)


def with_rank_columns(bids: pa.RecordBatch) -> pa.RecordBatch:
    """A column of 1 and 0 for each rank."""
    import numpy as np

    ranks = np.digitize(bids["price"].to_numpy(), RANKS) + 1
    for at, part in enumerate(PARTS[1:], 1):
        bids = bids.append_column(f"{part}_bids", (ranks == at).astype(np.int64))
    return bids


def with_day(found: pa.RecordBatch) -> pa.RecordBatch:
    """The day instead of the window."""
    days = found["window_start"].to_numpy() // DAY
    return found.drop_columns(["window_start", "window_end"]).append_column("day", days)


def rank(price: int) -> int:
    """1, 2 or 3 by the price."""
    return 1 + sum(price >= each for each in RANKS)


RANKS = (10_000, 1_000_000)
PARTS = ("total", "rank1", "rank2", "rank3")
OF_AUCTIONS: dict[str, Any] = {
    "total_bids": Count(),
    **{f"{part}_bids": Sum(f"{part}_bids") for part in PARTS[1:]},
    "min_price": Min("price"),
    "max_price": Max("price"),
    "avg_price": Mean("price"),
    "sum_price": Sum("price"),
}
STATISTICS: dict[str, Any] = {
    "total_bids": Count(),
    "total_bidders": CountDistinct("bidder"),
    "total_auctions": CountDistinct("auction"),
    **{f"{part}_bids": Sum(f"{part}_bid") for part in PARTS[1:]},
    **{f"{part}_bidders": CountDistinct(f"{part}_bidder") for part in PARTS[1:]},
    **{f"{part}_auctions": CountDistinct(f"{part}_auction") for part in PARTS[1:]},
}
MINUTE = 60_000
DAY = 24 * 60 * MINUTE
