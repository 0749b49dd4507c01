"""Helpers of a peer's program: the same words as Oka's, a count to check, a window, latencies.

It imports only NumPy, since it runs in the peer's own virtual environment. A run has a folder, to
which each source and each sink task writes its files:

- `started-<index>`, empty: the source task is about to make its first word;
- `source-<index>.json`: `{"counts": {word: emitted}}`;
- `window-<index>`, empty: the warm-up is over at the sink task, and its window begins;
- `sink-<index>.json`: `{"counts": {word: counted}, "window": {"words", "first_ns", "last_ns"},
  "latencies_ns": base64 of little-endian int64}`, the window ending with the last word.

Both may have `cpu_seconds`, for programs whose tasks are processes of their own, of the whole run.
Otherwise the CPU time of all the program's processes counts, from the first `window` to the last of
these files, over the words of the windows; then the processes live until the file `measured`
exists.
"""

from __future__ import annotations

import base64
import json
import string
import sys
import time
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class Settings:
    """One run; the program's first argument has it in JSON."""

    folder: str
    api: str
    payload_bytes: int
    batch_size: int
    parallelism: int
    seconds: float
    """The warm-up included."""
    warmup: float
    rate: float | None
    """Words per second over all source tasks; None: as fast as possible."""
    seed: int
    words: int = 100

    @classmethod
    def of_arguments(cls) -> Settings:
        """The settings in the first command line argument."""
        return cls(**json.loads(sys.argv[1]))


