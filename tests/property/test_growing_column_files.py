"""Files of columns that grow, seen at other sizes by each task: each row is read once."""

from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.graph.context import TaskContext
from operators.sources import CsvFiles, JsonFiles
from operators.sources.files import text
from operators.sources.files.source import ColumnFiles
from operators.sources.files.text import TextColumnFiles
from tests.part import examples

SCHEMA = {"id": "int64", "text": "string"}
ENDED = "ended"


class Tasks:
    """So many tasks that go on from positions, each of which finds files when it likes."""

    def __init__(
        self, files: ColumnFiles, parallelism: int, positions: dict[str, Any], chance: random.Random
    ) -> None:
        files.validate()
        self.files, self.parallelism, self.chance = files, parallelism, chance
        self.positions, self.found = positions, list[int]()
        context = TaskContext("t", 0, parallelism, 2, "job")
        self.readers = [files.open(context) for _ in range(parallelism)]
        for index, reader in enumerate(self.readers):
            reader.restore([name for name in positions if self.owner(name) == index])

    def owner(self, name: str) -> int:
        return self.files.number(name) % self.parallelism

    def discover(self, index: int) -> None:
        for name in self.readers[index].partitions():
            if self.owner(name) == index:
                self.positions.setdefault(name, None)

    def read(self, index: int, most: int) -> None:
        for name, position in self.positions.items():
            if position == ENDED or self.owner(name) != index:
                continue
            partition = self.readers[index].open_partition(name, position)
            for _ in range(most):
                batch = partition.poll(2)
                if batch is None:
                    self.positions[name] = ENDED
                    break
                self.found += batch["id"].to_pylist()
                self.positions[name] = partition.position
            partition.close()


@pytest.mark.parametrize("form", ["csv", "json"])
@settings(max_examples=examples(70), deadline=None)
@given(seed=st.integers(0, 2**32), part_bytes=st.integers(1, 120), block_bytes=st.integers(8, 60))
def test_each_row_is_read_once(form: str, seed: int, part_bytes: int, block_bytes: int) -> None:
    chance = random.Random(seed)
    expected: list[int] = []
    found: list[int] = []
    positions: dict[str, Any] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(TextColumnFiles, "part_bytes", part_bytes),
        mock.patch.object(text, "_BLOCK_BYTES", block_bytes),
    ):
        for _ in range(chance.randint(1, 4)):
            watch = chance.choice([None, 1e-9])
            tasks = Tasks(source_of(form, folder, watch), chance.randint(1, 4), positions, chance)
            for _ in range(chance.randint(0, 12)):
                index = chance.randrange(tasks.parallelism)
                if chance.random() < 0.4:
                    expected += grown(form, Path(folder, f"{chance.randrange(3)}"), chance)
                elif chance.random() < 0.5:
                    tasks.discover(index)
                else:
                    tasks.read(index, chance.randint(1, 6))
            found += tasks.found
        last = Tasks(source_of(form, folder, 1e-9), chance.randint(1, 4), positions, chance)
        for _ in range(2):  # files that changed just now are left for the next time
            for index in range(last.parallelism):
                last.discover(index)
                last.read(index, 1 << 30)
        assert sorted(found + last.found) == expected


def source_of(form: str, folder: str, watch: float | None) -> ColumnFiles:
    if form == "json":
        return JsonFiles(folder, SCHEMA, watch=watch)
    return CsvFiles(folder, SCHEMA, header=False, newlines_in_values=False, watch=watch)


def grown(form: str, path: Path, chance: random.Random) -> list[int]:
    """Some rows that were added to the file."""
    first = NUMBERS[0]
    NUMBERS[0] += chance.randint(1, 6)
    rows = [{"id": each, "text": "x" * chance.randrange(9)} for each in range(first, NUMBERS[0])]
    with path.open("a") as file:
        for row in rows:
            file.write(json.dumps(row) if form == "json" else f'{row["id"]},"{row["text"]}"')
            file.write("\n")
    return [int(str(row["id"])) for row in rows]


NUMBERS = [0]
"""The next row's number, over all examples."""
