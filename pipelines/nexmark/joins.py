"""Nexmark's queries of two streams: persons, auctions and bids."""

# PyArrow makes its functions of columns when it is imported.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from operators import Stream, Tumbling
from operators.windows.windowed_stream import WindowedStream
from pipelines.nexmark.columns import renamed, selected, without
from pipelines.nexmark.ranking import BID, HIGHEST, first_rows
from pipelines.nexmark.source import Tables

if TYPE_CHECKING:
    import pyarrow as pa

TEN_SECONDS = timedelta(seconds=10)


def q3(tables: Tables) -> Stream[Any]:
    """Sellers from Oregon, Idaho or California in one category, with their auctions."""
    auctions = tables.auctions("id", "seller", "category")
    persons = tables.persons("id", "name", "city", "state")
    of_category = auctions.filter(lambda auction: auction["category"] == 10)
    near = persons.filter(lambda person: person["state"] in ("or", "id", "ca"))
    return of_category.key_by("seller").join(near.key_by("id"), seller_and_auction)


def q3_columns(tables: Tables) -> Stream[Any]:
    """As `q3`."""
    auctions = tables.auctions("id", "seller", "category").map_batches(of_category_10)
    persons = tables.persons("id", "name", "city", "state").map_batches(of_near_states)
    joined = auctions.key_by("seller").join(persons.key_by("id"))
    return joined.map_batches(selected("name", "city", "state", "id"))


def of_category_10(auctions: pa.RecordBatch) -> pa.RecordBatch:
    """The auctions of `q3` and `q20`."""
    return auctions.filter(auctions["category"].to_numpy() == 10)


def of_near_states(persons: pa.RecordBatch) -> pa.RecordBatch:
    """The persons in one of the states of `q3`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return persons.filter(pc.is_in(persons["state"], pa.array(["or", "id", "ca"])))


def seller_and_auction(auction: dict[str, Any], person: dict[str, Any]) -> dict[str, Any]:
    """A result of `q3` from both records."""
    return {**{name: person[name] for name in ("name", "city", "state")}, "id": auction["id"]}


def q4(tables: Tables) -> Stream[Any]:
    """The mean price at which items of each category were sold."""
    bids = valid_bids(tables).map(lambda bid: (bid["auction"], bid["category"], bid["price"]))
    sold = bids.key_by(0, 1).max(2, emit="final")
    prices = sold.map(lambda each: (each[0][1], each[1])).key_by(0).mean(1, emit="final")
    return prices.map(lambda price: {"category": price[0], "avg_price": price[1]})


def q4_columns(tables: Tables) -> Stream[Any]:
    """As `q4`."""
    bids = valid_bid_rows(tables, ["auction", "price"], ["category"])
    sold = bids.key_by("auction", "category").max("price", emit="final")
    prices = sold.key_by("category").mean("max", emit="final")
    return prices.map_batches(renamed(["category", "avg_price"]))


def q6(tables: Tables) -> Stream[Any]:
    """The mean price of a seller's last ten sales, whenever an auction closes."""
    sold = closing(valid_bids(tables, "seller", "expires")).max("price")
    named = sold.map(lambda each: {"seller": each[0][0], "price": each[1], "closed": each[2]})
    last = named.key_by("seller").over(rows=10, time="closed", unit="ms").mean("price")
    return last.map(lambda sale: {"seller": sale[0]["seller"], "avg_price": sale[1]})


def q6_columns(tables: Tables) -> Stream[Any]:
    """As `q6`."""
    sold = closing(valid_bid_rows(tables, ["auction", "price"], ["seller", "expires"])).max("price")
    last = sold.key_by("seller").over(rows=10, time="window_start", unit="ms").mean("max")
    return last.map_batches(selected("seller", "mean")).map_batches(
        renamed(["seller", "avg_price"])
    )


def closing(bids: Stream[Any]) -> WindowedStream[Any, Any]:
    """The bids of each auction, in a window of the millisecond in which it closes."""
    by_auction = bids.key_by("seller", "auction")
    return by_auction.window(Tumbling(timedelta(milliseconds=1)), time="expires", unit="ms")


def q8(tables: Tables) -> Stream[Any]:
    """Persons who opened an auction within the ten seconds in which they registered.

     Persons are read faster than auctions, of which there are three times as many. They would wait
    for auctions, in growing numbers, each as a dict that a checkpoint encodes.
    """
    both = tables.together()
    persons = both.persons("id", "name", "date_time")
    auctions = both.auctions("seller", "date_time")
    pairs = persons.key_by("id").window_join(
        auctions.key_by("seller"), Tumbling(TEN_SECONDS), person_of
    )
    windows = pairs.key_by("id").window(Tumbling(TEN_SECONDS), time="starttime", unit="ms")
    return windows.reduce(lambda person, _again: person).map(lambda result: result[1])


def q8_columns(tables: Tables) -> Stream[Any]:
    """As `q8`."""
    persons = tables.persons("id", "name", "date_time")
    auctions = tables.auctions("seller", "date_time")
    pairs = persons.key_by("id").window_join(auctions.key_by("seller"), Tumbling(TEN_SECONDS))
    sellers = pairs.map_batches(with_starts).key_by("id")
    windows = sellers.window(Tumbling(TEN_SECONDS), time="starttime", unit="ms")
    first = windows.first("name").map_batches(without("window_end"))
    return first.map_batches(renamed(["id", "name", "starttime"]))


def with_starts(pairs: pa.RecordBatch) -> pa.RecordBatch:
    """The windows of persons."""
    starts = pairs["date_time"].to_numpy() // 10_000 * 10_000
    return pairs.select(["id", "name"]).append_column("starttime", starts)


