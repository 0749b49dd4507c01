"""Golden outputs of Arroyo (tests/cases/arroyo): those of its queries with windows.

Each runs in one, two and three tasks, over records and over columns, with the input as it is and
shuffled by up to the disorder that is declared.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from engine.config import JobConfig
from engine.job import JobHandle
from engine.plan import Plan
from engine.testing.threads import ThreadLauncher
from operators import (
    Accumulator,
    Count,
    KeyedStream,
    Max,
    Min,
    Session,
    Sliding,
    Stream,
    Tumbling,
    source,
)
from operators.sinks import Collect
from operators.sources import Collection

FOLDER = Path(__file__).parents[3] / "cases" / "arroyo"
HOUR = timedelta(hours=1)
Query = Callable[[Stream[Any]], Stream[Any]]


def rows(name: str) -> list[dict[str, Any]]:
    path = FOLDER / name
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [json.loads(line) for line in text.splitlines()]


def time_of(row: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(row["timestamp"].replace("Z", "+00:00"))


def shown(time: datetime) -> str:
    digits = "milliseconds" if time.microsecond else "seconds"
    return time.replace(tzinfo=None).isoformat(timespec=digits)


class Counters(Accumulator[Any, tuple[int, int, int], dict[str, int]]):
    """Count, greatest and least of the counters."""

    def create(self) -> tuple[int, int, int]:
        return 0, -1, 1 << 60

    def add(self, accumulated: tuple[int, int, int], record: Any) -> tuple[int, int, int]:
        return self.merge(accumulated, (1, record["counter"], record["counter"]))

    def merge(self, left: tuple[int, int, int], right: tuple[int, int, int]) -> Any:
        return left[0] + right[0], max(left[1], right[1]), min(left[2], right[2])

    def finish(self, accumulated: tuple[int, int, int]) -> dict[str, int]:
        return dict(zip(("count", "max", "min"), accumulated, strict=True))


def hourly_by_event_type(cars: Stream[Any]) -> Stream[Any]:
    counts = cars.key_by("event_type").window(Tumbling(HOUR)).apply(number_of)
    return counts.map(lambda r: {"event_type": r[0], "hour": shown(r[2]), "count": r[1]})


def session_window(impulse: Stream[Any]) -> Stream[Any]:
    users = impulse.key_by(lambda row: 0 if row["counter"] % 10 == 0 else row["counter"])
    counts = users.window(Session(timedelta(seconds=20))).apply(number_of)
    return counts.map(
        lambda r: {"user_id": r[0], "rows": r[1], "start": shown(r[2]), "end": shown(r[3])}
    )


def sliding_window_end(impulse: Stream[Any]) -> Stream[Any]:
    every = impulse.key_by(lambda row: None)
    windows = every.window(Sliding(timedelta(seconds=10), timedelta(seconds=2)))
    found = windows.aggregate(counters=Counters())
    return found.map(lambda r: {**r[1]["counters"], "start": shown(r[2]), "end": shown(r[3])})


def tight_watermark(cars: Stream[Any]) -> Stream[Any]:
    counts = cars.key_by(lambda row: None).window(Tumbling(HOUR)).apply(number_of)
    return counts.map(lambda r: {"timestamp": shown(r[3]), "count": r[1]})


def windowed_inner_join(cars: Stream[Any]) -> Stream[Any]:
    def drivers(event_type: str) -> KeyedStream[Any, Any]:
        found = cars.filter(lambda row: row["event_type"] == event_type)
        return found.key_by(lambda row: None).window(Tumbling(HOUR)).apply(distinct).key_by(0)

    joined = drivers("dropoff").window_join(drivers("pickup"), Tumbling(HOUR), time=2, right_time=2)
    return joined.map(
        lambda pair: {"hour": shown(pair[0][2]), "drivers": pair[0][1], "pickups": pair[1][1]}
    )


def hourly_by_event_type_of_columns(cars: Stream[Any]) -> Stream[Any]:
    counts = cars.key_by("event_type").window(Tumbling(HOUR)).count().to_records()
    return counts.map(
        lambda r: {
            "event_type": r["event_type"],
            "hour": shown(r["window_start"]),
            "count": r["count"],
        }
    )


def session_window_of_columns(impulse: Stream[Any]) -> Stream[Any]:
    users = impulse.map_batches(with_users).key_by("user_id")
    counts = users.window(Session(timedelta(seconds=20)), time="timestamp").count().to_records()
    return counts.map(
        lambda r: {
            "user_id": r["user_id"],
            "rows": r["count"],
            "start": shown(r["window_start"]),
            "end": shown(r["window_end"]),
        }
    )


def sliding_window_end_of_columns(impulse: Stream[Any]) -> Stream[Any]:
    every = impulse.map_batches(with_one_key).key_by("all")
    windows = every.window(Sliding(timedelta(seconds=10), timedelta(seconds=2)), time="timestamp")
    found = windows.aggregate(count=Count(), max=Max("counter"), min=Min("counter")).to_records()
    return found.map(
        lambda r: {
            **{name: r[name] for name in ("count", "max", "min")},
            "start": shown(r["window_start"]),
            "end": shown(r["window_end"]),
        }
    )


def tight_watermark_of_columns(cars: Stream[Any]) -> Stream[Any]:
    every = cars.map_batches(with_one_key).key_by("all")
    counts = every.window(Tumbling(HOUR), time="timestamp").count().to_records()
    return counts.map(lambda r: {"timestamp": shown(r["window_end"]), "count": r["count"]})


def windowed_inner_join_of_columns(cars: Stream[Any]) -> Stream[Any]:
    def drivers(event_type: str) -> KeyedStream[Any, Any]:
        chosen = cars.map_batches(
            lambda batch: batch.filter(pc.equal(batch["event_type"], event_type))
        )
        hours = chosen.key_by("event_type").window(Tumbling(HOUR), time="timestamp")
        return hours.count_distinct("driver_id").map_batches(with_hours).key_by("hour")

    times = {"time": "window_start", "right_time": "window_start"}
    joined = drivers("dropoff").window_join(drivers("pickup"), Tumbling(HOUR), **times)
    names = {"window_start": "hour", "count_distinct": "drivers", "count_distinct_right": "pickups"}
    found = joined.map_batches(lambda rows: rows.select([*names]).rename_columns(names))
    return found.to_records().map(lambda row: {**row, "hour": shown(row["hour"])})


def with_users(impulse: pa.RecordBatch) -> pa.RecordBatch:
    counter = impulse["counter"].to_numpy()
    users = numpy.where(counter % 10 == 0, 0, counter)
    return impulse.append_column("user_id", pa.array(users))


def with_one_key(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.append_column("all", pa.array(numpy.zeros(len(rows), numpy.int8)))


def with_hours(counts: pa.RecordBatch) -> pa.RecordBatch:
    """With numbers of the hours, for a time is no key."""
    return counts.append_column("hour", counts["window_start"].cast(pa.int64()))


def distinct(key: Any, records: list[Any], start: Any, end: Any) -> int:
    return len({row["driver_id"] for row in records})


def number_of(key: Any, records: list[Any], start: Any, end: Any) -> int:
    return len(records)


def disorder(found: list[dict[str, Any]]) -> timedelta:
    """How far a record is behind one before it, at most."""
    highest, most = time_of(found[0]), timedelta(0)
    for row in found:
        highest = max(highest, time_of(row))
        most = max(most, highest - time_of(row))
    return most


@pytest.mark.table(2)
@pytest.mark.parametrize("parallelism", [1, 2, 3])
@pytest.mark.parametrize("shuffled_by", [timedelta(0), timedelta(minutes=2)])
@pytest.mark.parametrize(
    ("query", "given"),
    [
        (hourly_by_event_type, "input_cars.json.gz"),
        (session_window, "input_impulse.json"),
        (sliding_window_end, "input_impulse.json"),
        (tight_watermark, "input_cars.json.gz"),
        (windowed_inner_join, "input_cars.json.gz"),
    ],
)
def test_query(query: Query, given: str, shuffled_by: timedelta, parallelism: int) -> None:
    found = given_rows(given, shuffled_by)
    timed = source(Collection(found)).with_parallelism(1)
    timed = timed.with_event_time(time_of, out_of_orderness=disorder(found))
    check(query(timed), parallelism, query.__name__)


@pytest.mark.table(2)
@pytest.mark.parametrize("parallelism", [1, 2, 3])
@pytest.mark.parametrize("shuffled_by", [timedelta(0), timedelta(minutes=2)])
@pytest.mark.parametrize(
    ("query", "given"),
    [
        (hourly_by_event_type_of_columns, "input_cars.json.gz"),
        (session_window_of_columns, "input_impulse.json"),
        (sliding_window_end_of_columns, "input_impulse.json"),
        (tight_watermark_of_columns, "input_cars.json.gz"),
        (windowed_inner_join_of_columns, "input_cars.json.gz"),
    ],
)
def test_query_of_columns(
    query: Query, given: str, shuffled_by: timedelta, parallelism: int
) -> None:
    found = given_rows(given, shuffled_by)
    table = pa.Table.from_pylist([{**row, "timestamp": time_of(row)} for row in found])
    batches = table.to_batches(max_chunksize=100)
    timed = source(Collection(batches)).with_parallelism(1)
    timed = timed.with_event_time("timestamp", out_of_orderness=disorder(found))
    check(query(timed), parallelism, query.__name__.removesuffix("_of_columns"))


def given_rows(name: str, shuffled_by: timedelta) -> list[dict[str, Any]]:
    found = rows(name)
    if shuffled_by:
        random.seed(7)
        found.sort(key=lambda row: time_of(row) + shuffled_by * random.random())
    return found


def check(stream: Stream[Any], parallelism: int, name: str) -> None:
    """The stream gives what Arroyo does, and nothing is late."""
    config = JobConfig.of({"progress": "none", "parallelism": parallelism, "batch_size": 100})
    plan = Plan.of(stream.sink(Collect()), config)
    result = JobHandle(plan, ThreadLauncher()).wait_finished()
    expected = rows(f"expected_{name}.json")
    as_text = [
        sorted(json.dumps(row, sort_keys=True) for row in of) for of in (result.output, expected)
    ]
    assert as_text[0] == as_text[1]
    assert sum(each.late for each in result.statistics.operators) == 0
