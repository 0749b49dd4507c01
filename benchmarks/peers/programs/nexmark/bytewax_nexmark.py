"""Bytewax: five queries of Nexmark, in one worker, a dict for each event.

Each key has its own watermark, which advances with the clock of the machine. Hence

- `q5` and `q7`, which need the maximum of all bids, have one key for all of them: a window is a
  Counter, or the highest bids so far. With a key for each auction, nothing would show when all
  counts of a window are complete.
- `q8` reads persons and auctions as one input in the order of their times: with two inputs, the
  slower one would be late.
- It waits longer for events than they may be late, since the clock goes on.
- One task only, as it has no watermark over several sources.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta, timezone
from itertools import islice
from typing import Any

import bytewax.operators as op
from bytewax.dataflow import Dataflow
from bytewax.inputs import DynamicSource, StatelessSourcePartition
from bytewax.operators.windowing import (
    EventClock,
    SlidingWindower,
    TumblingWindower,
    fold_window,
    join_window,
)
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.testing import run_main
from nexmark_run import Settings, Told, batches

Event = dict[str, Any]


def main() -> None:
    """Run the query of the settings to the end of the events."""
    settings = Settings.of_arguments()
    told = Told(settings)
    flow = Dataflow("nexmark")
    read, ask = QUERIES[settings.query]
    events = op.input("events", flow, Events(settings, told, read))
    op.output("results", ask(events, clock(settings)), Results(told))
    run_main(flow)
    told.write()


def q1(bids: Any, _clock: EventClock[Any, Any]) -> Any:
    """Prices in euros."""
    return op.map("euros", bids, lambda bid: {**bid, "price": 0.908 * bid["price"]})


def q2(bids: Any, _clock: EventClock[Any, Any]) -> Any:
    """Bids of some auctions."""
    return op.filter("asked for", bids, lambda bid: bid["auction"] % 123 == 0)


def q5(bids: Any, clock: EventClock[Any, Any]) -> Any:
    """Every two seconds, the auctions that had the most bids in the last ten."""
    windows = SlidingWindower(TEN_SECONDS, timedelta(seconds=2), EPOCH)
    keyed = op.key_on("all", bids, lambda _bid: "")

    def add(counts: Counter[int], bid: Event) -> Counter[int]:
        counts[bid["auction"]] += 1
        return counts

    counts = fold_window(
        *("count", keyed, clock, windows, Counter, add, Counter.__add__), ordered=False
    )

    def hottest(window: tuple[str, tuple[int, Counter[int]]]) -> list[Event]:
        counts = window[1][1]
        most = max(counts.values())
        return [{"auction": each, "num": num} for each, num in counts.items() if num == most]

    return op.flat_map("hottest", counts.down, hottest)


def q7(bids: Any, clock: EventClock[Any, Any]) -> Any:
    """The highest bids of each ten seconds, found among those of each batch first, as in Oka."""
    few = op.flat_map_batch("highest of a batch", bids, highest)
    windows = TumblingWindower(TEN_SECONDS, EPOCH)
    keyed = op.key_on("all", few, lambda _bid: "")
    best = fold_window(
        *("highest", keyed, clock, windows, list),
        lambda so_far, bid: highest([*so_far, bid]),
        lambda one, other: highest(one + other),
        ordered=False,
    )
    return op.flat_map("bids", best.down, lambda window: window[1][1])


def q8(events: Any, clock: EventClock[Any, Any]) -> Any:
    """Who put something up for auction in the ten seconds in which they came."""
    sides = op.branch("kind", events, lambda event: "name" in event)
    persons = op.key_on("person", sides.trues, lambda person: str(person["id"]))
    auctions = op.key_on("seller", sides.falses, lambda auction: str(auction["seller"]))
    windows = TumblingWindower(TEN_SECONDS, EPOCH)
    joined = join_window("join", clock, windows, persons, auctions, ordered=False)

    def new_seller(window: tuple[str, tuple[int, tuple[Event | None, Event | None]]]) -> Any:
        person, auction = window[1][1]
        if person is None or auction is None:
            return None
        start = person["date_time"] // 10_000 * 10_000
        return {"id": person["id"], "name": person["name"], "starttime": start}

    return op.filter_map("both", joined.down, new_seller)


def highest(bids: Iterable[Event]) -> list[Event]:
    """The highest bids of each ten seconds."""
    best: dict[int, list[Event]] = {}
    for bid in bids:
        found = best.setdefault(bid["date_time"] // 10_000, [])
        if not found or bid["price"] > found[0]["price"]:
            found[:] = [bid]
        elif bid["price"] == found[0]["price"]:
            found.append(bid)
    return [bid for found in best.values() for bid in found]


def clock(settings: Settings) -> EventClock[Any, Any]:
    """Watermarks by the events' times."""
    late = timedelta(milliseconds=settings.late_ms)
    return EventClock(
        lambda event: datetime.fromtimestamp(event["date_time"] / 1000, timezone.utc),
        wait_for_system_duration=late + CLOCK_MARGIN,
    )


def bids_with(*columns: str) -> Callable[[Settings], Iterator[list[Event]]]:
    """Reads these columns of bids."""
    return lambda settings: batches(settings, "bid", *columns)


def persons_and_auctions(settings: Settings) -> Iterator[list[Event]]:
    """Both inputs merged by time, if each is in order."""
    kinds = [
        (event for batch in batches(settings, *columns) for event in batch)
        for columns in (("person", "id", "name", "date_time"), ("auction", "seller", "date_time"))
    ]
    events = heapq.merge(*kinds, key=lambda event: event["date_time"])
    while batch := [*islice(events, settings.batch_size)]:
        yield batch


class Events(DynamicSource):
    """The events of a query, in the one worker."""

    def __init__(
        self, settings: Settings, told: Told, read: Callable[[Settings], Iterator[list[Event]]]
    ) -> None:
        self._settings = settings
        self._told = told
        self._read = read

    def build(self, _step_id: str, _index: int, _count: int) -> EventsPartition:
        """All partitions."""
        self._told.begin()
        return EventsPartition(self._read(self._settings))


class EventsPartition(StatelessSourcePartition):
    """Batches of events."""

    def __init__(self, batches: Iterator[list[Event]]) -> None:
        self._batches = batches

    def next_batch(self) -> list[Event]:
        """The next ones; StopIteration at the end."""
        return next(self._batches)


class Results(DynamicSink):
    """The sink of the one worker."""

    def __init__(self, told: Told) -> None:
        self._told = told

    def build(self, _step_id: str, _index: int, _count: int) -> ResultsPartition:
        """The only one."""
        return ResultsPartition(self._told)


class ResultsPartition(StatelessSinkPartition):
    """Counts results."""

    def __init__(self, told: Told) -> None:
        self._told = told

    def write_batch(self, items: list[Event]) -> None:
        """Take some."""
        self._told.came(items)


QUERIES: dict[str, tuple[Callable[[Settings], Iterator[list[Event]]], Callable[..., Any]]] = {
    "q1": (bids_with("auction", "bidder", "price", "date_time", "extra"), q1),
    "q2": (bids_with("auction", "price"), q2),
    "q5": (bids_with("auction", "date_time"), q5),
    "q7": (bids_with("auction", "bidder", "price", "date_time"), q7),
    "q8": (persons_and_auctions, q8),
}
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
TEN_SECONDS = timedelta(seconds=10)
CLOCK_MARGIN = timedelta(seconds=5)
"""The longest pause of the machine that makes no event late."""

if __name__ == "__main__":
    main()
