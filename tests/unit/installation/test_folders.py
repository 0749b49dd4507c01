"""Where the user's folders are."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.installation.folders import cache_folder, state_folder


@pytest.mark.parametrize("value", [None, "", "relative/folder"])
def test_without_an_absolute_path_they_are_at_home(
    value: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("OKA_CACHE", raising=False)
    for variable in ("XDG_CACHE_HOME", "XDG_STATE_HOME"):
        if value is None:
            monkeypatch.delenv(variable, raising=False)
        else:
            monkeypatch.setenv(variable, value)
    assert cache_folder() == tmp_path / ".cache" / "oka"
    assert state_folder() == tmp_path / ".local" / "state" / "oka"


def test_variables_say_otherwise(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("OKA_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert cache_folder() == tmp_path / "cache" / "oka"
    assert state_folder() == tmp_path / "state" / "oka"
    monkeypatch.setenv("OKA_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"
