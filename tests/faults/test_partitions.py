"""Partitions that grow and come while workers and drivers are killed: each record is final once.

As `test_recovery`: `make chaos` runs many seeds, `CHAOS_SEEDS=17` one.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.faults.partitions_job import WINDOW_MS
from tests.faults.test_chaos import seeds
from tests.faults.test_recovery import Runs, difference

MOST_KILLS = 4


@pytest.mark.timeout(900)
@pytest.mark.table(3)
@pytest.mark.parametrize("seed", seeds("0-2"))
def test_what_was_killed_has_lost_and_doubled_nothing(seed: int, tmp_path: Path) -> None:
    chance = random.Random(f"partitions {seed}")
    transport = chance.choice(["shm", "tcp"])
    moments = [
        (chance.choice(["worker", "driver"]), chance.choice(["any time", "a new file"]))
        for _ in range(chance.randint(1, MOST_KILLS))
    ]
    print(f"seed {seed}: {transport}, {moments}")
    files = tmp_path / "in"
    files.mkdir()
    for name in range(5):
        grow(files, name, chance)
    runs = Runs(tmp_path, "local", transport, chance, program="tests.faults.partitions_job")
    try:
        for number, (what, when) in enumerate(moments):
            runs.wait_for(when)
            grow(files, 10 + number, chance)
            grow(files, chance.randrange(5), chance)
            runs.kill(what)
        (tmp_path / "end").touch()
        runs.kill("driver")
        told = runs.end()
        runs.driver.wait_nothing_left()
    finally:
        runs.close()
    assert told == {"late": 0}
    lengths = {int(path.name): len(path.read_text().splitlines()) for path in files.iterdir()}
    rows = [[p, n, 10_000 * p + n] for p, many in lengths.items() for n in range(many)]
    windows = Counter((p, time // WINDOW_MS * WINDOW_MS) for p, _, time in rows)
    wanted = {
        "rows": sorted(rows),
        "windows": sorted([p, n, at, at + WINDOW_MS] for (p, at), n in windows.items()),
    }
    for name, expected in wanted.items():
        found = sorted(lines(tmp_path / "out" / name))
        assert found == expected, difference(name, found, expected)
    for name, many in lengths.items():
        assert int((tmp_path / f"committed-{name}").read_text()) == many


def grow(folder: Path, name: int, chance: random.Random) -> None:
    """Let a file have more lines."""
    with (folder / f"{name}").open("a") as file:
        file.write("x\n" * chance.randint(1, 3000))


def lines(folder: Path) -> list[Any]:
    """The lines of a folder that holds nothing but what is final."""
    found = []
    for path in folder.iterdir():
        assert path.name.startswith("part-"), f"{path} was left behind"
        found += map(json.loads, path.read_text().splitlines())
    return found
