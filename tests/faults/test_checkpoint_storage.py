"""Jobs whose checkpoints have nowhere to go for a while: they are late, and nothing else happens.

A few seconds each in the test suite; `CHAOS_SEEDS=0 make chaos` has the storage away for a minute.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

import engine
from tests.drivers import ROOT
from tests.integration import checkpointed
from tests.integration.checkpointed import expected, found, held, left_over, newest
from tests.s3_proxy import Away, s3_behind_proxy
from tests.waiting import wait_until

RECORDS = 8000
SECONDS_AWAY = 60.0 if "CHAOS_SEEDS" in os.environ else 3.0
MOST_GROWTH_BYTES = 50_000_000

MOUNT = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
WITH_SMALL_DISK = 'mount -t tmpfs -o size=512k small "$1" && shift && exec "$@"'
"""A program that sees a small disk in place of a folder; nobody else does."""
CANNOT_MOUNT = subprocess.run(
    [*MOUNT, "mount -t tmpfs small /mnt"], capture_output=True, check=False
).returncode


@pytest.mark.skipif(bool(CANNOT_MOUNT), reason="no file systems may be mounted here")
def test_a_disk_that_is_full_costs_checkpoints_and_nothing_else(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    settings = {"checkpoints": str(disk / "checkpoints"), "progress": "line"}
    program = [sys.executable, "-m", checkpointed.__name__]
    arguments = [str(tmp_path), str(RECORDS), json.dumps(settings)]
    told = tmp_path / "told"
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
            wait_until(lambda: newest(inside) >= 2, seconds=60)
            fill(inside / "full")
            wait_until(lambda: NO_SPACE.search(told.read_text()), seconds=60)
            (inside / "full").unlink()
            full_at = newest(inside)
            wait_until(lambda: newest(inside) >= full_at + 2, seconds=60)
            assert found(tmp_path / "out") != expected(RECORDS)
            (tmp_path / checkpointed.HOLD).unlink()
            assert job.wait(60) == 0, told.read_text()
        finally:
            job.kill()
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


@pytest.mark.timeout(300)
@pytest.mark.parametrize("away", ["answers 503", "is silent"])
def test_an_s3_that_is_away_costs_time_and_nothing_else(
    away: Away, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with s3_behind_proxy(tmp_path, monkeypatch) as proxy:
        with held(tmp_path):
            settings = {"checkpoints": "s3://bucket/job", "parallelism": 2}
            job = engine.submit(*checkpointed.job(tmp_path, RECORDS, **settings))
            wait_until(lambda: job.statistics().checkpoints >= 2, seconds=60)
            before = memory()
            proxy.away = away
            time.sleep(SECONDS_AWAY)
            assert proxy.asked_in_vain
            assert memory() - before < MOST_GROWTH_BYTES
            proxy.away = None
            stored = job.statistics().checkpoints
            wait_until(lambda: job.statistics().checkpoints >= stored + 2, seconds=120)
        result = job.wait_finished(120)
    assert result.statistics.restarts == 0
    assert not checkpointed.servers()
    assert found(tmp_path / "out") == expected(RECORDS)
    assert left_over(tmp_path / "out") == []


def memory() -> int:
    """Bytes that the processes of the job have."""
    (server,) = checkpointed.servers()
    return sum(each.memory_info().rss for each in (server, *server.children()))