class Words:
    """The words of one source task, in batches, each with a stamp or None.

    The same generator as Oka's `RandomWords`: the same words for the same seed. Every hundredth
    word, or the batch that has it, has a stamp (CLOCK_MONOTONIC, ns): the present time under closed
    load, or else the time at which it is due. The iterator waits for that time.

    >>> words = Words(Settings("", "", 4, 2, 1, 1.0, 0.0, None, 0))
    >>> len(next(iter(words))[0])
    2
    """

    def __init__(self, settings: Settings, index: int = 0) -> None:
        self._settings = settings
        self._index = index
        self.dictionary = dictionary(settings)
        self._emitted = np.zeros(settings.words, dtype=np.int64)
        self._due: float | None = None

    def __iter__(self) -> Iterator[tuple[list[str], int | None]]:
        rate = self._settings.rate
        if rate is None:
            return self._as_fast_as_possible()
        return self._at_rate(rate / self._settings.parallelism)

    def seconds_to_next(self) -> float:
        """Seconds until the next batch is due, for systems that must not be blocked."""
        return 0.0 if self._due is None else max(0.0, self._due - time.monotonic())

    def _as_fast_as_possible(self) -> Iterator[tuple[list[str], int | None]]:
        size, until_stamp = self._settings.batch_size, 1
        for batches in self._blocks(_BLOCK_WORDS):
            for batch in batches:
                until_stamp -= size
                if until_stamp > 0:
                    yield batch, None
                else:
                    until_stamp = _STAMP_INTERVAL
                    yield batch, time.monotonic_ns()

    def _at_rate(self, rate: float) -> Iterator[tuple[list[str], int | None]]:
        size, until_stamp = self._settings.batch_size, 1
        start = self._due = time.monotonic()
        sent = 0
        for batches in self._blocks(min(_BLOCK_WORDS, int(rate * _BLOCK_SECONDS))):
            for batch in batches:
                due = start + sent / rate
                delay = due - time.monotonic()
                if delay > 0:
                    time.sleep(delay)
                stamp = None
                until_stamp -= size
                if until_stamp <= 0:
                    until_stamp = _STAMP_INTERVAL
                    stamp = int(due * 1e9)
                sent += size
                self._due = start + sent / rate
                yield batch, stamp

    def _blocks(self, least: int) -> Iterator[list[list[str]]]:
        """Whole batches of about so many words together, to the end of the run."""
        settings = self._settings
        size = settings.batch_size
        block = max(1, least // size) * size
        seed = np.random.SeedSequence(settings.seed, spawn_key=(self._index,))
        random = np.random.default_rng(seed)
        words = np.array(self.dictionary, dtype=object)
        mark(settings, f"started-{self._index}")
        start = time.monotonic()
        while time.monotonic() - start < settings.seconds:
            drawn = random.integers(settings.words, size=block, dtype=np.uint16)
            self._emitted += np.bincount(drawn, minlength=settings.words)
            picked = words[drawn].tolist()
            if size == 1:
                yield [[word] for word in picked]  # in less than half the time of slices
            else:
                yield [picked[at : at + size] for at in range(0, block, size)]

    def write(self, cpu_seconds: float | None = None) -> None:
        """Write the emitted counts, after the last word."""
        counts = dict(zip(self.dictionary, self._emitted.tolist(), strict=True))
        write(
            self._settings,
            f"source-{self._index}.json",
            {"counts": counts, "cpu_seconds": cpu_seconds},
        )


class Window:
    """Words and latencies at one sink task, from the end of the warm-up on."""

    def __init__(self, settings: Settings, index: int = 0) -> None:
        self._settings = settings
        self._index = index
        self._begin: int | None = None
        self._first_ns: int | None = None
        self._last_ns = 0
        self._words = 0
        self._latencies = array("q")

    @property
    def begun(self) -> bool:
        """Whether the warm-up is over, so that words are measured."""
        return self._first_ns is not None

    def arrived(self, words: int, stamp: int | None = None) -> None:
        """Take so many counted words, and the stamp of one of them."""
        now = time.monotonic_ns()
        if self._first_ns is not None:
            self._last_ns = now
            self._words += words
            if stamp is not None:
                self._latencies.append(max(0, now - stamp))
        elif self._begin is None:
            self._begin = now + int(self._settings.warmup * 1e9)
        elif now >= self._begin:
            self._first_ns = self._last_ns = now
            mark(self._settings, f"window-{self._index}")

    def write(self, counts: dict[str, int], cpu_seconds: float | None = None) -> None:
        """Write the counts, after the last word."""
        if sys.byteorder == "big":
            self._latencies.byteswap()
        write(
            self._settings,
            f"sink-{self._index}.json",
            {
                "counts": counts,
                "window": {
                    "words": self._words,
                    "first_ns": self._first_ns or 0,
                    "last_ns": self._last_ns,
                },
                "latencies_ns": base64.b64encode(self._latencies.tobytes()).decode(),
                "cpu_seconds": cpu_seconds,
            },
        )


def partition(
    batches: Iterable[tuple[list[str], int | None]], settings: Settings
) -> Iterator[tuple[int, list[str], int | None]]:
    """The words by the sink task that counts them, in batches of at least the batch size.

    A word has the same task in all processes, as they share `PYTHONHASHSEED`. The stamp of a batch
    goes with its last word.
    """
    tasks = settings.parallelism
    if tasks == 1:
        for words, stamp in batches:
            yield 0, words, stamp
        return
    parts: list[list[str]] = [[] for _ in range(tasks)]
    stamps: list[int | None] = [None] * tasks
    for words, stamp in batches:
        for word in words:
            parts[hash(word) % tasks].append(word)
        if stamp is not None:
            task = hash(words[-1]) % tasks
            stamps[task] = stamps[task] or stamp
        for task, part in enumerate(parts):
            if len(part) >= settings.batch_size:
                yield task, part, stamps[task]
                parts[task], stamps[task] = [], None
    for task, part in enumerate(parts):
        if part:
            yield task, part, stamps[task]


def dictionary(settings: Settings) -> list[str]:
    """The dictionary of words; it follows from the seed, as in Oka's RandomWords."""
    random = np.random.default_rng(np.random.SeedSequence(settings.seed))
    found: dict[str, None] = {}
    while len(found) < settings.words:
        letters = random.integers(len(_LETTERS), size=settings.payload_bytes)
        found["".join(_LETTERS[letter] for letter in letters)] = None
    return list(found)


def wait_until_measured(settings: Settings) -> None:
    """Wait until the CPU time was measured, before the processes end."""
    deadline = time.monotonic() + _MEASURE_SECONDS
    while not (Path(settings.folder) / "measured").exists() and time.monotonic() < deadline:
        time.sleep(0.01)


def mark(settings: Settings, name: str) -> None:
    """Write an empty file to the folder of the run."""
    (Path(settings.folder) / name).touch()


def write(settings: Settings, name: str, content: object) -> None:
    """Write a file to the folder of the run, whole or not at all."""
    path = Path(settings.folder) / name
    temporary = path.with_suffix(".partial")
    temporary.write_text(json.dumps(content))
    temporary.replace(path)


_LETTERS = string.ascii_letters + string.digits
_BLOCK_WORDS = 8192
_BLOCK_SECONDS = 0.05
_STAMP_INTERVAL = 100
_MEASURE_SECONDS = 30.0
