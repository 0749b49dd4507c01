"""Tests look at the folders of their own jobs, and at no other's."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import engine.testing
from operators import source
from operators.sinks import Collect
from operators.sources import Collection
from tests import jobfolders


@pytest.fixture
def somebody_elses_job() -> Iterator[list[Path]]:
    """Folders that are there until all is checked."""
    made: list[Path] = []
    yield made
    for folder in made:
        folder.rmdir()


def test_a_job_that_somebody_else_starts_meanwhile_is_not_ours(
    somebody_elses_job: list[Path], nothing_left: None
) -> None:
    somebody_elses_job.append(Path(tempfile.mkdtemp(prefix="oka-job-", dir="/tmp")))


def test_folders_of_our_jobs_are_recorded() -> None:
    seen: list[bool] = []

    def look(record: int) -> int:
        seen.append(Path(*folders).is_dir())
        return record

    with jobfolders.recorded() as folders:
        engine.testing.run(source(Collection([1])).map(look).rebalance().sink(Collect()))
    assert len(folders) == 1
    assert not Path(*folders).exists()
