"""Where histories lie, how many are kept, and whether the job of one lives."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.history.file import HistoryWriter
from engine.history.places import MOST_JOBS, first_record, histories, is_running, new_path
from engine.history.process import is_alive, this_process
from engine.history.retention import encoded


def write(
    path: Path, process: Any = None, *, ended: bool = False, seconds_ago: float = 1000.0
) -> Path:
    record = {"kind": "job", "t": 0.0, "schema": "oka.job/1", "process": process}
    end = [encoded({"t": 1.0, "kind": "end"})] if ended else []
    HistoryWriter(path, [encoded(record), *end]).close()
    at = path.stat().st_mtime - seconds_ago
    os.utime(path, (at, at))
    return path


def test_auto_is_a_folder_of_the_users_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = new_path("auto", "word count/../é")
    assert path.parent == tmp_path / "state" / "oka" / "jobs"
    assert path.name.startswith("word-count-..-é-")
    assert path.parent.stat().st_mode & 0o777 == 0o700
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert new_path("auto", "x").parent == tmp_path / ".local" / "state" / "oka" / "jobs"


def test_jobs_of_one_second_have_files_of_their_own(tmp_path: Path) -> None:
    paths = {new_path(str(tmp_path / "new" / "folder"), "job") for _ in range(5)}
    assert len(paths) == 5
    assert all(path.exists() for path in paths)


def test_the_last_jobs_are_kept_and_what_is_no_history_or_runs(tmp_path: Path) -> None:
    for number in range(MOST_JOBS + 10):
        write(tmp_path / f"{number:03}.oka", seconds_ago=2000.0 - number)
    (tmp_path / "000.oka").write_text("a file of the user's")
    os.utime(tmp_path / "000.oka", (0, 0))
    write(tmp_path / "001.oka", this_process(), seconds_ago=2000.0)
    write(tmp_path / "002.oka", this_process(), ended=True, seconds_ago=1998.0)
    (tmp_path / "notes.txt").write_text("mine")
    new = new_path(str(tmp_path), "job")
    left = histories(tmp_path)
    assert left[-1] == new
    assert [path.name for path in left[:2]] == ["000.oka", "001.oka"]
    assert left[2].name == "011.oka"
    assert (tmp_path / "notes.txt").exists()


def test_a_file_is_taken_again_unless_it_is_somebody_elses(tmp_path: Path) -> None:
    path = tmp_path / "below" / "job.oka"
    assert new_path(str(path), "x") == path
    write(path)
    assert new_path(str(path), "x") == path
    write(path, this_process())
    with pytest.raises(FileExistsError, match="a job that is running"):
        new_path(str(path), "x")
    write(path, this_process(), ended=True)
    assert new_path(str(path), "x") == path
    path.write_text("the user's")
    with pytest.raises(FileExistsError, match="no history of a job"):
        new_path(str(path), "x")
    assert path.read_text() == "the user's"


def test_a_process_lives_until_it_ends_and_its_number_is_not_all(tmp_path: Path) -> None:
    code = "from engine.history.process import *; print(this_process()); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        told = eval(other.stdout.readline())
        assert is_alive(told) is True
        other.kill()
    assert is_alive(told) is False
    assert is_alive({**this_process(), "began": "another"}) is False
    assert is_alive({**this_process(), "host": "another"}) is None
    for garbage in (None, 3, {}, {**this_process(), "pid": -1}, {**this_process(), "pid": "x"}):
        assert is_alive(garbage) is None
    there = write(tmp_path / "job.oka", {**told, "host": "another"})
    first = first_record(there)
    assert first is not None
    assert not is_running(there, first)
    os.utime(there)
    assert is_running(there, first)
