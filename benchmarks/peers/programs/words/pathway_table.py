"""Pathway: a table of words from a Python connector, grouped and counted by its Rust engine.

Parallelism is the number of the engine's threads; there is always one connector as the source and
one subscription as the sink. The connector's backlog is bounded, and it commits every 20 ms. The
changes of a commit come out once per word, so the latency includes the wait for the commit.

- `python_source`: a row for each word;
- `python_batches`: a row for each list of words, which the engine flattens;
- `python_udf`: as `python_source`, with a Python function for each word that gives the summed
  value;
- `windows`: a row for each word with the time, counted by the tenth of a second, which comes out
  once.

A stamped word has been counted when its word's count reaches the number emitted up to the stamp.
"""

from __future__ import annotations

import os
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from program import Settings, Window, Words, wait_until_measured

SETTINGS = Settings.of_arguments()
os.environ["PATHWAY_THREADS"] = str(SETTINGS.parallelism)

import pathway as pw  # noqa: E402 - it reads the number of threads


def main() -> None:
    """Build the tables, run until the source ends, and write the counts."""
    # One source task offers the words of all; it has the files of the first.
    source = WordSource(replace(SETTINGS, parallelism=1))
    table = TABLES[SETTINGS.api](source)
    sink = (WindowSink if SETTINGS.api == "windows" else CountSink)(source.stamps)
    pw.io.subscribe(table, on_change=sink.on_change, on_time_end=sink.on_time_end)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    source.words.write()
    for index in range(1, SETTINGS.parallelism):
        Words(SETTINGS, index).write()
        Window(SETTINGS, index).write({})
    sink.window.write(sink.counts)
    wait_until_measured(SETTINGS)


class WordSource(pw.io.python.ConnectorSubject):
    """The words; of stamped words the time, and the number of equal words up to it."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.words = Words(settings)
        self.stamps: defaultdict[str, deque[tuple[int, int]]] = defaultdict(deque)
        self._batched = settings.api == "python_batches"
        self._timed = settings.api == "windows"

    @property
    def _deletions_enabled(self) -> bool:
        return False

    def run(self) -> None:
        """Emit rows until the time is over."""
        emitted: Counter[str] = Counter()
        for words, stamp in self.words:
            emitted.update(words)
            if stamp is not None:
                last = words[-1]
                self.stamps[last].append((emitted[last], stamp))
            if self._timed:
                now = time.time_ns() // 1000
                for word in words:
                    self.next(word=word, time=now)
            elif self._batched:
                self.next(words=words)
            else:
                for word in words:
                    self.next(word=word)


class CountSink:
    """The last count of each word."""

    def __init__(self, stamps: dict[str, deque[tuple[int, int]]]) -> None:
        self.counts: dict[str, int] = {}
        self.window = Window(SETTINGS)
        self._stamps = stamps
        self._changed: list[str] = []
        self._words = 0

    def on_change(
        self,
        key: pw.Pointer,  # noqa: ARG002
        row: dict[str, Any],
        time: int,  # noqa: ARG002
        is_addition: bool,
    ) -> None:
        """Take a new count; another call takes back the old one."""
        if not is_addition:
            return
        word, total = row["word"], row["count"]
        self._words += total - self.counts.get(word, 0)
        self.counts[word] = total
        self._changed.append(word)

    def on_time_end(self, time: int) -> None:  # noqa: ARG002
        """Take the end of one commit."""
        self.window.arrived(self._words)
        self._words = 0
        for word in self._changed:
            stamps = self._stamps[word]
            while stamps and stamps[0][0] <= self.counts[word]:
                self.window.arrived(0, stamps.popleft()[1])
        self._changed.clear()


class WindowSink(CountSink):
    """The sum of the counts of each word over all tenths of a second."""

    def on_change(
        self,
        key: pw.Pointer,  # noqa: ARG002
        row: dict[str, Any],
        time: int,  # noqa: ARG002
        is_addition: bool,
    ) -> None:
        """Take the count of a window; it is never taken back."""
        assert is_addition, row
        self._words += row["count"]
        self.counts[row["word"]] = self.counts.get(row["word"], 0) + row["count"]


class Word(pw.Schema, append_only=True):  # type: ignore[call-arg]
    """A row for each word."""

    word: str


class WordList(pw.Schema, append_only=True):  # type: ignore[call-arg]
    """A row for each batch."""

    words: list[str]


class TimedWord(pw.Schema, append_only=True):  # type: ignore[call-arg]
    """A row for each word with its time, in microseconds."""

    word: str
    time: int


@pw.udf
def one(_word: str) -> int:
    """A Python function for each word."""
    return 1


def read(source: WordSource, schema: type[pw.Schema], backlog: int) -> pw.Table:
    """The rows of the source."""
    return pw.io.python.read(
        source,
        schema=schema,
        max_backlog_size=backlog,
        autocommit_duration_ms=_COMMIT_MILLISECONDS,
    )


def python_source(source: WordSource) -> pw.Table:
    """Counts of rows."""
    words = read(source, Word, _MOST_ROWS)
    return words.groupby(pw.this.word).reduce(pw.this.word, count=pw.reducers.count())


def python_batches(source: WordSource) -> pw.Table:
    """Counts of rows made of lists."""
    backlog = max(2, _MOST_ROWS // SETTINGS.batch_size)
    lists = read(source, WordList, backlog)
    words = lists.select(word=pw.this.words).flatten(pw.this.word)
    return words.groupby(pw.this.word).reduce(pw.this.word, count=pw.reducers.count())


def python_udf(source: WordSource) -> pw.Table:
    """Sums of a Python function's values of the rows."""
    words = read(source, Word, _MOST_ROWS)
    ones = words.select(pw.this.word, one=one(pw.this.word))
    return ones.groupby(pw.this.word).reduce(pw.this.word, count=pw.reducers.sum(pw.this.one))


def windows(source: WordSource) -> pw.Table:
    """Counts of rows by the tenth of a second."""
    words = read(source, TimedWord, _MOST_ROWS)
    tenths = words.windowby(
        pw.this.time,
        window=pw.temporal.tumbling(duration=100_000),
        instance=pw.this.word,
        behavior=pw.temporal.exactly_once_behavior(),
    )
    return tenths.reduce(word=pw.this._pw_instance, count=pw.reducers.count())


TABLES: dict[str, Callable[[WordSource], pw.Table]] = {
    "python_source": python_source,
    "python_batches": python_batches,
    "python_udf": python_udf,
    "windows": windows,
}
_MOST_ROWS = 4_096
_COMMIT_MILLISECONDS = 20

if __name__ == "__main__":
    main()
