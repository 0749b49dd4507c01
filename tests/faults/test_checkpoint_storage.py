"""Jobs whose checkpoints have nowhere to go for a while: they are late, and nothing else happens.

A few seconds each in the test suite; `CHAOS_SEEDS=0 make chaos` has the storage away for a minute.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest

import engine
from engine.errors import Fenced, StorageError
from engine.graph.context import TaskContext
from engine.job import JobHandle
from engine.plan import Plan
from engine.testing.threads import ThreadLauncher
from operators import source
from operators.sinks import JsonLines
from operators.sources import At, Function
from tests.drivers import ROOT
from tests.integration import checkpointed
from tests.integration.checkpointed import EpochFiles, expected, found, held, left_over, newest
from tests.s3_proxy import Away, s3_behind_proxy
from tests.waiting import pauses, wait_until

RECORDS = 8000
SECONDS_AWAY = 60.0 if "CHAOS_SEEDS" in os.environ else 3.0
MOST_GROWTH_BYTES = 50_000_000

MOUNT = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
WITH_SMALL_DISK = 'mount -t tmpfs -o size=512k small "$1" && shift && exec "$@"'
"""A program that sees a small disk in place of a folder; nobody else does."""
CANNOT_MOUNT = subprocess.run(
    [*MOUNT, "mount -t tmpfs small /mnt"], capture_output=True, check=False
).returncode


@contextmanager
def on_small_disk(
    tmp_path: Path, records: int, **settings: Any
) -> Iterator[tuple[subprocess.Popen[bytes], Path, Path]]:
    """A job with checkpoints on a disk of its own, once it has some.

    Its process, the disk as it sees it, and the file that has what it tells.
    """
    disk, told = tmp_path / "disk", tmp_path / "told"
    disk.mkdir()
    settings["checkpoints"] = str(disk / "checkpoints")
    program = [sys.executable, "-m", checkpointed.__name__]
    arguments = [str(tmp_path), str(records), json.dumps(settings)]
    with (
        held(tmp_path),
        told.open("w") as stderr,
        subprocess.Popen(
            [*MOUNT, WITH_SMALL_DISK, "sh", str(disk), *program, *arguments],
            stderr=stderr,
            cwd=ROOT,
        ) as job,
    ):
        try:
            inside = Path(f"/proc/{job.pid}/root{disk}")
            wait_until(lambda: newest(inside) >= 2)
            yield job, inside, told
        finally:
            job.kill()


@pytest.mark.skipif(bool(CANNOT_MOUNT), reason="no file systems may be mounted here")
def test_a_disk_that_is_full_costs_checkpoints_and_nothing_else(tmp_path: Path) -> None:
    with on_small_disk(tmp_path, RECORDS, progress="line") as (job, inside, told):
        fill(inside / "full")
        wait_until(lambda: NO_SPACE.search(told.read_text()))
        (inside / "full").unlink()
        full_at = newest(inside)
        wait_until(lambda: newest(inside) >= full_at + 2)
        assert found(tmp_path / "out") != expected(RECORDS)
        (tmp_path / checkpointed.HOLD).unlink()
        assert job.wait(60) == 0, told.read_text()
    assert "restart" not in told.read_text()
    assert found(tmp_path / "out") == expected(RECORDS)
    assert left_over(tmp_path / "out") == []


NO_SPACE = re.compile(r"checkpoint \d+ (is given up|waits for its storage): .*No space left on")


def fill(path: Path) -> None:
    """Take all the space that there is on its disk."""
    with path.open("wb", buffering=0) as file:
        for size in (4096, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue


@pytest.mark.timeout(900)
@pytest.mark.parametrize("away", ["answers 503", "is silent"])
def test_an_s3_that_is_away_costs_time_and_nothing_else(
    away: Away, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with s3_behind_proxy(tmp_path, monkeypatch) as proxy:
        with held(tmp_path):
            settings = {"checkpoints": "s3://bucket/job", "parallelism": 2}
            job = engine.submit(*checkpointed.job(tmp_path, RECORDS, **settings))
            wait_until(lambda: job.statistics().checkpoints >= 2)
            before = memory()
            proxy.away = away
            time.sleep(SECONDS_AWAY)
            assert proxy.asked_in_vain
            assert memory() - before < MOST_GROWTH_BYTES
            proxy.away = None
            stored = job.statistics().checkpoints
            wait_until(lambda: job.statistics().checkpoints >= stored + 2, seconds=300)
        result = job.wait_finished(300)
    assert result.statistics.restarts == 0
    assert not checkpointed.servers()
    assert found(tmp_path / "out") == expected(RECORDS)
    assert left_over(tmp_path / "out") == []


def numbers(hold: Path, context: TaskContext, position: int | None) -> Iterator[At]:
    """Those of this task; the last when nobody holds them any more."""
    for number in range(context.index if position is None else position, RECORDS, 2):
        if number >= RECORDS - 2:
            yield from pauses(lambda: not hold.exists(), At(number, []))
        yield At(number + 2, [number])


@pytest.mark.table(2)
@pytest.mark.parametrize("loses", [False, True], ids=["all live", "a worker dies"])
@pytest.mark.parametrize("away", ["answers 503", "is silent"])
def test_files_in_an_s3_that_is_away_are_late_and_nothing_else(
    away: Away,
    loses: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    hold = tmp_path / "hold"
    hold.touch()
    files = source(Function(partial(numbers, hold))).rebalance().map(abs)
    with s3_behind_proxy(tmp_path, monkeypatch) as proxy:
        job = engine.submit(
            files.sink(JsonLines("s3://bucket/out")),
            parallelism=2,
            checkpoints="s3://bucket/job",
            checkpoint_interval_seconds=0.1,
            restarts=2,
        )
        wait_until(lambda: job.statistics().checkpoints >= 2)
        proxy.away = away
        wait_until(lambda: proxy.asked_in_vain)
        if loses:
            (server,) = checkpointed.servers()
            server.children()[0].kill()
            if away == "answers 503":
                wait_until(lambda: len(re.findall(AWAY, caplog.text)) > 2)
        time.sleep(SECONDS_AWAY)
        proxy.away = None
        hold.unlink()
        result = job.wait_finished(300)
    assert bool(result.statistics.restarts) == loses
    out = tmp_path / "bucket" / "out"
    found = [int(line) for each in out.glob("part-*") for line in each.read_text().split()]
    assert sorted(found) == list(range(RECORDS))
    assert not list(out.glob(".*"))


AWAY = r"restart \(storage away for \d+ of 300 s\) in .* no answer"


@pytest.mark.skipif(bool(CANNOT_MOUNT), reason="no file systems may be mounted here")
def test_a_job_ends_whose_disk_has_become_read_only(tmp_path: Path) -> None:
    settings = {"checkpoint_timeout_seconds": SECONDS_OF_PATIENCE}
    with on_small_disk(tmp_path, 400, **settings) as (job, _, told):
        # An ordinary user may not change groups there, nor need to.
        remount = ["nsenter", f"--target={job.pid}", "--user", "--preserve-credentials"]
        remount += ["--mount", "mount"]
        remount += ["-o", "remount,bind,ro", str(tmp_path / "disk")]  # busy while a file is written
        wait_until(lambda: subprocess.run(remount, check=False).returncode == 0)
        (tmp_path / checkpointed.HOLD).unlink()
        assert job.wait(60) == 1, told.read_text()
    assert re.search(r"StorageError: the last checkpoint could .*Read-only", told.read_text())
    assert "checkpoint_timeout_seconds" in told.read_text()


def exchange(one: Path, other: Path) -> None:
    """Both get each other's name at one moment: there is none at which a task could make anew."""
    renameat2, here, exchange = ctypes.CDLL(None, use_errno=True).renameat2, -100, 2
    if renameat2(here, bytes(one), here, bytes(other), exchange):
        raise OSError(ctypes.get_errno(), "they could not be exchanged", str(one), None, str(other))


