"""What the result of a job counts that went on after failures, and what the log tells of them."""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import engine
from engine.config import JobConfig
from engine.driver.launcher import Launcher
from engine.job import JobHandle
from engine.plan import Plan
from engine.report.result import JobResult
from engine.testing.threads import ThreadLauncher
from operators import Pipeline, TaskContext, source
from operators.sinks import Collect
from operators.sources import At, Collection, Function

pytestmark = pytest.mark.usefixtures("nothing_left")

COUNT = 300


class FailsAfterCheckpoints:
    """Raises on some records, once each, when a checkpoint is stored behind the ones before."""

    def __init__(self, folder: Path, *records: int, fails: Callable[[], None]) -> None:
        self._folder = folder
        self._records = records
        self._fails = fails

    def __call__(self, record: int) -> int:
        flag = self._folder / f"failed-{record}"
        if record in self._records and not flag.exists():
            flag.touch()
            self._fails()
        return record


def raises() -> None:
    raise ValueError("the service is away")


def dies() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def closed(context: TaskContext, position: int | None) -> Iterator[At]:
    """In lists that are no multiple of the markers' interval, while checkpoints come."""
    for start in range((position or 0), COUNT, 7):
        time.sleep(0.005)
        yield At(start + 7, list(range(start, min(start + 7, COUNT))))


SOURCES = {"rate": lambda: Collection(range(COUNT), rate=400), "closed": lambda: Function(closed)}


def pipeline(kind: str, folder: Path, fails: Callable[[], None]) -> Pipeline:
    def odd(record: int) -> int:
        return 1 // (record % 5 and 1) and record

    failing = FailsAfterCheckpoints(folder, 121, 220, fails=fails)
    records = source(SOURCES[kind]()).with_parallelism(1)
    kept = records.filter(lambda n: n % 3 != 0).map(failing).named("failing")
    rescued = kept.map(odd, on_error="skip").named("rescued")
    return rescued.rebalance().flat_map(lambda n: [n, n]).named("twice").sink(Collect())


def expected() -> tuple[list[int], dict[str, Any]]:
    kept = [n for n in range(COUNT) if n % 3]
    good = [n for n in kept if n % 5]
    return sorted(good * 2), {"kept": len(kept), "good": len(good)}


def finished(plan: Plan, launcher: Launcher) -> JobResult:
    handle = JobHandle(plan, launcher)
    try:
        return handle.wait_finished()
    finally:
        handle.cancel()
        handle.wait_stopped()


def check(result: JobResult) -> None:
    output, counts = expected()
    assert sorted(result.output) == output
    statistics = result.statistics
    assert (statistics.source_records, statistics.records) == (COUNT, len(output))
    each = {operator.name: operator for operator in statistics.operators}
    assert (each["filter"].records_in, each["filter"].records_out) == (COUNT, counts["kept"])
    assert (each["rescued"].records_in, each["rescued"].records_out) == tuple(counts.values())
    assert each["rescued"].errors == counts["kept"] - counts["good"]
    assert each["rescued"].first_error is not None
    assert (each["twice"].records_in, each["twice"].records_out) == (counts["good"], len(output))


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("kind", SOURCES)
def test_a_record_counts_once_whatever_failed(
    tmp_path: Path, kind: str, parallelism: int, caplog: pytest.LogCaptureFixture
) -> None:
    config = JobConfig(
        parallelism=parallelism,
        progress="none",
        checkpoints=str(tmp_path / "checkpoints"),
        checkpoint_interval_seconds=0.05,
        batch_size=10,
        marker_interval=9,
    )
    with caplog.at_level(logging.WARNING, "oka"):
        result = finished(Plan.of(pipeline(kind, tmp_path, raises), config), ThreadLauncher())
    check(result)
    assert result.statistics.restarts == 2
    told = [each.getMessage() for each in caplog.records]
    assert len(told) == 2
    for line in told:
        assert line.startswith("restart ")
        assert ": operator 'failing' (task " in line
        assert line.endswith(": ValueError: the service is away")
        assert "\n" not in line


def test_a_job_that_is_run_again_counts_on(tmp_path: Path) -> None:
    """Of its end there is nothing to do; the result is that of the whole job."""
    config = JobConfig(progress="none", checkpoints=str(tmp_path / "checkpoints"), resume="latest")
    plan = Plan.of(pipeline("closed", tmp_path, lambda: None), config)
    for _ in range(2):
        check(finished(plan, ThreadLauncher()))


def test_the_log_tells_of_a_worker_that_died(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "oka"):
        result = engine.execute(
            pipeline("rate", tmp_path, dies),
            parallelism=2,
            progress="none",
            checkpoints=str(tmp_path / "checkpoints"),
            checkpoint_interval_seconds=0.05,
            batch_size=10,
        )
    check(result)
    told = [each.getMessage() for each in caplog.records if each.name == "oka"]
    assert len(told) == result.statistics.restarts == 2
    assert all("restart " in line and "was lost: " in line for line in told)
