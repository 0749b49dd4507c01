"""`oka new`: what it makes runs and passes at once, and nothing is overwritten."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent


def run(*command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(BIN / command[0]), *command[1:]],
        cwd=folder,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_new_project_runs_and_passes_at_once(tmp_path: Path) -> None:
    folder = tmp_path / "a folder"
    folder.mkdir()
    made = run("oka", "new", "clicks", folder=folder)
    assert (made.returncode, made.stderr) == (0, "")
    assert "oka run clicks.py --config oka.toml --ui" in made.stdout
    project = folder / "clicks"
    names = {each.name for each in project.iterdir()}
    assert names == {"clicks.py", "test_clicks.py", "oka.toml", "AGENTS.md"}
    assert list(folder.iterdir()) == [project]
    texts = [each.read_text() for each in project.iterdir()]
    assert not any("starter" in text or "engine.cli" in text for text in texts)

    tested = run("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", folder=project)
    assert tested.returncode == 0, tested.stdout
    planned = run("oka", "plan", "clicks.py", "--config", "oka.toml", folder=project)
    assert "aggregate" in planned.stdout, planned.stderr

    job = subprocess.Popen(
        [str(BIN / "oka"), "run", "clicks.py", "--config", "oka.toml", "--history", "off"],
        cwd=project,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert job.stdout is not None
    assert " clicks, " in job.stdout.readline()
    job.send_signal(signal.SIGINT)
    out, err = job.communicate(timeout=60)
    assert "records at the sinks" in out, err


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("my-pipeline", "is no name of a module"),
        ("2nd", "is no name of a module"),
        ("engine", "one that programs need"),
        ("oka", "one that programs need"),
        ("json", "one that programs need"),
        ("there", "is there already"),
        ("file", "is there already"),
        ("dangling", "is there already"),
        ("none/deep", "cannot be made"),
    ],
)
def test_what_cannot_be_made_is_told_and_leaves_nothing(
    tmp_path: Path, name: str, told: str
) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "dangling").symlink_to("nowhere")
    before = sorted(tmp_path.iterdir())
    made = run("oka", "new", name, folder=tmp_path)
    assert made.returncode == 2
    assert told in made.stderr
    assert sorted(tmp_path.iterdir()) == before
    assert list((tmp_path / "there").iterdir()) == []
