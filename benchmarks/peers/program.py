"""What a peer's program needs: the same words as Oka's, a count to check, a window, latencies.

It imports NumPy alone, since it runs in the peer's own virtual environment. A run has a folder,
in which each source and each sink task leaves what it did, from whatever process it is in:

- `started-<index>`, empty: the source task is about to draw its first word;
- `source-<index>.json`: `{"counts": {word: emitted}}`;
- `sink-<index>.json`: `{"counts": {word: counted}, "window": {"words", "first_ns", "last_ns"},
  "latencies_ns": base64 of little-endian int64}`, the window beginning when the warm-up ends.

Both may have `cpu_seconds`, for programs whose tasks are processes of their own; otherwise the CPU
time of all the program's processes counts, from the first `started` to the last sink file.
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
    """One run, as its first argument says it in JSON."""

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
    word, or the batch that holds it, has a stamp (CLOCK_MONOTONIC, ns): now under closed load, the
    moment when it is due at the rate. Waits for that moment.

    >>> words = Words(Settings("", "", 4, 2, 1, 1.0, 0.0, None, 0))
    >>> len(next(iter(words))[0])
    2
    """

    def __init__(self, settings: Settings, index: int = 0) -> None:
        self._settings = settings
        self._index = index
        self.dictionary = dictionary(settings)
        self._emitted = np.zeros(settings.words, dtype=np.int64)

    def __iter__(self) -> Iterator[tuple[list[str], int | None]]:
        settings = self._settings
        size = settings.batch_size
        rate = settings.rate and settings.rate / settings.parallelism
        seed = np.random.SeedSequence(settings.seed, spawn_key=(self._index,))
        random = np.random.default_rng(seed)
        block = _BLOCK_WORDS if rate is None else min(_BLOCK_WORDS, int(rate * _BLOCK_SECONDS))
        block = max(1, block // size) * size
        words = np.array(self.dictionary, dtype=object)
        mark(settings, f"started-{self._index}")
        start, sent, until_stamp = time.monotonic(), 0, 1
        while time.monotonic() - start < settings.seconds:
            drawn = random.integers(settings.words, size=block, dtype=np.uint16)
            self._emitted += np.bincount(drawn, minlength=settings.words)
            picked = words[drawn].tolist()
            for at in range(0, block, size):
                stamp = None
                until_stamp -= size
                if rate is not None:
                    due = start + sent / rate
                    delay = due - time.monotonic()
                    if delay > 0:
                        time.sleep(delay)
                if until_stamp <= 0:
                    until_stamp = _STAMP_INTERVAL
                    stamp = time.monotonic_ns() if rate is None else int(due * 1e9)
                sent += size
                yield picked[at : at + size], stamp

    def write(self, cpu_seconds: float | None = None) -> None:
        """Leave what was emitted, when everything has been."""
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
        self._words = 0
        self._latencies = array("q")

    @property
    def begun(self) -> bool:
        """Whether the warm-up is over, so that what arrives counts."""
        return self._first_ns is not None

    def arrived(self, words: int, stamp: int | None = None) -> None:
        """So many words have been counted, the stamped one among them."""
        now = time.monotonic_ns()
        if self._first_ns is not None:
            self._words += words
            if stamp is not None:
                self._latencies.append(max(0, now - stamp))
        elif self._begin is None:
            self._begin = now + int(self._settings.warmup * 1e9)
        elif now >= self._begin:
            self._first_ns = now

    def write(self, counts: dict[str, int], cpu_seconds: float | None = None) -> None:
        """Leave what was counted, when everything has been."""
        now = time.monotonic_ns()
        if sys.byteorder == "big":
            self._latencies.byteswap()
        write(
            self._settings,
            f"sink-{self._index}.json",
            {
                "counts": counts,
                "window": {
                    "words": self._words,
                    "first_ns": self._first_ns if self._first_ns is not None else now,
                    "last_ns": now,
                },
                "latencies_ns": base64.b64encode(self._latencies.tobytes()).decode(),
                "cpu_seconds": cpu_seconds,
            },
        )


def dictionary(settings: Settings) -> list[str]:
    """The words that are drawn from; they follow from the seed, as in Oka's RandomWords."""
    random = np.random.default_rng(np.random.SeedSequence(settings.seed))
    found: dict[str, None] = {}
    while len(found) < settings.words:
        letters = random.integers(len(_LETTERS), size=settings.payload_bytes)
        found["".join(_LETTERS[letter] for letter in letters)] = None
    return list(found)


def count(counts: dict[str, int], words: Iterable[str]) -> None:
    """Count words one by one, as a per-record sink does."""
    for word in words:
        counts[word] = counts.get(word, 0) + 1


def mark(settings: Settings, name: str) -> None:
    """Leave an empty file in the folder of the run."""
    (Path(settings.folder) / name).touch()


def write(settings: Settings, name: str, content: object) -> None:
    """Leave a file in the folder of the run, whole or not at all."""
    path = Path(settings.folder) / name
    temporary = path.with_suffix(".partial")
    temporary.write_text(json.dumps(content))
    temporary.replace(path)


_LETTERS = string.ascii_letters + string.digits
_BLOCK_WORDS = 8192
_BLOCK_SECONDS = 0.05
_STAMP_INTERVAL = 100
