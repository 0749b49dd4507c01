"""Nexmark's queries over all bids of a day, of an auction, or of a channel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from operators import Count, CountDistinct, Max, Mean, Min, Stream, Sum
from pipelines.nexmark.source import Tables

if TYPE_CHECKING:
    import pyarrow as pa


def q15(tables: Tables) -> Stream[Any]:
    """Bids, bidders and auctions of each day, by price."""
    bids = tables.bids("auction", "bidder", "price", "date_time").map(with_parts)
    found = bids.key_by("day").aggregate(**STATISTICS, emit="final")
    return found.map(lambda each: {"day": each[0], **each[1]})


def q15_columns(tables: Tables) -> Stream[Any]:
    """As `q15`."""
    bids = tables.bids("auction", "bidder", "price", "date_time").map_batches(with_part_columns)
    return bids.key_by("day").aggregate(**STATISTICS, emit="final")


def q16(tables: Tables) -> Stream[Any]:
    """As `q15`, of each channel, with the time of its last bid."""
    bids = tables.bids("auction", "bidder", "price", "date_time", "channel").map(with_parts)
    found = bids.key_by("channel", "day").aggregate(minute=LAST, **STATISTICS, emit="final")
    return found.map(
        lambda each: {
            **dict(zip(("channel", "day"), each[0], strict=True)),
            **each[1],
            "minute": minute_of(each[1]["minute"]),
        }
    )


def q16_columns(tables: Tables) -> Stream[Any]:
    """As `q16`."""
    bids = tables.bids("auction", "bidder", "price", "date_time", "channel")
    keyed = bids.map_batches(with_part_columns).key_by("channel", "day")
    return keyed.aggregate(minute=LAST, **STATISTICS, emit="final").map_batches(with_minute)


def q17(tables: Tables) -> Stream[Any]:
    """Bids of each auction and day, by price, with lowest and highest price, mean and sum."""
    bids = tables.bids("auction", "price", "date_time").map(with_parts)
    found = bids.key_by("auction", "day").aggregate(**OF_AUCTIONS, emit="final")
    return found.map(
        lambda each: {**dict(zip(("auction", "day"), each[0], strict=True)), **each[1]}
    )


def q17_columns(tables: Tables) -> Stream[Any]:
    """As `q17`."""
    bids = tables.bids("auction", "price", "date_time").map_batches(with_part_columns)
    return bids.key_by("auction", "day").aggregate(**OF_AUCTIONS, emit="final")


def with_parts(bid: dict[str, Any]) -> dict[str, Any]:
    """The bid with its day, and whether it is of each rank."""
    price = bid["price"]
    of_ranks = {name: low <= price < high for name, (low, high) in RANKS.items()}
    return {**bid, "day": bid["date_time"] // DAY, **of_ranks}


def with_part_columns(bids: pa.RecordBatch) -> pa.RecordBatch:
    """The same of columns."""
    prices = bids["price"].to_numpy()
    bids = bids.append_column("day", bids["date_time"].to_numpy() // DAY)
    for name, (low, high) in RANKS.items():
        bids = bids.append_column(name, (low <= prices) & (prices < high))
    return bids


def minute_of(time: Any) -> Any:
    """The minute of its day of a time, or of an array of them."""
    return time // MINUTE % (24 * 60)


def with_minute(found: pa.RecordBatch) -> pa.RecordBatch:
    """The minute of the last bid in place of its time."""
    minutes = minute_of(found["minute"].to_numpy())
    return found.drop_columns("minute").append_column("minute", minutes)


RANKS = {"rank1": (0, 10_000), "rank2": (10_000, 1_000_000), "rank3": (1_000_000, 1 << 62)}
"""By name, the prices from which and below which a bid is of it."""
PARTS = {"total": None, **{rank: rank for rank in RANKS}}
"""What `where` is for each part."""
BIDS: dict[str, Any] = {f"{part}_bids": Count(where=where) for part, where in PARTS.items()}
STATISTICS: dict[str, Any] = {
    **BIDS,
    **{
        f"{part}_{name}s": CountDistinct(name, where=where)
        for part, where in PARTS.items()
        for name in ("bidder", "auction")
    },
}
OF_AUCTIONS: dict[str, Any] = {
    **BIDS,
    "min_price": Min("price"),
    "max_price": Max("price"),
    "avg_price": Mean("price"),
    "sum_price": Sum("price"),
}
LAST: Any = Max("date_time")
MINUTE = 60_000
DAY = 24 * 60 * MINUTE
