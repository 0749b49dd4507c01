"""The program of docs/howto/extending.md, as it stands there, and beside a failure."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections import defaultdict
from contextlib import closing
from pathlib import Path
from statistics import median

import pytest

from tests.first_hour import readme

ROOT = Path(__file__).parents[2]
PROGRAM, CHECKS = readme.programs(ROOT / "docs/howto/extending.md")
FAILS_ONCE = """
class MedianFunction(MedianFunction):
    def process(self, batch):
        if sum(map(len, self.amounts.values())) > 4000 and not os.path.exists("failed"):
            open("failed", "w").close()
            raise RuntimeError("this comes once")
        return super().process(batch)


folder = os."""


def expected() -> dict[str, float]:
    amounts = defaultdict(list)
    for number in range(20_000):
        amounts[["Berlin", "Accra", "Lima", "Oslo"][number % 4]].append(float(number % 101))
    return {city: median(each) for city, each in amounts.items()}


def run(program: str, files: dict[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    for name, text in files.items():
        (folder / name).write_text(text)
    done = subprocess.run(
        [sys.executable, program],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize("fails", [False, True], ids=["as it is", "fails once"])
def test_medians_are_written_once(fails: bool, tmp_path: Path) -> None:
    program = PROGRAM.replace("\nfolder = os.", FAILS_ONCE, 1) if fails else PROGRAM
    assert (program != PROGRAM) is fails
    done = run("medians.py", {"medians.py": program}, tmp_path)
    assert (tmp_path / "failed").exists() is fails
    with closing(sqlite3.connect(tmp_path / "medians.db")) as connection:
        rows = list(connection.execute("select city, amount from medians"))
    assert sorted(rows) == sorted(expected().items())
    assert str(dict(rows)) in done.stdout


def test_source_and_sink_keep_their_promises(tmp_path: Path) -> None:
    done = run("checks.py", {"medians.py": PROGRAM, "checks.py": CHECKS}, tmp_path)
    assert done.stdout == "both keep their promises\n"
