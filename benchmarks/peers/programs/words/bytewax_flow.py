"""Bytewax: a dataflow of an input, a key, a stateful count and an output.

Each task is a worker process of one cluster (at parallelism 1 a single one, in whose one thread all
steps run): it has a source, counts its share of the keys, and has a sink. The batch size is that of
the source; between the steps Bytewax chooses its own. No recovery.

- `per_record`: `map` makes a pair of each word, `stateful_batch` sums the values of a key;
- `batches`: `flat_map_batch` makes the pairs of a list of words, the rest as in `per_record`;
- `combined`: `flat_map_batch` counts a list of words before the exchange, the rest as before;
- `windows`: `flat_map_batch` makes pairs of words with the time, which `fold_window` counts by the
  tenth of a second; `map` adds up the results. One task only: it has no watermark over several
  sources, so words of the slower one would be late.

A value is a number of words or, for a stamped word, its stamp as a negative number.

The latency is to the output of the count that has the stamped word.
"""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from multiprocessing import Process
from typing import Any

import bytewax.operators as op
from bytewax.dataflow import Dataflow
from bytewax.inputs import DynamicSource, StatelessSourcePartition
from bytewax.operators import StatefulBatchLogic
from bytewax.operators.windowing import EventClock, TumblingWindower, fold_window
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.testing import cluster_main
from program import Settings, Window, Words, wait_until_measured


def main() -> None:
    """Run the workers."""
    settings = Settings.of_arguments()
    addresses = free_addresses(settings.parallelism) if settings.parallelism > 1 else []
    processes = [
        Process(target=run_worker, args=(settings, addresses, index))
        for index in range(settings.parallelism)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()


def run_worker(settings: Settings, addresses: list[str], index: int) -> None:
    """Run one worker of the cluster."""
    stamps: list[int] = []
    flow = Dataflow("word_count")
    stream = op.input("words", flow, WordSource(settings))
    if settings.api == "windows":
        op.output("counts", by_time(stream), CountSink(settings, stamps))
        cluster_main(flow, addresses, index)
        wait_until_measured(settings)
        return
    if settings.api == "per_record":
        keyed = op.map("pair", stream, pair_of_word)
    else:
        pairs = {"batches": pairs_of_words, "combined": pairs_of_counts}[settings.api]
        keyed = op.flat_map_batch("pair", stream, pairs)
    counts = op.stateful_batch("count", keyed, lambda total: Total(total or 0, stamps))
    op.output("counts", counts, CountSink(settings, stamps))
    cluster_main(flow, addresses, index)
    wait_until_measured(settings)


def by_time(stream: Any) -> Any:
    """How often each word has occurred up to the end of each tenth of a second."""
    keyed = op.flat_map_batch("pair", stream, pairs_with_times)
    # Its watermark advances with the clock: without this, waiting words would be late.
    clock = EventClock(lambda time: time, wait_for_system_duration=timedelta(seconds=1))
    tenths = TumblingWindower(timedelta(seconds=0.1), datetime(2026, 1, 1, tzinfo=timezone.utc))
    counts = fold_window(
        "count", keyed, clock, tenths, int, lambda count, _: count + 1, lambda a, b: a + b
    )
    totals: Counter[str] = Counter()

    def total(window: tuple[str, tuple[int, int]]) -> tuple[str, int]:
        word, (_window, count) = window
        totals[word] += count
        return word, totals[word]

    return op.map("total", counts.down, total)


def pairs_with_times(batches: list[tuple[list[str], int | None]]) -> Iterable[tuple[str, datetime]]:
    """A pair for each word, with the time now."""
    now = datetime.now(timezone.utc)
    return [(word, now) for words, _stamp in batches for word in words]


def pair_of_word(word: str | StampedWord) -> tuple[str, int]:
    """The pair of one word."""
    return (word, -word.stamp if type(word) is StampedWord else 1)


def pairs_of_words(batches: list[tuple[list[str], int | None]]) -> Iterable[tuple[str, int]]:
    """A pair for each word."""
    pairs: list[tuple[str, int]] = []
    for words, stamp in batches:
        pairs += [(word, 1) for word in words]
        if stamp is not None:
            pairs[-1] = (words[-1], -stamp)
    return pairs


def pairs_of_counts(batches: list[tuple[list[str], int | None]]) -> Iterable[tuple[str, int]]:
    """A pair for each distinct word of a list, and one for its stamped word."""
    pairs: list[tuple[str, int]] = []
    for words, stamp in batches:
        counts = Counter(words)
        if stamp is not None:
            counts[words[-1]] -= 1
            pairs.append((words[-1], -stamp))
        pairs += counts.items()
    return pairs


class Total(StatefulBatchLogic):
    """The running count of one word, from a list of its values."""

    def __init__(self, total: int, stamps: list[int]) -> None:
        self._total = total
        self._stamps = stamps

    def on_batch(self, values: list[int]) -> tuple[Iterable[int], bool]:
        """Add the values; one output for all of them."""
        added = sum(values)
        if added < 0:  # a stamp is larger than any count
            stamps = [-value for value in values if value < 0]
            self._stamps += stamps
            added += sum(stamps) + len(stamps)
        self._total += added
        return (self._total,), StatefulBatchLogic.RETAIN

    def snapshot(self) -> int:
        """The state."""
        return self._total


class StampedWord(str):
    """A word with the moment of its emission."""

    stamp: int

    def __new__(cls, word: str, stamp: int) -> StampedWord:
        """Give a word its stamp."""
        self = super().__new__(cls, word)
        self.stamp = stamp
        return self

    def __reduce__(self) -> tuple[type, tuple[str, int]]:
        return StampedWord, (str(self), self.stamp)


class WordSource(DynamicSource):
    """A source in each worker."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def build(self, _step_id: str, worker_index: int, _worker_count: int) -> WordSourcePartition:
        """The source of one worker."""
        return WordSourcePartition(self._settings, worker_index)


class WordSourcePartition(StatelessSourcePartition):
    """The words of one task: one by one, or lists with their stamps."""

    def __init__(self, settings: Settings, index: int) -> None:
        self._words = Words(settings, index)
        self._batches = iter(self._words)
        self._per_record = settings.api == "per_record"
        self._has_rate = settings.rate is not None

    def next_batch(self) -> Iterable[Any]:
        """A batch; StopIteration at the end."""
        words, stamp = next(self._batches)
        if not self._per_record:
            return [(words, stamp)]
        if stamp is not None:
            words[-1] = StampedWord(words[-1], stamp)
        return words

    def next_awake(self) -> datetime | None:
        """When the next batch is due."""
        if not self._has_rate:
            return None
        return datetime.now(timezone.utc) + timedelta(seconds=self._words.seconds_to_next())

    def close(self) -> None:
        """Write the emitted counts."""
        self._words.write()


class CountSink(DynamicSink):
    """A sink in each worker."""

    def __init__(self, settings: Settings, stamps: list[int]) -> None:
        self._settings = settings
        self._stamps = stamps

    def build(self, _step_id: str, worker_index: int, _worker_count: int) -> CountSinkPartition:
        """The sink of one worker."""
        return CountSinkPartition(self._settings, worker_index, self._stamps)


class CountSinkPartition(StatelessSinkPartition):
    """The last count of each word."""

    def __init__(self, settings: Settings, index: int, stamps: list[int]) -> None:
        self._counts: dict[str, int] = {}
        self._stamps = stamps
        self._window = Window(settings, index)

    def write_batch(self, items: list[tuple[str, int]]) -> None:
        """Take new counts; those of one key are in order."""
        updated = dict(items)
        words = sum(updated.values()) - sum(self._counts.get(word, 0) for word in updated)
        self._counts.update(updated)
        self._window.arrived(words)
        for stamp in self._stamps:
            self._window.arrived(0, stamp)
        self._stamps.clear()

    def close(self) -> None:
        """Write the counts."""
        self._window.write(self._counts)


def free_addresses(number: int) -> list[str]:
    """Addresses on this host with free ports."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    return addresses


if __name__ == "__main__":
    main()
