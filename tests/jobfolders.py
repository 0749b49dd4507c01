"""The folders of the jobs that this process starts, wherever a runtime puts them.

Other people's jobs have such folders in the same place.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import pytest

from engine.driver.launcher import Launcher
from engine.host.folder import PREFIX, JobFolder


@contextmanager
def recorded() -> Iterator[list[str]]:
    """The folders of the launchers that are made inside."""
    folders: list[str] = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Launcher, "folder", _Noted(folders.append), raising=False)
        yield folders


def announce(to: TextIO) -> None:
    """Write each folder to the file, a line each: for programs that tests start."""
    noted = _Noted(lambda folder: print(folder, file=to, flush=True))
    Launcher.folder = noted  # type: ignore[assignment]


def let_next_job_remove(folders: Iterable[str]) -> None:
    """As jobs do with those of dead ones: Ray kills the workers of a killed driver, too."""
    for folder in folders:
        os.utime(folder, (0, 0))
        JobFolder(str(Path(folder).parent / f"{PREFIX}next")).remove()


class _Noted:
    """Takes the place of `Launcher.folder`."""

    def __init__(self, note: Callable[[str], object]) -> None:
        self._note = note

    def __get__(self, launcher: Launcher, _owner: type[Launcher]) -> str:
        return str(vars(launcher)["folder"])

    def __set__(self, launcher: Launcher, folder: str) -> None:
        vars(launcher)["folder"] = folder
        self._note(folder)
