"""Nexmark's queries of single bids."""

# PyArrow makes its functions of columns when it is imported.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import re
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from operators import Stream
from pipelines.nexmark.source import Tables

if TYPE_CHECKING:
    import pyarrow as pa

BID = ("auction", "bidder", "price", "date_time", "extra")


def q0(tables: Tables) -> Stream[Any]:
    """Every bid, unchanged: the cost of reading and writing."""
    return tables.bids(*BID)


def q1(tables: Tables) -> Stream[Any]:
    """Every bid, with its price in euros."""
    return tables.bids(*BID).map(lambda bid: {**bid, "price": EURO * bid["price"]})


def q1_columns(tables: Tables) -> Stream[Any]:
    """As `q1`."""
    return tables.bids(*BID).map_batches(with_euros)


def with_euros(bids: pa.RecordBatch) -> pa.RecordBatch:
    """Prices in euros."""
    import pyarrow.compute as pc

    return bids.set_column(2, "price", pc.multiply(bids["price"], EURO))


def q2(tables: Tables) -> Stream[Any]:
    """The bids for each 123rd auction."""
    return tables.bids("auction", "price").filter(lambda bid: bid["auction"] % 123 == 0)


def q2_columns(tables: Tables) -> Stream[Any]:
    """As `q2`."""
    return tables.bids("auction", "price").map_batches(of_each_123rd)


def of_each_123rd(bids: pa.RecordBatch) -> pa.RecordBatch:
    """The bids whose auction's number is divisible by 123."""
    return bids.filter(bids["auction"].to_numpy() % 123 == 0)


def q10(tables: Tables) -> Stream[Any]:
    """Bids with the day and the minute that divide files: `ParquetFiles(partition_by=…)`."""
    return tables.bids(*BID).map(lambda bid: {**bid, **day_and_minute(bid["date_time"])})


def day_and_minute(time: int) -> dict[str, str]:
    """The parts of a time for `q10`."""
    at = datetime.fromtimestamp(time / 1000, timezone.utc)
    return {"dt": f"{at:%Y-%m-%d}", "hm": f"{at:%H:%M}"}


def q10_columns(tables: Tables) -> Stream[Any]:
    """As `q10`."""
    return tables.bids(*BID).map_batches(with_day_and_minute)


def with_day_and_minute(bids: pa.RecordBatch) -> pa.RecordBatch:
    """The bids with their days and minutes; as a text once for each minute of a batch."""
    import pyarrow as pa
    import pyarrow.compute as pc

    minutes = pc.divide(bids["date_time"], 60_000).dictionary_encode()
    times = pc.multiply(minutes.dictionary, 60).cast(pa.timestamp("s"))
    for name, form in (("dt", "%Y-%m-%d"), ("hm", "%H:%M")):
        bids = bids.append_column(name, pc.strftime(times, form).take(minutes.indices))
    return bids


def q14(tables: Tables) -> Stream[Any]:
    """Bids of a medium price in euros, by day or night, with the number of "c" in their text."""
    return tables.bids(*BID).flat_map(calculated)


def calculated(bid: dict[str, Any]) -> list[dict[str, Any]]:
    """The result of `q14` for a bid."""
    price = EURO * bid["price"]
    if not 1_000_000 < price < 50_000_000:
        return []
    hour = bid["date_time"] // HOUR % 24
    when = "day" if 8 <= hour <= 18 else "night" if hour <= 6 or hour >= 20 else "other"
    counted = {"price": price, "bid_time_type": when, "c_counts": bid["extra"].count("c")}
    return [{**bid, **counted}]


def q14_columns(tables: Tables) -> Stream[Any]:
    """As `q14`."""
    return tables.bids(*BID).map_batches(calculated_columns)


def calculated_columns(bids: pa.RecordBatch) -> pa.RecordBatch:
    """The results of `q14` for bids."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    price = bids["price"].to_numpy() * EURO
    bids = with_euros(bids).filter((price > 1_000_000) & (price < 50_000_000))
    hour = bids["date_time"].to_numpy() // HOUR % 24
    is_day, is_night = (hour >= 8) & (hour <= 18), (hour <= 6) | (hour >= 20)
    when = pa.array(["other", "night", "day"]).take(pa.array(np.where(is_day, 2, is_night)))
    counts = pc.count_substring(bids["extra"], "c")
    return bids.append_column("bid_time_type", when).append_column("c_counts", counts)


def q21(tables: Tables) -> Stream[Any]:
    """Bids with the number of their channel: a known one, or the one in their URL."""
    return tables.bids("auction", "bidder", "price", "channel", "url").flat_map(with_channel)


def with_channel(bid: dict[str, Any]) -> list[dict[str, Any]]:
    """The bid with its channel's number, if it has one."""
    channel = CHANNELS.get(bid["channel"].lower())
    if channel is None:
        found = CHANNEL_ID.search(bid["url"])
        channel = found and found["id"]
    return [] if channel is None else [{**without(bid, "url"), "channel_id": channel}]


def q21_columns(tables: Tables) -> Stream[Any]:
    """As `q21`."""
    wanted = tables.bids("auction", "bidder", "price", "channel", "url")
    return wanted.map_batches(with_channel_columns)


def with_channel_columns(bids: pa.RecordBatch) -> pa.RecordBatch:
    """The bids that have a channel's number, with it."""
    import pyarrow as pa
    import pyarrow.compute as pc

    known = pc.index_in(pc.ascii_lower(bids["channel"]), pa.array(CHANNELS))
    known = pa.array(CHANNELS.values()).take(known)
    told = pc.struct_field(pc.extract_regex(bids["url"], CHANNEL_ID.pattern), "id")
    found = bids.drop_columns("url").append_column("channel_id", pc.coalesce(known, told))
    return found.filter(found["channel_id"].is_valid())


def q22(tables: Tables) -> Stream[Any]:
    """Bids with the folders of their URLs."""
    wanted = tables.bids("auction", "bidder", "price", "channel", "url")
    return wanted.map(lambda bid: {**without(bid, "url"), **folders(bid["url"])})


def folders(url: str) -> dict[str, str]:
    """The parts of a URL for `q22`."""
    return dict(zip(("dir1", "dir2", "dir3"), url.split("/")[3:6], strict=True))


def q22_columns(tables: Tables) -> Stream[Any]:
    """As `q22`."""
    wanted = tables.bids("auction", "bidder", "price", "channel", "url")
    return wanted.map_batches(with_folders)


def with_folders(bids: pa.RecordBatch) -> pa.RecordBatch:
    """The bids with the folders of their URLs."""
    import pyarrow.compute as pc

    parts = pc.split_pattern(bids["url"], "/", max_splits=6)
    bids = bids.drop_columns("url")
    for number in (1, 2, 3):
        bids = bids.append_column(f"dir{number}", pc.list_element(parts, number + 2))
    return bids


def without(record: dict[str, Any], *names: str) -> dict[str, Any]:
    """The record without these fields."""
    return {name: value for name, value in record.items() if name not in names}


EURO = 0.908
"""Euros for a dollar."""
HOUR = 3_600_000
CHANNELS = {"apple": "0", "google": "1", "facebook": "2", "baidu": "3"}
CHANNEL_ID = re.compile("(?:&|^)channel_id=(?P<id>[^&]*)")
