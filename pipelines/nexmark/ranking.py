"""Nexmark's queries for the first bids in an order, and the ranking of rows."""

# PyArrow makes its functions of columns when it is imported.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from operators import Stream
from pipelines.nexmark.source import Tables

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray


def q18(tables: Tables) -> Stream[Any]:
    """The last bid of each bidder for each auction; of several at one time the highest."""
    return tables.bids(*BID).key_by("bidder", "auction").reduce(later, emit="final")


def later(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """The later one of two bids."""
    return max(one, other, key=lambda bid: (bid["date_time"], bid["price"]))


def q18_columns(tables: Tables) -> Stream[Any]:
    """As `q18`."""
    return tables.bids(*BID).key_by("bidder", "auction").reduce_batches(last_bids, emit="final")


def last_bids(bids: pa.RecordBatch) -> pa.RecordBatch:
    """The last of each bidder for each auction."""
    order = [("date_time", "descending"), ("price", "descending")]
    return first_rows(bids, ["bidder", "auction"], order)


def q19(tables: Tables) -> Stream[Any]:
    """The ten highest bids of each auction, and their ranks."""
    order = tuple(name for name, _ in HIGHEST)
    descending = tuple(direction == "descending" for _, direction in HIGHEST)
    bids = tables.bids(*BID).key_by("auction")
    best = bids.top_n(10, order, descending=descending, emit="final")
    return best.flat_map(
        lambda found: [{**bid, "rank_number": at} for at, bid in enumerate(found[1], 1)]
    )


def q19_columns(tables: Tables) -> Stream[Any]:
    """As `q19`."""
    best = tables.bids(*BID).key_by("auction").reduce_batches(highest_bids, emit="final")
    return best.map_batches(with_rank_numbers)


def highest_bids(bids: pa.RecordBatch) -> pa.RecordBatch:
    """The ten highest of each auction, in order."""
    return first_rows(bids, ["auction"], HIGHEST, 10)


def with_rank_numbers(best: pa.RecordBatch) -> pa.RecordBatch:
    """The ranks of bids that are in order."""
    return best.append_column("rank_number", ranks(best, ["auction"]))


def first_rows(
    rows: pa.RecordBatch, keys: Sequence[str], order: Sequence[tuple[str, str]], most: int = 1
) -> pa.RecordBatch:
    """The first rows of each key in an order, such as `[("price", "descending")]`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    by_key = [(name, "ascending") for name in keys]
    rows = rows.take(pc.sort_indices(rows, sort_keys=[*by_key, *order]))
    return rows.filter(pa.array(ranks(rows, keys) <= most))


def ranks(rows: pa.RecordBatch, keys: Sequence[str]) -> NDArray[np.int64]:
    """The rank of each row among those with its keys, from 1 on; rows are sorted by key."""
    import numpy as np

    begins = np.ones(len(rows), dtype=bool)
    columns = [rows[name].to_numpy() for name in keys]
    begins[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    (starts,) = np.nonzero(begins)
    places: NDArray[np.int64] = np.arange(len(rows)) - starts[np.cumsum(begins) - 1] + 1
    return places


BID = ("auction", "bidder", "price", "date_time")
HIGHEST = [("price", "descending"), ("date_time", "ascending"), ("bidder", "ascending")]
"""The order of bids for one item."""
