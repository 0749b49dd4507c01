"""Jobs that go on from a savepoint with other classes than those that wrote it."""

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from engine.cli.main import commands
from tests.integration.checkpointed import newest
from tests.waiting import wait_until

VISITS = """
from dataclasses import dataclass

@dataclass(frozen=True)
class Visit:
    times: int
    {field}: int

def visit(number):
    return Visit(1, number)

def later(one, other):
    return Visit(one.times + other.times, other.{field})
"""
PROGRAM = """
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import visits
from operators import source
from operators.sinks import LineFiles
from operators.sources import At, Function

{classes}

def numbers(context, position):
    for number in range(position or 0, 10):
        while number == {stops_at}:
            yield At(number, [])
        yield At(number + 1, [number])

def later(one, other):
    return Seen(one.times + other.times, other.{field})

def pipeline(keeps):
    read = source(Function(numbers)).named("numbers")
    if keeps == "values":
        kept = read.map(lambda number: Seen(1, number)).key_by(lambda _: 0).reduce(later)
    elif keeps == "keys":
        kept = read.key_by(lambda number: Seen(number % 2, 0)).count()
    else:
        kept = read.map(visits.visit).key_by(lambda _: 0).reduce(visits.later)
    return kept.named("kept").map(repr).sink(LineFiles(Path({out!r})))
"""
SEEN = """
@dataclass(frozen=True)
class Seen:
    times: int
    {field}: int{more}
"""
OTHER = """
class Other(NamedTuple):
    number: int

others = {0: Other(1)}

def other(number):
    return number + others[0].number - Other(1).number
"""


def write(folder: Path, classes: str, stops_at: int, field: str = "newest") -> None:
    program = PROGRAM.format(
        classes=classes, stops_at=stops_at, field=field, out=str(folder / "out")
    )
    (folder / "job.py").write_text(program)
    (folder / "visits.py").write_text(VISITS.format(field=field))


def run(folder: Path, keeps: str, *more: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", "from engine.cli.main import main; main()", "run", "job.py"]
    options = [f"keeps={keeps}", "--checkpoints", str(folder / "checkpoints"), "--progress", "none"]
    often = ["--set", "checkpoint_interval_seconds=0.2"]
    return subprocess.Popen(
        [*command, *options, *often, *more], cwd=folder, stderr=subprocess.PIPE, text=True
    )


def stopped(folder: Path, keeps: str, *more: str) -> None:
    """Run the job until it has taken what it can, and stop it with a savepoint."""
    with run(folder, keeps, *more) as driver:
        before = newest(folder)
        wait_until(lambda: newest(folder) >= before + 2)
        told = ["savepoint", str(folder / "checkpoints"), "--name", f"at-{before}", "--stop"]
        assert CliRunner().invoke(commands, told).output == f"at-{before}\n"
        _, error = driver.communicate(timeout=300)
    assert driver.returncode == 0, error


def ended(folder: Path, keeps: str) -> tuple[int, str]:
    """The status of the job that goes on, and what it says of its failure."""
    with run(folder, keeps, "--resume", "latest") as driver:
        _, error = driver.communicate(timeout=300)
    return driver.returncode, error


def lines(folder: Path) -> list[str]:
    files = sorted((folder / "out").glob("[!.]*"))
    return sorted(line for file in files for line in file.read_text().splitlines())


EXPECTED = {
    # The last update of each key.
    "values": ["Seen(times=10, newest=9)"],
    "keys": ["(Seen(times=0, newest=0), 5)", "(Seen(times=1, newest=0), 5)"],
    "imported": ["Visit(times=10, newest=9)"],
}


@pytest.mark.parametrize("keeps", EXPECTED)
def test_classes_beside_those_in_state_come_and_change(tmp_path: Path, keeps: str) -> None:
    seen = SEEN.format(field="newest", more="")
    write(tmp_path, seen, stops_at=4)
    stopped(tmp_path, keeps)
    write(tmp_path, OTHER + seen, stops_at=7)
    program = (tmp_path / "job.py").read_text()
    mapped = program.replace('.named("numbers")', '.named("numbers").map(other).named("other")')
    (tmp_path / "job.py").write_text(mapped)
    stopped(tmp_path, keeps, "--resume", "latest")
    (tmp_path / "job.py").write_text(
        mapped.replace("number: int\n\nothers", "number: int\n    more: int = 0\n\nothers").replace(
            "while number == 7", "while number == -1"
        )
    )
    status, error = ended(tmp_path, keeps)
    assert status == 0, error
    updates = lines(tmp_path)
    assert set(EXPECTED[keeps]) <= set(updates)
    assert len(set(updates)) == len(updates), "a key began anew"


@pytest.mark.table(3)
@pytest.mark.parametrize("keeps", EXPECTED)
@pytest.mark.parametrize("change", ["renamed", "added", "gone"])
def test_a_class_in_state_that_has_changed_is_refused_at_once(
    tmp_path: Path, keeps: str, change: str
) -> None:
    write(tmp_path, SEEN.format(field="newest", more=""), stops_at=4)
    stopped(tmp_path, keeps)
    field = "last" if change == "renamed" else "newest"
    more = "\n    more: int = 0" if change == "added" else ""
    write(tmp_path, SEEN.format(field=field, more=more), -1, field)
    path = tmp_path / "visits.py"
    if change == "added":
        path.write_text(path.read_text().replace("newest: int", "newest: int\n    more: int = 0"))
    if change == "gone":
        path.write_text(path.read_text().replace("Visit", "Call"))
        program = (tmp_path / "job.py").read_text()
        (tmp_path / "job.py").write_text(program.replace("Seen", "Noted"))
    before = lines(tmp_path)
    status, error = ended(tmp_path, keeps)
    assert status == 1, error
    name = "visits.Visit" if keeps == "imported" else "Seen"
    now = {"renamed": "(times, last) by now", "added": "(times, newest, more) by now"}
    assert "the state of operator 'kept' cannot be read" in error
    assert f"{name}(times, newest), which is" in error
    assert now.get(change, "gone") in error
    assert "hint: objects keep their fields by order" in error
    assert "restart" not in error
    assert lines(tmp_path) == before
