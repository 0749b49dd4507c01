"""What the driver's own end does to a job: Ctrl-C, SIGTERM, and SIGKILL."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.drivers import ray_address, ray_workers

PROGRAM = """
import sys

import engine
from operators import source
from operators.sinks import Discard
from operators.sources import RandomWords
from tests import jobfolders

jobfolders.announce(sys.stdout)
engine.execute(
    source(RandomWords(length=8, rate=1000)).key_by().count().sink(Discard()),
    parallelism=2,
    progress="json",
    runtime=sys.argv[1],
)
"""


COMMAND = """
import sys

from engine.cli.main import main
from tests import jobfolders

jobfolders.announce(sys.stdout)
main()
"""


def start(runtime: str, *program: str) -> tuple[subprocess.Popen[str], Path]:
    """A driver whose job runs, and the job's folder."""
    driver = subprocess.Popen(
        [sys.executable, "-c", *(program or (PROGRAM, runtime))],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert driver.stdout is not None
    folder = Path(driver.stdout.readline().strip())
    assert folder.is_absolute()
    assert "oka.progress/1" in driver.stdout.readline()
    return driver, folder


def workers_of(driver: subprocess.Popen[str], runtime: str) -> list[psutil.Process]:
    if runtime == "local":
        return psutil.Process(driver.pid).children(recursive=True)
    return ray_workers()


def end(driver: subprocess.Popen[str], runtime: str, number: signal.Signals) -> None:
    """Send the signal, and wait until driver and workers are gone."""
    workers = workers_of(driver, runtime)
    assert len(workers) == (4 if runtime == "ray" else 5)  # the fork server is one of them
    os.kill(driver.pid, number)
    driver.wait(timeout=300)
    _gone, alive = psutil.wait_procs(workers, timeout=300)
    assert not alive


@pytest.mark.once_on_ray
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_the_drivers_end_is_the_jobs_end(
    runtime: str, number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    if runtime == "ray":
        monkeypatch.setenv("RAY_ADDRESS", ray_address())
    driver, folder = start(runtime)
    end(driver, runtime, number)
    assert not folder.exists()
    assert driver.stderr is not None
    if number == signal.SIGINT:
        assert "KeyboardInterrupt" in driver.stderr.read()
    driver.stderr.close()
    assert driver.stdout is not None
    driver.stdout.close()


def test_the_command_line_ends_its_job_at_sigterm() -> None:
    pipeline = "pipelines/word_count.py:random_word_count"
    settings = ("seconds=60", "--parallelism", "2", "--json")
    driver, folder = start("local", COMMAND, "run", pipeline, *settings)
    end(driver, "local", signal.SIGTERM)
    assert driver.returncode == 128 + signal.SIGTERM
    assert not folder.exists()
    for stream in (driver.stdout, driver.stderr):
        assert stream is not None
        stream.close()
