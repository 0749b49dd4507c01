"""Drivers whose stdin, stdout or stderr is closed, broken or full, or not what they seem."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.drivers import Driver, driver
from tests.waiting import wait_until

PROGRAM = """
import signal, sys
import engine
from operators import source
from operators.sinks import JsonLines
from operators.sources import Collection

signal.signal(signal.SIGINT, signal.default_int_handler)

def talk(n):
    if n % 10 == 0:
        print("größer " * 100, n, file=sys.stderr)  # 1 kB, of 1 MB in all
    return n

pipeline = source(Collection(range(10_000))).map(talk).rebalance().sink(JsonLines(sys.argv[1]))
exec(sys.argv[2])
engine.execute(pipeline, parallelism=2, progress="line")
print("done")
"""


def written(out: Path) -> list[int]:
    return sorted(
        json.loads(line) for path in out.glob("part-*") for line in path.read_text().splitlines()
    )


def full_pipe() -> tuple[int, int]:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    try:
        while True:
            os.write(writing, b"x" * 4096)
    except BlockingIOError:
        os.set_blocking(writing, True)
    return reading, writing


@pytest.mark.parametrize("state", ["closed", "broken", "full", "none", "ascii", "raises"])
def test_a_job_does_not_need_its_stderr(state: str, tmp_path: Path) -> None:
    reading, writing = full_pipe()
    if state == "broken":
        os.close(reading)
    before = {
        "closed": "import os; os.close(2)",
        "none": "sys.stderr = None",
        "ascii": "sys.stderr.reconfigure(encoding='ascii', errors='strict')",
        "raises": "sys.stderr = type('Odd', (), {'write': len, 'flush': lambda _: None})()",
    }.get(state, "")
    out = tmp_path / "out"
    with driver(PROGRAM, tmp_path / "tmp", str(out), before, stderr=writing) as started:
        os.close(writing)
        assert started.process.wait(60) == 0
        started.wait_nothing_left()
        assert written(out) == list(range(10_000))
    if state != "broken":
        os.close(reading)


@pytest.mark.parametrize("descriptors", [(0,), (1,), (2,), (0, 1, 2)])
def test_a_daemon_without_standard_descriptors(
    descriptors: tuple[int, ...], tmp_path: Path
) -> None:
    closing = " ".join(f"{number}>&-" for number in descriptors)
    out = tmp_path / "out"
    shell = f'exec "$@" {closing}'
    command = ["sh", "-c", shell, "sh", sys.executable, "-c", PROGRAM, str(out), ""]
    started = Driver(command, tmp_path / "tmp")
    try:
        assert started.process.wait(60) == 0
        started.wait_nothing_left()
        assert written(out) == list(range(10_000))
    finally:
        started.end()


def test_ctrl_c_ends_a_job_whose_stderr_nobody_reads(tmp_path: Path) -> None:
    reading, writing = full_pipe()
    out = tmp_path / "out"
    mark = tmp_path / "mark"
    endless = (
        "from operators.sources import RandomWords; "
        f"mark = lambda: open({str(mark)!r}, 'w').close(); "
        "pipeline = source(RandomWords()).map(lambda w: mark() or print(w, file=sys.stderr))"
        ".sink(JsonLines(sys.argv[1]))"
    )
    with driver(PROGRAM, tmp_path / "tmp", str(out), endless, stderr=writing) as started:
        os.close(writing)
        wait_until(mark.exists)  # what it writes then waits
        os.kill(started.process.pid, signal.SIGINT)
        wait_until(lambda: not started.workers())
        os.close(reading)  # the traceback of the interrupt goes where nobody read
        started.process.wait(60)
        started.wait_nothing_left()
        assert list(out.iterdir()) == []


OKA = "from engine.cli.main import main; main()"
ENDLESS = ("run", "pipelines/word_count.py:random_word_count", "seconds=600")


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_the_command_line_ends_at_ctrl_c_whoever_reads(stream: str, tmp_path: Path) -> None:
    reading, writing = full_pipe()
    options = ("--json",) if stream == "stdout" else ("--progress", "line")
    with driver(OKA, tmp_path, *ENDLESS, *options, **{stream: writing}) as started:
        os.close(writing)
        wait_until(lambda: len(started.workers()) == 2)
        time.sleep(1.5)  # a first line of progress
        os.kill(started.process.pid, signal.SIGINT)
        assert started.process.wait(60) == 130
        started.wait_nothing_left()
    os.close(reading)


def test_json_lines_that_nobody_reads_any_more_end_the_job(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    with driver(OKA, tmp_path, *ENDLESS, "--json", stdout=writing) as started:
        os.close(writing)
        with os.fdopen(reading, "rb") as lines:
            assert json.loads(lines.readline())["schema"] == "oka.progress/1"
        assert started.process.wait(60) == 1
        started.wait_nothing_left()


def test_a_pipe_that_takes_one_line(tmp_path: Path) -> None:
    command = (
        f'"{sys.executable}" -c "{OKA}" run pipelines/word_count.py --progress line 2>&1 | head -1'
    )
    started = Driver(["bash", "-c", command], tmp_path)
    try:
        started.process.wait(60)
        started.wait_nothing_left()
    finally:
        started.end()
