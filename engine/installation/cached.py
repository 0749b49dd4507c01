"""What is made once and kept in the user's cache folder, each whole or not at all."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from engine.installation.folders import cache_folder


def cached(name: str, make: Callable[[Path], None]) -> Path:
    """The folder of that name; `make` fills it if it does not exist yet.

    Two processes may make it at a time: the first to finish wins, and both results are equal.
    """
    folder = cache_folder() / name
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))
    try:
        make(partial)
        try:
            partial.rename(folder)
        except OSError:
            if not folder.is_dir():
                raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder
