"""Calls under way when their job ends before them, in worker processes."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import psutil
import pytest

from tests.drivers import driver
from tests.waiting import wait_until

PROGRAM = """
import asyncio, sys, time
from datetime import timedelta
from pathlib import Path

import engine
from operators import source
from operators.sinks import LineFiles
from operators.sources import RandomWords

mark = Path(sys.argv[2])
under_way = set()

async def call(word):
    under_way.add(object())
    if len(under_way) == 1000:
        mark.touch()
    {work}
    return word

calls = source(RandomWords()).rebalance().map_async(call, max_in_flight=1000)
engine.execute(calls.sink(LineFiles(sys.argv[1])), parallelism=2)
"""
WAYS = {
    "waits": "await asyncio.sleep(600)",
    "blocks": "len(under_way) < 1000 or time.sleep(600)\n    await asyncio.sleep(600)",
    "ignores": """
    while True:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            pass""",
    "threads": "await asyncio.to_thread(time.sleep, 600)",
}


@pytest.mark.table(2)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_nothing_is_left_of_a_thousand_calls(
    way: str, number: signal.Signals, tmp_path: Path
) -> None:
    out, mark = tmp_path / "out", tmp_path / "mark"
    program = PROGRAM.format(work=WAYS[way])
    with driver(program, tmp_path / "tmp", str(out), str(mark)) as started:
        wait_until(mark.exists)
        os.kill(started.process.pid, number)
        started.process.wait(60)
        started.wait_nothing_left()
    assert not list(out.glob("part-*"))


def test_a_worker_that_waits_for_calls_takes_little_time(tmp_path: Path) -> None:
    out, mark = tmp_path / "out", tmp_path / "mark"
    program = PROGRAM.format(work=WAYS["waits"])
    with driver(program, tmp_path / "tmp", str(out), str(mark)) as started:
        wait_until(mark.exists)
        wait_until(lambda: share_of_a_core(started.workers()) < 0.5)  # once all have begun
        os.kill(started.process.pid, signal.SIGINT)
        started.process.wait(60)
        started.wait_nothing_left()


def share_of_a_core(processes: list[psutil.Process], seconds: float = 2.0) -> float:
    """What they take of it, of so many seconds."""
    before = cpu_seconds(processes)
    time.sleep(seconds)
    return (cpu_seconds(processes) - before) / seconds


def cpu_seconds(processes: list[psutil.Process]) -> float:
    times = [process.cpu_times() for process in processes]
    return sum(each.user + each.system for each in times)
