"""`oka top`: a running job on a terminal, and once elsewhere."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import struct
import subprocess
import sys
import termios
import threading
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console

import engine
from engine.cli.top import command, screen
from engine.history.file import HistoryWriter
from engine.history.places import first_record
from engine.history.process import this_process
from engine.history.reading import Follower, JobHistory
from engine.history.retention import encoded
from operators import source
from operators.sinks import Discard
from operators.sources import RandomWords
from tests.waiting import wait_until

PLAN = {
    "kind": "plan",
    "t": 0.0,
    "operators": [{"id": 0, "name": "words"}, {"id": 1, "name": "slow \x1b[2J"}],
    "vertices": [
        {"name": "words", "operators": [0], "parallelism": 2, "resources": {}},
        {"name": "slow", "operators": [1], "parallelism": 1, "resources": {}},
    ],
    "edges": [{"source": 0, "target": 1, "partitioner": "rebalance"}],
}
SAMPLE = {
    "kind": "sample",
    "t": 9.0,
    "seconds": 2.0,
    "in": [0, 800],
    "out": [900, 800],
    "busy": [200, 990],
    "blocked": [800, 0],
    "metrics": {"restarts": 1, "memory_bytes": 50_000_000},
    "latency": [100, 1000, 2000, 3000, 4000, 5000],
}


def history(*more: dict[str, Any]) -> JobHistory:
    found = JobHistory(Path("job.oka"))
    job = {"kind": "job", "t": 0.0, "name": "words", "since": 0.0, "process": this_process()}
    found.add(map(encoded, (job, PLAN, SAMPLE, *more)))
    return found


def drawn(shown: JobHistory, columns: int = 80, lines: int = 24) -> list[str]:
    text = io.StringIO()
    console = Console(file=text, width=columns, height=lines, markup=False, emoji=False)
    console.print(screen(shown, lines))
    return text.getvalue().splitlines()


def test_a_screen_has_rates_shares_and_the_operator_that_others_wait_for() -> None:
    tasks = {
        "kind": "tasks",
        "t": 9.0,
        "seconds": 2.0,
        "input_backlog_bytes": [0, 0, 4_000_000],
        "lag_records": [1200, 30, 0],
        "checkpointed_bytes": [0, 0, 900],
    }
    keyed = {**SAMPLE, "checkpointed_keys": [0, 70]}
    keyed["metrics"] = {**SAMPLE["metrics"], "responses": {"200": 1234, "404": 1}}
    checkpoints = [
        {"kind": "checkpoint", "t": 4.0, "epoch": 3, "began": 4.0, "stored": 4.5, "bytes": 1000},
        {"kind": "checkpoint", "t": 7.0, "epoch": 4, "began": 7.0},
    ]
    warning = {"kind": "event", "t": 2.5, "event": "warning", "text": "restart 1 of 10\nin 0.1 s"}
    lines = drawn(history(tasks, keyed, *checkpoints, warning))
    text = "\n".join(lines)
    assert all(len(line) <= 80 for line in lines)
    cells = [line.split() for line in lines]
    assert ["words", "2", "0", "450", "20%", "80%", "0%", "1,230"] in cells
    assert ["slow", "?[2J", "1", "400", "400", "99%", "0%", "0%", "4MB", "70", "900B"] in cells
    assert "responses: 200: 1,234, 404: 1" in text
    assert "backpressure: 80% blocked by slow" in text
    assert "latency p50 1 ms, p99 3 ms, 1 restart, largest worker 50MB" in text
    assert "checkpoints: 1 stored, the last (3) in 500 ms, of 1kB; 4 is under way" in text
    assert "2.5 s  restart 1 of 10 in 0.1 s" in text


@pytest.mark.parametrize("columns", [20, 40, 200])
def test_a_screen_fits(columns: int) -> None:
    events = [
        {"kind": "event", "t": float(n), "event": "warning", "text": "x" * 99} for n in range(99)
    ]
    lines = drawn(history(*events), columns)
    assert all(len(line) <= columns for line in lines)
    assert len(lines) <= 24
    assert drawn(JobHistory(Path("job.oka")))


def test_a_running_job_in_a_terminal_until_somebody_leaves(tmp_path: Path) -> None:
    pipeline = source(RandomWords(length=8, rate=1000)).map(str.upper).sink(Discard())
    handle = engine.submit(pipeline, name="shouting", history=str(tmp_path), progress="none")
    wait_until(lambda: handle.history is not None and JobHistory.read(handle.history).records)
    assert handle.history is not None
    once = CliRunner().invoke(command, ["--folder", str(tmp_path)])
    assert "job 'shouting': running" in once.output
    ours, theirs = pty.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    settings = termios.tcgetattr(theirs)
    top = subprocess.Popen(
        [Path(sys.executable).with_name("oka"), "top", "--folder", tmp_path],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    written = bytearray()
    reader = threading.Thread(target=read_all, args=(ours, written), daemon=True)
    reader.start()
    wait_until(lambda: b"q: leave" in written)
    assert b"shouting" in written
    os.write(ours, b"q")
    assert top.wait(60) == 0
    assert termios.tcgetattr(theirs) == settings
    os.close(theirs)
    handle.cancel()
    handle.wait_stopped()
    assert first_record(handle.history) is not None
    assert "job 'shouting': cancelled" in CliRunner().invoke(command, [str(handle.history)]).output
    nothing = CliRunner().invoke(command, ["--folder", str(tmp_path)]).exception
    assert isinstance(nothing, engine.ConfigError)


def read_all(descriptor: int, found: bytearray) -> None:
    try:
        while data := os.read(descriptor, 65536):
            found += data
    except OSError:  # the other end is closed
        pass


def test_a_follower_goes_on_where_the_file_is_written_anew(tmp_path: Path) -> None:
    lines = [encoded({"kind": "log", "t": float(n), "text": str(n)}) for n in range(9)]
    writer = HistoryWriter(tmp_path / "job.oka", lines[:3])
    follower = Follower(tmp_path / "job.oka")
    assert len(follower.history()["log"]) == 3
    writer.write(lines[3:5])
    assert [each["text"] for each in follower.history()["log"]] == list("01234")
    writer = writer.rewrite(lines[4:5])
    writer.write(lines[5:6])
    assert [each["text"] for each in follower.history()["log"]] == list("45")
    writer.close()
    follower.close()
