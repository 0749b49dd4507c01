"""Nexmark in tests: its queries as Polars answers them, and as jobs of Oka do.

The oracle reads the same events, and knows nothing of streams: its answers are those to the SQL of
the benchmark. Rows are dicts; the order of rows does not count.
"""

from __future__ import annotations

from typing import Any

import polars as pl
import pyarrow as pa

from engine.columns import is_columns
from engine.config import JobConfig
from engine.job import JobHandle
from engine.plan import Plan
from engine.report.result import JobResult
from engine.testing.threads import ThreadLauncher
from operators.sinks import Collect
from pipelines.nexmark.events import Events, Kind
from pipelines.nexmark.queries import query
from pipelines.nexmark.source import Api, Tables

Rows = list[dict[str, Any]]


def answer(name: str, events: Events, api: Api, **settings: Any) -> Rows:
    """The results of a job in threads of this process; nothing is late in it."""
    pipeline = query(name).of(Tables(events, api)).sink(Collect())
    plan = Plan.of(pipeline, JobConfig.of({"name": name, "progress": "none", **settings}))
    handle = JobHandle(plan, ThreadLauncher(None))
    try:
        return rows_of(handle.wait_finished())
    finally:
        handle.cancel()
        handle.wait_stopped()


def rows_of(result: JobResult) -> Rows:
    """What the job gathered; nothing was late in it."""
    late = {each.name: each.late for each in result.statistics.operators if each.late}
    assert not late
    rows: Rows = []
    for each in result.output:
        rows += each.to_pylist() if is_columns(each) else [each]
    return in_order(rows)


def in_order(rows: Rows) -> Rows:
    """Rows in an order of their own, floats rounded to what both ways to compute them agree on."""
    rounded = [
        {
            name: round(value, 6) if isinstance(value, float) else value
            for name, value in row.items()
        }
        for row in rows
    ]
    return sorted(rounded, key=lambda row: sorted((k, str(v)) for k, v in row.items()))