def person_of(person: dict[str, Any], _auction: dict[str, Any]) -> dict[str, Any]:
    """The person, and the window of both records."""
    start = person["date_time"] // 10_000 * 10_000
    return {"id": person["id"], "name": person["name"], "starttime": start}


def q9(tables: Tables) -> Stream[Any]:
    """The winning bid of each auction: the highest, and the first of equal ones."""
    bids = valid_bids(tables, "item_name", "seller", "reserve")
    return bids.key_by("auction").reduce(winner, emit="final")


def winner(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """The bid that wins against the other."""
    order = ("date_time", "bidder")
    return min(one, other, key=lambda bid: (-bid["price"], *(bid[name] for name in order)))


def q9_columns(tables: Tables) -> Stream[Any]:
    """As `q9`."""
    bids = valid_bid_rows(tables, BID, ["category", "item_name", "seller", "reserve"])
    return bids.key_by("auction").reduce_batches(winners, emit="final")


def winners(bids: pa.RecordBatch) -> pa.RecordBatch:
    """The bid that wins each auction."""
    return first_rows(bids, ["auction"], HIGHEST)


def q13(tables: Tables) -> Stream[Any]:
    """Bids joined with a side table, by a part of their auction's number."""
    bids = tables.bids("auction", "bidder", "price", "date_time")
    return bids.lookup_join(
        SIDE, lambda bid: bid["auction"] % len(SIDE), lambda bid, value: bid | {"value": value}
    )


def q13_columns(tables: Tables) -> Stream[Any]:
    """As `q13`."""
    bids = tables.bids(*BID).map_batches(with_places)
    return bids.lookup_join(SIDE, "place").map_batches(without("place"))


def with_places(bids: pa.RecordBatch) -> pa.RecordBatch:
    """The keys of the side table."""
    return bids.append_column("place", bids["auction"].to_numpy() % len(SIDE))


def q20(tables: Tables) -> Stream[Any]:
    """Bids for items of one category, with the item."""
    bids = tables.bids(*BID)
    auctions = tables.auctions("id", "item_name", "seller", "category")
    of_category = auctions.filter(lambda auction: auction["category"] == 10)
    return bids.key_by("auction").join(of_category.key_by("id"), with_item)


def q20_columns(tables: Tables) -> Stream[Any]:
    """As `q20`."""
    auctions = tables.auctions("id", "item_name", "seller", "category")
    of_category = auctions.map_batches(of_category_10)
    joined = tables.bids(*BID).key_by("auction").join(of_category.key_by("id"))
    return joined.map_batches(without("id"))


def with_item(bid: dict[str, Any], auction: dict[str, Any]) -> dict[str, Any]:
    """The bid with its item."""
    return bid | {name: auction[name] for name in ("item_name", "seller", "category")}


def q23(tables: Tables) -> Stream[Any]:
    """Bids of persons who have offered items, with the person and each item."""
    persons, auctions = tables.persons(*PERSON), tables.auctions(*AUCTION)
    with_person = (
        tables.bids(*BID)
        .key_by("bidder")
        .join(persons.key_by("id"), lambda one, other: one | other)
    )
    return with_person.key_by("bidder").join(
        auctions.key_by("seller"), lambda one, other: one | other | {"id": one["id"]}
    )


def q23_columns(tables: Tables) -> Stream[Any]:
    """As `q23`."""
    persons, auctions = tables.persons(*PERSON), tables.auctions(*AUCTION)
    with_person = tables.bids(*BID).key_by("bidder").join(persons.key_by("id"))
    joined = with_person.key_by("bidder").join(auctions.key_by("seller"))
    return joined.map_batches(without("id_right"))


def valid_bids(tables: Tables, *more: str) -> Stream[Any]:
    """Bids within the time of their auction, with fields of the auction."""
    wanted = ("category", *more)
    auctions = tables.auctions(*dict.fromkeys(["id", "date_time", "expires", *wanted]))
    bids = tables.bids("auction", "bidder", "price", "date_time")

    def in_time(auction: dict[str, Any], bid: dict[str, Any]) -> dict[str, Any] | None:
        if bid["date_time"] > auction["expires"]:
            return None
        return bid | {name: auction[name] for name in wanted}

    pairs = auctions.key_by("id").interval_join(
        bids.key_by("auction"), in_time, between=(timedelta(0), tables.events.longest_auction)
    )
    return pairs.filter(lambda bid: bid is not None)


def valid_bid_rows(tables: Tables, of_bid: Sequence[str], of_auction: Sequence[str]) -> Stream[Any]:
    """As `valid_bids`, with these columns."""
    auctions = tables.auctions(*dict.fromkeys(["id", "date_time", "expires", *of_auction]))
    bids = tables.bids(*dict.fromkeys([*of_bid, "date_time"]))
    pairs = auctions.key_by("id").interval_join(
        bids.key_by("auction"), between=(timedelta(0), tables.events.longest_auction)
    )
    return pairs.map_batches(lambda batch: in_time_rows(batch).select([*of_bid, *of_auction]))


def in_time_rows(pairs: pa.RecordBatch) -> pa.RecordBatch:
    """The bids within the time of their auction, with their own times."""
    in_time = pairs["date_time_right"].to_numpy() <= pairs["expires"].to_numpy()
    names = {"date_time": "begins", "date_time_right": "date_time"}
    return pairs.filter(in_time).rename_columns(
        [names.get(name, name) for name in pairs.schema.names]
    )


PERSON = ("id", "name", "city", "state")
AUCTION = ("id", "seller", "item_name", "category")
SIDE = {key: f"value {key}" for key in range(10_000)}
