"""What a pod runs as it ends."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from engine.cli.main import commands
from k8s.drain import DRAIN_NODE, drain


@pytest.fixture
def said_to_ray(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where a stand-in for `ray` writes its arguments."""
    ray = tmp_path / "bin" / "ray"
    ray.parent.mkdir()
    ray.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/said\n', encoding="utf-8")
    ray.chmod(0o755)
    monkeypatch.setenv("PATH", f"{ray.parent}{os.pathsep}{os.environ['PATH']}")
    return tmp_path / "said"


def process(folder: Path, number: int, title: bytes) -> Path:
    path = folder / str(number) / "cmdline"
    path.parent.mkdir()
    path.write_bytes(title)
    return path


def test_without_tasks_it_returns_at_once(said_to_ray: Path, tmp_path: Path) -> None:
    # Its own command names the tasks, and so does a shell's that looks for them.
    process(tmp_path, 1, b"bash\0-c\0grep ray::Worker\0")
    began = time.monotonic()
    drain(3600, tmp_path)
    assert time.monotonic() - began < 600
    assert said_to_ray.read_text().endswith("--deadline-remaining-seconds 3600\n")


def test_it_waits_for_tasks(said_to_ray: Path, tmp_path: Path) -> None:
    task = process(tmp_path, 7, b"ray::Worker.run\0\0\0")
    drained = threading.Thread(target=drain, args=(3600, tmp_path))
    drained.start()
    drained.join(1.5)
    assert drained.is_alive()
    task.unlink()
    drained.join(60)
    assert not drained.is_alive()


def test_it_waits_no_longer_than_it_is_told(said_to_ray: Path, tmp_path: Path) -> None:
    process(tmp_path, 7, b"ray::Worker.run\0")
    result = CliRunner().invoke(commands, ["k8s", "drain"], env={"DRAIN_SECONDS": "0"})
    assert result.exit_code == 0
    drain(1, tmp_path)  # returns, though the task is still there


def test_ray_knows_the_command() -> None:
    from ray.scripts.scripts import cli

    command = cli.commands[DRAIN_NODE[1]]
    context = command.make_context(DRAIN_NODE[1], [*DRAIN_NODE[2:], "60"])
    assert context.params["deadline_remaining_seconds"] == 60
    assert context.params["reason"] == "DRAIN_NODE_REASON_PREEMPTION"