class Oracle:
    """Answers of Polars to the queries, over all events at once."""

    def __init__(self, events: Events) -> None:
        self.persons, self.auctions, self.bids = (
            _frame(events, kind) for kind in ("person", "auction", "bid")
        )
        self._answers: dict[str, Rows] = {}

    def answer(self, name: str) -> Rows:
        """What a query comes to."""
        if name not in self._answers:
            frame: pl.DataFrame = getattr(self, name)()
            self._answers[name] = in_order(frame.to_dicts())
        return self._answers[name]

    def q0(self) -> pl.DataFrame:
        return self.bids.select(BID)

    def q1(self) -> pl.DataFrame:
        return self.bids.select(BID).with_columns(price=0.908 * pl.col("price"))

    def q2(self) -> pl.DataFrame:
        return self.bids.filter(pl.col("auction") % 123 == 0).select("auction", "price")

    def q5(self) -> pl.DataFrame:
        ends = pl.col("date_time") // 2000 * 2000
        slides = [self.bids.select("auction", end=ends + 2000 * n) for n in range(1, 6)]
        counts = pl.concat(slides).group_by("auction", "end").agg(num=pl.len().cast(pl.Int64))
        most = pl.col("num") == pl.col("num").max().over("end")
        return counts.filter(most).select("auction", "num")

    def q7(self) -> pl.DataFrame:
        most = pl.col("price").max().over(pl.col("date_time") // 10_000)
        found = self.bids.filter(pl.col("price") == most)
        return found.select("auction", "bidder", "price", "date_time")

    def q10(self) -> pl.DataFrame:
        time = pl.from_epoch("date_time", "ms").dt
        return self.bids.select(BID, dt=time.strftime("%Y-%m-%d"), hm=time.strftime("%H:%M"))

    def q11(self) -> pl.DataFrame:
        bids = self.bids.sort("bidder", "date_time")
        begins = (pl.col("date_time").diff() >= 10_000).fill_null(True)
        bids = bids.with_columns(session=begins.cum_sum().over("bidder"))
        return (
            bids.group_by("bidder", "session")
            .agg(
                bid_count=pl.len().cast(pl.Int64),
                starttime=pl.col("date_time").min(),
                endtime=pl.col("date_time").max() + 10_000,
            )
            .drop("session")
        )

    def q13(self) -> pl.DataFrame:
        value = pl.format("value {}", pl.col("auction") % 10_000)
        return self.bids.select("auction", "bidder", "price", "date_time", value=value)

    def q14(self) -> pl.DataFrame:
        price, hour = 0.908 * pl.col("price"), pl.from_epoch("date_time", "ms").dt.hour()
        is_day, is_night = hour.is_between(8, 18), (hour <= 6) | (hour >= 20)
        when = pl.when(is_day).then(pl.lit("day")).when(is_night).then(pl.lit("night"))
        return (
            self.bids.select(BID)
            .filter(price.is_between(1_000_000, 50_000_000, closed="none"))
            .with_columns(
                price=price,
                bid_time_type=when.otherwise(pl.lit("other")),
                c_counts=pl.col("extra").str.count_matches("c").cast(pl.Int64),
            )
        )

    def q21(self) -> pl.DataFrame:
        known = {"apple": "0", "google": "1", "facebook": "2", "baidu": "3"}
        number = pl.col("channel").str.to_lowercase().replace_strict(known, default=None)
        told = pl.col("url").str.extract("(&|^)channel_id=([^&]*)", 2)
        found = self.bids.with_columns(channel_id=pl.coalesce(number, told))
        wanted = ("auction", "bidder", "price", "channel", "channel_id")
        return found.filter(pl.col("channel_id").is_not_null()).select(wanted)

    def q22(self) -> pl.DataFrame:
        parts = pl.col("url").str.split("/")
        folders = {f"dir{n}": parts.list.get(n + 2) for n in (1, 2, 3)}
        return self.bids.select("auction", "bidder", "price", "channel", **folders)

    def q3(self) -> pl.DataFrame:
        near = self.persons.filter(pl.col("state").is_in(["or", "id", "ca"]))
        auctions = self.auctions.filter(pl.col("category") == 10).select("seller", auction="id")
        joined = near.join(auctions, left_on="id", right_on="seller")
        return joined.select("name", "city", "state", id="auction")

    def q4(self) -> pl.DataFrame:
        sold = self._valid_bids().group_by("auction", "category").agg(pl.col("price").max())
        return sold.group_by("category").agg(avg_price=pl.col("price").mean())

    def q6(self) -> pl.DataFrame:
        sold = (
            self._valid_bids().group_by("seller", "auction", "expires").agg(pl.col("price").max())
        )
        last = pl.col("price").rolling_mean(10, min_samples=1).over("seller", order_by="expires")
        return sold.select("seller", avg_price=last)

    def q8(self) -> pl.DataFrame:
        start = pl.col("date_time") // 10_000 * 10_000
        persons = self.persons.select("id", "name", starttime=start)
        auctions = self.auctions.select(id="seller", starttime=start)
        return persons.join(auctions, on=["id", "starttime"], how="semi").unique()

    def q9(self) -> pl.DataFrame:
        order = ("auction", "price", "date_time", "bidder")
        bids = self._valid_bids().sort(*order, descending=[False, True, False, False])
        names = ("auction", "bidder", "price", "date_time", "category")
        found = bids.unique("auction", keep="first", maintain_order=True)
        return found.select(*names, "item_name", "seller", "reserve")

    def q15(self) -> pl.DataFrame:
        return self.bids.group_by(day=_day()).agg(**_statistics())

    def q16(self) -> pl.DataFrame:
        minute = pl.col("date_time").max() // 60_000 % 1440
        return self.bids.group_by("channel", day=_day()).agg(minute=minute, **_statistics())

    def q17(self) -> pl.DataFrame:
        price = pl.col("price")
        ranks = {f"rank{n}_bids": _rank(n).sum().cast(pl.Int64) for n in (1, 2, 3)}
        return self.bids.group_by("auction", day=_day()).agg(
            total_bids=pl.len().cast(pl.Int64),
            **ranks,
            min_price=price.min(),
            max_price=price.max(),
            avg_price=price.mean(),
            sum_price=price.sum(),
        )

    def q18(self) -> pl.DataFrame:
        bids = self.bids.select("auction", "bidder", "price", "date_time")
        bids = bids.sort("date_time", "price", descending=True)
        return bids.unique(["bidder", "auction"], keep="first", maintain_order=True)

    def q19(self) -> pl.DataFrame:
        bids = self.bids.select("auction", "bidder", "price", "date_time")
        bids = bids.sort("price", "date_time", "bidder", descending=[True, False, False])
        bids = bids.with_columns(rank_number=pl.int_range(1, pl.len() + 1).over("auction"))
        return bids.filter(pl.col("rank_number") <= 10)

    def q20(self) -> pl.DataFrame:
        auctions = self.auctions.filter(pl.col("category") == 10)
        auctions = auctions.select("item_name", "seller", "category", auction="id")
        bids = self.bids.select("auction", "bidder", "price", "date_time")
        return bids.join(auctions, on="auction")

    def q23(self) -> pl.DataFrame:
        bids = self.bids.select("auction", "bidder", "price", "date_time")
        persons = self.persons.select("id", "name", "city", "state")
        auctions = self.auctions.select("seller", "item_name", "category")
        with_person = bids.join(persons.with_columns(bidder="id"), on="bidder")
        return with_person.join(auctions.with_columns(bidder="seller"), on="bidder")

    def _valid_bids(self) -> pl.DataFrame:
        wanted = ("category", "expires", "item_name", "seller", "reserve")
        auctions = self.auctions.select(*wanted, auction="id", begins="date_time")
        bids = self.bids.select("auction", "bidder", "price", "date_time")
        in_time = pl.col("date_time").is_between(pl.col("begins"), pl.col("expires"))
        return bids.join(auctions, on="auction").filter(in_time)


def _day() -> pl.Expr:
    return pl.col("date_time") // 86_400_000


def _rank(number: int) -> pl.Expr:
    bounds = (0, 10_000, 1_000_000, 1 << 62)
    return pl.col("price").is_between(*bounds[number - 1 : number + 1], closed="left")


def _statistics() -> dict[str, pl.Expr]:
    found = {}
    for part in ("total", "rank1", "rank2", "rank3"):
        chosen = pl.lit(True) if part == "total" else _rank(int(part[-1]))
        found[f"{part}_bids"] = pl.col("price").filter(chosen).len()
        for name in ("bidder", "auction"):
            found[f"{part}_{name}s"] = pl.col(name).filter(chosen).n_unique()
    return {name: each.cast(pl.Int64) for name, each in found.items()}


def _frame(events: Events, kind: Kind) -> pl.DataFrame:
    found = pl.from_arrow(pa.Table.from_batches(events.batches(kind, 0, 1)))
    assert isinstance(found, pl.DataFrame)
    return found


BID = ("auction", "bidder", "price", "date_time", "extra")
