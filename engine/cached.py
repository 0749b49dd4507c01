"""What is made once and kept in the user's cache folder, each whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path


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


def cache_folder() -> Path:
    """`OKA_CACHE`, or `oka` in the user's cache folder."""
    if own := os.environ.get("OKA_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "oka"
