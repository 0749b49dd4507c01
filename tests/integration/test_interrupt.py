"""Ctrl-C: the first lets go through what a job of `oka run` has emitted, the second ends it."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.drivers import Driver, driver
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("nothing_left")

OKA = "from engine.cli.main import main; main()"
PROGRAM = """
import time
from operators import source
from operators.sinks import Discard, JsonLines
from operators.sources import At, Function

def numbers(context, position):
    for number in range(context.index + (position or 0), 10**9, context.parallelism):
        yield At(number + context.parallelism - context.index, [number] * 10)
        time.sleep(0.001)

def stuck(record):
    time.sleep(600)

def pipeline(folder: str, stays: bool = False):
    stream = source(Function(numbers))
    if stays:
        return stream.map(stuck).rebalance().sink(JsonLines(folder))
    return stream.rebalance().map(lambda n: {"n": n}).sink(JsonLines(folder))
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    file = tmp_path / "mine.py"
    file.write_text(PROGRAM)
    return str(file)


def oka(tmp_path: Path, program: str, *arguments: str) -> Any:
    words = ("run", program, f"folder={tmp_path / 'out'}", "-p", "2", *arguments)
    return driver(OKA, tmp_path / "tmp", *words, stdout=-1, stderr=-1, text=True)


def interrupt(started: Driver) -> None:
    os.kill(started.process.pid, signal.SIGINT)


def until_at_work(tmp_path: Path) -> None:
    """Records are in the files."""

    def drafts() -> list[int]:
        parts = (tmp_path / "out").glob(".part-*")
        return [part.stat().st_size for part in parts if ".claim" not in part.name]

    wait_until(lambda: any(drafts()))


def written(tmp_path: Path) -> list[int]:
    parts = sorted((tmp_path / "out").iterdir())
    assert all(part.suffix == ".jsonl" and part.name.startswith("part-") for part in parts), parts
    return [json.loads(line)["n"] for part in parts for line in part.read_text().splitlines()]


def check_whole(numbers: list[int]) -> None:
    """All that each of the two tasks has emitted is there, once."""
    for index in (0, 1):
        own = sorted(number for number in numbers if number % 2 == index)
        assert own == sorted([*range(index, 2 * len(own) // 10, 2)] * 10)


def interrupted(tmp_path: Path, program: str, *arguments: str) -> tuple[str, str]:
    """What a job that was interrupted at its work says on stdout and stderr."""
    with oka(tmp_path, program, *arguments) as started:
        until_at_work(tmp_path)
        interrupt(started)
        told, errors = started.process.communicate(timeout=300)
        assert started.process.returncode == 130, errors
        started.wait_nothing_left()
    check_whole(written(tmp_path))
    assert errors.endswith("\nstopped\n")
    assert "Traceback" not in errors
    return told, errors


def test_the_first_lets_through_what_was_emitted(tmp_path: Path, program: str) -> None:
    told, errors = interrupted(tmp_path, program, "--json")
    result = json.loads(told.splitlines()[-1])
    assert len(written(tmp_path)) == result["records"] > 0
    assert "stopping: what is under way goes through; Ctrl-C again ends at once\n" in errors


def test_the_second_ends_at_once(tmp_path: Path, program: str) -> None:
    with oka(tmp_path, program, "stays=true") as started:
        wait_until(lambda: list((tmp_path / "out").glob(".part-*")))
        interrupt(started)
        assert started.process.stderr is not None
        assert "stopping: " in started.process.stderr.readline()
        time.sleep(0.5)
        assert started.process.poll() is None
        interrupt(started)
        told, errors = started.process.communicate(timeout=300)
        assert started.process.returncode == 130, errors
        started.wait_nothing_left()
    assert (told, errors) == ("", "stopped\n")
    assert list((tmp_path / "out").iterdir()) == []


def test_with_checkpoints_it_goes_on_from_there(tmp_path: Path, program: str) -> None:
    before = 0
    for options in ([], ["--resume", "latest"]):
        checkpoints = str(tmp_path / "checkpoints")
        _, errors = interrupted(tmp_path, program, "--checkpoints", checkpoints, *options)
        assert "stopping behind a checkpoint; Ctrl-C again ends at once\n" in errors
        assert errors.endswith("--resume latest goes on behind its last checkpoint\nstopped\n")
        assert len(written(tmp_path)) > before
        before = len(written(tmp_path))


def test_a_program_gets_the_interrupt_without_frames_of_the_engine(tmp_path: Path) -> None:
    out = tmp_path / "out"
    text = f"""
import engine
from operators import source
from operators.sinks import JsonLines
from operators.sources import RandomWords

engine.execute(source(RandomWords()).sink(JsonLines({str(out)!r})))
"""
    with driver(text, tmp_path / "tmp", stderr=-1, text=True) as started:
        until_at_work(tmp_path)
        interrupt(started)
        _, errors = started.process.communicate(timeout=300)
        started.wait_nothing_left()
    assert errors.endswith("KeyboardInterrupt\n")
    assert errors.count("/engine/") == 1, errors
    assert list(out.iterdir()) == []
