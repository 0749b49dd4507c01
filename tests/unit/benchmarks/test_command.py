"""What all commands of `oka bench` share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.command import command as bench


def test_jobs_of_benchmarks_have_no_settings_and_no_place_of_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("OKA_PARALLELISM", "7")
    monkeypatch.setenv("OKA_DEBUG", "1")
    seen = []

    @bench.command("one-job")
    def one_job() -> None:
        seen.append(os.environ["XDG_STATE_HOME"])
        Path(seen[0], "oka").mkdir()
        assert "OKA_PARALLELISM" not in os.environ
        assert os.environ["OKA_DEBUG"] == "1"

    try:
        assert CliRunner().invoke(bench, ["one-job"]).exit_code == 0
    finally:
        del bench.commands["one-job"]
    assert os.environ["XDG_STATE_HOME"] == str(tmp_path)
    assert os.environ["OKA_PARALLELISM"] == "7"
    assert seen != [str(tmp_path)]
    assert not Path(seen[0]).exists()