@pytest.mark.table(2)
@pytest.mark.parametrize("running", [False, True], ids=["all sources end", "one goes on"])
@pytest.mark.parametrize("trouble", ["a file", "answers 403", "answers 503", "is silent"])
def test_a_job_ends_whose_last_checkpoint_has_nowhere_to_go(
    trouble: Literal["a file"] | Away,
    running: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with s3_behind_proxy(tmp_path, monkeypatch) as proxy:
        folder, away = tmp_path / "checkpoints", tmp_path / "away"
        away.touch()
        url = str(folder) if trouble == "a file" else "s3://bucket/job"
        settings = {"checkpoints": url, "checkpoint_timeout_seconds": SECONDS_OF_PATIENCE}
        hold = tmp_path / "of one task"
        pipeline, config = checkpointed.job(tmp_path, 400, progress="none", **settings)
        if running:
            hold.touch()
            one = source(Function(partial(forever, hold))).sink(EpochFiles(tmp_path / "other"))
            pipeline = [pipeline, one]
        with held(tmp_path):
            job = JobHandle(Plan.of(pipeline, config), ThreadLauncher())
            wait_until(lambda: job.statistics().checkpoints >= 2)
            if trouble == "a file":
                exchange(folder, away)
            else:
                proxy.away = trouble
        if running:
            patience = time.monotonic() + 2 * SECONDS_OF_PATIENCE
            wait_until(lambda: time.monotonic() > patience or job._finished.done())
            assert not job._finished.done(), "its records are not lost, only not final"
            hold.unlink()
        with pytest.raises(StorageError, match="the last checkpoint could not be written") as ended:
            job.wait_finished(300)
        job.wait_stopped()
        assert "--resume latest" in str(ended.value)
        if trouble == "a file":
            assert "Not a directory" in ended.value.message
            exchange(away, folder)
        proxy.away = None
        again, config = checkpointed.job(
            tmp_path, 400, progress="none", resume="latest", **settings
        )
        others = [] if not running else [one]
        handle = JobHandle(Plan.of([again, *others], config), ThreadLauncher())
        handle.wait_finished(300)
        wait_until(lambda: "oka-checkpoints" not in {each.name for each in threading.enumerate()})
    assert found(tmp_path / "out") == expected(400)
    assert left_over(tmp_path / "out") == []


@pytest.mark.parametrize("is_held", [False, True], ids=["all sources end", "sources go on"])
def test_a_job_ends_whose_checkpoints_are_removed(is_held: bool, tmp_path: Path) -> None:
    pipeline, config = checkpointed.job(tmp_path, 400, progress="none")
    with held(tmp_path):
        job = JobHandle(Plan.of(pipeline, config), ThreadLauncher())
        wait_until(lambda: newest(tmp_path) >= 2)
        (tmp_path / "checkpoints").rename(tmp_path / "away")
        if not is_held:
            (tmp_path / checkpointed.HOLD).unlink()
        with pytest.raises(Fenced, match="were removed under the job"):
            job.wait_finished(300)
        job.wait_stopped()


def forever(hold: Path, context: TaskContext, position: int | None) -> Iterator[At]:
    """Nothing, for as long as the file is there."""
    yield from pauses(lambda: not hold.exists(), At(0, []))


SECONDS_OF_PATIENCE = 1.0


def memory() -> int:
    """Bytes that the processes of the job have."""
    (server,) = checkpointed.servers()
    return sum(each.memory_info().rss for each in (server, *server.children()))
