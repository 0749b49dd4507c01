"""Word count: how often each word occurs, in text files or in a stream of random words.

The same count is written with four APIs, from the most general to the fastest:

- `per_record`: Python functions of one record at a time;
- `map_batches`: Python functions of a list of records;
- `native`: the count runs in Rust and makes no Python objects of the records;
- `columnar`: the same over columns (`pyarrow.RecordBatch`), from the source on.

Run it with `oka run pipelines/word_count.py`, or `python -m pipelines.word_count`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import engine
from operators import Pipeline, Stream, source
from operators.sinks import Counts
from operators.sources import RandomWords, TextFiles

if TYPE_CHECKING:
    import pyarrow as pa

Api = Literal["per_record", "map_batches", "native", "columnar"]


def word_count(
    paths: str | Path | Sequence[str | Path] | None = None, repeat: int = 1, api: Api = "native"
) -> Pipeline:
    """Count the words of text files, the shipped text by default, read `repeat` times over."""
    lines = source(TextFiles(TEXT if paths is None else paths, repeat=repeat))
    words = (
        lines.map_batches(column_of_lines) if api == "columnar" else lines.flat_map(words_of_line)
    )
    return count(words, api).sink(Counts())


def random_word_count(
    seconds: float | None = 25,
    length: int = 32,
    *,
    count_of_words: int | None = None,
    rate: float | None = None,
    seed: int = 0,
    api: Api = "per_record",
) -> Pipeline:
    """Count random words of `length` bytes out of a dictionary of 100, for so many seconds."""
    words = source(
        RandomWords(
            length=length,
            seconds=seconds,
            count=count_of_words,
            rate=rate,
            seed=seed,
            columnar=api == "columnar",
        )
    )
    return count(words, api).sink(Counts())


def count(words: Stream[str], api: Api) -> Stream[tuple[str, int]]:
    """Running counts of the words: pairs (word, count); the last one of a word is its total.

    For `columnar`, the words are a column "word", and the pairs are two columns.
    """
    if api == "columnar":
        return words.key_by("word").count()
    if api == "native":
        return words.key_by().count()
    if api == "map_batches":
        return words.key_by().map_batches(CountBatches())
    if api == "per_record":
        return words.map(lambda word: (word, 1)).key_by(0).reduce(lambda a, b: (a[0], a[1] + b[1]))
    raise ValueError(f"api is {api!r}, expected per_record, map_batches, native or columnar")


def words_of_line(line: str) -> list[str]:
    """Split a line into words, in lower case; apostrophes inside words stay."""
    return WORD.findall(line.lower())


def column_of_lines(lines: list[str]) -> pa.RecordBatch:
    """Split lines into the column "word" of a batch."""
    import pyarrow as pa

    words = [word for line in lines for word in words_of_line(line)]
    return pa.record_batch({"word": pa.array(words, pa.string())})


class CountBatches:
    """Counts of all words so far; returns those that a batch has changed."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def __call__(self, words: list[str]) -> list[tuple[str, int]]:
        """Count a batch of words."""
        counts = self._counts
        counts.update(words)
        return [(word, counts[word]) for word in set(words)]


TEXT = Path(__file__).parent / "data" / "king_james_bible.txt"
WORD = re.compile(r"[a-z]+(?:'[a-z]+)*")

if __name__ == "__main__":
    result = engine.execute(word_count(repeat=20), parallelism=2, name="word count")
    print(result)
    for word, occurrences in sorted(result.output.items(), key=lambda item: -item[1])[:10]:
        print(f"{occurrences:>12,}  {word}")
