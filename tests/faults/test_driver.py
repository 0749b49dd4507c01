"""What the driver's own end does to a job: Ctrl-C, and SIGKILL."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

PROGRAM = """
import engine
from operators import source
from operators.sinks import Discard
from operators.sources import RandomWords

print("started", flush=True)
engine.execute(
    source(RandomWords(length=8)).key_by().count().sink(Discard()), parallelism=2, progress="json"
)
"""


def start() -> subprocess.Popen[str]:
    driver = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert driver.stdout is not None
    assert driver.stdout.readline() == "started\n"
    assert "oka.progress/1" in driver.stdout.readline()
    return driver


def end_of(driver: subprocess.Popen[str], number: signal.Signals) -> tuple[float, list[str]]:
    """Send the signal; seconds until driver and workers are gone, and what is left in /tmp."""
    workers = psutil.Process(driver.pid).children(recursive=True)
    assert len(workers) == 4
    folders = set(Path("/tmp").glob("oka-job-*"))
    started = time.monotonic()
    os.kill(driver.pid, number)
    driver.wait(timeout=20)
    _gone, alive = psutil.wait_procs(workers, timeout=20)
    assert not alive
    return time.monotonic() - started, [str(path) for path in folders if path.exists()]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_the_drivers_end_is_the_jobs_end(number: signal.Signals) -> None:
    driver = start()
    seconds, left = end_of(driver, number)
    assert seconds < 10  # 2 s on a quiet machine
    assert left == []
    assert driver.stderr is not None
    if number == signal.SIGINT:
        assert "KeyboardInterrupt" in driver.stderr.read()
    driver.stderr.close()
    assert driver.stdout is not None
    driver.stdout.close()
