"""What the operating system gives, and what a job may ask of it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import psutil
import pytest

import engine
from engine import system
from engine.errors import ConfigError
from engine.network import is_portable
from pipelines.word_count import random_word_count


def test_only_a_build_with_what_linux_has_uses_shared_memory() -> None:
    assert system.IS_LINUX is not is_portable()
    expected = "ipc" if is_portable() else "shm"
    assert expected == system.LOCAL_TRANSPORT


def test_the_most_memory_is_in_bytes() -> None:
    now = psutil.Process().memory_info().rss
    assert now / 2 < system.most_memory() < 100 * now


def test_an_open_file_has_its_path(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w") as file:
        assert system.path_of(file.fileno()) == Path(file.name)


@pytest.mark.parametrize("is_linux", [True, False])
def test_a_file_without_a_name_opens_again(is_linux: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "IS_LINUX", is_linux)
    with tempfile.TemporaryFile() as file:
        file.write(b"draft")
        file.flush()
        assert Path(system.another_path_of(file.fileno())).read_bytes() == b"draft"


def test_cores_are_those_of_the_machine_where_no_others_are_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(system, "IS_LINUX", False)
    assert system.usable_cores() == os.cpu_count()


def test_shared_memory_is_refused_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.plan.IS_LINUX", False)
    with pytest.raises(ConfigError, match="need Linux\n\nhint: 'auto' takes ipc on one node here"):
        engine.execute(random_word_count(), transport="shm")
