"""Models in jobs that go on: each record is answered by the version of its place, whoever dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import pytest

import engine
from engine import GraphError
from engine.checkpoint import CheckpointLog, open_storage
from operators import Pipeline, source
from operators.sinks import Collect
from operators.sources import Collection, Models
from tests.integration import model_job
from tests.integration.checkpointed import final, held, left_over
from tests.integration.model_job import RECORDS, put
from tests.integration.test_checkpoints import newest, wait_for_epoch, workers
from tests.waiting import wait_until


def answered(folder: Path) -> list[tuple[int, int, str]]:
    """What is final: records, with the version that answered each, and what that says."""
    out = folder / "out"
    return [(*each,) for each in sorted(final(out))] if out.exists() else []


def versions(folder: Path) -> set[int]:
    return {version for _, version, _ in answered(folder)}


def check(folder: Path, parallelism: int = 2) -> None:
    """Each record is answered once, and never by an older model than one in front of it."""
    found = answered(folder)
    assert [number for number, _, _ in found] == list(range(RECORDS))
    assert all(str(version) == content for _, version, content in found), "numbers begin anew"
    for index in range(parallelism):
        edges = (RECORDS * at // parallelism for at in (index, index + 1))
        own = [version for _, version, _ in found[slice(*edges)]]
        assert own == sorted(own), f"task {index} went back"
    assert left_over(folder / "out") == []


def kill_one(chance: Random, among: Iterable[int]) -> None:
    time.sleep(chance.random() * 0.1)
    os.kill(chance.choice(sorted(among)), signal.SIGKILL)


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("seed", range(3))
def test_a_worker_is_killed_before_and_behind_a_swap(tmp_path: Path, seed: int) -> None:
    chance = Random(seed)
    put(tmp_path, 1)
    with held(tmp_path):
        job = engine.submit(*model_job.job(tmp_path, restarts=100))
        wait_until(lambda: versions(tmp_path) == {1})
        kill_one(chance, workers("local"))
        put(tmp_path, 2)
        wait_until(lambda: 2 in versions(tmp_path))
        kill_one(chance, workers("local"))
        wait_until(lambda: restarts(job) >= 2)
    assert job.wait_finished(300).statistics.restarts >= 2
    check(tmp_path)
    assert versions(tmp_path) == {1, 2}


def restarts(job: engine.JobHandle) -> int:
    return job.statistics().restarts


@pytest.mark.again_on_ray
@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("seed", range(2))
def test_models_come_again_with_their_versions(tmp_path: Path, runtime: str, seed: int) -> None:
    chance = Random(seed)
    with held(tmp_path):
        job = engine.submit(*model_job.of_values(tmp_path, restarts=100, runtime=runtime))
        for kills in (1, 2, 3):
            newest = max(versions(tmp_path), default=0)
            wait_until(lambda than=newest: max(versions(tmp_path), default=0) > than, seconds=60)  # type: ignore[misc]
            kill_one(chance, workers(runtime))
            wait_until(lambda times=kills: restarts(job) >= times, seconds=60)  # type: ignore[misc]
    job.wait_finished(300)
    check(tmp_path)
    assert len(versions(tmp_path)) > 1


@pytest.mark.parametrize("when", ["before", "behind"])
def test_a_driver_is_killed_and_another_goes_on(tmp_path: Path, when: str) -> None:
    put(tmp_path, 1)
    with held(tmp_path), driver(tmp_path) as first:
        wait_until(lambda: versions(tmp_path) == {1})
        if when == "behind":
            put(tmp_path, 2)
            wait_until(lambda: 2 in versions(tmp_path))
        first.send_signal(signal.SIGKILL)
    if when == "before":
        put(tmp_path, 2)
    model_job.run(tmp_path, resume="latest")
    check(tmp_path)
    assert versions(tmp_path) == {1, 2}


def driver(folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", model_job.__name__, str(folder)])


def test_a_source_of_models_that_has_ended_gives_the_last_again(tmp_path: Path) -> None:
    """Also where a task that reads it has ended as well, and where another parallelism goes on."""
    with held(tmp_path):
        job = engine.submit(*model_job.of_one(tmp_path))
        wait_until(lambda: len(answered(tmp_path)) > RECORDS // 2)
        wait_for_epoch(tmp_path, newest(tmp_path) + 2)
        last = CheckpointLog(open_storage(tmp_path / "checkpoints")).manifests()[-1]
        assert len([task for task in last.tasks if task.finished]) == 3
        os.kill(workers("local")[1], signal.SIGKILL)
        wait_until(lambda: restarts(job) >= 1)
        wait_for_epoch(tmp_path, newest(tmp_path) + 2)
        job.rescale(3, timeout=300)
    job.wait_finished(300)
    assert [number for number, _, _ in answered(tmp_path)] == list(range(RECORDS))
    assert versions(tmp_path) == {1}


def test_no_checkpoint_begins_before_there_is_a_model(tmp_path: Path) -> None:
    """A barrier in front of the first would wait for records, and these for what is behind it."""
    (tmp_path / "models").mkdir()
    with held(tmp_path):
        job = engine.submit(*model_job.job(tmp_path, checkpoint_interval_seconds=0.01))
        wait_until(lambda: job.statistics().source_records > 0)
        put(tmp_path, 1)
        wait_until(lambda: versions(tmp_path) == {1})
    job.wait_finished(300)
    check(tmp_path)


def test_a_job_with_models_that_is_over_needs_none_again(tmp_path: Path) -> None:
    put(tmp_path, 1)
    model_job.run(tmp_path)
    (tmp_path / "models" / "weights").unlink()
    model_job.run(tmp_path, resume="latest")
    check(tmp_path)


def served(models: Any) -> Pipeline:
    numbers = source(Collection([1])).map_batches_with_model(models, str, lambda _, batch: batch)
    return numbers.sink(Collect())


@pytest.mark.parametrize(
    ("pipeline", "told"),
    [
        (served(source(Collection([b"x"])).broadcast(via="channels")), "does not keep its model"),
        (served(source(Collection([b"x"])).broadcast()), "does not keep its model"),
        (served(source(Models(b"x")).broadcast()), "does not tell where it is but to broadcast"),
        (source(Models(b"x")).sink(Collect()), "does not tell where it is but to broadcast"),
    ],
)
def test_models_that_would_not_come_again_are_refused(
    tmp_path: Path, pipeline: Pipeline, told: str
) -> None:
    with pytest.raises(GraphError, match=told):
        engine.submit(pipeline, checkpoints=str(tmp_path / "checkpoints"))
    assert not (tmp_path / "checkpoints").exists()
