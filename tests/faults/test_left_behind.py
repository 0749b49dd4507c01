"""A driver that is killed leaves nothing, whatever its workers and its own children do then."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import psutil
import pytest

from engine.system import IS_LINUX
from tests.drivers import Driver, driver
from tests.waiting import wait_until

ONLY_LINUX = pytest.mark.skipif(not IS_LINUX, reason="they left the worker's process group")

PROGRAM = """
import os, re, subprocess, sys, time
from pathlib import Path

import engine
from operators import source
from operators.sinks import Discard, LineFiles
from operators.sources import Collection, RandomWords

mark = Path(sys.argv[2])

def work(record):
    mark.touch()
    {work}
    return record

{before}
pipeline = source(RandomWords()).map(work).rebalance().sink(LineFiles(sys.argv[1]))
engine.execute(pipeline, parallelism=2)
"""


def program(work: str = "pass", before: str = "") -> str:
    return PROGRAM.format(work=work, before=before)


def run_until_at_work(started: Driver, mark: Path) -> None:
    wait_until(mark.exists)
    time.sleep(0.2)


@pytest.mark.table(2)
@pytest.mark.parametrize(
    ("work", "processes"),
    [
        ("pass", 6),
        ("re.match('(a+)+$', 'a' * 60 + 'b')", 6),
        ("time.sleep(600)", 6),
        ("subprocess.run(['sleep', '600'])", 8),
        pytest.param(
            "subprocess.Popen(['sleep', '600'], start_new_session=True); time.sleep(600)",
            8,
            marks=ONLY_LINUX,
        ),
        pytest.param(
            "subprocess.run(['sh', '-c', 'setsid sleep 600 & exit']); time.sleep(600)",
            8,
            marks=ONLY_LINUX,
        ),
        ("os.closerange(3, 100); time.sleep(600)", 6),
    ],
    ids=["nothing", "gil", "sleep", "child", "session", "daemon", "closed"],
)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_what_a_function_does(
    work: str, processes: int, number: signal.Signals, tmp_path: Path
) -> None:
    out, mark = tmp_path / "out", tmp_path / "mark"
    with driver(program(work), tmp_path / "tmp", str(out), str(mark)) as started:
        run_until_at_work(started, mark)
        if "close" not in work:
            wait_until(lambda: len(started.processes()) >= processes)
        os.kill(started.process.pid, number)
        started.process.wait(60)
        started.wait_nothing_left()
    assert not list(out.glob("part-*"))  # whatever is left has a temporary name
    if number == signal.SIGINT:  # the driver was there to see to the sinks
        assert list(out.iterdir()) == []


@pytest.mark.table(2)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.parametrize("stopped", ["worker", "workers", "server"])
def test_what_is_stopped(stopped: str, number: signal.Signals, tmp_path: Path) -> None:
    if (stopped, number) == ("server", signal.SIGKILL) and not IS_LINUX:
        pytest.skip("nobody wakes a stopped server whose driver is killed")
    out, mark = tmp_path / "out", tmp_path / "mark"
    with driver(program(), tmp_path / "tmp", str(out), str(mark)) as started:
        run_until_at_work(started, mark)
        server = psutil.Process(started.process.pid).children()
        workers = started.workers()
        victims = {"worker": workers[:1], "workers": workers, "server": server}[stopped]
        for victim in victims:
            victim.suspend()
        os.kill(started.process.pid, number)
        started.process.wait(60)
        started.wait_nothing_left()


def test_a_driver_whose_forked_child_lives_on(tmp_path: Path) -> None:
    before = """
import threading
def fork():
    while not mark.exists():  # until the job is at work
        time.sleep(0.01)
    if os.fork() == 0:
        time.sleep(600)
threading.Thread(target=fork, daemon=True).start()
"""
    out, mark = tmp_path / "out", tmp_path / "mark"
    with driver(program(before=before), tmp_path / "tmp", str(out), str(mark)) as started:
        run_until_at_work(started, mark)
        wait_until(lambda: len(started.processes()) == 7)
        os.kill(started.process.pid, signal.SIGKILL)
        wait_until(lambda: len(started.processes()) == 1)  # the child of the user's
        assert not list((tmp_path / "tmp").glob("oka-job-*"))


def test_the_fork_server_is_killed(tmp_path: Path) -> None:
    out, mark = tmp_path / "out", tmp_path / "mark"
    with driver(program(), tmp_path / "tmp", str(out), str(mark), stderr=-1, text=True) as started:
        run_until_at_work(started, mark)
        psutil.Process(started.process.pid).children()[0].kill()
        _, told = started.process.communicate(timeout=300)
        assert "WorkerLost: worker of task" in told
        assert "its fork server ended" in told
        started.wait_nothing_left()
        assert list(out.iterdir()) == []


@pytest.mark.table(5)
@pytest.mark.parametrize("seed", range(10))
def test_killed_while_the_workers_start(seed: int, tmp_path: Path) -> None:
    out, mark, temporary = tmp_path / "out", tmp_path / "mark", tmp_path / "tmp"
    with driver(program(), temporary, str(out), str(mark)) as started:
        wait_until(lambda: list(temporary.glob("oka-job-*")))
        wait_until(lambda: psutil.Process(started.process.pid).children())
        time.sleep(random.Random(seed).uniform(0.0, 0.6))  # up to the first records
        os.kill(started.process.pid, signal.SIGKILL)
        started.process.wait(60)
        wait_until(lambda: not started.processes())
        wait_until(lambda: not list(temporary.glob("oka-job-*")))
