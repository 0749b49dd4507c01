"""What all commands of `oka bench` share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.command import command as bench


def test_jobs_of_benchmarks_have_no_place_among_the_users_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    seen = []

    @bench.command("one-job")
    def one_job() -> None:
        seen.append(os.environ["XDG_STATE_HOME"])
        Path(seen[0], "oka").mkdir()

    try:
        assert CliRunner().invoke(bench, ["one-job"]).exit_code == 0
    finally:
        del bench.commands["one-job"]
    assert os.environ["XDG_STATE_HOME"] == str(tmp_path)
    assert seen != [str(tmp_path)]
    assert not Path(seen[0]).exists()
