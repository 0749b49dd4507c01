"""Operators over unbounded streams and tables while workers and drivers are killed.

As `test_recovery`: `make chaos` runs many seeds, `CHAOS_SEEDS=17` one.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.faults.features_job import FOLDERS, RECORDS, come_to, expected
from tests.faults.test_chaos import seeds
from tests.faults.test_recovery import Runs, difference, read

MOST_KILLS = 4


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", seeds("1"))
def test_what_was_killed_has_lost_and_doubled_nothing(seed: int, tmp_path: Path) -> None:
    chance = random.Random(f"features {seed}")
    transport = chance.choice(["shm", "tcp"])
    moments = [
        (chance.choice(["worker", "driver"]), chance.choice(["any time", "a new file"]))
        for _ in range(chance.randint(1, MOST_KILLS))
    ]
    print(f"seed {seed}: {transport}, {moments}")
    runs = Runs(tmp_path, "local", transport, chance, program="tests.faults.features_job")
    try:
        for what, when in moments:
            runs.wait_for(when)
            runs.kill(what)
        told = runs.end()
        runs.driver.wait_nothing_left()
    finally:
        runs.close()
    xor = 0
    for number in range(RECORDS):
        xor ^= number
    assert told == {"all": [{"n": RECORDS, "xor": xor}]}
    wanted = expected()
    for name in FOLDERS:
        found = read(tmp_path / "out" / name)
        found = come_to(found) if name == "latest" else found
        assert found == wanted[name], difference(name, found, wanted[name])
