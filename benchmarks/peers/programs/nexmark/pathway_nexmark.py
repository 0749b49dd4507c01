"""Pathway: five queries of Nexmark over tables from Python connectors, a row for each event.

Parallelism is the number of the engine's threads; sources and the sink are Python. Windows have no
behaviour: results change with each event, and the results at the end count, as in Flink SQL's
joins. That needs no watermark, of which each connector would have its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from nexmark_run import Settings, Told, batches

SETTINGS = Settings.of_arguments()
os.environ["PATHWAY_THREADS"] = str(SETTINGS.parallelism)

import pathway as pw  # noqa: E402 - it reads the number of threads

TOLD = Told(SETTINGS)


def main() -> None:
    """Build the tables, run until the sources end, and write the result."""
    pw.io.subscribe(QUERIES[SETTINGS.query](), on_change=change)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    TOLD.write()


class Events(pw.io.python.ConnectorSubject):
    """The events of a kind."""

    def __init__(self, kind: str, columns: tuple[str, ...]) -> None:
        super().__init__()
        self._kind = kind
        self._columns = columns

    @property
    def _deletions_enabled(self) -> bool:
        return False

    def run(self) -> None:
        """Emit rows to the end of the events."""
        TOLD.begin()
        for batch in batches(SETTINGS, self._kind, *self._columns):
            for event in batch:
                # A column cannot be `id`, which each table has of its own.
                self.next(**{RENAMED.get(name, name): value for name, value in event.items()})


def table(kind: str, **columns: type) -> pw.Table:
    """These columns of the events of a kind."""
    names = {RENAMED.get(name, name): each for name, each in columns.items()}
    return pw.io.python.read(
        Events(kind, tuple(columns)),
        schema=pw.schema_from_types(**names),
        max_backlog_size=_MOST_ROWS,
        autocommit_duration_ms=_COMMIT_MILLISECONDS,
    )


def change(
    key: pw.Pointer,  # noqa: ARG001
    row: dict[str, Any],
    time: int,  # noqa: ARG001
    is_addition: bool,
) -> None:
    """Count a row, or take it back."""
    original = {_ORIGINAL.get(name, name): value for name, value in row.items()}
    if is_addition:
        TOLD.came([original])
    else:
        TOLD.left(original)


def q1() -> pw.Table:
    """Prices in euros."""
    bids = table("bid", auction=int, bidder=int, price=int, date_time=int, extra=str)
    return bids.with_columns(price=0.908 * pw.this.price)


def q2() -> pw.Table:
    """Bids of some auctions."""
    return table("bid", auction=int, price=int).filter(pw.this.auction % 123 == 0)


def q5() -> pw.Table:
    """Every two seconds, the auctions that had the most bids in the last ten."""
    bids = table("bid", auction=int, date_time=int)
    windows = bids.windowby(
        bids.date_time,
        window=pw.temporal.sliding(hop=2000, duration=10_000, origin=0),
        instance=bids.auction,
    )
    counts = windows.reduce(
        auction=pw.this._pw_instance, end=pw.this._pw_window_end, num=pw.reducers.count()
    )
    most = counts.groupby(pw.this.end).reduce(pw.this.end, most=pw.reducers.max(pw.this.num))
    joined = counts.join(most, counts.end == most.end, counts.num == most.most)
    return joined.select(counts.auction, counts.num)


def q7() -> pw.Table:
    """The highest bids of each ten seconds."""
    bids = table("bid", auction=int, bidder=int, price=int, date_time=int)
    bids = bids.with_columns(start=pw.this.date_time // 10_000)
    most = bids.groupby(pw.this.start).reduce(pw.this.start, most=pw.reducers.max(pw.this.price))
    joined = bids.join(most, bids.start == most.start, bids.price == most.most)
    return joined.select(bids.auction, bids.bidder, bids.price, bids.date_time)


def q8() -> pw.Table:
    """Who put something up for auction in the ten seconds in which they came."""
    persons = table("person", id=int, name=str, date_time=int)
    auctions = table("auction", seller=int, date_time=int)
    joined = persons.window_join(
        auctions,
        persons.date_time,
        auctions.date_time,
        pw.temporal.tumbling(duration=10_000, origin=0),
        persons.person == auctions.seller,
    )
    pairs = joined.select(persons.person, persons.name, starttime=pw.this._pw_window_start)
    return pairs.groupby(pw.this.person, pw.this.name, pw.this.starttime).reduce(
        pw.this.person, pw.this.name, pw.this.starttime
    )


QUERIES: dict[str, Callable[[], pw.Table]] = {"q1": q1, "q2": q2, "q5": q5, "q7": q7, "q8": q8}
RENAMED = {"id": "person"}
_ORIGINAL = {renamed: name for name, renamed in RENAMED.items()}
_MOST_ROWS = 4_096
_COMMIT_MILLISECONDS = 20

if __name__ == "__main__":
    main()
