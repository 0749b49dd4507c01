"""`oka` on a terminal: what is shown there fits it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
PIPELINE = """
import time
from operators import source
from operators.sinks import Discard
from operators.sources import RandomWords

def slow(word):
    end = time.perf_counter() + 2e-5
    while time.perf_counter() < end:
        pass
    return word

def pipeline(seconds):
    words = source(RandomWords(length=8, seconds=seconds)).rebalance()
    return words.map(slow).named("a map with a name that is longer than most").sink(Discard())
"""


class Terminal:
    """What a command writes to a terminal of some size, as it comes."""

    def __init__(self, columns: int) -> None:
        self.written = ""
        self._ours, self.theirs = pty.openpty()
        self.resize(columns)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def resize(self, columns: int) -> None:
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def close(self) -> None:
        """Once the command has ended."""
        os.close(self.theirs)
        self._reader.join()
        os.close(self._ours)

    def lines(self) -> list[str]:
        """Each as it was written, without what moves the cursor."""
        plain = re.sub(r"\x1b\[\d*[A-Z]", "", self.written)
        return re.split(r"[\r\n]+", plain)

    def _read(self) -> None:
        try:
            while data := os.read(self._ours, 65536):
                self.written += data.decode(errors="replace")
        except OSError:  # the other end is closed
            pass


def run(
    tmp_path: Path,
    columns: int,
    *arguments: str,
    meanwhile: Callable[[Terminal, subprocess.Popen[bytes]], None] | None,
    status: int = 0,
) -> Terminal:
    file = tmp_path / "mine.py"
    file.write_text(PIPELINE)
    terminal = Terminal(columns)
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    command = [str(Path(sys.executable).parent / "oka"), "run", str(file), *arguments]
    try:
        with subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=terminal.theirs,
            stderr=terminal.theirs,
        ) as process:
            if meanwhile is not None:
                meanwhile(terminal, process)
            assert process.wait(60) == status, terminal.written
    finally:
        terminal.close()
    return terminal


@pytest.mark.parametrize("columns", [80, 120])
def test_a_job_fits_the_terminal(tmp_path: Path, columns: int) -> None:
    terminal = run(tmp_path, columns, "seconds=3", meanwhile=None)
    lines = terminal.lines()
    progress = [line for line in lines if "records/s" in line and "over" not in line]
    assert progress
    assert any("backpressure" in line for line in progress)
    assert max(map(len, progress)) < columns
    assert max(map(len, lines)) <= columns
    table = " ".join(" ".join(lines).partition("operator")[2].split())
    assert "a map with a name" in table
    assert "longer than" in table


def test_a_terminal_that_is_made_narrower(tmp_path: Path) -> None:
    def narrow(terminal: Terminal, _process: object) -> None:
        wait_until(lambda: "backpressure" in terminal.written)
        terminal.resize(60)

    terminal = run(tmp_path, 120, "seconds=4", meanwhile=narrow)
    wide, _, narrow_part = terminal.written.partition("\x1b[1A")
    assert "longer than most" in wide
    assert narrow_part
    shown = re.split(r"[\r\n]+", re.sub(r"\x1b\[\d*[A-Z]", "", narrow_part))
    assert max(map(len, shown)) <= 60


def test_what_ctrl_c_does_stays_to_be_read(tmp_path: Path) -> None:
    def interrupt(terminal: Terminal, process: subprocess.Popen[bytes]) -> None:
        wait_until(lambda: "backpressure" in terminal.written)
        process.send_signal(signal.SIGINT)

    terminal = run(tmp_path, 120, "seconds=600", meanwhile=interrupt, status=130)
    told = "stopping: what is under way goes through; Ctrl-C again ends at once"
    assert told in terminal.lines()
    shown = terminal.written.partition(told)[2]
    assert "\x1b[1A" not in shown  # nothing is written over it
    assert "operator" in shown  # the result
