"""`oka doctor` where all is well, and where something is not."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

OKA = str(Path(sys.executable).with_name("oka"))


def doctor(
    *options: str, limits: Callable[[], None] | None = None, **environment: str
) -> tuple[int, dict[str, Any]]:
    """The status, and the findings by what they are of."""
    done = subprocess.run(
        [OKA, "doctor", "--json", *options],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=limits,
        check=False,
    )
    assert not done.stderr, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return done.returncode, {each["what"]: each for each in found}


def test_a_machine_on_which_jobs_run() -> None:
    status, found = doctor()
    assert status == 0, found
    assert found["a job"]["state"] == "fine"
    assert found["a job"]["found"].startswith("10,000 records")
    assert all(bool(each["hint"]) == (each["state"] != "fine") for each in found.values())


def test_a_person_is_told_in_lines() -> None:
    done = subprocess.run(
        [OKA, "doctor", "--no-job"],
        env={**os.environ, "TMPDIR": "/nowhere"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    lines = done.stdout.splitlines()
    assert any(line.startswith("fine   loopback") for line in lines)
    assert not any("a job" in line for line in lines)


def test_a_folder_of_too_long_a_name_fails_with_the_job(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 90)
    folder.mkdir()
    status, found = doctor(TMPDIR=str(folder))
    assert status == 1
    assert found["temporary files"]["state"] == found["a job"]["state"] == "fails"
    assert found["temporary files"]["hint"].endswith("TMPDIR=/tmp")
    assert "108" in found["a job"]["hint"]
    assert list(folder.iterdir()) == []


def few_descriptors() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))


def test_few_descriptors_are_told_and_a_small_job_runs() -> None:
    status, found = doctor(limits=few_descriptors)
    assert status == 0
    assert found["descriptors"]["state"] == "look"
    assert "LimitNOFILE" in found["descriptors"]["hint"]


def test_a_state_folder_that_is_not_there_yet_is_fine(tmp_path: Path) -> None:
    status, found = doctor("--no-job", XDG_STATE_HOME=str(tmp_path / "a" / "b"))
    assert (status, found["histories"]["state"]) == (0, "fine")
    assert found["histories"]["found"].endswith(str(tmp_path / "a" / "b" / "oka"))
    assert not (tmp_path / "a").exists()
