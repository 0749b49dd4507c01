"""Jobs that go on with fewer and with more tasks have the results of one that never stopped.

`make rescales` runs 500; the test suite runs a few. A failed one names its seed.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.rescaling import Job


def seeds(few: str = "0-11") -> list[int]:
    """`RESCALE_SEEDS`, or a few: one number is one seed, `0-499` is a range."""
    first, _, last = os.environ.get("RESCALE_SEEDS", few).partition("-")
    return list(range(int(first), int(last or first) + 1))


@pytest.mark.parametrize("seed", seeds())
def test_nothing_is_lost_or_late(seed: int, tmp_path: Path) -> None:
    job = Job(seed, tmp_path)
    print(seed, job.kind, job.source, "columns" if job.columns else "records", job.parallelisms)
    outputs = job.run()
    print("stops:", job.stops)
    assert outputs.get("late", []) == []
    assert sorted(outputs["out"]) == job.expected()
