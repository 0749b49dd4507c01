"""Helpers of a peer's program for a query of Nexmark: events, clocks, result.

A run lasts from the first source's start to the last sink's end, all of it in this process. The
files of events are Oka's (`pipelines/nexmark/events.py`): columns, in blocks, times in
milliseconds.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from clocks import Clocks


@dataclass(frozen=True)
class Settings:
    """One run; the program's first argument has it in JSON."""

    query: str
    folder: str
    """Of the files of events."""
    late_ms: int
    """How much earlier an event may be than one before it."""
    batch_size: int
    parallelism: int
    result: str
    """The file of `Clocks.write`."""
    with_rows: bool = False
    """Whether the rows go to that file, too, for a comparison."""

    @classmethod
    def of_arguments(cls) -> Settings:
        """The settings in the first command line argument."""
        return cls(**json.loads(sys.argv[1]))


def batches(settings: Settings, kind: str, *columns: str) -> Iterator[list[dict[str, Any]]]:
    """The events of a kind in the order of their file, with these columns, in batches."""
    size = settings.batch_size
    with pa.memory_map(str(Path(settings.folder) / f"{kind}.arrow")) as mapped:
        file = pa.ipc.open_file(mapped)
        for number in range(file.num_record_batches):
            block = file.get_batch(number).select(columns)
            for at in range(0, block.num_rows, size):
                yield block.slice(at, size).to_pylist()


class Told:
    """The clocks of a run, and its number of rows, less those taken back."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._clocks: Clocks | None = None
        self._rows = 0
        self._kept: list[dict[str, Any]] = []

    def begin(self) -> None:
        """Note that a source begins."""
        if self._clocks is None:
            self._clocks = Clocks(self._settings.result)

    def came(self, rows: list[dict[str, Any]]) -> None:
        """Count these results."""
        self._rows += len(rows)
        if self._settings.with_rows:
            self._kept += rows

    def left(self, row: dict[str, Any]) -> None:
        """Take back a row."""
        self._rows -= 1
        if self._settings.with_rows:
            self._kept.remove(row)

    def write(self) -> None:
        """Write the result, after the last sink's end."""
        assert self._clocks is not None
        self._clocks.write(
            self._rows, **({"answer": self._kept} if self._settings.with_rows else {})
        )
