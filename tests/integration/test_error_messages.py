"""What a user sees of a job that fails: the own frames, the record, the hint, each once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import engine

pytestmark = pytest.mark.usefixtures("nothing_left")

SCRIPT = """\
import engine
from operators import source
from operators.sinks import Discard
from operators.sources import Collection


def divide(n):
    return 1 / (3 - n)


def pipeline():
    return source(Collection(range(5))).map(divide).sink(Discard())


if __name__ == "__main__":
    engine.execute(pipeline(), progress="none")
"""
OKA = Path(sys.executable).parent / "oka"
ERROR = "operator 'map' (task collection -> map -> discard[0]) failed on record 3: "


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def stderr(*command: object, **environment: str) -> str:
    done = subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(engine.__file__).parents[1]), **environment},
    )
    assert done.returncode == 1
    return done.stderr


def test_a_script_shows_the_users_frames_and_the_message_once(script: Path) -> None:
    lines = stderr(sys.executable, script).rstrip().splitlines()
    files = [line.strip() for line in lines if line.startswith("  File ")]
    assert files[0] == f'File "{script}", line 16, in <module>'
    assert "engine/errors.py" in files[1]
    assert files[2:] == [f'File "{script}", line 8, in divide']
    assert sum("ZeroDivisionError" in line for line in lines) == 1
    assert f"engine.errors.OperatorError: {ERROR}ZeroDivisionError: division by zero" in lines
    assert len(lines) <= 12


def test_the_command_shows_the_same(script: Path) -> None:
    lines = stderr(OKA, "run", script).rstrip().splitlines()
    assert lines[0] == f"error: {ERROR}ZeroDivisionError: division by zero"
    assert lines[1:3] == ["", f'  File "{script}", line 8, in divide']
    assert sum("ZeroDivisionError" in line for line in lines) == 1
    assert len(lines) <= 5


def test_all_frames_are_shown_on_demand(script: Path) -> None:
    for command in ([sys.executable, script], [OKA, "run", script]):
        text = stderr(*command, OKA_DEBUG="1")
        assert "engine/task/runs.py" in text
        assert "engine/driver/master.py" in text
