"""Folders of jobs: locked while a job lives, removed by the next one when it is dead."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.host.folder import JobFolder

HOLDER = """
import sys
from engine.host.folder import JobFolder
folder = JobFolder(sys.argv[1])
print("held", flush=True)
sys.stdin.read()
"""


def age(path: Path) -> None:
    os.utime(path, (1, 1))


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_the_folder_of_a_killed_job_goes_with_the_next_job(temporary: Path) -> None:
    dead, living = temporary / "oka-job-dead", temporary / "oka-job-living"
    holders = [
        subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for path in (dead, living)
    ]
    try:
        for holder, path in zip(holders, (dead, living), strict=True):
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"held\n"
            (path / "0.shm").touch()
            age(path)
        holders[0].kill()
        holders[0].wait()
        folder = JobFolder.create()
        assert not dead.exists()
        assert (living / "0.shm").exists()
        folder.remove()
        assert list(temporary.iterdir()) == [living]
    finally:
        for holder in holders:
            holder.kill()
            holder.communicate()


def test_a_folder_that_was_just_made_and_other_things_stay(temporary: Path) -> None:
    fresh, file, link = (temporary / f"oka-job-{name}" for name in ("fresh", "file", "link"))
    target = temporary / "target"
    fresh.mkdir()
    target.mkdir()
    link.symlink_to(target)
    file.touch()
    age(file)
    age(target)
    os.utime(link, (1, 1), follow_symlinks=False)
    JobFolder.create().remove()
    assert {path.name for path in temporary.iterdir()} == {
        fresh.name,
        file.name,
        link.name,
        "target",
    }


def test_the_last_process_to_leave_removes_the_folder(tmp_path: Path) -> None:
    path = tmp_path / "oka-job-x"
    first, second = JobFolder(str(path)), JobFolder(str(path))
    (path / "1.shm").touch()
    first.leave()
    assert path.exists()
    (path / "1.shm").unlink()
    second.leave()
    assert not path.exists()
    second.leave()
    second.remove()
